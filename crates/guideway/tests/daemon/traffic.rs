//! What clients see while backends drain, fail and go, and while the daemon is killed in the middle.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use guideway_testbed::backend::ECHO_PORT;
use guideway_testbed::client::{UdpReport, UdpStream};
use guideway_testbed::forwarder::Decapsulator;
use guideway_testbed::{vips, wait};

use crate::api::get;
use crate::bed::{Bed, Engine, LONG, backends, end, said};
use crate::pool::{Loads, config, exchange, flows, granted, on, run, told};

/// The pause between two datagrams of one sender.
const INTERVAL: Duration = Duration::from_millis(10);

#[test]
fn draining_keeps_flows_with_xdp() {
    draining_keeps_flows("drain-xdp", Engine::Xdp);
}

#[test]
fn draining_keeps_flows_with_soft() {
    draining_keeps_flows("drain-soft", Engine::Soft);
}

/// Flows on three backends; one of them drains. No flow breaks, no new connection of thousands goes there, and the
/// number of its flows falls to nothing as clients close.
fn draining_keeps_flows(test: &str, engine: Engine) {
    if !granted(engine) {
        return;
    }
    let bed = Bed::new(test, engine);
    bed.configure(&config("", 80, 1, &backends(3, |_| "")));
    let daemon = run(&bed);
    let mut flows = flows(&bed, 150);
    let loads = Loads::start(&bed);
    loads.more(100);
    let draining = on(&flows, "be2");
    assert!(draining > 50 && on(&flows, "be1") > 50 && on(&flows, "be3") > 50);
    for service in ["echo", "web"] {
        told(&bed, &format!("drain {service} be2"));
    }
    exchange(&mut flows);
    loads.over();
    let (before, answered) = (loads.total(), loads.answered_by("be2"));
    while loads.total() < before + 3_000 {
        exchange(&mut flows);
    }
    assert_eq!(loads.answered_by("be2"), answered);
    let fresh = crate::pool::flows(&bed, 50);
    assert_eq!(on(&fresh, "be2"), 0);
    let live = || {
        let backend = get(&bed, "/v1/services/echo/backends/be2");
        backend["drain"]["live_flows"].as_u64().unwrap()
    };
    wait::until(LONG, "every flow to be counted", || match live() {
        live if live == draining as u64 => Ok(()),
        live => Err(format!("{live} live flows of {draining}")),
    })
    .unwrap();
    flows.iter_mut().for_each(|flows| flows.close_on("be2"));
    wait::until(2 * LONG, "the flows' end", || {
        exchange(&mut flows);
        match live() {
            0 => Ok(()),
            live => Err(format!("{live} live flows")),
        }
    })
    .unwrap();
    loads.none_failed();
    assert!(end(daemon).status.success());
}

/// The daemon is killed in the middle of updates, and of taking over what the one before has left. The kernel goes on:
/// of thousands of requests none fails, no flow breaks or moves, no datagram is lost.
#[test]
fn kills_in_the_middle_of_updates_harm_nobody() {
    if !granted(Engine::Xdp) {
        return;
    }
    let bed = Bed::new("kills", Engine::Xdp);
    bed.configure(&config("", 80, 1, &backends(3, |_| "")));
    let mut daemon = run(&bed);
    let mut flows = flows(&bed, 60);
    let loads = Loads::start(&bed);
    let sender = UdpStream::start(&bed.network.client.namespace, vips(ECHO_PORT)[0], INTERVAL).unwrap();
    loads.more(100);
    for round in 0..9 {
        let state = if round % 2 == 0 { "drain" } else { "ready" };
        // An update that nobody waits for.
        let mut sockets = Vec::new();
        for service in ["web", "echo", "datagrams"] {
            let body = format!("{{\"state\": \"{state}\"}}");
            let mut socket = UnixStream::connect(bed.path("api.sock")).unwrap();
            let head = format!(
                "PUT /v1/services/{service}/backends/be2/admin HTTP/1.1\r\nHost: test\r\nIf-Match: *\r\n"
            );
            write!(socket, "{head}Content-Length: {}\r\n\r\n{body}", body.len()).unwrap();
            sockets.push(socket);
        }
        if round % 3 == 1 {
            // The first of them is answered, the others are on their way.
            sockets[0].read_exact(&mut [0]).unwrap();
        }
        daemon.kill().unwrap();
        loads.more(50);
        exchange(&mut flows);
        if round % 3 == 2 {
            // Killed while it takes over as well.
            let taking_over = bed.start();
            said(&taking_over, "took over the forwarder of an earlier daemon");
            taking_over.kill().unwrap();
            loads.more(50);
            exchange(&mut flows);
        }
        daemon = bed.run();
        loads.more(150);
        exchange(&mut flows);
    }
    for service in ["web", "echo", "datagrams"] {
        told(&bed, &format!("ready {service} be2"));
    }
    loads.over();
    let before = loads.answered_by("be2");
    wait::until_true(LONG, "be2 to serve again", || loads.answered_by("be2") > before).unwrap();
    exchange(&mut flows);
    all_answered(&sender);
    assert!(loads.total() > 2_000);
    loads.none_failed();
    assert!(end(daemon).status.success());
}

