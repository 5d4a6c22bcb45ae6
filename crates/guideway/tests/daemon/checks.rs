//! Checks that fail: over reloads and restarts, all at once, and through the tunnel alone.

use std::time::Duration;

use guideway_testbed::backend::{ECHO_PORT, HTTP_PORT};
use guideway_testbed::client::{EchoFlow, http};
use guideway_testbed::forwarder::Decapsulator;
use guideway_testbed::server::{self, TcpServer};
use guideway_testbed::topology::{Arms, VIPS};
use guideway_testbed::{Program, vips, wait};
use nix::sys::signal::Signal;

use crate::api::{command, get};
use crate::bed::{Bed, Engine, LONG, backends, end, said, signal};
use crate::pool::{Loads, config, eligible, granted, on, run, told};

/// Where the corrected check asks.
const OTHER_PORT: u16 = 8080;

/// Checks in a row that bring a backend back.
const RISE: u16 = 3;

/// Flows of another balancer of the fleet may come at once, and belong to the owners of now.
#[test]
fn a_balancer_that_is_ready_for_the_first_time_has_no_slot_with_an_older_owner() {
    if !granted(Engine::Soft) {
        return;
    }
    let bed = Bed::new("first", Engine::Soft);
    bed.configure(&config("", HTTP_PORT, RISE, &backends(3, |_| "")));
    let daemon = run(&bed);
    for service in get(&bed, "/v1/services").as_array().unwrap() {
        assert_eq!((&service["eligible"], &service["unsettled_slots"]), (&3.into(), &0.into()), "{service}");
    }
    assert!(end(daemon).status.success());
}

/// A backend is down, another drains. Over a change elsewhere, a restart and a corrected check the one takes no packet
/// before its checks have passed as often as is asked for, and the other none at all.
#[test]
fn a_sick_backend_stays_out_over_reloads_and_restarts_until_its_checks_have_passed() {
    if !granted(Engine::Soft) {
        return;
    }
    let mut bed = Bed::new("sick", Engine::Soft);
    let others: Vec<_> = bed
        .network
        .backends
        .iter()
        .map(|host| {
            TcpServer::start(&host.namespace, &[host.v4], OTHER_PORT, server::http(&host.name)).unwrap()
        })
        .collect();
    let three = backends(3, |_| "");
    bed.configure(&config("", HTTP_PORT, RISE, &three));
    let daemon = run(&bed);
    bed.own[1] = None;
    eligible(&bed, 6);
    for service in ["web", "echo", "datagrams"] {
        told(&bed, &format!("drain {service} be3"));
    }
    let loads = Loads::start(&bed);
    loads.more(10);
    loads.over();
    let accepted = |backend: usize| bed.backends[backend].decapsulator.accepted();
    let (sick, draining) = (accepted(1), accepted(2));
    let stays_out = || {
        loads.more(300);
        assert_eq!((accepted(1), accepted(2)), (sick, draining));
    };

    bed.configure(&config("orphans = \"rehash\"", HTTP_PORT, RISE, &three));
    signal(&daemon, Signal::SIGHUP);
    said(&daemon, "guideway.toml is in force");
    stays_out();

    daemon.kill().unwrap();
    let daemon = bed.run();
    stays_out();

    let before = others[1].accepted();
    // Of checks that only open a connection the server hears nothing.
    let asked = config("orphans = \"rehash\"", OTHER_PORT, RISE, &three);
    bed.configure(&asked.replace("kind = \"tcp\"", "kind = \"http\""));
    wait::until_true(LONG, "be2 to be back", || {
        let back = accepted(1) > sick;
        // It is asked after the look at its packets, so what has come by then was asked for before.
        let passed = others[1].accepted() - before;
        assert!(!back || passed >= u64::from(RISE), "back after {passed} checks");
        back
    })
    .unwrap();
    assert_eq!(accepted(2), draining);
    loads.over();
    loads.none_failed();
    assert!(end(daemon).status.success());
}

