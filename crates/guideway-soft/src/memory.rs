//! The state of a forwarder in memory, shared by the controller and the packet threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use guideway_forward::record::{Backend, Bucket, FragmentBucket, Service, ServiceId, Settings, Slot};
use zerocopy::FromZeros;

use crate::counters::{Count, Shard, Totals};
use crate::directory::Directory;
use crate::epoch::{Epochs, Thread};
use crate::limiter::IcmpLimiter;
use crate::limits::{Limits, MemoryReport};
use crate::published::Published;
use crate::worker::Worker;

/// A forwarder's state: records, slots, flow table, fragment cache, counters, and a clock that is told the time.
///
/// Every word that packets read is atomic, so one controller can change it while packet threads ([`Worker`]) run. Only
/// the directory (which address is which service) is replaced whole.
#[derive(Debug)]
pub struct Memory {
    limits: Limits,
    pub(crate) services: Box<[Service]>,
    pub(crate) backends: Box<[Backend]>,
    pub(crate) slots: Box<[AtomicU32]>,
    pub(crate) flows: Box<[Bucket]>,
    pub(crate) fragments: Box<[FragmentBucket]>,
    pub(crate) settings: Settings,
    pub(crate) directory: Published<Directory>,
    pub(crate) icmp: IcmpLimiter,
    clock: AtomicU32,
    pub(crate) shards: Box<[Shard]>,
    pub(crate) epochs: Epochs,
}

impl Memory {
    /// [`Memory::try_new`], for sizes that are known to fit.
    ///
    /// # Panics
    /// When the system does not give the memory.
    pub fn new(limits: Limits, flow_key: [u64; 2]) -> Self {
        Self::try_new(limits, flow_key).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Takes all memory that `limits` ask for.
    ///
    /// `flow_key` keys flow table and fragment cache. It must be random on each machine where strangers send packets,
    /// so that nobody can aim at a bucket; a test or a replay passes a fixed one.
    ///
    /// # Errors
    /// [`NoMemory`] when the system does not give it.
    pub fn try_new(limits: Limits, flow_key: [u64; 2]) -> Result<Self, NoMemory> {
        let (services, backends) = (usize::from(limits.services), limits.backends as usize);
        Ok(Self {
            services: filled("services", services, Service::new)?,
            backends: filled("backends", backends, Backend::free)?,
            slots: filled("slots", limits.slots as usize, || AtomicU32::new(Slot::EMPTY.0))?,
            flows: empty("remembered flows", limits.flow_buckets())?,
            fragments: empty("remembered fragments", limits.fragment_buckets())?,
            settings: Settings::new(flow_key),
            directory: Published::new(Directory::default()),
            icmp: IcmpLimiter::new(limits.icmp_per_second),
            clock: AtomicU32::new(0),
            shards: (0..limits.threads).map(|_| Shard::new(services, backends)).collect(),
            epochs: Epochs::new(usize::from(limits.threads)),
            limits,
        })
    }

    /// The sizes that this memory was made with.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Where the memory goes.
    pub fn memory_report(&self) -> MemoryReport {
        MemoryReport {
            slots: size_of_val(&*self.slots),
            flows: size_of_val(&*self.flows),
            fragments: size_of_val(&*self.fragments),
            records: size_of_val(&*self.services) + size_of_val(&*self.backends) + size_of::<Self>(),
            counters: self.shards.iter().map(Shard::memory_bytes).sum(),
            lookup: self.directory.current().memory_bytes(),
        }
    }

    /// A packet thread's way in, or `None` when [`Limits::threads`] of them exist already.
    pub fn worker(self: &Arc<Self>) -> Option<Worker> {
        let thread = self.epochs.join()?;
        Some(Worker::new(Arc::clone(self), thread))
    }

    /// The time, seconds.
    #[inline]
    pub fn now_seconds(&self) -> u32 {
        self.clock.load(Relaxed)
    }

    /// Tells the time. It must not go back.
    pub fn set_now_seconds(&self, now: u32) {
        self.clock.store(now, Relaxed);
    }

    /// Changes how many ICMP messages of our own are sent a second.
    pub fn set_icmp_per_second(&self, per_second: u32) {
        self.icmp.set_per_second(per_second);
    }

    /// The record of a service.
    pub fn service(&self, id: ServiceId) -> Option<&Service> {
        self.services.get(usize::from(id.0))
    }

    /// The record of the backend with this global index.
    pub fn backend(&self, global: u32) -> Option<&Backend> {
        self.backends.get(global as usize)
    }

    /// The slots of all tables.
    pub fn slots(&self) -> &[AtomicU32] {
        &self.slots
    }

    /// The flow table.
    pub fn flows(&self) -> &[Bucket] {
        &self.flows
    }

    /// What holds for the whole machine.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Replaces the directory; packet threads see it at their next [`Worker::refresh`].
    pub fn publish(&self, directory: Directory) {
        self.directory.publish(directory);
    }

    /// The directory in use.
    pub fn directory(&self) -> Arc<Directory> {
        self.directory.current()
    }

    /// Begins a grace period and returns its number; see [`Memory::grace_is_over`].
    pub fn begin_grace(&self) -> u64 {
        self.epochs.begin()
    }

    /// Whether no packet thread can still hold anything that was unlinked before this grace period began.
    pub fn grace_is_over(&self, epoch: u64) -> bool {
        self.epochs.reached(epoch)
    }

    /// The totals over all packet threads.
    pub fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        self.shards.iter().for_each(|shard| shard.add_to(&mut totals));
        totals
    }

