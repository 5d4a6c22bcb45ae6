//! The backend commands as a user meets them, each in a network namespace of its own.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use guideway_testbed::process::Output;
use guideway_testbed::{Link, Namespace, Program, privilege, veth_pair, wait};
use guideway_xdp::end::{Decapsulator, Hook, Wish};
use guideway_xdp::ownership;
use guideway_xdp::prober::Prober;
use nix::fcntl::{Flock, FlockArg};
use serde_json::json;

const PATIENCE: Duration = Duration::from_secs(60);
const VIPS: [&str; 2] = ["192.0.2.10", "2001:db8::10"];

/// A host with an interface, and places of its own.
struct Host {
    namespace: Namespace,
    other_end: Link,
    places: PathBuf,
}

impl Host {
    fn new(name: &str) -> Option<Host> {
        if !privilege::granted() {
            return None;
        }
        let namespace = Namespace::new(name).unwrap();
        let other = Namespace::new("other").unwrap();
        let (link, other_end) = veth_pair((&namespace, "net0"), (&other, "net0"), 1500).unwrap();
        link.add_address("10.0.0.1/24".parse().unwrap()).unwrap();
        link.add_address("2001:db8:ffff::1/64".parse().unwrap()).unwrap();
        let places = std::env::temp_dir().join(format!("guideway-backend-{name}-{}", std::process::id()));
        fs::create_dir_all(places.join("bpf")).unwrap();
        let host = Host { namespace, other_end, places };
        host.program("mount", &["-t", "bpf", "bpf", host.places.join("bpf").to_str().unwrap()]);
        Some(host)
    }

    fn program(&self, name: &str, arguments: &[&str]) -> String {
        Program::new(name).args(arguments).succeed(&self.namespace, PATIENCE).unwrap()
    }

    fn guideway(&self, line: &str) -> Output {
        self.command(line).run(&self.namespace, PATIENCE).unwrap()
    }

    fn command(&self, line: &str) -> Program {
        let places = [
            "--bpffs".to_owned(),
            self.places.join("bpf").display().to_string(),
            "--run-dir".to_owned(),
            self.places.join("run").display().to_string(),
        ];
        let words = line.split_whitespace().map(str::to_owned);
        Program::new(env!("CARGO_BIN_EXE_guideway")).args(words.chain(places))
    }

    /// Runs `guideway` and asserts its exit code; what it printed, on both outputs.
    fn expect(&self, code: i32, line: &str) -> String {
        let output = self.guideway(line);
        let printed = output.stdout + &output.stderr;
        assert_eq!(output.status.code(), Some(code), "{line}: {printed}");
        printed
    }

    fn addresses(&self) -> String {
        self.program("ip", &["-o", "address", "show", "dev", "lo"])
    }

    fn settings(&self) -> Vec<String> {
        ["ipv4/conf/net0/rp_filter", "ipv4/conf/all/arp_ignore", "ipv4/conf/all/arp_announce"]
            .map(|key| self.namespace.setting(key).unwrap())
            .into()
    }

    /// Where programs and maps are pinned.
    fn pins(&self) -> PathBuf {
        self.places.join("bpf/guideway-backend/v1")
    }

    /// Asserts that nothing is pinned and no record kept.
    fn has_no_leftovers(&self) {
        assert!(!self.places.join("bpf/guideway-backend").exists());
        assert!(!self.places.join("run/backend.json").exists());
    }

    /// Runs `guideway` with `--json` and asserts its exit code; what it printed.
    fn json(&self, code: i32, line: &str) -> serde_json::Value {
        let output = self.guideway(&format!("{line} --json"));
        assert_eq!(output.status.code(), Some(code), "{line}: {}{}", output.stdout, output.stderr);
        serde_json::from_str(&output.stdout).unwrap()
    }

    /// What the kernel says of programs at the interface.
    fn programs(&self) -> String {
        self.program("ip", &["-d", "link", "show", "dev", "net0"])
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let bpf = self.places.join("bpf");
        // It may not have been mounted.
        let _ = std::process::Command::new("umount").arg(&bpf).status();
        let _ = fs::remove_dir_all(&self.places);
    }
}

fn up(more: &str) -> String {
    format!("backend up --vip {} --listen-on net0 {more}", VIPS.join(","))
}

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
fn half_a_set_up_and_one_without_a_record_are_told_and_mended() {
    let Some(host) = Host::new("half") else { return };
    host.expect(0, &up(""));
    fs::remove_file(host.places.join("run/backend.json")).unwrap();
    let refused = host.expect(1, "backend down");
    assert!(refused.contains("run `guideway backend up` as before"), "{refused}");
    host.expect(0, &up(""));
    host.expect(0, "backend down");
    host.has_no_leftovers();
    assert!(!host.programs().contains("xdp"), "{}", host.programs());
}

