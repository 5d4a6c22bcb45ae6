//! Grace periods: when has every packet thread let go of what the controller took away?
//!
//! Each thread says, between batches, up to which epoch it has seen the controller's changes. What was unlinked before
//! an epoch began may be reused when all threads have reached it.

use std::sync::atomic::{AtomicU64, Ordering};

/// The epochs of one forwarder and its packet threads.
#[derive(Debug)]
pub(crate) struct Epochs {
    current: AtomicU64,
    threads: Box<[Seen]>,
}

/// What one thread has seen; [`ABSENT`] while there is no such thread. On its own cache lines.
#[derive(Debug)]
#[repr(align(128))]
struct Seen(AtomicU64);

const ABSENT: u64 = u64::MAX;

/// The number of a packet thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Thread(pub(crate) usize);

impl Epochs {
    pub(crate) fn new(threads: usize) -> Self {
        let threads = (0..threads).map(|_| Seen(AtomicU64::new(ABSENT))).collect();
        Self { current: AtomicU64::new(0), threads }
    }

    /// Takes a free thread number, if there is one.
    pub(crate) fn join(&self) -> Option<Thread> {
        let now = self.current.load(Ordering::SeqCst);
        let free =
            |seen: &Seen| seen.0.compare_exchange(ABSENT, now, Ordering::SeqCst, Ordering::SeqCst).is_ok();
        self.threads.iter().position(free).map(Thread)
    }

    /// Gives the number back.
    pub(crate) fn leave(&self, thread: Thread) {
        self.threads[thread.0].0.store(ABSENT, Ordering::SeqCst);
    }

    /// The thread holds nothing that it read before this call.
    #[inline]
    pub(crate) fn pass(&self, thread: Thread) {
        let now = self.current.load(Ordering::Acquire);
        // The store is ordered after all reads of the batch before; the controller's load pairs with it.
        self.threads[thread.0].0.store(now, Ordering::Release);
    }

    /// Begins an epoch, and returns it.
    pub(crate) fn begin(&self) -> u64 {
        self.current.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// Whether every thread has seen what was stored before `epoch` began.
    pub(crate) fn reached(&self, epoch: u64) -> bool {
        self.threads.iter().all(|seen| seen.0.load(Ordering::SeqCst) >= epoch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_is_reached_when_every_thread_has_passed() {
        let epochs = Epochs::new(2);
        assert!(epochs.reached(epochs.begin()), "nobody reads, so there is nothing to wait for");
        let (first, second) = (epochs.join().unwrap(), epochs.join().unwrap());
        assert_eq!(epochs.join(), None);
        let epoch = epochs.begin();
        epochs.pass(first);
        assert!(!epochs.reached(epoch));
        epochs.pass(second);
        assert!(epochs.reached(epoch));
        let next = epochs.begin();
        epochs.pass(first);
        epochs.leave(second);
        assert!(epochs.reached(next));
    }
}
