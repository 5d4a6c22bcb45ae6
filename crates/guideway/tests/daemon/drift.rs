//! Somebody writes into the kernel's maps and takes the program away: it is found, told and put right.

use std::fs;
use std::path::PathBuf;

use aya::maps::{Array, Map, MapData};
use guideway_testbed::kernel::pass_all;
use guideway_testbed::process::Process;
use guideway_testbed::{Program, privilege, wait};
use guideway_xdp::occupant::occupant;
use guideway_xdp::pins::Pins;

use crate::api::get;
use crate::bed::{Bed, Engine, LONG, backends, config, end, said, times_said};

/// A pinned map of the daemon's.
fn pinned(bed: &Bed, name: &str) -> MapData {
    let layout = fs::read_dir(bed.pins()).unwrap().flatten().next().unwrap().path();
    MapData::from_pin(layout.join(name)).unwrap()
}

/// Flips bits of a word of an entry.
fn flip<const WORDS: usize>(bed: &Bed, map: &str, entry: u32, word: usize, bits: u64) {
    let mut map = Array::<_, [u64; WORDS]>::try_from(Map::Array(pinned(bed, map))).unwrap();
    let mut words = map.get(&entry, 0).unwrap();
    words[word] ^= bits;
    map.set(entry, words, 0).unwrap();
}

fn repairs(bed: &Bed, kind: &str) -> u64 {
    get(bed, "/v1/status")["drift"]["repairs_total"][kind].as_u64().unwrap()
}

#[test]
fn what_somebody_changes_in_the_kernel_is_put_right_and_told() {
    if !privilege::granted() {
        return;
    }
    let bed = Bed::new("drift", Engine::Xdp);
    bed.configure(&config("200ms", &backends(3, |_| "")));
    let daemon = bed.run();
    bed.serves();
    said(&daemon, "3 backends take new flows");
    let put_right = |kind: &str| {
        wait::until_true(LONG, kind, || repairs(&bed, kind) > 0).unwrap();
        assert_eq!(bed.answers(60).len(), 3, "{kind}");
    };

    // Both places that the service listens on are gone, and their addresses. The lines that are not empty are few, so that
    // all are gone before any is put right.
    let mut directory = Array::<_, [u64; 8]>::try_from(Map::Array(pinned(&bed, "DIRECTORY"))).unwrap();
    let is_empty = |line: &u32| directory.get(line, 0).unwrap() == [0; 8];
    let lines: Vec<_> = (0..directory.len()).filter(|line| !is_empty(line)).collect();
    for line in lines {
        directory.set(line, [0; 8], 0).unwrap();
    }
    put_right("directory");

    let mut slots = Array::<_, [u32; 16]>::try_from(Map::Array(pinned(&bed, "SLOTS"))).unwrap();
    let line = slots.get(&1, 0).unwrap();
    slots.set(1, [0; 16], 0).unwrap();
    put_right("slot");
    assert_eq!(slots.get(&1, 0).unwrap(), line);

    let link = &bed.network.balancers[0].link;
    let namespace = &bed.network.balancers[0].namespace;
    let there = || namespace.run(|| occupant(link.name(), link.index()).unwrap()).unwrap();
    let pins = Pins::new(bed.pins()).unwrap();
    assert!(there().is_some() && pins.take_off(link.index()).unwrap() && there().is_none());
    put_right("link");
    assert!(there().is_some());

    let removed: PathBuf = fs::read_dir(bed.pins()).unwrap().flatten().next().unwrap().path().join("SENT");
    fs::remove_file(&removed).unwrap();
    put_right("pin");
    assert!(removed.exists());

    // A slot that has settled on the first backend is nought by itself.
    let wrong = line.iter().filter(|word| **word != 0).count();
    let repaired = [repairs(&bed, "directory"), repairs(&bed, "slot"), repairs(&bed, "link")];
    assert_eq!(repaired, [4, wrong as u64, 1]);
    let told = daemon.printed()[1].clone();
    let slots = format!("{wrong} slots of the table");
    for text in ["4 entries of the maps", &slots, "the program was not at", "the pin of a map"] {
        assert_eq!(told.matches(text).count(), 1, "{text}: {told}");
    }
    assert!(end(daemon).status.success());
}

