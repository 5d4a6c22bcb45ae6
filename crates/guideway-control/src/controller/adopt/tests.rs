use std::net::Ipv4Addr;
use std::sync::Arc;

use guideway_forward::record::{Policy, UdpRule};
use guideway_soft::{Limits, Memory};
use guideway_wire::Tunnel;
use proptest::prelude::*;

use super::*;

fn memory() -> Arc<Memory> {
    let limits = Limits { services: 8, backends: 256, slots: 60_000, flows: 1_024, ..Limits::default() };
    Arc::new(Memory::new(limits, [1, 2]))
}

fn backend(number: u8) -> BackendSpec {
    BackendSpec {
        identity: format!("be{number}").into(),
        address: IpAddr::V4(Ipv4Addr::new(10, 0, 0, number)),
        weight: 1,
        admin: Admin::Active,
        tunnel: TunnelSpec {
            kind: Tunnel::Gre,
            source: IpAddr::V4(Ipv4Addr::new(10, 0, 0, 254)),
            source_entropy_bits: 3,
            gue_port: 6080,
            mtu: 1400,
            next_hop: NextHop { interface: 7, neighbour: [2; 6], own_mac: [4; 6], link_mtu: None },
        },
        quic_id: Some(u64::from(number)),
    }
}

fn service(number: u8, backends: impl IntoIterator<Item = u8>, size: u32) -> ServiceSpec {
    let network = if number.is_multiple_of(2) { "192.0.2.0/28".parse() } else { "2001:db8::10/128".parse() };
    ServiceSpec {
        name: format!("s{number}"),
        listen: vec![Listen {
            network: network.unwrap(),
            port: NonZeroU16::new(80 + u16::from(number)),
            protocol: if number < 2 { Protocol::Udp } else { Protocol::Tcp },
        }],
        table: TableSpec { rule: TableRule::Maglev, size: TableSizeSpec::Slots(size), seed: 7 },
        policy: Policy::default(),
        tcp_idle_seconds: 20,
        udp_idle_seconds: 10,
        all_down: AllDown::LastResort,
        backends: backends.into_iter().map(backend).collect(),
    }
}

fn pass(controller: &mut Controller<Arc<Memory>>, seconds: u32) {
    for _ in 0..seconds {
        let now = controller.engine().now_seconds() + 1;
        controller.engine().set_now_seconds(now);
        controller.tick();
    }
}

fn words(memory: &Memory) -> Vec<u32> {
    memory.slots().iter().map(|word| word.load(std::sync::atomic::Ordering::Relaxed)).collect()
}

#[test]
fn a_forwarder_that_nobody_wrote_to_is_empty() {
    let controller = Controller::adopt(memory(), &[]).unwrap();
    assert_eq!(controller.service_names().count(), 0);
}

#[test]
fn udp_flows_that_were_all_remembered_before_a_restart_are_known_after_it() {
    let with = |rule| ServiceSpec { policy: Policy::default().with_udp(rule), ..service(0, 1..=4, 251) };
    let grace_after = |earlier: UdpRule, configured_for: u32| {
        let memory = memory();
        let mut controller = Controller::new(Arc::clone(&memory));
        controller.apply([with(UdpRule::Track)], |_, _| Health::Up);
        pass(&mut controller, 60);
        drop(controller);
        let mut controller = Controller::adopt(memory, &[with(UdpRule::Track)]).unwrap();
        controller.note_configured_for(&[with(earlier)], configured_for);
        controller.set_admin("s0", "be2", Admin::Draining).unwrap();
        controller.services["s0"].words.iter().any(|slot| slot.in_grace())
    };
    assert!(!grace_after(UdpRule::Track, 60));
    assert!(grace_after(UdpRule::Track, 5));
    assert!(grace_after(UdpRule::Grace, 60));
}

