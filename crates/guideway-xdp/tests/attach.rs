//! The program at an interface, across processes. Needs root; elsewhere the test prints that it is skipped, and fails if
//! `GUIDEWAY_REQUIRE_PRIVILEGES` is set.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use aya::programs::links::{FdLink, PinnedLink};
use guideway_forward::record::{LAYOUT_VERSION, Policy, ServiceId};
use guideway_soft::Limits;
use guideway_xdp::attach::{Mode, Standing, Wish};
use guideway_xdp::occupant::{balancers, occupant};
use guideway_xdp::pins::Pins;
use guideway_xdp::{Balancer, Error};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

const LIMITS: Limits = Limits {
    services: 16,
    backends: 16,
    slots: 1_024,
    flows: 256,
    fragments: 256,
    threads: 1,
    icmp_per_second: 100,
};

/// The loopback interface of a new network namespace has this index.
const LOOPBACK: u32 = 1;

/// Runs `work` in a network namespace of its own, with a BPF file system of its own.
fn apart(work: impl FnOnce(PathBuf) + Send + 'static) {
    let thread = std::thread::spawn(move || {
        if let Err(error) = unshare(CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWNS) {
            assert!(std::env::var_os("GUIDEWAY_REQUIRE_PRIVILEGES").is_none(), "no namespaces: {error}");
            eprintln!("skipped: no namespaces ({error})");
            return;
        }
        let none = None::<&str>;
        mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).unwrap();
        // Of each test its own: a directory that one removes is unmounted in all namespaces.
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Relaxed);
        let directory = std::env::temp_dir().join(format!("guideway-pins-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        mount(Some("bpf"), &directory, Some("bpf"), MsFlags::empty(), none).unwrap();
        work(directory.clone());
        nix::mount::umount(&directory).unwrap();
        std::fs::remove_dir(&directory).unwrap();
    });
    thread.join().unwrap();
}

#[test]
fn a_program_outlives_its_process_is_replaced_in_place_and_leaves_foreign_ones_alone() {
    apart(|root| {
        let pins = Pins::new(&root).unwrap();
        assert!(!pins.is_taken());
        let first = Balancer::load_pinned(&LIMITS, [1, 2], &pins).unwrap();
        let attachment = first.attach("lo", Wish::Auto).unwrap();
        assert_eq!((attachment.mode, attachment.replaced), (Mode::Generic, false));
        assert!(attachment.fell_back.is_some(), "the loopback interface has no native mode");
        let before = occupant("lo", LOOPBACK).unwrap().unwrap();
        assert_eq!(before.name, "balancer");
        let service = ServiceId(3);
        first.service(service).unwrap().set_policy(Policy(0x55));
        drop((attachment, first));
        assert_eq!(occupant("lo", LOOPBACK).unwrap().unwrap(), before, "it goes on without its process");

        assert!(pins.is_taken());
        let other_sizes = Limits { services: 99, ..LIMITS };
        let second = Balancer::load_pinned(&other_sizes, [3, 4], &pins).unwrap();
        assert_eq!(second.limits().services, LIMITS.services, "maps keep their sizes");
        assert_eq!(second.service(service).unwrap().policy(), Policy(0x55));
        assert_eq!(second.settings().flow_key(), [1, 2]);
        let pin = |root: &PathBuf| inode(&link_pin(root));
        let link = pin(&root);
        let attachment = second.attach("lo", Wish::Auto).unwrap();
        assert!(attachment.replaced && attachment.mode == Mode::Generic);
        assert!(attachment.fell_back.is_some(), "whoever takes it over is told as well");
        assert_eq!(pin(&root), link, "the pin was never away");
        let after = occupant("lo", LOOPBACK).unwrap().unwrap();
        assert_ne!(after.id, before.id);

        let foreign = Balancer::load(&LIMITS, [5, 6]).unwrap();
        match foreign.attach("lo", Wish::Exactly(Mode::Generic)) {
            Err(Error::Occupied { id, name, .. }) => assert_eq!((id, name.as_str()), (after.id, "balancer")),
            other => panic!("{other:?}"),
        }
        attachment.detach().unwrap();
        assert_eq!(occupant("lo", LOOPBACK).unwrap(), None);
        let held = foreign.attach("lo", Wish::Exactly(Mode::Generic)).unwrap();
        assert!(matches!(second.attach("lo", Wish::Auto), Err(Error::Occupied { .. })));
        drop(held);
        assert_eq!(occupant("lo", LOOPBACK).unwrap(), None);
        pins.remove().unwrap();
    });
}

