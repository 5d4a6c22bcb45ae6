//! What the configuration says of ends: of drains, of the daemon, of interfaces that are not its any more.

use std::time::{Duration, Instant};

use guideway_testbed::backend::HTTP_PORT;
use guideway_testbed::client::{EchoFlows, http};
use guideway_testbed::kernel::GenericForwarder;
use guideway_testbed::process::Process;
use guideway_testbed::{Program, privilege, vips, wait};
use guideway_xdp::occupant::occupant;
use nix::sys::signal::Signal;

use crate::api::get;
use crate::bed::{Bed, Engine, LONG, backends, config, end, said, signal};
use crate::pool;

/// The configuration with a `[daemon]` section, and these settings of the service.
fn with(daemon: &str, service: &str, backends: &str) -> String {
    let text =
        config("200ms", backends).replace("protocol = \"tcp\"", &format!("protocol = \"tcp\"\n{service}"));
    format!("[daemon]\n{daemon}\n{text}")
}

#[test]
fn a_drain_ends_at_the_configured_deadline_and_the_backend_comes_back_with_the_configuration() {
    if !privilege::granted() {
        return;
    }
    let bed = Bed::new("deadline", Engine::Soft);
    let drain = |n| if n == 1 { ", state = \"draining\"" } else { "" };
    bed.configure(&with("", "drain_timeout = \"1s\"", &backends(3, |_| "")));
    let daemon = bed.run();
    bed.serves();
    wait::until_true(LONG, "three backends", || bed.answers(20).len() == 3).unwrap();
    bed.configure(&with("", "drain_timeout = \"1s\"", &backends(3, drain)));
    said(&daemon, "the deadline of its drain passed");
    bed.configure(&with("", "drain_timeout = \"1s\"", &backends(3, |_| "")));
    wait::until_true(LONG, "be1 again", || bed.answers(20).contains_key("be1")).unwrap();
    // Whoever waits for a drain hears that this ended it, and may go on.
    let waited = bed.command("drain web be2 --wait --timeout 15s");
    assert!(waited.status.success(), "{}", waited.stderr);
    let told = "its deadline passed, and ended the flows that were left";
    assert!(waited.stdout.contains(told) && waited.stdout.contains("maintenance"), "{}", waited.stdout);
    assert!(bed.command("ready web be2").status.success());
    // One that is removed has the same time.
    bed.configure(&with("", "drain_timeout = \"1s\"", &backends(2, |_| "")));
    let cut = || daemon.printed()[1].matches("the deadline of its drain passed").count() == 3;
    wait::until_true(LONG, "the third end", cut).unwrap();
    assert!(end(daemon).status.success());
}

/// A removed backend drains while the daemon is killed: the next one knows its name and since when it drains, and its
/// checks end what it has left when it fails.
#[test]
fn a_removed_backend_drains_on_under_the_next_daemon_from_when_it_began() {
    if !privilege::granted_to::<GenericForwarder>() {
        return;
    }
    let mut bed = Bed::new("removed", Engine::Xdp);
    let settings = "drain_timeout = \"1h\"";
    bed.configure(&with("", settings, &backends(3, |_| "")));
    let daemon = bed.run();
    bed.serves();
    wait::until_true(LONG, "three backends", || bed.answers(20).len() == 3).unwrap();
    bed.configure(&with("", settings, &backends(2, |_| "")));
    said(&daemon, "guideway.toml is in force");
    let drain = || get(&bed, "/v1/drains")[0].clone();
    wait::until_true(LONG, "the drain", || drain()["age_seconds"].as_f64() > Some(2.0)).unwrap();
    daemon.kill().unwrap();
    let daemon = bed.run();
    said(&daemon, "took over the forwarder of an earlier daemon");
    let drained = drain();
    assert_eq!((&drained["backend"], &drained["removed"]), (&"be3".into(), &true.into()), "{drained}");
    assert!(drained["age_seconds"].as_f64() >= Some(1.0), "{drained}");
    assert!(drained["cut_in_seconds"].as_f64().is_some_and(|left| left < 3_599.0), "{drained}");
    bed.own[2] = None;
    let gone = || {
        let service = get(&bed, "/v1/services/web");
        let backends = service["backends"].as_array().unwrap().clone();
        backends.iter().all(|backend| backend["name"] != "be3" || backend["state"] == "down")
    };
    wait::until_true(LONG, "its end", gone).unwrap();
    assert!(end(daemon).status.success());
}

/// Flows, and a command that waits for the drain of `be3` of `echo`, where some of them are.
fn draining(bed: &Bed) -> ([EchoFlows; 2], Process) {
    let mut flows = pool::flows(bed, 12);
    let waiting = bed.start_command("drain echo be3 --wait --timeout 1h");
    wait::until_true(LONG, "the drain", || {
        pool::exchange(&mut flows);
        waiting.printed()[0].contains("busy: ")
    })
    .unwrap();
    (flows, waiting)
}