#[test]
fn what_drains_after_its_removal_drains_on_under_its_name() {
    let memory = memory();
    let before = service(2, 1..=4, 251);
    let after = service(2, [1, 2, 4], 251);
    let mut controller = Controller::new(Arc::clone(&memory));
    controller.apply([before.clone()], |_, _| Health::Up);
    controller.apply([after.clone()], |_, _| Health::Up);
    let state = |controller: &Controller<_>| controller.status()[0].backends.clone();
    let (shown, remaining) = (state(&controller), controller.remaining());
    drop(controller);
    let mut controller = Controller::adopt(memory, &[after, before]).unwrap();
    assert_eq!(state(&controller), shown);
    assert_eq!(controller.remaining(), remaining);
    assert_eq!(remaining[0].backend, "be3");
    pass(&mut controller, 40);
    assert_eq!(controller.status()[0].unsettled, 0);
    assert!(controller.remaining().is_empty());
    assert_eq!(controller.status()[0].backends.len(), 3);
}

#[test]
fn removed_backends_keep_their_names_where_their_addresses_moved_to_other_names() {
    let memory = memory();
    // Each backend gets the address that the next one had.
    let moved = |by: u8| {
        let mut spec = service(2, 1..=3, 251);
        for backend in &mut spec.backends {
            let IpAddr::V4(address) = backend.address else { unreachable!() };
            backend.address = IpAddr::V4(Ipv4Addr::from(address.to_bits() + u32::from(by)));
        }
        spec
    };
    let mut controller = Controller::new(Arc::clone(&memory));
    for by in [0, 1, 2, 10] {
        controller.apply([moved(by)], |_, _| Health::Up);
    }
    let kept = Snapshot::default().with_removed(controller.removed());
    let (shown, remaining) = (controller.status()[0].backends.clone(), controller.remaining());
    assert_eq!(remaining.len(), 9);
    drop(controller);
    let kept: Snapshot = serde_json::from_str(&serde_json::to_string(&kept).unwrap()).unwrap();
    let mut controller = Controller::adopt_with(Arc::clone(&memory), &[moved(10), moved(2)], &kept).unwrap();
    assert_eq!(controller.status()[0].backends, shown);
    assert_eq!(controller.remaining(), remaining);
    // Nor does a backend that drains change places with another that had its address.
    let mut draining = moved(10);
    draining.backends[0].address = moved(2).backends[1].address;
    draining.backends[0].admin = Admin::Draining;
    controller.apply([draining.clone()], |_, _| Health::Up);
    let kept = Snapshot::default().with_removed(controller.removed());
    let shown = controller.status()[0].backends.clone();
    drop(controller);
    let controller = Controller::adopt_with(memory, &[draining, moved(10)], &kept).unwrap();
    assert_eq!(controller.status()[0].backends, shown);
}

#[test]
fn a_backend_whose_name_was_lost_takes_its_index_again_however_often_it_leaves() {
    let memory = memory();
    let (with, without) = (service(2, 1..=4, 251), service(2, 1..=3, 251));
    let mut controller = Controller::new(Arc::clone(&memory));
    controller.apply([with.clone()], |_, _| Health::Up);
    for _ in 0..4 {
        controller.apply([without.clone()], |_, _| Health::Up);
        let address = with.backends[3].address;
        controller.end_removed("s2", "be4", address).unwrap();
        drop(controller);
        controller = Controller::adopt(Arc::clone(&memory), std::slice::from_ref(&without)).unwrap();
        let names = |controller: &Controller<_>| -> Vec<String> {
            controller.status()[0].backends.iter().map(|backend| backend.identity.to_string()).collect()
        };
        assert_eq!(names(&controller), ["be1", "be2", "be3", &address.to_string()]);
        controller.apply([with.clone()], |_, _| Health::Up);
        assert_eq!(names(&controller), ["be1", "be2", "be3", "be4"]);
    }
}

#[test]
fn a_stranger_gets_a_name_by_its_number_and_nonsense_is_refused() {
    let memory = memory();
    let mut controller = Controller::new(Arc::clone(&memory));
    controller.apply([service(2, 1..=3, 251)], |_, _| Health::Up);
    let id = controller.service_id("s2").unwrap();
    drop(controller);
    let adopted = Controller::adopt(Arc::clone(&memory), &[]).unwrap();
    assert_eq!(adopted.service_names().collect::<Vec<_>>(), [format!("service-{}", id.0)]);
    memory.service(id).unwrap().set_backends(200, 200);
    let error = Controller::adopt(memory, &[]).unwrap_err();
    assert!(error.to_string().contains("outside the records"), "{error}");
}

