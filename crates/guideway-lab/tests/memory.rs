//! The memory that the experiment `cost` tells of is what the allocator has handed out.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use guideway_hash::TableSize;
use guideway_hash::policy::{
    Balancer, Candidate, Jump, Maglev, Modulo, Policy, Rendezvous, RendezvousTable, Ring,
};
use guideway_lab::cost::{self, Settings};
use guideway_lab::{Contender, Execution};

thread_local! {
    /// Bytes that this thread holds.
    static HELD: Cell<isize> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: every call is handed to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        HELD.with(|held| held.set(held.get() + layout.size() as isize));
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.with(|held| held.set(held.get() - layout.size() as isize));
        // SAFETY: the caller keeps the contract of `dealloc`, and all memory is the system's.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// What `policy` holds once it knows `backends` backends.
fn held_by(mut policy: Box<dyn Policy>, backends: u32) -> usize {
    let names: Vec<String> = (1..=backends).map(|i| format!("10.0.{}.{}:443", i >> 8, i & 255)).collect();
    let candidates: Vec<_> = names.iter().map(Candidate::new).collect();
    let before = HELD.with(Cell::get);
    policy.reconcile(&candidates).unwrap();
    (HELD.with(Cell::get) - before) as usize
}

#[test]
fn memory_is_what_the_allocator_says() {
    let size = TableSize::new(4093).unwrap();
    let settings =
        Settings { rounds: 1, backends: vec![300], slots: vec![size], look_ups: 1, ..Settings::default() };
    for row in cost::run(&settings, &Execution::default()).unwrap().rows {
        let policy: Box<dyn Policy> = match row.policy {
            Contender::Maglev => Box::new(Balancer::new(Maglev::new(size))),
            Contender::RendezvousTable => Box::new(Balancer::new(RendezvousTable::new(size))),
            Contender::Rendezvous => Box::new(Balancer::new(Rendezvous)),
            Contender::Ring(points) => Box::new(Balancer::new(Ring::new(points))),
            Contender::Jump => Box::new(Balancer::new(Jump)),
            Contender::Modulo => Box::new(Balancer::new(Modulo)),
        };
        let told = match row.policy {
            // One number, which lies in the policy itself.
            Contender::Jump | Contender::Modulo => row.roster_bytes,
            _ => row.roster_bytes + row.bytes,
        };
        assert_eq!(held_by(policy, 300), told, "{row:?}");
    }
}