/// Lets the daemon have so many files open; a limit such as `24:24` it may not raise itself.
fn limit_files(bed: &Bed, daemon: &Process, most: &str) {
    let words = [format!("--pid={}", daemon.id()), format!("--nofile={most}")];
    Program::new("prlimit").args(words).succeed(&bed.network.balancers[0].namespace, LONG).unwrap();
}

#[test]
fn a_daemon_without_descriptors_tells_which_limit_to_raise_and_leaves_its_program_alone() {
    if !privilege::granted() {
        return;
    }
    let bed = Bed::new("descriptors", Engine::Xdp);
    let config = config("200ms", &backends(3, |_| ""));
    bed.configure(&format!("[daemon]\ndrift_interval = \"1s\"\n\n{config}"));
    let daemon = bed.run();
    bed.serves();
    said(&daemon, "3 backends take new flows");
    limit_files(&bed, &daemon, "3:");
    said(&daemon, "cannot be told, and it is left alone");
    let log = daemon.printed()[1].clone();
    let told = log.lines().find(|line| line.contains("whether the program is at")).unwrap();
    assert!(told.contains("Too many open files") && told.contains("LimitNOFILE="), "{told}");
    assert_eq!(bed.answers(60).len(), 3);
    limit_files(&bed, &daemon, "1024:");
    said(&daemon, "whether the program is at its interfaces can be told again");
    for text in ["the program is not at", "the program was not at", "pins"] {
        assert_eq!(times_said(&daemon, text), 0, "{text}: {}", daemon.printed()[1]);
    }
    let interfaces = get(&bed, "/v1/status")["interfaces"].clone();
    assert!(interfaces[0].get("lost").is_none() && repairs(&bed, "link") == 0, "{interfaces}");
    assert!(bed.command("metrics").stdout.contains("guideway_drift_failing{kind=\"unknown\"} 0\n"));
    assert!(end(daemon).status.success());
}

#[test]
fn a_daemon_without_descriptors_still_takes_its_program_away_at_its_end() {
    if !privilege::granted() {
        return;
    }
    for limit in ["3:", "24:24"] {
        let bed = Bed::new("reserve", Engine::Xdp);
        let config = config("200ms", &backends(3, |_| ""));
        bed.configure(&format!("[daemon]\ndrift_interval = \"1s\"\n\n{config}"));
        let daemon = bed.run();
        bed.serves();
        let (link, namespace) = (&bed.network.balancers[0].link, &bed.network.balancers[0].namespace);
        let program = || namespace.run(|| occupant(link.name(), link.index()).unwrap()).unwrap();
        assert!(program().is_some());
        limit_files(&bed, &daemon, limit);
        said(&daemon, "Too many open files");
        assert!(end(daemon).status.success());
        assert!(program().is_none(), "{limit}");
    }
}

#[test]
fn an_interface_that_is_made_anew_is_read_again_in_software() {
    if !privilege::granted() {
        return;
    }
    let mut bed = Bed::new("anew-soft", Engine::Soft);
    let config = config("200ms", &backends(3, |_| ""));
    bed.configure(&format!("[daemon]\ndrift_interval = \"1s\"\n\n{config}"));
    let daemon = bed.run();
    bed.serves();
    let space = bed.network.balancers[0].namespace.clone();
    let before = bed.network.balancers[0].link.index();
    Program::new("ip").args(["link", "delete", "dev", "eth0"]).succeed(&space, LONG).unwrap();
    let faults = || get(&bed, "/v1/status")["faults"].to_string();
    let lost =
        "the packet socket has lost eth0 and cannot be bound there again: there is no interface `eth0`";
    wait::until_true(LONG, "a fault", || faults().contains(lost)).unwrap();

    bed.network.link_again(1).unwrap();
    let now = bed.network.balancers[0].link.index();
    assert_ne!(before, now);
    said(&daemon, "the packet socket had lost eth0: ");
    bed.serves();
    said(&daemon, "packets are forwarded at all interfaces again");
    let status = get(&bed, "/v1/status");
    assert_eq!(status["interfaces"][0]["index"], now, "{status}");
    assert!(
        status["interfaces"][0].get("lost").is_none() && status["drift"]["failing"] == serde_json::json!({})
    );
    assert_eq!(status["drift"]["repairs_total"]["link"], 1);
    assert!(end(daemon).status.success());
}