#[test]
fn a_record_of_another_namespace_is_not_taken_for_this_ones() {
    let (Some(host), Some(other)) = (Host::new("one"), Host::new("another")) else { return };
    host.expect(0, &up(""));
    let places = format!("--bpffs {0}/bpf --run-dir {0}/run", host.places.display());
    for line in [up(""), "backend down".to_owned(), "backend doctor".to_owned()] {
        let program = Program::new(env!("CARGO_BIN_EXE_guideway"));
        let line = format!("{line} {places}");
        let output = program.args(line.split_whitespace()).run(&other.namespace, PATIENCE).unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert!(output.stderr.contains("another network namespace"), "{}", output.stderr);
    }
    host.expect(0, "backend down");
}

/// Both hosts' interfaces have the same index, and each names its own record.
#[test]
fn pins_of_another_namespace_are_refused_and_left_alone() {
    let (Some(host), Some(other)) = (Host::new("first"), Host::new("second")) else { return };
    let shared = format!("--bpffs {}/bpf --run-dir {}/run", host.places.display(), other.places.display());
    let second = |line: &str| {
        let line = format!("{line} {shared}");
        let program = Program::new(env!("CARGO_BIN_EXE_guideway")).args(line.split_whitespace());
        let output = program.run(&other.namespace, PATIENCE).unwrap();
        (output.status.code(), output.stdout + &output.stderr)
    };
    for hook in ["native", "generic", "tc"] {
        host.expect(0, &up(&format!("--attach {hook}")));
        let before = (other.programs(), other.addresses());
        for line in [
            "backend up --vip 192.0.2.77 --listen-on net0",
            "backend up --vip 192.0.2.77 --listen-on net0 --attach tc",
            "backend doctor --vip 192.0.2.10 --listen-on net0",
            "backend down",
        ] {
            let (code, printed) = second(line);
            assert_eq!(code, Some(1), "{hook}, {line}: {printed}");
            assert!(printed.contains("another namespace uses these pins"), "{hook}, {line}: {printed}");
        }
        assert_eq!((other.programs(), other.addresses()), before, "{hook}");
        assert!(!other.places.join("run/backend.json").exists());
        // The first one is whole, and can be set up again.
        let doctor = host.expect(0, "backend doctor");
        assert!(doctor.contains(&format!("on net0, {hook}")) && doctor.contains("at most 1408"), "{doctor}");
    }
    host.expect(0, "backend down");
    host.has_no_leftovers();
    // They are nobody's now.
    assert_eq!(second(&up("")).0, Some(0));
    assert_eq!(second("backend down").0, Some(0));
}

