//! The daemon is killed and gone for a while, under as much as operators try it with.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use guideway_testbed::backend::ECHO_PORT;
use guideway_testbed::client::{Flood, FloodKind};
use guideway_testbed::wait;

use crate::api::get;
use crate::bed::{Bed, Engine, LONG, backends, end};
use crate::pool::{config, exchange, flows, granted, run, told};

/// Datagrams a second, and how they are paced.
const A_SECOND: u64 = 20_000;
const AT_ONCE: u32 = 200;
const EVERY: Duration = Duration::from_millis(10);

/// 500 flows and 20,000 datagrams a second, each of a flow of its own. The daemon is killed, nobody is there for ten
/// seconds' worth of datagrams, another one comes, and then a backend drains. Every datagram is forwarded, no flow breaks
/// or moves, no link goes down, and verdicts are as old as they are.
#[test]
fn a_kill_under_500_flows_and_20_000_datagrams_a_second_loses_and_moves_nothing() {
    if !granted(Engine::Xdp) {
        return;
    }
    let bed = Bed::new("numbers", Engine::Xdp);
    // On a slow machine a second of datagrams may take longer than an idle time of seconds.
    let text = config("", 80, 1, &backends(3, |_| "")).replace("idle_tcp = \"5s\"", "idle_tcp = \"15m\"");
    bed.configure(&text);
    let daemon = run(&bed);
    let link = &bed.network.balancers[0].link;
    let carrier = link.carrier_changes().unwrap();
    let mut flows = flows(&bed, 250);
    let owners = |flows: &[guideway_testbed::client::EchoFlows; 2]| {
        flows.each_ref().map(|flows| {
            flows.by_backend().into_iter().map(|(name, count)| (name.to_owned(), count)).collect::<Vec<_>>()
        })
    };
    let before = owners(&flows);
    let mut flood = Flood::prepare(&bed.network).unwrap();
    let (sent, over) = (AtomicU64::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        let ends = Ends(&over);
        scope.spawn(|| {
            while !over.load(Relaxed) {
                flood.send(FloodKind::Udp, ECHO_PORT, AT_ONCE).unwrap();
                sent.fetch_add(u64::from(AT_ONCE), Relaxed);
                thread::sleep(EVERY);
            }
        });
        let more = |seconds: u64| {
            let wanted = sent.load(Relaxed) + seconds * A_SECOND;
            wait::until_true(6 * LONG, "datagrams", || sent.load(Relaxed) >= wanted).unwrap();
        };
        more(1);
        daemon.kill().unwrap();
        for _ in 0..10 {
            more(1);
            exchange(&mut flows);
        }
        let daemon = bed.run();
        let health = get(&bed, "/v1/services/web/backends/be1")["health"].clone();
        assert!(health["verdict"] == "up" && health["age_seconds"].as_f64() > Some(9.0), "{health}");
        for service in ["web", "echo", "datagrams"] {
            told(&bed, &format!("drain {service} be2"));
        }
        more(1);
        exchange(&mut flows);
        assert_eq!(owners(&flows), before);
        drop(ends);
        wait::until(LONG, "every datagram to be forwarded", || {
            let forwarded = get(&bed, "/v1/services/datagrams")["packets_total"].as_u64().unwrap();
            let sent = sent.load(Relaxed);
            if forwarded == sent { Ok(()) } else { Err(format!("{forwarded} of {sent}")) }
        })
        .unwrap();
        assert_eq!(link.carrier_changes().unwrap(), carrier);
        assert!(end(daemon).status.success());
    });
}

/// Ends the flood when it is dropped, by a panic too.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}