#[test]
fn a_kernel_that_routes_beside_the_software_engine_is_told_until_it_does_no_more() {
    if !privilege::granted() {
        return;
    }
    let bed = Bed::new("routed-soft", Engine::Soft);
    let config = config("200ms", &backends(3, |_| ""));
    bed.configure(&format!("[daemon]\ndrift_interval = \"1s\"\n\n{config}"));
    let space = &bed.network.balancers[0].namespace;
    let settings = ["ipv4/conf/eth0/forwarding", "ipv6/conf/all/forwarding"];
    settings.iter().for_each(|setting| space.set(setting, "1").unwrap());
    let daemon = bed.run();
    let notes = || get(&bed, "/v1/status")["notes"].to_string();
    for (setting, family) in settings.into_iter().zip(["IPv4", "IPv6"]) {
        said(&daemon, &format!("the kernel routes {family} that comes by eth0"));
        assert!(notes().contains(&format!("sysctl -w net/{setting}=0")), "{}", notes());
        space.set(setting, "0").unwrap();
        wait::until_true(LONG, "no note", || !notes().contains(setting)).unwrap();
    }
    assert!(end(daemon).status.success());
}

#[test]
fn a_link_that_loses_what_native_mode_sends_is_told_until_it_does_no_more() {
    if !privilege::granted() {
        return;
    }
    let bed = Bed::new("egress", Engine::Native);
    let passes = pass_all(&bed.network.balancers[0]).unwrap();
    let config = config("200ms", &backends(3, |_| ""));
    bed.configure(&format!("[daemon]\ndrift_interval = \"1s\"\n\n{config}"));
    let daemon = bed.run();
    bed.serves();
    let status = || get(&bed, "/v1/status");
    assert_eq!(status()["interfaces"][0]["mode"], "native");
    assert_eq!(status()["faults"].as_array().unwrap().len(), 0);

    drop(passes);
    let fault = || status()["faults"].to_string();
    wait::until_true(LONG, "a fault", || fault().contains("does not send it")).unwrap();
    let named = fault();
    for text in ["10.0.0.1, 10.0.0.2, 10.0.0.3", "has no XDP program", "--xdp-mode generic"] {
        assert!(named.contains(text), "{text}: {named}");
    }
    let _passes = pass_all(&bed.network.balancers[0]).unwrap();
    wait::until_true(LONG, "no fault", || fault() == "[]").unwrap();
    bed.serves();
    let told = daemon.printed()[1].clone();
    for text in ["is lost, it is one end of a veth pair", "arrives again"] {
        assert_eq!(told.matches(text).count(), 1, "{text}: {told}");
    }
    assert!(end(daemon).status.success());
}

#[test]
fn what_was_changed_while_no_daemon_was_at_work_is_put_right_as_well() {
    if !privilege::granted() {
        return;
    }
    let bed = Bed::new("drift-killed", Engine::Xdp);
    bed.configure(&config("200ms", &backends(3, |_| "")));
    let daemon = bed.run();
    bed.serves();
    said(&daemon, "3 backends take new flows");
    daemon.kill().unwrap();
    // A clock that stands in the last second that there is, the outer checksums of each backend, the keys of each hash.
    flip::<8>(&bed, "PACE", 0, 2, 1 << 32);
    (0..8).for_each(|backend| flip::<8>(&bed, "BACKENDS", backend, 7, 0x55));
    (0..2).for_each(|service| flip::<24>(&bed, "SERVICES", service, 10, 0x55));
    (0..2).for_each(|service| flip::<24>(&bed, "SERVICES", service, 18, 0x55));
    flip::<16>(&bed, "SETTINGS", 0, 11, 0x55);
    fs::remove_file(bed.pin("FLOWS")).unwrap();

    let daemon = bed.run();
    said(&daemon, "took over the forwarder");
    // Records of backends are written anew at each start.
    for (kind, many) in [("service", 1), ("settings", 2), ("pin", 1)] {
        wait::until_true(LONG, kind, || repairs(&bed, kind) >= many).unwrap();
    }
    bed.serves();
    assert_eq!(bed.answers(60).len(), 3);
    assert!(end(daemon).status.success());
}
