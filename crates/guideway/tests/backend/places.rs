//! Records, pins and the lock: what `up` leaves for `down`, in whatever state.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;

use guideway_testbed::{Program, wait};
use guideway_xdp::end::Decapsulator;
use guideway_xdp::ownership;
use nix::fcntl::{Flock, FlockArg};

use crate::{Host, PATIENCE, up};

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