/// All checks fail: one service goes on with what it has and says so, another refuses its clients, as each is set. One
/// backend well again is enough, and takes everything.
#[test]
fn when_all_checks_fail_each_service_does_as_it_is_set_and_says_so() {
    if !granted(Engine::Soft) {
        return;
    }
    let mut bed = Bed::new("all-red", Engine::Soft);
    let text = config("", HTTP_PORT, 1, &backends(3, |_| ""));
    bed.configure(&text.replace("name = \"echo\"", "name = \"echo\"\nall_down = \"reject\""));
    let daemon = run(&bed);
    bed.own = vec![None, None, None];
    let last_resort =
        |bed: &Bed, service: &str| get(bed, &format!("/v1/services/{service}"))["last_resort"].clone();
    wait::until_true(LONG, "the last resort", || last_resort(&bed, "web") == true).unwrap();
    let client = &bed.network.client.namespace;
    wait::until_true(LONG, "echo to refuse", || EchoFlow::open(client, vips(ECHO_PORT)[0]).is_err()).unwrap();
    assert_eq!(bed.answers(90).len(), 3);
    assert_eq!(last_resort(&bed, "echo"), false);
    let metrics = command(&bed, "metrics").stdout;
    for (service, last_resort) in [("web", 1), ("echo", 0)] {
        let line = format!("guideway_service_last_resort{{service=\"{service}\"}} {last_resort}\n");
        assert!(metrics.contains(&line), "no {line} in\n{metrics}");
    }
    assert_eq!(command(&bed, "status").status.code(), Some(1));
    for vip in vips(ECHO_PORT) {
        let refused = EchoFlow::open(client, vip).unwrap_err().to_string();
        assert!(refused.contains("refused"), "{refused}");
    }

    bed.own[2] = Some(bed.own_server(2));
    wait::until_true(LONG, "the end of the last resort", || last_resort(&bed, "web") == false).unwrap();
    eligible(&bed, 3);
    assert_eq!(bed.answers(60).keys().collect::<Vec<_>>(), ["be3"]);
    let flows = crate::pool::flows(&bed, 10);
    assert_eq!(on(&flows, "be3"), 20);
    assert!(end(daemon).status.success());
}

/// A backend loses the virtual address: its own address answers, but what clients need does not. Checks through the
/// tunnel find it out and say which of the two it is; with the address back, it serves again.
#[test]
fn a_backend_without_the_virtual_address_is_found_out_through_the_tunnel() {
    if !granted(Engine::Xdp) {
        return;
    }
    let bed = Bed::new("tunnel", Engine::Xdp);
    let direct = config("", HTTP_PORT, 1, &backends(3, |_| ""));
    // A probe that is lost while a neighbour is asked for is sent again within this time.
    let patient = direct.replace("\"100ms\"", "\"1500ms\"");
    bed.configure(&patient.replace("via = \"direct\"", "via = \"tunnel\""));
    let daemon = run(&bed);
    lacks_a_route(&bed);
    let loopback = bed.network.backends[1].namespace.link("lo").unwrap();
    for vip in VIPS {
        loopback.remove_address(vip.into()).unwrap();
        let reason = || {
            let health = get(&bed, "/v1/services/web/backends/be2")["health"].clone();
            (health["verdict"] == "down").then(|| health["reason"].clone())
        };
        let reason = wait::until(LONG, "be2 to be down", || reason().ok_or("it is up")).unwrap();
        assert_eq!(reason, "tunnel probe failed, direct probe ok");
        eligible(&bed, 6);
        assert!(!bed.answers(100).contains_key("be2"));
        loopback.add_address(vip.into()).unwrap();
        eligible(&bed, 9);
        let back = || http::get(&bed.network.client.namespace, vips(HTTP_PORT)[0], "/").unwrap();
        wait::until_true(Duration::from_secs(10), "be2 to serve", || back().starts_with("be2 ")).unwrap();
    }
    assert!(end(daemon).status.success());
}

/// Clients come by one link of the balancer, which probes leave by as well, and backends answer it by the other one.
#[test]
fn a_check_through_the_tunnel_hears_a_backend_that_answers_by_another_interface() {
    if !granted(Engine::Xdp) {
        return;
    }
    let bed = Bed::of("two-links", Engine::Xdp, Arms::Two);
    bed.network.part_arms().unwrap();
    let config = config("", HTTP_PORT, 1, &backends(3, |_| "")).replace("\"100ms\"", "\"1500ms\"");
    bed.configure(&config.replace("via = \"direct\"", "via = \"tunnel\""));
    let daemon = run(&bed);
    eligible(&bed, 9);
    bed.serves();
    assert_eq!(get(&bed, "/v1/status")["notes"].to_string().matches("checks through the tunnel").count(), 0);
    assert!(end(daemon).status.success());
}

/// What this host lacks is told as that, and holds nothing against backends.
fn lacks_a_route(bed: &Bed) {
    let balancer = &bed.network.balancers[0].namespace;
    let ip = |words: &str| Program::new("ip").args(words.split(' ')).succeed(balancer, LONG).unwrap();
    let way = ip("-4 route show default");
    ip(&format!("route del {}", way.trim()));
    let last = || get(bed, "/v1/services/web/backends/be1")["health"]["last"].to_string();
    let told = || if last().contains("this host has no route to 192.0.2.10") { Ok(()) } else { Err(last()) };
    wait::until(LONG, "the reason", told).unwrap();
    assert_eq!(get(bed, "/v1/services/web/backends/be1")["health"]["verdict"], "up");
    wait::until_true(LONG, "the fault", || {
        command(bed, "status").stdout.contains("\n! web: the checks of 3 backends")
    })
    .unwrap();
    assert_eq!(command(bed, "status").status.code(), Some(1));
    ip(&format!("route add {}", way.trim()));
    wait::until_true(LONG, "passing checks", || last().contains("tunnel probe ok")).unwrap();
}