#[test]
fn a_program_is_taken_off_although_another_process_holds_its_link() {
    apart(|root| {
        let pins = Pins::new(&root).unwrap();
        let second_pin = root.join("foreign");
        for by_pins in [false, true] {
            let balancer = Balancer::load_pinned(&LIMITS, [1, 2], &pins).unwrap();
            let attachment = balancer.attach("lo", Wish::Auto).unwrap();
            let own = (String::from("lo"), occupant("lo", LOOPBACK).unwrap().unwrap());
            assert_eq!(balancers().unwrap(), [own]);
            let held = PinnedLink::from_pin(link_pin(&root)).unwrap();
            let again =
                FdLink::from(PinnedLink::from_pin(link_pin(&root)).unwrap()).pin(&second_pin).unwrap();
            // Somebody's directory among the pins is neither a pin nor in the way.
            let foreign = root.join(format!("v{LAYOUT_VERSION}/foreign"));
            std::fs::create_dir(&foreign).unwrap();
            if by_pins {
                drop(attachment);
            } else {
                attachment.detach().unwrap();
                assert_eq!(occupant("lo", LOOPBACK).unwrap(), None);
            }
            pins.remove().unwrap();
            assert_eq!((occupant("lo", LOOPBACK).unwrap(), balancers().unwrap()), (None, Vec::new()));
            assert!(!pins.is_taken() && pins.listing().unwrap().is_empty());
            std::fs::remove_dir(&foreign).unwrap();
            drop((held, again.unpin().unwrap()));
        }
        pins.leave();
    });
}

#[test]
fn a_renamed_interface_keeps_its_program_whoever_has_its_old_name() {
    apart(|root| {
        ip("link add xr-a type veth");
        let pins = Pins::new(&root).unwrap();
        let balancer = Balancer::load_pinned(&LIMITS, [1, 2], &pins).unwrap();
        let mut attachment = balancer.attach("xr-a", Wish::Exactly(Mode::Generic)).unwrap();
        assert!(!balancer.follow_name(&mut attachment).unwrap());
        ip("link set dev xr-a name xr-c");
        assert_eq!(balancer.standing(&attachment).unwrap(), Standing::Whole);
        ip("link add xr-a type veth");
        assert_eq!(balancer.standing(&attachment).unwrap(), Standing::Whole);
        assert!(balancer.follow_name(&mut attachment).unwrap());
        assert_eq!(attachment.interface, "xr-c");
        assert!(!balancer.follow_name(&mut attachment).unwrap());

        // One that is made anew has another index, and one without the program may be any.
        pins.take_off(attachment.index).unwrap();
        assert_eq!(balancer.standing(&attachment).unwrap(), Standing::Gone);
        ip("link set dev xr-c name xr-d");
        assert!(!balancer.follow_name(&mut attachment).unwrap());
        ip("link del dev xr-d");
        assert_eq!(balancer.standing(&attachment).unwrap(), Standing::Gone);
        pins.remove().unwrap();
    });
}

#[test]
fn maps_whose_pins_were_removed_are_had_again_from_the_program_that_forwards_with_them() {
    apart(|root| {
        let pins = Pins::new(&root).unwrap();
        let flows = root.join(format!("v{LAYOUT_VERSION}/FLOWS"));
        let first = Balancer::load_pinned(&LIMITS, [1, 2], &pins).unwrap();
        let attachment = first.attach("lo", Wish::Auto).unwrap();
        assert_eq!((pins.recover().unwrap(), pins.removed_maps().unwrap()), (0, Vec::new()));
        let marked = |balancer: &Balancer| balancer.flows()[7].entries[0].info.load(Relaxed);
        first.flows()[7].entries[0].info.store(99, Relaxed);
        drop((attachment, first));
        std::fs::remove_file(&flows).unwrap();
        assert_eq!(pins.removed_maps().unwrap(), ["FLOWS"]);
        assert_eq!((pins.recover().unwrap(), pins.removed_maps().unwrap()), (1, Vec::new()));
        assert!(pins.is_taken());
        let second = Balancer::load_pinned(&LIMITS, [3, 4], &pins).unwrap();
        assert_eq!((marked(&second), second.settings().flow_key()), (99, [1, 2]));
        drop(second);

        // Maps of a later start that did not end are not the program's.
        for shape in std::fs::read_dir(flows.parent().unwrap()).unwrap().flatten() {
            if !shape.file_name().to_string_lossy().contains('-') {
                std::fs::remove_file(shape.path()).unwrap();
            }
        }
        drop(Balancer::load_pinned(&LIMITS, [5, 6], &pins).unwrap());
        std::fs::remove_file(&flows).unwrap();
        assert_eq!((pins.recover().unwrap(), pins.removed_maps().unwrap()), (0, vec!["FLOWS"]));
        let third = Balancer::load_pinned(&LIMITS, [7, 8], &pins).unwrap();
        assert_eq!(third.settings().flow_key(), [7, 8]);
        pins.remove().unwrap();
    });
}