    /// Packets forwarded for a service.
    pub fn service_count(&self, id: ServiceId) -> Count {
        self.sum(|shard| shard.service_count(id))
    }

    /// Packets forwarded to the backend with this global index.
    pub fn backend_count(&self, global: u32) -> Count {
        self.sum(|shard| shard.backend_count(global))
    }

    pub(crate) fn shard(&self, thread: Thread) -> &Shard {
        &self.shards[thread.0]
    }

    fn sum(&self, of: impl Fn(&Shard) -> Count) -> Count {
        let mut sum = Count::default();
        for shard in &self.shards {
            sum += of(shard);
        }
        sum
    }
}

/// The system does not give a forwarder the memory that its limits ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no memory for {what}: {mebibytes} MiB are more than the system gives; lower their limit")]
#[non_exhaustive]
pub struct NoMemory {
    /// For what.
    pub what: &'static str,
    /// How much that would be.
    pub mebibytes: usize,
}

impl NoMemory {
    const fn of<T>(what: &'static str, count: usize) -> Self {
        Self { what, mebibytes: count.saturating_mul(size_of::<T>()) >> 20 }
    }
}

fn filled<T>(what: &'static str, count: usize, make: impl Fn() -> T) -> Result<Box<[T]>, NoMemory> {
    let mut list = Vec::new();
    list.try_reserve_exact(count).map_err(|_| NoMemory::of::<T>(what, count))?;
    list.extend((0..count).map(|_| make()));
    Ok(list.into())
}

/// Zeroed by the system, page by page when each is used first.
fn empty<T: FromZeros>(what: &'static str, count: usize) -> Result<Box<[T]>, NoMemory> {
    <[T]>::new_box_zeroed_with_elems(count).map_err(|_| NoMemory::of::<T>(what, count))
}

/// Stores `new` if the word still holds `old`.
#[inline(always)]
pub(crate) fn compare_exchange(word: &AtomicU64, old: u64, new: u64) -> bool {
    word.compare_exchange(old, new, std::sync::atomic::Ordering::AcqRel, Relaxed).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_the_system_does_not_give_is_an_error_that_says_for_what() {
        let all = usize::MAX / size_of::<Bucket>();
        let refused = empty::<Bucket>("remembered flows", all).unwrap_err();
        assert!(refused.to_string().starts_with("no memory for remembered flows: "), "{refused}");
        assert!(filled("slots", usize::MAX / 4, || 0_u32).is_err());
    }

    #[test]
    fn a_large_flow_table_is_there_without_being_touched() {
        let limits = Limits { flows: 1 << 24, ..Limits::default() };
        let memory = Memory::try_new(limits, [1, 2]).unwrap();
        assert_eq!(memory.memory_report().flows, 16 << 24);
        assert!(memory.flows().last().unwrap().entries[0].tag().is_none());
    }
}