/// A drain is waited for while the backend is taken out of the configuration: that ends well, and not before its flows have.
#[test]
fn a_drain_that_is_waited_for_goes_on_although_the_backend_is_removed() {
    if !pool::granted(Engine::Soft) {
        return;
    }
    let bed = Bed::new("drain-removed", Engine::Soft);
    let config = |count| {
        let config = pool::config("", HTTP_PORT, 1, &backends(count, |_| ""));
        config.replace("idle_tcp = \"5s\"", "idle_tcp = \"1s\"")
    };
    bed.configure(&config(3));
    let daemon = pool::run(&bed);
    let (mut flows, mut waiting) = draining(&bed);
    bed.configure(&config(2));
    wait::until_true(LONG, "the removal", || {
        pool::exchange(&mut flows);
        get(&bed, "/v1/services/echo/backends/be3")["removed"] == true
    })
    .unwrap();
    // Longer than it takes the command to look.
    for _ in 0..15 {
        pool::exchange(&mut flows);
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(waiting.is_running().unwrap(), "{:?}", waiting.printed());
    flows.iter_mut().for_each(|flows| flows.close_on("be3"));
    let waited = waiting.finish(LONG).unwrap();
    assert_eq!(waited.status.code(), Some(0), "{}{}", waited.stdout, waited.stderr);
    assert!(end(daemon).status.success());
}

/// No drain survives its service: who plans that, looks at the events or waits for a drain hears what it ends.
#[test]
fn the_removal_of_a_service_tells_whose_flows_it_ends() {
    if !pool::granted(Engine::Soft) {
        return;
    }
    let bed = Bed::new("service-removed", Engine::Soft);
    let file = pool::config("", HTTP_PORT, 1, &backends(3, |_| "")).replace("\"5s\"", "\"60s\"");
    bed.configure(&file);
    let daemon = pool::run(&bed);
    let (_flows, waiting) = draining(&bed);
    let stays = |service: &&str| !service.contains("name = \"echo\"");
    let without: Vec<&str> = file.split("[[service]]").filter(stays).collect();
    let other = bed.path("without-echo.toml");
    std::fs::write(&other, without.join("[[service]]")).unwrap();
    let applied = bed.command(&format!("apply {}", other.display()));
    assert!(applied.status.success(), "{}{}", applied.stdout, applied.stderr);
    let ended = applied.stdout.lines().find(|line| line.ends_with("remembered flows end"));
    let ended = ended.unwrap_or_else(|| panic!("{}", applied.stdout));
    assert!(ended.contains("every flow to it ends") && !ended.contains(": 0 "), "{ended}");
    let events = get(&bed, "/v1/events");
    let event = |text: &str| {
        let mut events = events.as_array().unwrap().iter();
        events.find(|event| event["service"] == "echo" && event["text"].as_str().unwrap().starts_with(text))
    };
    let removal = event("removed: ").unwrap();
    assert_eq!(removal["grade"], "warning", "{removal}");
    assert!(event("its service was removed: ").is_some_and(|event| event["backend"] == "be3"), "{events}");
    assert!(event("drained after").is_none(), "{events}");
    let waited = waiting.finish(LONG).unwrap();
    assert_eq!(waited.status.code(), Some(1), "{}{}", waited.stdout, waited.stderr);
    assert!(waited.stderr.contains("echo was removed from the configuration"), "{}", waited.stderr);
    assert!(end(daemon).status.success());
}

#[test]
fn interfaces_come_from_the_configuration_and_one_that_is_dropped_is_let_go() {
    if !privilege::granted() {
        return;
    }
    let bed = Bed::new("interfaces", Engine::Xdp);
    let host = &bed.network.balancers[0];
    let name = host.link.name();
    Program::new("ip")
        .args("link add other0 type veth peer name other1".split(" "))
        .succeed(&host.namespace, LONG)
        .unwrap();
    let index = host.namespace.run(|| nix::net::if_::if_nametoindex("other0").unwrap()).unwrap();
    let there = || host.namespace.run(|| occupant("other0", index).unwrap().is_some()).unwrap();
    let both = format!("interfaces = [\"{name}\", \"other0\"]\non_exit = \"keep\"");
    bed.configure(&with(&both, "", &backends(3, |_| "")));
    let daemon = bed.run_where_configured();
    bed.serves();
    assert!(there());
    assert!(end(daemon).status.success());
    assert!(there(), "kept, as the configuration says");
    let daemon = bed.run();
    said(&daemon, "took over the forwarder");
    assert!(!there(), "the command line names one interface alone");
    said(&daemon, "nothing forwards at other0 any more");
    bed.configure(&with("shutdown_grace = \"2s\"", "", &backends(3, |_| "")));
    said(&daemon, "is in force");
    bed.serves();
    let asked = Instant::now();
    signal(&daemon, Signal::SIGTERM);
    said(&daemon, "forwarding on for 2 s");
    let vip = vips(HTTP_PORT)[0];
    http::get(&bed.network.client.namespace, vip, "/").unwrap();
    while asked.elapsed() < Duration::from_secs(1) {
        http::get(&bed.network.client.namespace, vip, "/").unwrap();
    }
    assert!(daemon.finish(LONG).unwrap().status.success());
    assert!(http::get(&bed.network.client.namespace, vip, "/").is_err());
}

#[test]
fn a_next_hop_that_the_configuration_names_is_where_frames_go() {
    if !privilege::granted() {
        return;
    }
    let bed = Bed::new("mac", Engine::Soft);
    let mac = |hop: &str| {
        config("200ms", &backends(3, |_| ""))
            .replace("[underlay]", &format!("[underlay]\nnext_hop_mac = \"{hop}\""))
    };
    bed.configure(&mac("02:00:00:00:00:77"));
    let daemon = bed.run();
    said(&daemon, "go to 02:00:00:00:00:77 by");
    assert!(http::get(&bed.network.client.namespace, vips(HTTP_PORT)[0], "/").is_err());
    bed.configure(&config("200ms", &backends(3, |_| "")));
    bed.serves();
    assert!(end(daemon).status.success());
}
