//! Setting a host up, again, and taking that away.

use guideway_testbed::{Program, veth_pair};
use serde_json::json;

use crate::{Host, PATIENCE, VIPS, up};

#[test]
fn what_cannot_be_told_is_done_all_the_same() {
    let Some(host) = Host::new("untold") else { return };
    let untold = |line: &str| {
        let line = format!(
            "{} {line} --bpffs {places}/bpf --run-dir {places}/run > /dev/full",
            env!("CARGO_BIN_EXE_guideway"),
            places = host.places.display()
        );
        let output = Program::new("sh").args(["-c", &line]).run(&host.namespace, PATIENCE).unwrap();
        assert!(output.stderr.contains("can't write the output"), "{}", output.stderr);
    };
    untold(&up(""));
    assert!(VIPS.iter().all(|vip| host.addresses().contains(vip)), "{}", host.addresses());
    assert!(!host.expect(0, "backend doctor").contains("fail"));
    untold("backend down");
    assert!(VIPS.iter().all(|vip| !host.addresses().contains(vip)), "{}", host.addresses());
    host.has_no_leftovers();
}

#[test]
fn up_makes_a_backend_again_changes_nothing_and_down_leaves_nothing() {
    let Some(host) = Host::new("updown") else { return };
    let before = (host.addresses(), host.settings());
    let printed = host.expect(0, &up(""));
    assert!(printed.contains("added 192.0.2.10 to lo"), "{printed}");
    assert!(printed.contains("attached to net0: XDP in the driver"), "{printed}");
    assert!(printed.contains("1408 bytes (IPv4), 1388 bytes (IPv6)"), "{printed}");
    assert_eq!(host.settings(), ["2", "1", "2"]);
    for vip in ["192.0.2.10/32", "2001:db8::10/128"] {
        assert!(host.addresses().contains(vip), "{}", host.addresses());
    }
    assert!(host.programs().contains("xdp"), "{}", host.programs());
    let doctor = host.expect(0, "backend doctor");
    assert!(!doctor.contains("fail") && doctor.contains("on net0, native"), "{doctor}");

    let again = host.expect(0, &up(""));
    assert!(again.contains("replaced our own on net0"), "{again}");
    assert!(!again.contains("added") && !again.contains("set net"), "{again}");
    // Another set of addresses: what is no longer asked for goes.
    let fewer = host.expect(0, "backend up --vip 192.0.2.10 --listen-on net0");
    assert!(fewer.contains("removed 2001:db8::10 from lo"), "{fewer}");

    host.expect(0, "backend down");
    assert_eq!((host.addresses(), host.settings()), before);
    assert!(!host.programs().contains("xdp"), "{}", host.programs());
    host.has_no_leftovers();
    assert!(host.expect(0, "backend down").contains("nothing to take away"));
}

#[test]
fn what_was_there_before_stays() {
    let Some(host) = Host::new("before") else { return };
    host.program("ip", &["address", "add", "192.0.2.10/32", "dev", "lo"]);
    host.namespace.set("ipv4/conf/all/arp_ignore", "1").unwrap();
    host.expect(0, &up("--attach tc"));
    // Somebody has a mind of their own about this one.
    host.namespace.set("ipv4/conf/all/arp_announce", "1").unwrap();
    let printed = host.expect(0, "backend down");
    assert!(printed.contains("left net/ipv4/conf/all/arp_announce alone"), "{printed}");
    assert!(host.addresses().contains("192.0.2.10/32"), "{}", host.addresses());
    assert!(!host.addresses().contains("2001:db8::10"), "{}", host.addresses());
    assert_eq!(host.settings(), ["0", "1", "1"]);
}