#[test]
fn a_directory_with_the_name_of_a_pin_is_named_as_what_is_in_the_way() {
    apart(|root| {
        let pins = Pins::new(&root).unwrap();
        for name in ["FLOWS", "generic-7"] {
            let stray = root.join(format!("v{LAYOUT_VERSION}/{name}"));
            std::fs::create_dir(&stray).unwrap();
            let refused = Balancer::load_pinned(&LIMITS, [1, 2], &pins).unwrap_err().to_string();
            assert!(refused.contains(&format!("`rm -r {}`", stray.display())), "{refused}");
            std::fs::remove_dir(&stray).unwrap();
        }
        let balancer = Balancer::load_pinned(&LIMITS, [1, 2], &pins).unwrap();
        let flows = root.join(format!("v{LAYOUT_VERSION}/FLOWS"));
        std::fs::remove_file(&flows).unwrap();
        std::fs::create_dir(&flows).unwrap();
        let told = balancer.repair_pins().unwrap_err().to_string();
        assert!(told.contains(&format!("`rm -r {}`", flows.display())), "{told}");
        std::fs::remove_dir(&flows).unwrap();
        assert_eq!(balancer.repair_pins().unwrap(), 1);
        drop(balancer);
        pins.remove().unwrap();
    });
}

/// Runs `ip` in this thread's namespace.
fn ip(arguments: &str) {
    let status = Command::new("ip").args(arguments.split(' ')).status().unwrap();
    assert!(status.success(), "ip {arguments}");
}

#[test]
fn a_clock_that_somebody_has_stopped_runs_again() {
    apart(|root| {
        let pins = Pins::new(&root).unwrap();
        let load = || Balancer::load_pinned(&LIMITS, [1, 2], &pins).unwrap();
        let somebody = load();
        somebody.stop_clock(Some(u32::MAX));
        somebody.set_icmp_per_second(7);
        // Whoever only loads it finds it as it is; who takes charge has its own way.
        let balancer = load();
        assert_eq!(balancer.now_seconds(), u32::MAX);
        assert_eq!([100, 100].map(|messages| balancer.set_pace(messages)), [2, 0]);
        let runs = || balancer.now_seconds() < u32::MAX;
        assert!(runs() && load().now_seconds() < u32::MAX);
        somebody.stop_clock(Some(u32::MAX));
        assert!(runs(), "what it goes by is its own");
        assert_eq!((balancer.repair_limits(), balancer.repair_limits()), (1, 0));
        assert!(load().now_seconds() < u32::MAX);
        pins.remove().unwrap();
    });
}

