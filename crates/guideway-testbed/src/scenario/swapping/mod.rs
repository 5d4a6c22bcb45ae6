//! Tables swapped by the thousand, and a sink that counts every packet.
//!
//! A sender and a sink share the balancer's link. The sender never has more packets under way than their queues hold, so
//! a packet that does not come was lost by the balancer. The sink knows whose each packet may be: of an open flow, the
//! backend that got its SYN; of a SYN, an owner of its slot in a table that was in force while it was under way.

mod fleet;
mod traffic;

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use guideway_forward::outcome::Kind;
use guideway_forward::{Event, Outcome};
use guideway_soft::Limits;

use crate::bed::LIMITS;
use crate::forwarder::{Balancer, Forwarder};
use crate::topology::{Network, Plan};
use fleet::{Fleet, Oracle};
use traffic::Traffic;

const SWAPS: usize = 10_000;

/// Packets that the sink has to have checked between two swaps.
const PACKETS_A_SWAP: u64 = 16;

/// Packets that it checks at most for each swap: on a slow machine too, the number of flows is bounded.
const MOST_A_SWAP: u64 = 32;

/// Backends are drained and come back, are removed and added again, and change their weight, 10,000 times; each change
/// is another table. No packet is lost, none comes twice, and none goes to a backend that it does not belong to.
pub fn ten_thousand_swaps_lose_and_misdirect_no_packet<F: Forwarder>() {
    let network = Network::build(&Plan { balancers: 1, backends: 0, ..Plan::default() }).unwrap();
    let host = &network.balancers[0];
    let mut fleet = Fleet::new(host);
    // Fifty for each flow of the test, so that none has to be forgotten for another.
    let limits = Limits { flows: 1 << 21, ..LIMITS };
    let balancer = Balancer::<F>::start(host, limits, vec![fleet.service()]).unwrap();
    let oracle = Oracle::new(fleet.owners());
    let over = Over(AtomicBool::new(false));
    let mut traffic = Traffic::new(host, &oracle);
    let sent = thread::scope(|scope| {
        // Told to end when this scope ends, by a panic too.
        let over = &over;
        let _ends = Ends(over);
        let swapper = scope.spawn(|| {
            for swap in 1..=SWAPS {
                while oracle.checked() < swap as u64 * PACKETS_A_SWAP {
                    if over.is_asked() {
                        return;
                    }
                    thread::yield_now();
                }
                let (change, moved) = fleet.change(oracle.last());
                oracle.begin(fleet.owners());
                let made = change.make(&mut balancer.controller(), &fleet).unwrap();
                oracle.end();
                assert_eq!(made.moved, moved, "{change:?}");
            }
        });
        while !swapper.is_finished() {
            if oracle.checked() < (oracle.whole() as u64 + 1) * MOST_A_SWAP {
                traffic.round();
            } else {
                thread::yield_now();
            }
        }
        swapper.join().unwrap();
        traffic.round();
        traffic.sent()
    });
    let totals = balancer.totals();
    let evicted = totals.event(Event::FlowEvicted);
    assert!(traffic.misdirected().is_empty(), "{evicted} flows evicted, and {:?}", traffic.misdirected());
    assert_eq!(totals.outcome(Outcome::Forwarded).packets, sent);
    for kind in [Kind::Answered, Kind::Dropped] {
        assert_eq!(totals.kind(kind).packets, 0, "{kind:?}");
    }
    for event in [Event::FlowInsertFailed, Event::FlowVoid, Event::MidflowNoEntry] {
        assert_eq!(totals.event(event), 0, "{event:?}");
    }
    assert!(totals.event(Event::FlowHit) > 0 && totals.event(Event::FlowAdopted) > 0);
    assert!(traffic.certain() > 0, "no SYN had a single possible owner");
}

/// Whether the swaps are to end.
struct Over(AtomicBool);

impl Over {
    fn is_asked(&self) -> bool {
        self.0.load(Relaxed)
    }
}

/// Ends the swaps when it is dropped.
struct Ends<'a>(&'a Over);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.0.store(true, Relaxed);
    }
}
