//! The service manager, and the privileges that it leaves the daemon.

use std::os::unix::net::UnixDatagram;

use guideway_testbed::{privilege, wait};
use nix::sys::signal::Signal;

use crate::bed::{Bed, Engine, LONG, backends, config, end, said, signal};

#[test]
fn the_service_manager_hears_when_the_daemon_is_ready_reloads_lives_and_ends() {
    if !privilege::granted() {
        return;
    }
    let bed = Bed::new("manager", Engine::Soft);
    bed.configure(&config("200ms", &backends(2, |_| "")));
    let path = bed.path("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(LONG)).unwrap();
    let environment = [format!("NOTIFY_SOCKET={}", path.display()), "WATCHDOG_USEC=200000".to_owned()];
    let daemon = bed.start_under("env", &environment);
    let mut heard: Vec<String> = Vec::new();
    let hear = |text: &str, what: &mut Vec<String>| {
        let mut buffer = [0; 4096];
        while !what.iter().any(|told| told.contains(text)) {
            let length =
                socket.recv(&mut buffer).unwrap_or_else(|error| panic!("no {text:?} ({error}) in {what:?}"));
            what.push(String::from_utf8_lossy(&buffer[..length]).into_owned());
        }
    };
    hear("READY=1", &mut heard);
    hear("STATUS=1 service, 2 backends", &mut heard);
    // Fed for as long as it lives, not once.
    for _ in 0..3 {
        heard.clear();
        hear("WATCHDOG=1", &mut heard);
    }
    heard.clear();
    signal(&daemon, Signal::SIGHUP);
    hear("RELOADING=1", &mut heard);
    let reloading = heard.iter().find(|told| told.contains("RELOADING=1")).unwrap();
    let stamp = reloading.lines().find_map(|line| line.strip_prefix("MONOTONIC_USEC=")).unwrap();
    assert!(stamp.parse::<u64>().unwrap() > 0);
    hear("READY=1", &mut heard);
    bed.configure("[[service]]\nname = \"web\"\nwieght = 3\n");
    hear("STATUS=the last reload failed", &mut heard);
    signal(&daemon, Signal::SIGTERM);
    hear("STOPPING=1", &mut heard);
    assert!(daemon.finish(LONG).unwrap().status.success());
}

#[test]
fn the_capabilities_of_the_unit_suffice() {
    if !privilege::granted() {
        return;
    }
    let unit = include_str!("../../../../packaging/systemd/guideway.service");
    let allowed = unit.lines().find_map(|line| line.strip_prefix("CapabilityBoundingSet=")).unwrap();
    let allowed: Vec<String> = allowed
        .split_whitespace()
        .map(|name| format!("+{}", name.strip_prefix("CAP_").unwrap().to_ascii_lowercase()))
        .collect();
    let sets = format!("-all,{}", allowed.join(","));
    let limits = ["--no-new-privs".to_owned(), format!("--bounding-set={sets}")];
    for engine in [Engine::Soft, Engine::Xdp] {
        let bed = Bed::new(&format!("capabilities-{engine:?}"), engine);
        bed.configure(&config("200ms", &backends(2, |_| "")));
        let daemon = bed.start_under("setpriv", &limits);
        said(&daemon, "ready: ");
        bed.serves();
        wait::until_true(LONG, "two backends", || bed.answers(10).len() == 2).unwrap();
        assert_eq!(bed.command("status").status.code(), Some(0), "{engine:?}: {}", daemon.printed()[1]);
        assert!(end(daemon).status.success());
    }
}