#[test]
fn pins_that_another_network_namespace_uses_are_refused_and_left_alone() {
    apart(|root| {
        let pins = Pins::new(&root).unwrap();
        let first = Balancer::load_pinned(&LIMITS, [1, 2], &pins).unwrap();
        let attachment = first.attach("lo", Wish::Auto).unwrap();
        let before = occupant("lo", LOOPBACK).unwrap().unwrap();
        let held = pins.clone();
        // A thread that shares the mounts, and has a loopback interface with the same index.
        let other = std::thread::spawn(move || {
            unshare(CloneFlags::CLONE_NEWNET).unwrap();
            let refused = Balancer::load_pinned(&LIMITS, [3, 4], &held).map(drop);
            let foreign = occupant("lo", LOOPBACK).unwrap();
            // With a program of its own there it is no other's either.
            let own = Balancer::load(&LIMITS, [5, 6]).unwrap();
            let _own = own.attach("lo", Wish::Auto).unwrap();
            (refused, foreign, Balancer::load_pinned(&LIMITS, [3, 4], &held).map(drop))
        });
        let (refused, there, again) = other.join().unwrap();
        for refused in [refused, again] {
            match refused {
                Err(Error::Elsewhere { program, index, .. }) => {
                    assert_eq!((program, index), (before.id, LOOPBACK));
                }
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(there, None);
        assert_eq!(occupant("lo", LOOPBACK).unwrap().unwrap(), before);
        assert_eq!(first.standing(&attachment).unwrap(), Standing::Whole);
        attachment.detach().unwrap();
        pins.remove().unwrap();
    });
}

#[test]
fn a_pin_that_cannot_be_made_again_leaves_the_program_where_it_is() {
    apart(|root| {
        let pins = Pins::new(&root).unwrap();
        let balancer = Balancer::load_pinned(&LIMITS, [1, 2], &pins).unwrap();
        let attachment = balancer.attach("lo", Wish::Auto).unwrap();
        let before = occupant("lo", LOOPBACK).unwrap();
        let again = |flags| {
            mount(None::<&str>, &root, None::<&str>, MsFlags::MS_REMOUNT | flags, None::<&str>).unwrap();
        };
        std::fs::remove_file(link_pin(&root)).unwrap();
        again(MsFlags::MS_RDONLY);
        for _ in 0..2 {
            assert_eq!(balancer.standing(&attachment).unwrap(), Standing::Unpinned);
            let refused = balancer.repin(&attachment).unwrap_err();
            assert!(matches!(refused, Error::Pin { .. }), "{refused}");
            assert_eq!(occupant("lo", LOOPBACK).unwrap(), before);
        }
        again(MsFlags::empty());
        balancer.repin(&attachment).unwrap();
        assert_eq!(balancer.standing(&attachment).unwrap(), Standing::Whole);
        drop((attachment, balancer));
        assert_eq!(occupant("lo", LOOPBACK).unwrap(), before, "it stays without its process");
        pins.remove().unwrap();
    });
}

#[test]
fn a_program_stays_where_it_is_while_there_is_no_other_place_for_it() {
    apart(|root| {
        let pins = Pins::new(&root).unwrap();
        let balancer = Balancer::load_pinned(&LIMITS, [1, 2], &pins).unwrap();
        let mut attachment = balancer.attach("lo", Wish::Auto).unwrap();
        let before = occupant("lo", LOOPBACK).unwrap();
        let rename = |from: &str, to: &str| ip(&format!("link set {from} name {to}"));
        rename("lo", "renamed");
        assert_eq!(balancer.standing(&attachment).unwrap(), Standing::Whole);
        let refused = balancer.reattach(&mut attachment, Wish::Auto).unwrap_err();
        assert!(matches!(refused, Error::NoInterface(_)), "{refused}");
        assert_eq!(occupant("renamed", LOOPBACK).unwrap(), before);
        rename("renamed", "lo");
        assert_eq!(balancer.standing(&attachment).unwrap(), Standing::Whole);
        // Taken off by somebody, it is put back.
        assert!(pins.take_off(LOOPBACK).unwrap());
        assert_eq!(balancer.standing(&attachment).unwrap(), Standing::Gone);
        balancer.reattach(&mut attachment, Wish::Auto).unwrap();
        assert_eq!(balancer.standing(&attachment).unwrap(), Standing::Whole);
        // Its link ended, and still pinned, it is put back as well; a foreign program is told of.
        let aside = root.join("aside");
        std::fs::hard_link(link_pin(&root), &aside).unwrap();
        assert!(pins.take_off(LOOPBACK).unwrap());
        std::fs::rename(&aside, link_pin(&root)).unwrap();
        let foreign = Balancer::load(&LIMITS, [5, 6]).unwrap();
        let held = foreign.attach("lo", Wish::Exactly(Mode::Generic)).unwrap();
        let refused = balancer.reattach(&mut attachment, Wish::Auto).unwrap_err();
        assert!(matches!(refused, Error::Occupied { .. }), "{refused}");
        drop(held);
        balancer.reattach(&mut attachment, Wish::Auto).unwrap();
        assert_eq!(balancer.standing(&attachment).unwrap(), Standing::Whole);
        assert!(attachment.fell_back.is_some(), "why it is in generic mode is known still");
        attachment.detach().unwrap();
        pins.remove().unwrap();
    });
}

#[test]
fn a_grace_period_ends_by_itself() {
    let balancer = match Balancer::load(&LIMITS, [1, 2]) {
        Err(Error::NotPermitted) if std::env::var_os("GUIDEWAY_REQUIRE_PRIVILEGES").is_none() => return,
        loaded => loaded.unwrap(),
    };
    let period = balancer.begin_grace();
    while !balancer.grace_is_over(period) {
        std::thread::yield_now();
    }
    assert!(!balancer.grace_is_over(period + 1));
}

#[test]
fn pins_in_an_ordinary_file_system_are_refused() {
    let root = std::env::temp_dir().join(format!("guideway-no-bpf-{}", std::process::id()));
    let error = Pins::new(&root).unwrap_err().to_string();
    assert!(error.contains("mount -t bpf"), "{error}");
    assert!(!root.exists(), "nothing is made");
}

#[test]
fn directories_of_pins_that_others_can_change_are_refused() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
    let mode = |path: &Path, mode: u32| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    apart(move |mounted| {
        let root = mounted.join("guideway");
        mode(&mounted, 0o1777);
        let pins = Pins::new(&root).unwrap();
        let layout = root.join(format!("v{LAYOUT_VERSION}"));
        for made in [&root, &layout] {
            assert_eq!(std::fs::metadata(made).unwrap().mode() & 0o7777, 0o700);
        }
        let refused = |path: &Path, what: &str| {
            let errors = [Pins::new(&root).map(drop), Pins::find(&root).map(drop), pins.hold().map(drop)];
            for error in errors.map(Result::unwrap_err) {
                assert!(matches!(error, Error::Exposed(_)), "{error}");
                let text = error.to_string();
                assert!(text.contains(&format!("{} {what}", path.display())), "{text}");
                assert!(text.contains(&format!("chown root {}", path.display())), "what to do: {text}");
            }
        };
        for path in [&root, &layout] {
            chown(path, Some(65_534), None).unwrap();
            refused(path, "belongs to user 65534");
            chown(path, Some(0), None).unwrap();
            mode(path, 0o770);
            refused(path, "can be written to by others (mode 0770)");
            mode(path, 0o755);
        }
        mode(&layout, 0o1777);
        refused(&layout, "can be written to by others");
        mode(&layout, 0o700);
        mode(&mounted, 0o777);
        refused(&mounted, "can be written to by others");
        mode(&mounted, 0o1777);
        Pins::new(&root).unwrap().leave();
        assert!(!root.exists(), "an empty one is not left behind");
    });
}

/// The pin of the loopback interface's link.
fn link_pin(root: &Path) -> PathBuf {
    root.join(format!("v{LAYOUT_VERSION}/generic-{LOOPBACK}"))
}

fn inode(path: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(path).unwrap().ino()
}

#[test]
fn maps_and_programs_of_another_layout_are_refused_and_left_alone() {
    apart(|root| {
        let pins = Pins::new(&root).unwrap();
        drop(Balancer::load_pinned(&LIMITS, [1, 2], &pins).unwrap());
        let directory = root.join(format!("v{LAYOUT_VERSION}"));
        // A map whose values have another size, under the name of one of ours.
        std::fs::rename(directory.join("BACKENDS"), directory.join("SERVICES")).unwrap();
        let before = inode(&directory.join("SERVICES"));
        match Balancer::load_pinned(&LIMITS, [1, 2], &pins) {
            Err(error @ Error::Layout { .. }) => {
                let text = error.to_string();
                assert!(text.contains("SERVICES") && text.contains("64") && text.contains("192"), "{text}");
                assert!(text.contains("Take its programs away"), "what to do: {text}");
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(inode(&directory.join("SERVICES")), before);
        // A program of an older or a newer layout that still forwards.
        let mut pin = directory.join("SLOTS");
        for version in [LAYOUT_VERSION - 1, LAYOUT_VERSION + 1] {
            let other = root.join(format!("v{version}"));
            std::fs::create_dir(&other).unwrap();
            std::fs::rename(&pin, other.join("native-7")).unwrap();
            pin = other.join("native-7");
            let error = Pins::new(&root).unwrap_err().to_string();
            assert!(error.contains(&format!("v{version}")) && error.contains("another version"), "{error}");
            assert!(error.contains("stop it and take its programs away"), "what to do: {error}");
            assert!(pin.exists());
        }
        std::fs::remove_file(&pin).unwrap();
        Pins::new(&root).unwrap().remove().unwrap();
        for version in [LAYOUT_VERSION - 1, LAYOUT_VERSION + 1] {
            std::fs::remove_dir(root.join(format!("v{version}"))).unwrap();
        }
    });
}

#[test]
fn pins_that_a_killed_process_had_begun_to_make_are_replaced() {
    apart(|root| {
        let pins = Pins::new(&root).unwrap();
        let first = Balancer::load_pinned(&LIMITS, [1, 2], &pins).unwrap();
        let directory = root.join(format!("v{LAYOUT_VERSION}"));
        let names: Vec<_> = std::fs::read_dir(&directory).unwrap().flatten().map(|pin| pin.path()).collect();
        drop(first);
        for kept in 0..names.len() {
            for pin in names.iter().skip(kept) {
                let _ = std::fs::remove_file(pin);
            }
            assert!(!pins.is_taken());
            let next = Balancer::load_pinned(&LIMITS, [3, 4 + kept as u64], &pins).unwrap();
            assert!(pins.is_taken());
            assert_eq!(next.settings().flow_key(), [3, 4 + kept as u64], "none of the maps is an old one");
        }
        pins.remove().unwrap();
    });
}