#[test]
fn each_command_tells_the_same_as_json() {
    let Some(host) = Host::new("json") else { return };
    let up = host.json(0, &up("--encap gue,ipip --attach tc"));
    assert_eq!(up["hook"], "tc");
    assert_eq!(up["tunnels"], json!(["gue", "ipip"]));
    assert_eq!(up["ends"], json!(["10.0.0.1", "2001:db8:ffff::1"]));
    // 1500 less 48 of IPv6 and UDP, less 40 or 60.
    assert_eq!(up["segment_bytes"], json!({ "ipv4": 1412, "ipv6": 1392 }));
    let kinds = |value: &serde_json::Value| -> Vec<String> {
        let changes = value["changes"].as_array().unwrap();
        changes.iter().map(|change| change["change"].as_str().unwrap().to_owned()).collect()
    };
    let made = [
        "attached",
        "setting-changed",
        "setting-changed",
        "setting-changed",
        "address-added",
        "address-added",
    ];
    assert_eq!(kinds(&up), made);
    let doctor = host.json(0, "backend doctor");
    assert_eq!(doctor["ok"], true);
    host.program("ip", &["address", "del", "192.0.2.10/32", "dev", "lo"]);
    let doctor = host.json(1, "backend doctor");
    let failed: Vec<_> =
        doctor["findings"].as_array().unwrap().iter().filter(|finding| finding["grade"] == "fail").collect();
    assert!(
        failed.len() == 1 && failed[0]["what"].as_str().unwrap().contains("192.0.2.10 is not on lo"),
        "{failed:?}"
    );
    // The other address is still there, and what somebody else took away is no error.
    let taken = ["address-removed", "setting-restored", "setting-restored", "setting-restored", "detached"];
    assert_eq!(kinds(&host.json(0, "backend down")), taken);
    assert_eq!(kinds(&host.json(0, "backend down")), [""; 0]);
}

#[test]
fn what_makes_no_sense_is_refused_before_anything_is_changed() {
    let Some(host) = Host::new("nonsense") else { return };
    let before = (host.addresses(), host.settings());
    for (code, line, part) in [
        (2, "--vip 127.0.0.1 --listen-on net0", "can't be the address of a host"),
        (2, "--vip 192.0.2.10 --listen-on net0 --address 192.0.2.10", "they have to differ"),
        (2, "--vip 192.0.2.10 --listen-on lo", "don't come by lo"),
        (2, "--vip 192.0.2.10 --listen-on net0 --mtu 100", "100 is not in 576..="),
        (1, "--vip 192.0.2.10 --listen-on net9", "there is no interface `net9`"),
        (1, "--vip 192.0.2.10 --listen-on net0 --egress net9", "there is no interface `net9`"),
        (1, "--vip 10.0.0.1 --listen-on net0", "10.0.0.1 is on net0"),
    ] {
        let printed = host.expect(code, &format!("backend up {line}"));
        assert!(printed.contains(part), "{line}: {printed}");
    }
    assert_eq!((host.addresses(), host.settings()), before);
    host.has_no_leftovers();
}

#[test]
fn an_interface_that_is_made_anew_is_noticed_and_down_leaves_nothing_all_the_same() {
    let Some(host) = Host::new("anew") else { return };
    host.expect(0, &up(""));
    host.program("ip", &["link", "del", "dev", "net0"]);
    let gone = host.expect(1, "backend doctor");
    assert!(gone.contains("there is no interface `net0`"), "{gone}");
    let (link, _end) = veth_pair((&host.namespace, "net0"), (&host.namespace, "net1"), 1500).unwrap();
    link.add_address("10.0.0.1/24".parse().unwrap()).unwrap();
    let doctor = host.expect(1, "backend doctor");
    assert!(doctor.contains("the decapsulator is no longer on net0"), "{doctor}");
    host.expect(0, &up(""));
    host.expect(0, "backend doctor");
    host.program("ip", &["link", "del", "dev", "net0"]);
    host.expect(0, "backend down");
    host.has_no_leftovers();
}

#[test]
fn a_renamed_interface_is_known_by_its_new_name_and_has_its_settings_put_back() {
    let Some(host) = Host::new("renamed") else { return };
    let filter = |name: &str| host.namespace.setting(&format!("ipv4/conf/{name}/rp_filter")).unwrap();
    let before = filter("net0");
    host.expect(0, &up(""));
    assert_eq!(filter("net0"), "2");
    host.program("ip", &["link", "set", "dev", "net0", "name", "wan0"]);
    let doctor = host.expect(0, "backend doctor");
    assert!(doctor.contains("the decapsulator is on wan0, native"), "{doctor}");
    assert!(doctor.contains("segments announced at wan0 are at most"), "{doctor}");
    let again = host.expect(0, &up("").replace("net0", "wan0"));
    assert!(again.contains("replaced our own on wan0") && !again.contains("set net"), "{again}");
    let down = host.expect(0, "backend down");
    assert!(down.contains(&format!("set net/ipv4/conf/wan0/rp_filter back to {before}")), "{down}");
    assert_eq!(filter("wan0"), before);
    host.has_no_leftovers();
}