#[test]
fn the_record_tells_where_the_pins_are_and_down_claims_nothing_that_it_did_not_do() {
    let Some(host) = Host::new("pins") else { return };
    let (run, bpf) = (host.places.join("run"), host.places.join("bpf/made/anew"));
    let guideway = |code: i32, line: String| {
        let line = format!("{line} --run-dir {}", run.display());
        let program = Program::new(env!("CARGO_BIN_EXE_guideway")).args(line.split_whitespace());
        let output = program.run(&host.namespace, PATIENCE).unwrap();
        let printed = output.stdout + &output.stderr;
        assert_eq!(output.status.code(), Some(code), "{line}: {printed}");
        printed
    };
    let before = (host.addresses(), host.settings());
    let ordinary = guideway(1, up(&format!("--bpffs {}/ordinary", host.places.display())));
    assert!(ordinary.contains("mkdir -p") && ordinary.contains("mount -t bpf"), "{ordinary}");
    assert!(!host.places.join("ordinary").exists());
    for hook in ["native", "tc"] {
        // The directory is made.
        guideway(0, up(&format!("--attach {hook} --bpffs {}", bpf.display())));
        let again = guideway(0, up(""));
        assert!(again.contains("replaced our own"), "{again}");
        let two = guideway(1, up(&format!("--bpffs {}/bpf", host.places.display())));
        assert!(two.contains("made/anew already"), "{two}");
        let doctor = guideway(0, "backend doctor".to_owned());
        assert!(doctor.contains(&format!("on net0, {hook}")), "{doctor}");
        let up_now = host.addresses();
        let wrong = guideway(1, format!("backend down --bpffs {}/bpf", host.places.display()));
        assert!(wrong.contains("is still at net0") && !wrong.contains("took"), "{wrong}");
        assert_eq!(host.addresses(), up_now, "nothing was changed");
        let down = guideway(0, "backend down".to_owned());
        assert!(down.contains("took the decapsulator off net0"), "{down}");
        assert!(!host.programs().contains("xdp"));
        assert!(!host.places.join("bpf/made").exists(), "what `up` made is gone");
        assert_eq!((host.addresses(), host.settings()), before);
    }
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
fn pins_that_others_can_change_are_not_taken_away_before_somebody_has_looked() {
    let Some(host) = Host::new("exposed") else { return };
    host.expect(0, &up(""));
    let before = (host.programs(), host.addresses());
    let pins = host.pins();
    let mode = |mode: u32| fs::set_permissions(&pins, fs::Permissions::from_mode(mode)).unwrap();
    mode(0o770);
    let refused = host.expect(1, "backend down");
    let what = format!("{} can be written to by others (mode 0770)", pins.display());
    assert!(refused.contains(&what) && refused.contains("chmod go-w"), "{refused}");
    assert_eq!((host.programs(), host.addresses()), before);
    mode(0o700);
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

#[test]
fn maps_of_a_set_up_that_was_killed_are_taken_away_without_a_record() {
    let Some(host) = Host::new("killed") else { return };
    let pins = host.pins();
    ownership::make(&pins).unwrap();
    let load = || drop(Decapsulator::load(Some(&pins)).unwrap());
    host.namespace.run(load).unwrap();
    let down = host.expect(0, "backend down");
    assert!(down.contains(&format!("removed the maps in {}", pins.display())), "{down}");
    host.has_no_leftovers();
    // Killed before it had pinned any.
    ownership::make(&pins).unwrap();
    assert!(host.expect(0, "backend down").contains("nothing to take away"));
    host.has_no_leftovers();
}

#[test]
fn who_sets_a_host_up_waits_for_whoever_is_at_it() {
    let Some(host) = Host::new("lock") else { return };
    let run = host.places.join("run");
    fs::create_dir(&run).unwrap();
    let at_it = Flock::lock(File::open(&run).unwrap(), FlockArg::LockExclusive).unwrap();
    let up = host.command(&up("")).start(&host.namespace).unwrap();
    // Who waits for a lock is listed behind an arrow (proc_locks(5)).
    let process = format!(" {} ", up.id());
    let waits = |line: &str| line.contains("->") && line.contains(&process);
    let is_waiting = || fs::read_to_string("/proc/locks").unwrap().lines().any(waits);
    wait::until_true(PATIENCE, "`up` to wait", is_waiting).unwrap();
    assert!(!host.pins().exists());
    drop(at_it);
    assert!(up.finish(PATIENCE).unwrap().status.success());
    host.expect(0, "backend down");
    host.has_no_leftovers();
}

#[test]
fn a_directory_among_the_pins_is_left_alone_or_named_as_what_is_in_the_way() {
    let Some(host) = Host::new("stray") else { return };
    let pins = host.pins();
    host.expect(0, &up(""));
    fs::create_dir(pins.join("notes")).unwrap();
    host.expect(0, "backend doctor");
    host.expect(0, &up(""));
    host.expect(0, "backend down");
    let left: Vec<_> = fs::read_dir(&pins).unwrap().flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(left, ["notes"]);
    assert!(host.expect(0, "backend down").contains("nothing to take away"));
    for name in ["SOURCES", "native-7"] {
        let stray = pins.join(name);
        fs::create_dir(&stray).unwrap();
        for line in [up(""), "backend down".to_owned()] {
            let refused = host.expect(1, &line);
            let what =
                format!("a directory is where a pin of Guideway's belongs: `rm -r {}`", stray.display());
            assert!(refused.trim_end().ends_with(&what), "{line}: {refused}");
        }
        fs::remove_dir(&stray).unwrap();
    }
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

#[test]
fn a_script_is_one_that_a_shell_and_nft_understand() {
    let line = "backend script --vip 192.0.2.10,2001:db8::10 --listen-on eth0 --address 10.0.0.1,2001:db8:ffff::1 --mtu 1500";
    for more in [
        "",
        "--encap gre",
        "--encap ipip",
        "--encap gue --gue-port 6081",
        "--from 10.0.1.0/24,10.0.2.1",
        "--remove",
    ] {
        let words = line.split_whitespace().chain(more.split_whitespace());
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_guideway")).args(words).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let script = String::from_utf8(output.stdout).unwrap();
        let checked = std::process::Command::new("sh").args(["-n", "-c", &script]).output().unwrap();
        assert!(checked.status.success(), "{script}");
        let file = std::env::temp_dir().join(format!("guideway-script-{}", std::process::id()));
        fs::write(&file, &script).unwrap();
        // Where it is installed.
        if let Ok(checked) = std::process::Command::new("shellcheck").arg(&file).output() {
            assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
        }
        fs::remove_file(&file).unwrap();
        let all = more.is_empty() || more.contains("--from");
        let gue = all || more.contains("gue");
        assert_eq!(script.contains("fou add"), gue, "{more}: {script}");
        assert_eq!(script.contains("device gwgre0 gre "), all || more.contains("gre"), "{more}: {script}");
        if more == "--remove" {
            assert!(script.contains("ip address del 192.0.2.10/32 dev lo"), "{script}");
            continue;
        }
        assert!(script.contains("ip address replace 192.0.2.10/32 dev lo"), "{script}");
        let rules = script.split("nft -f - <<'RULES'\n").nth(1).unwrap().split("RULES\n").next().unwrap();
        if !privilege::granted() || !privilege::installed("nft") {
            continue;
        }
        let folder = std::env::temp_dir().join(format!("guideway-rules-{}", std::process::id()));
        fs::write(&folder, rules).unwrap();
        let namespace = Namespace::new("rules").unwrap();
        // Twice: it can be run again.
        for _ in 0..2 {
            let nft = Program::new("nft").args(["-f", folder.to_str().unwrap()]);
            nft.succeed(&namespace, PATIENCE).unwrap();
        }
        let listed = Program::new("nft").args(["list", "ruleset"]).succeed(&namespace, PATIENCE).unwrap();
        assert_eq!(listed.matches("maxseg size set").count(), 2, "{listed}");
        // Of each tunnel end, IP in IP with GRE, and GUE.
        assert_eq!(listed.matches("drop").count(), if more.contains("--from") { 4 } else { 0 }, "{listed}");
        fs::remove_file(&folder).unwrap();
    }
}

#[test]
fn a_script_ends_before_the_addresses_where_the_kernel_has_no_such_tunnels_and_names_all_that_lack() {
    // GUE wants a socket of either family, and lacks once.
    let script = script_of("192.0.2.10,2001:db8::10", "10.0.0.1,2001:db8:ffff::1");
    // No device is there, and GRE alone can be made.
    let ip = r#"ip() {
        case "$*" in
            "link add"*gre*) ;;
            "link show"* | "link add"* | *"fou add"*) return 2 ;;
            *address*) echo "an address" ;;
        esac
    }
    sysctl() { :; }
    nft() { :; }
