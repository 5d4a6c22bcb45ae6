//! The programs, their hooks and their neighbours, and what the doctor says of them.

use std::fs;

use guideway_testbed::{Program, veth_pair};
use guideway_xdp::end::{Decapsulator, Hook, Wish};
use guideway_xdp::prober::Prober;

use crate::{Host, PATIENCE, up};

#[test]
fn the_clamp_moves_with_the_interface_that_answers_leave_by() {
    let Some(host) = Host::new("egress") else { return };
    let (_second, _end) = veth_pair((&host.namespace, "net1"), (&host.namespace, "net2"), 1500).unwrap();
    let clamps = || {
        let names = fs::read_dir(host.pins()).unwrap().flatten();
        names.filter(|name| name.file_name().to_string_lossy().starts_with("clamp-")).count()
    };
    for egress in ["net0", "net1", "net0"] {
        host.expect(0, &up(&format!("--egress {egress}")));
        assert_eq!(clamps(), 1);
        let doctor = host.expect(0, "backend doctor");
        assert!(doctor.contains(&format!("segments announced at {egress} are at most 1408")), "{doctor}");
    }
    host.expect(0, "backend down");
}

#[test]
fn the_hook_that_is_asked_for_is_the_one_that_is_used() {
    let Some(host) = Host::new("hooks") else { return };
    for (hook, shown) in
        [("native", "driver"), ("generic", "network stack"), ("tc", "TC ingress"), ("auto", "TC ingress")]
    {
        let printed = host.expect(0, &up(&format!("--attach {hook}")));
        assert!(printed.contains(shown), "{hook}: {printed}");
        let doctor = host.expect(0, "backend doctor");
        let name = if hook == "auto" { "tc" } else { hook };
        assert!(doctor.contains(&format!("on net0, {name}")), "{hook}: {doctor}");
        assert_eq!(host.programs().contains("xdp"), !["tc", "auto"].contains(&hook), "{hook}");
    }
    host.expect(0, "backend down");
}

#[test]
fn auto_says_why_it_is_not_in_the_driver() {
    let Some(host) = Host::new("large") else { return };
    // Frames that do not fit a page.
    host.program("ip", &["link", "set", "dev", "net0", "mtu", "9000"]);
    host.other_end.set_mtu(9000).unwrap();
    let printed = host.expect(0, &up(""));
    assert!(printed.contains("TC ingress") && printed.contains("not in the driver: "), "{printed}");
    let refused = host.expect(1, &up("--attach native"));
    assert!(refused.contains("lower the interface's MTU"), "{refused}");
    // What ran goes on.
    assert!(host.expect(0, "backend doctor").contains("on net0, tc"));
    host.expect(0, "backend down");
}

#[test]
fn a_foreign_program_is_named_and_left_alone() {
    let Some(host) = Host::new("foreign") else { return };
    let other = Host::new("tenant").unwrap();
    // Any XDP program will do: another backend's, put here by other pins.
    let foreign = format!(
        "--bpffs {} --run-dir {}",
        other.places.join("bpf").display(),
        other.places.join("run").display()
    );
    let program = Program::new(env!("CARGO_BIN_EXE_guideway"));
    let line = format!("{} {foreign}", up("--attach native"));
    program.args(line.split_whitespace()).succeed(&host.namespace, PATIENCE).unwrap();
    let before = (host.programs(), host.addresses());
    for hook in ["native", "generic", "auto"] {
        let refused = host.expect(1, &up(&format!("--attach {hook}")));
        assert!(refused.contains("has its program at `net0`"), "{hook}: {refused}");
        assert!(refused.contains("`guideway backend down --bpffs` with its directory"), "{refused}");
    }
    assert_eq!((host.programs(), host.addresses()), before);
    host.has_no_leftovers();
}

#[test]
fn the_doctor_names_what_is_wrong_and_what_to_do() {
    let Some(host) = Host::new("doctor") else { return };
    host.namespace.set("ipv4/conf/all/rp_filter", "1").unwrap();
    let line = "backend doctor --vip 192.0.2.10 --listen-on net0";
    let printed = host.expect(1, line);
    for part in [
        "192.0.2.10 is not on lo",
        "ip address add 192.0.2.10/32 dev lo",
        "rp_filter of net0 is 1",
        "sysctl -w net/ipv4/conf/net0/rp_filter=2",
        "arp_ignore of net0 is 0",
        "sysctl -w net/ipv4/conf/all/arp_ignore=1",
        "arp_announce of net0 is 0",
        "no decapsulator of ours is on net0",
    ] {
        assert!(printed.contains(part), "{part:?} is not in {printed}");
    }
    host.program("ip", &["address", "add", "192.0.2.10/32", "dev", "lo"]);
    for (key, value) in [("net0/rp_filter", "2"), ("all/arp_ignore", "1"), ("all/arp_announce", "2")] {
        host.namespace.set(&format!("ipv4/conf/{key}"), value).unwrap();
    }
    host.expect(0, line);
    // On the wire is worse than nowhere.
    host.program("ip", &["address", "add", "192.0.2.10/32", "dev", "net0"]);
    assert!(host.expect(1, line).contains("this host claims it on the network"));
}

#[test]
fn the_doctor_warns_of_programs_that_come_before_the_decapsulator_and_the_clamp() {
    let Some(host) = Host::new("front") else { return };
    host.expect(0, &up("--attach tc"));
    let ours = ["before the decapsulator on net0", "before the clamp on net0"];
    let warned = |host: &Host| {
        let doctor = host.expect(0, "backend doctor");
        ours.iter().filter(|part| doctor.contains(*part)).count()
    };
    assert_eq!(warned(&host), 0);
    // Another set of our programs will do for somebody else's: whoever comes last is asked first.
    let foreign = host.namespace.run(|| {
        let mut programs = Decapsulator::load(None).unwrap();
        let attached = programs.attach("net0", "net0", Wish::Exactly(Hook::Tc)).unwrap();
        (programs, attached)
    });
    let foreign = foreign.unwrap();
    assert_eq!(warned(&host), 2);
    let doctor = host.expect(0, "backend doctor");
    assert!(doctor.contains("`decap_tc` (id ") && doctor.contains("bpftool link detach id "), "{doctor}");
    drop(foreign);
    // The balancer's own lets pass what is no probe.
    let attach = || {
        let mut prober = Prober::load(1, 1, None).unwrap();
        let attached = prober.attach("net0").unwrap();
        (prober, attached)
    };
    let prober = host.namespace.run(attach).unwrap();
    assert_eq!(warned(&host), 0);
    drop(prober);
    host.expect(0, "backend down");
}