#[test]
fn what_a_killed_controller_had_begun_is_cleaned_away() {
    let memory = memory();
    let mut controller = Controller::new(Arc::clone(&memory));
    controller.apply([service(2, 1..=3, 251), service(3, 1..=3, 251)], |_, _| Health::Up);
    let places = memory.service(controller.service_id("s3").unwrap()).unwrap().backends();
    // As if it had been killed before the records of the removed service were cleared.
    controller.remove_service("s3").unwrap();
    drop(controller);
    let adopted = Controller::adopt(Arc::clone(&memory), &[service(2, 1..=3, 251)]).unwrap();
    assert_eq!(memory.backend(places.0).unwrap().state(), BackendState::Free);
    assert_eq!(adopted.free_ids.len(), 7);
}

/// One change of a run.
#[derive(Debug, Clone)]
enum Step {
    Apply { service: u8, backends: Vec<u8>, size: u32, down: u8 },
    Remove(u8),
    Pass(u32),
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    let size = prop::sample::select(vec![251_u32, 509]);
    let backends = prop::collection::btree_set(1_u8..8, 0..7);
    prop_oneof![
        5 => (0_u8..4, backends, size, 0_u8..9).prop_map(|(service, backends, size, down)| Step::Apply {
            service,
            backends: backends.into_iter().collect(),
            size,
            down,
        }),
        1 => (0_u8..4).prop_map(Step::Remove),
        2 => (1_u32..30).prop_map(Step::Pass),
        4 => Just(Step::Restart),
    ]
}

proptest! {
    #[test]
    fn adopting_changes_no_slot_and_repeating_what_is_wanted_moves_none(
        steps in prop::collection::vec(step(), 1..30),
    ) {
        let memory = memory();
        let mut controller = Controller::new(Arc::clone(&memory));
        let mut wanted: BTreeMap<u8, (ServiceSpec, u8)> = BTreeMap::new();
        let health = |down: u8| move |_: &str, backend: &BackendSpec| {
            if *backend.identity == *format!("be{down}") { Health::Down } else { Health::Up }
        };
        for step in steps {
            match step {
                Step::Apply { service: number, backends, size, down } => {
                    let spec = service(number, backends, size);
                    let changes = controller.apply([spec.clone()], health(down));
                    prop_assert!(changes[0].is_ok(), "{changes:?}");
                    wanted.insert(number, (spec, down));
                }
                Step::Remove(number) => {
                    if wanted.remove(&number).is_some() {
                        controller.remove_service(&format!("s{number}")).unwrap();
                    }
                }
                Step::Pass(seconds) => pass(&mut controller, seconds),
                Step::Restart => {
                    let (before, digest) = (words(&memory), controller.digest());
                    let waiting: BTreeSet<String> = controller
                        .services
                        .values()
                        .filter(|held| held.resize_waits)
                        .map(|held| held.spec.name.clone())
                        .collect();
                    let known: Vec<ServiceSpec> = wanted.values().map(|(spec, _)| spec.clone()).collect();
                    controller = Controller::adopt(Arc::clone(&memory), &known).unwrap();
                    prop_assert_eq!(&words(&memory), &before);
                    prop_assert_eq!(controller.digest(), digest);
                    for (spec, down) in wanted.values() {
                        let change = controller.apply([spec.clone()], health(*down)).remove(0).unwrap();
                        prop_assert_eq!(change.moved, 0, "{:?}", change);
                        prop_assert!(change.resize_waits || !waiting.contains(&spec.name));
                    }
                    prop_assert_eq!(&words(&memory), &before);
                }
            }
        }
        // Whatever was interrupted, everything settles and comes free in the end.
        pass(&mut controller, 120);
        for status in controller.status() {
            prop_assert_eq!((status.unsettled, status.prior), (0, false));
            prop_assert!(status.backends.iter().all(|backend| !backend.removed));
        }
    }
}
