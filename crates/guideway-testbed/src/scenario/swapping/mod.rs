//! Tables swapped by the thousand, and a sink that counts every packet.
//!
//! A sender and a sink share the balancer's link. The sender never has more packets under way than their queues hold, so
//! a packet that does not come was lost by the balancer. The sink knows whose each packet may be: of an open flow, the
//! backend that got its SYN; of a SYN, an owner of its slot in a table that was in force while it was under way.
//!
//! Time is the test's: it passes at each swap, so that prior tables are given up, slots settle and regions are used again
//! thousands of times within seconds.

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
use fleet::{Fleet, IDLE_SECONDS, Oracle, Random};
use traffic::{ROUND, Traffic};

const SWAPS: usize = 10_000;

/// One swap in so many is to a table of another size or seed, in another region of the slots. By the time of the next
/// one the service has given up the prior table, which takes its idle time and two seconds more.
const SWAPS_A_FLIP: usize = 4;

/// What passes at each swap, by a clock that the test puts forward. Between two packets of a flow there are three swaps
/// at most, and one that has done no more than open is remembered for 30 s.
const STEP_SECONDS: u32 = 9;

const _: () =
    assert!(SWAPS_A_FLIP as u32 * STEP_SECONDS > IDLE_SECONDS + 2 && 3 * STEP_SECONDS < IDLE_SECONDS);

/// Backends are drained and come back, are removed and added again, change their weight, and tables their size and seed,
/// 10,000 times; each change is another table. No packet is lost, none comes twice, and none goes to a backend that it
/// does not belong to.
pub fn ten_thousand_swaps_lose_and_misdirect_no_packet<F: Forwarder>() {
    let network = Network::build(&Plan { balancers: 1, backends: 0, ..Plan::default() }).unwrap();
    let host = &network.balancers[0];
    let mut fleet = Fleet::new(host);
    // A hundred for each flow of the test, and little to look through at each swap.
    let limits = Limits { flows: 1 << 12, ..LIMITS };
    let balancer = Balancer::<F>::start(host, limits, vec![fleet.service()]).unwrap();
    let oracle = Oracle::new(fleet.table());
    let over = Over(AtomicBool::new(false));
    let mut traffic = Traffic::new(host, &oracle);
    let (sent, flips) = thread::scope(|scope| {
        // Told to end when this scope ends, by a panic too.
        let over = &over;
        let _ends = Ends(over);
        let swapper = scope.spawn(|| swap(&balancer, &mut fleet, &oracle, over));
        while !swapper.is_finished() {
            // No more than a round ahead, so that no flow is silent for long by the clock of the swaps.
            if oracle.rounds() < oracle.whole() + 2 {
                traffic.round();
            } else {
                thread::yield_now();
            }
        }
        let flips = swapper.join().unwrap();
        traffic.round();
        (traffic.sent(), flips)
    });
    assert_eq!(flips, SWAPS / SWAPS_A_FLIP);
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

/// Swaps tables, each while a round of packets is on its way through the balancer, and says how often it was to another
/// region.
fn swap<F: Forwarder>(balancer: &Balancer<F>, fleet: &mut Fleet, oracle: &Oracle, over: &Over) -> usize {
    let mut random = Random(SWAPS as u64);
    let mut table = fleet.table();
    let mut flips = 0;
    for swap in 0..SWAPS {
        let flip = swap % SWAPS_A_FLIP == 0;
        let (change, moved) = if flip { (fleet.change_table(), None) } else { fleet.change(&table) };
        table = fleet.table();
        let due = swap as u64 * ROUND + random.below(ROUND);
        while oracle.sent() < due {
            if over.is_asked() {
                return flips;
            }
            thread::yield_now();
        }
        oracle.begin(table.clone());
        let mut controller = balancer.controller();
        let made = change.make(&mut controller, fleet).unwrap();
        oracle.end();
        assert!(!made.resize_waits, "{change:?}, but the prior table is still consulted");
        assert_eq!(made.moved, moved.unwrap_or(made.moved), "{change:?}");
        flips += usize::from(flip);
        balancer.forwarder().advance(STEP_SECONDS);
        controller.tick();
    }
    flips
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
