//! Native mode at one end of a veth pair, with and without a program at the other end.

use std::process::Command;

use guideway_soft::Limits;
use guideway_testbed::kernel::KernelForwarder;
use guideway_testbed::{Namespace, privilege, veth_pair};
use guideway_xdp::attach::{Mode, Wish};
use guideway_xdp::egress::objection;
use guideway_xdp::peer::{Pass, Peer, joined_by_peer, peer, unfinished_by_peer};
use guideway_xdp::{Balancer, Error};

const LIMITS: Limits = Limits {
    services: 16,
    backends: 16,
    slots: 1_024,
    flows: 256,
    fragments: 256,
    threads: 1,
    icmp_per_second: 100,
};

#[test]
fn native_mode_wants_a_program_at_the_other_end_of_a_pair() {
    if !privilege::granted_to::<KernelForwarder>() {
        return;
    }
    let (here, there) = (Namespace::new("here").unwrap(), Namespace::named("gw-peer", "there").unwrap());
    let (link, other) = veth_pair((&here, "eth0"), (&there, "port7"), 1500).unwrap();
    // Receive offload alone has such frames lie there.
    other.set_gro(true).unwrap();
    let index = link.index();
    let ask = || here.run(|| peer("eth0", index)).unwrap().unwrap();
    let balancer = Balancer::load(&LIMITS, [1, 2]).unwrap();

    assert_eq!(ask(), Peer::Deaf { name: "port7".into() });
    let refused = here.run(|| balancer.attach("eth0", Wish::Exactly(Mode::Native))).unwrap();
    match refused {
        Err(Error::Attach { mode: "native", reason, .. }) => assert!(reason.contains("`port7`"), "{reason}"),
        other => panic!("{other:?}"),
    }
    let attached = here.run(|| balancer.attach("eth0", Wish::Auto)).unwrap().unwrap();
    assert_eq!(attached.mode, Mode::Generic);
    assert!(attached.fell_back.as_ref().is_some_and(|why| why.contains("`port7`")), "{attached:?}");
    // And what is to be done about uploads in generic mode.
    assert!(attached.fell_back.as_ref().is_some_and(|why| why.contains("ethtool -K port7 tso off gso off")));
    attached.detach().unwrap();
    // Which is asked no more once it is done, wherever the other end is.
    let joined = || here.run(|| joined_by_peer(index)).unwrap();
    assert!(joined().is_some_and(|(_, remedy)| remedy.contains("port7")));
    let switch = "ethtool -K port7 tso off gso off";
    let run = || Command::new("sh").args(["-c", switch]).output();
    if there.run(run).unwrap().is_ok_and(|done| done.status.success()) {
        assert_eq!(joined(), None);
    }

    let unfinished = || here.run(|| unfinished_by_peer(index)).unwrap();
    for (switch, remedy) in [("on", Some("ethtool -K port7 tx off (at the other end)")), ("off", None)] {
        let run = || Command::new("ethtool").args(["-K", "port7", "tx", switch]).output();
        if there.run(run).unwrap().is_ok_and(|done| done.status.success()) {
            assert_eq!(unfinished().map(|(_, remedy)| remedy).as_deref(), remedy);
        }
    }

    let pass = there.run(|| Pass::attach("port7")).unwrap().unwrap();
    assert_eq!(ask(), Peer::Ready);
    let attached = here.run(|| balancer.attach("eth0", Wish::Auto)).unwrap().unwrap();
    assert_eq!((attached.mode, &attached.fell_back), (Mode::Native, &None));
    // The balancer is in turn what the other end needs.
    let other_index = other.index();
    assert_eq!(there.run(|| peer("port7", other_index)).unwrap().unwrap(), Peer::Ready);
    assert_eq!(here.run(|| objection(index, true)).unwrap(), None);
    drop(pass);
    assert_eq!(ask(), Peer::Deaf { name: "port7".into() });
    // From whichever interface the frames come.
    for redirected in [false, true] {
        let why = here.run(|| objection(index, redirected)).unwrap().unwrap();
        assert!(why.contains("`port7`") && why.contains("--xdp-mode generic"), "{why}");
    }
    assert_eq!(here.run(|| peer("lo", 1)).unwrap().unwrap(), Peer::None);
}

#[test]
fn frames_of_another_interface_want_one_that_can_send_them() {
    if !privilege::granted_to::<KernelForwarder>() {
        return;
    }
    let here = Namespace::new("egress").unwrap();
    let run = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        assert!(here.run(|| Command::new("ip").args(words).status()).unwrap().unwrap().success(), "{line}");
    };
    run("link add br0 type bridge");
    let index = here.run(|| nix::net::if_::if_nametoindex("br0")).unwrap().unwrap();
    let why = here.run(|| objection(index, true)).unwrap().unwrap();
    assert!(why.contains("(bridge)"), "{why}");
    assert_eq!(here.run(|| objection(index, false)).unwrap(), None, "the program is there itself");
    assert_eq!(here.run(|| objection(0x7fff_0000, true)).unwrap(), None, "nothing is known of it");
}