/// In user space the forwarder dies with the daemon. Clients send again what was lost, and the next daemon sends every
/// flow where it was.
#[test]
fn a_killed_daemon_in_user_space_comes_back_before_clients_give_up() {
    if !granted(Engine::Soft) {
        return;
    }
    let bed = Bed::new("kills-soft", Engine::Soft);
    // The process has flows in its memory alone: with a verdict that a busy machine brings about, a kill resets those it moved.
    bed.configure(&config("", 80, 1, &backends(3, |_| "")).replace("fall = 2", "fall = 50"));
    let mut daemon = run(&bed);
    let mut flows = flows(&bed, 60);
    let loads = Loads::start(&bed);
    for _ in 0..3 {
        loads.more(500);
        daemon.kill().unwrap();
        daemon = bed.run();
        exchange(&mut flows);
    }
    loads.over();
    loads.none_failed();
    assert!(end(daemon).status.success());
}

#[test]
fn a_fast_sender_of_datagrams_is_followed_with_xdp() {
    a_fast_sender_of_datagrams_is_followed("datagrams-xdp", Engine::Xdp);
}

#[test]
fn a_fast_sender_of_datagrams_is_followed_with_soft() {
    a_fast_sender_of_datagrams_is_followed("datagrams-soft", Engine::Soft);
}

/// A sender that never pauses, on one socket: its backend fails its checks and it is served by another, without one
/// datagram lost; the pool goes to nothing, to another backend, and then the service goes.
fn a_fast_sender_of_datagrams_is_followed(test: &str, engine: Engine) {
    if !granted(engine) {
        return;
    }
    let mut bed = Bed::new(test, engine);
    let text = config("", 80, 1, &backends(3, |_| ""));
    bed.configure(&text);
    let daemon = run(&bed);
    let mut moved = Vec::new();
    for vip in vips(ECHO_PORT) {
        let sender = start(&bed, vip);
        let first = last_backend(&sender.report());
        let number: usize = first.trim_start_matches("be").parse().unwrap();
        bed.own[number - 1] = None;
        wait::until_true(LONG, "answers from elsewhere", || last_backend(&sender.report()) != first).unwrap();
        all_answered(&sender);
        let report = sender.report();
        let turn = report
            .answers
            .iter()
            .find(|(_, (backend, _))| *backend != first)
            .map(|(number, _)| *number)
            .unwrap();
        assert!(report.answers.range(turn..).all(|(_, (backend, _))| *backend != first), "{report:?}");
        assert!(report.errors.is_empty(), "{:?}", report.errors);
        bed.own[number - 1] = Some(bed.own_server(number - 1));
        crate::pool::eligible(&bed, 9);
        moved.push(sender);
    }
    drop(moved);

    let sender = start(&bed, vips(ECHO_PORT)[0]);
    let first = last_backend(&sender.report());
    let accepted =
        |bed: &Bed| bed.backends.iter().map(|backend| backend.decapsulator.accepted()).sum::<u64>();
    for backend in ["be1", "be2", "be3"] {
        told(&bed, &format!("maintenance datagrams {backend}"));
    }
    let refused = || sender.report().errors.values().sum::<u64>();
    wait::until_true(LONG, "the sender to be told", || refused() >= 3).unwrap();
    let (at_zero, told_so_far) = (accepted(&bed), refused());
    wait::until_true(LONG, "the sender to be told again", || refused() >= told_so_far + 20).unwrap();
    assert_eq!(accepted(&bed), at_zero);

    let other = ["be1", "be2", "be3"].into_iter().find(|backend| *backend != first).unwrap();
    told(&bed, &format!("ready datagrams {other}"));
    wait::until_true(LONG, "the other backend to serve", || last_backend(&sender.report()) == other).unwrap();

    // The last service of the text goes.
    let (without, _) = text.rsplit_once("\n[[service]]").unwrap();
    bed.configure(without);
    said(&daemon, "the file was written: ");
    wait::until_true(LONG, "the service's end", || get(&bed, "/v1/status")["services"] == 2).unwrap();
    let sent = |more: u64| {
        let before = sender.report().sent;
        wait::until_true(LONG, "more datagrams", || sender.report().sent >= before + more).unwrap();
    };
    sent(5);
    let at_end = accepted(&bed);
    sent(30);
    assert_eq!(accepted(&bed), at_end);
    assert!(end(daemon).status.success());
}

/// A sender that is answered.
fn start(bed: &Bed, vip: SocketAddr) -> UdpStream {
    let sender = UdpStream::start(&bed.network.client.namespace, vip, INTERVAL).unwrap();
    wait::until_true(LONG, "answers", || sender.report().answers.len() >= 5).unwrap();
    sender
}

fn last_backend(report: &UdpReport) -> String {
    report.answers.last_key_value().map(|(_, (backend, _))| backend.clone()).unwrap()
}

/// Waits until every datagram that was sent up to now is answered.
fn all_answered(sender: &UdpStream) {
    let sent = sender.report().sent;
    wait::until(LONG, "every answer", || {
        let report = sender.report();
        let missing = (1..=sent).filter(|number| !report.answers.contains_key(number)).collect::<Vec<_>>();
        if missing.is_empty() { Ok(()) } else { Err(format!("of {sent} are missing {missing:?}")) }
    })
    .unwrap();
}
