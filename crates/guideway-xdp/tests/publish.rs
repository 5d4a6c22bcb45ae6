//! Where services listen, as the program sees it. Needs root; elsewhere the test prints that it is skipped, and fails if
//! `GUIDEWAY_REQUIRE_PRIVILEGES` is set.

use guideway_forward::record::ServiceId;
use guideway_soft::{Binding, Limits};
use guideway_xdp::{Action, Balancer, Error};

const LIMITS: Limits = Limits {
    services: 4,
    backends: 16,
    slots: 1_024,
    flows: 256,
    fragments: 256,
    threads: 1,
    icmp_per_second: 100,
};

fn binding(number: u32, prefix_bits: u8) -> Binding {
    let [a, b, c, d] = number.to_be_bytes();
    let address = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d];
    Binding { address, prefix_bits, port: 80, protocol: 6, service: ServiceId(0) }
}

/// Whether the program takes a SYN to port 80 of this address for a service's. None of them has a table, so it is
/// answered by a reset or dropped.
fn is_served(balancer: &Balancer, number: u32) -> bool {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
    frame.extend([0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, 6, 0, 0, 198, 51, 100, 7]);
    frame.extend(number.to_be_bytes());
    frame.extend([0x9c, 0x40, 0, 80, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, 2, 0xff, 0xff, 0, 0, 0, 0]);
    balancer.run(&frame).unwrap().action != Action::Pass
}

#[test]
fn what_does_not_fit_changes_nothing() {
    let balancer = match Balancer::load(&LIMITS, [1, 2]) {
        Err(Error::NotPermitted) if std::env::var_os("GUIDEWAY_REQUIRE_PRIVILEGES").is_none() => return,
        loaded => loaded.unwrap(),
    };
    let listens = balancer.listens();
    let first: Vec<_> = (0..listens).map(|number| binding(0xc000_0200 + number, 128)).collect();
    balancer.publish(&first, &[]).unwrap();
    // As many others: for a moment both are there.
    let second: Vec<_> = (0..listens).map(|number| binding(0xc633_6400 + number, 128)).collect();
    balancer.publish(&second, &[]).unwrap();
    assert!(is_served(&balancer, 0xc633_6400) && !is_served(&balancer, 0xc000_0200));

    let mut too_many: Vec<_> = (0..3 * listens).map(|number| binding(0x0a00_0000 + number, 128)).collect();
    too_many.push(binding(0xac10_0000, 96 + 12));
    for _ in 0..3 {
        assert!(matches!(balancer.publish(&too_many, &[]), Err(Error::Full { .. })));
        for number in 0..listens {
            assert!(
                is_served(&balancer, 0xc633_6400 + number) && !is_served(&balancer, 0x0a00_0000 + number)
            );
        }
        assert!(!is_served(&balancer, 0xac10_0001));
    }
    balancer.publish(&first, &[]).unwrap();
    assert!(!is_served(&balancer, 0xc633_6400) && is_served(&balancer, 0xc000_0200));
}
