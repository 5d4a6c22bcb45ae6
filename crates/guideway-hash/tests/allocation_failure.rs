//! Memory that can't be had leaves the last good state in place, wherever in a reconcile it runs out.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use guideway_hash::policy::{
    Balancer, Candidate, Jump, Maglev, Modulo, Policy, ReconcileError, Rendezvous, RendezvousTable, Ring,
    Update,
};
use guideway_hash::{TableSize, churn::flow_hashes};

thread_local! {
    /// Allocations that this thread may still make; `None` for as many as it likes.
    static ALLOWANCE: Cell<Option<usize>> = const { Cell::new(None) };
}

struct Rationed;

// SAFETY: every call is handed to the system's allocator unchanged, or answered with null, which means failure.
unsafe impl GlobalAlloc for Rationed {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let granted = ALLOWANCE.with(|allowance| match allowance.get() {
            Some(0) => false,
            Some(left) => {
                allowance.set(Some(left - 1));
                true
            }
            None => true,
        });
        if !granted {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`, and all memory is the system's.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static RATIONED: Rationed = Rationed;

#[test]
fn running_out_of_memory_changes_nothing() {
    let size = TableSize::new(251).unwrap();
    let policies: [Box<dyn Policy>; 6] = [
        Box::new(Balancer::new(Maglev::new(size))),
        Box::new(Balancer::new(Rendezvous)),
        Box::new(Balancer::new(RendezvousTable::new(size))),
        Box::new(Balancer::new(Ring::new(10))),
        Box::new(Balancer::new(Jump)),
        Box::new(Balancer::new(Modulo)),
    ];
    let names: Vec<_> = (0..20).map(|number| format!("10.0.0.{number}:443")).collect();
    let list: Vec<_> = names
        .iter()
        .zip([1, 2].iter().cycle())
        .map(|(name, &w)| Candidate::new(name).with_weight(w))
        .collect();
    for mut policy in policies {
        policy.reconcile(&list[..19]).unwrap();
        let before: Vec<_> = flow_hashes(300).map(|hash| policy.pick_hash(hash)).collect();
        let mut allowance = 0;
        loop {
            ALLOWANCE.set(Some(allowance));
            let result = policy.reconcile(&list);
            ALLOWANCE.set(None);
            match result {
                Err(error) => {
                    assert_eq!(error, ReconcileError::Allocation, "{} after {allowance}", policy.name());
                    assert_eq!(policy.generation(), 1);
                    assert!(flow_hashes(300).map(|hash| policy.pick_hash(hash)).eq(before.iter().copied()));
                }
                Ok(update) => {
                    assert!(matches!(update, Update::Rebuilt { generation: 2, .. }));
                    break;
                }
            }
            allowance += 1;
        }
        assert!(allowance >= 3, "{} made {allowance} allocations", policy.name());
    }
}