"#;
    let run = std::process::Command::new("sh").args(["-c", &format!("{ip}{script}")]).output().unwrap();
    assert_eq!((run.status.code(), run.stdout.len()), (Some(1), 0), "{run:?}");
    let told = String::from_utf8(run.stderr).unwrap();
    assert!(told.starts_with("this kernel makes no such tunnels: ipip sit ip6tnl fou\n"), "{told}");
    let has_all = ip.replace("\"link add\"*gre*", "\"link add\"* | *\"fou add\"*");
    let run = std::process::Command::new("sh").args(["-c", &format!("{has_all}{script}")]).output().unwrap();
    assert!(run.status.success() && run.stdout == b"an address\nan address\n", "{run:?}");
}

#[test]
fn a_script_asks_of_the_kernel_only_the_tunnels_of_the_families_that_are_served() {
    for (vips, ipip, sit) in
        [("192.0.2.10", true, false), ("2001:db8::10", false, true), ("192.0.2.10,2001:db8::10", true, true)]
    {
        let script = script_of(vips, "10.0.0.1");
        assert_eq!(script.contains("device gwipip0 ipip "), ipip, "{vips}: {script}");
        assert_eq!(script.contains("device gwsit0 sit "), sit, "{vips}: {script}");
        assert!(script.contains("device gwgre0 gre "), "{vips}: {script}");
    }
}

/// A script for all tunnels.
fn script_of(vips: &str, ends: &str) -> String {
    let line =
        ["backend", "script", "--vip", vips, "--listen-on", "eth0", "--address", ends, "--mtu", "1500"];
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_guideway")).args(line).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}
