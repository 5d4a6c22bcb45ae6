//! A packet thread: the forwarding core bound to one memory.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use guideway_forward::record::{
    Backend, Bucket, FragmentBucket, Service, ServiceId, ServiceKey, Settings, Slot, Vip,
};
use guideway_forward::state::{Answers, Backends, Clock, Counters, Flows, Services, Slots};
use guideway_forward::{Event, Outcome, State, Verdict};
use guideway_wire::Packet;

use crate::directory::Directory;
use crate::epoch::Thread;
use crate::memory::{Memory, compare_exchange};
use crate::published::Reader;

/// One packet thread. It has counters of its own, so it can move to a thread but not be shared by several.
#[derive(Debug)]
pub struct Worker {
    memory: Arc<Memory>,
    directory: Reader<Directory>,
    thread: Thread,
    /// Counting assumes a single writer: not `Sync`.
    not_shared: PhantomData<Cell<()>>,
}

impl Worker {
    pub(crate) fn new(memory: Arc<Memory>, thread: Thread) -> Self {
        let directory = memory.directory.reader();
        Self { memory, directory, thread, not_shared: PhantomData }
    }

    /// The memory that this thread works on.
    pub fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }

    /// Takes the newest directory, and says that this thread holds nothing older than now.
    ///
    /// To be called between batches, and now and then while no packets come: the controller reuses memory only after
    /// every thread has called it.
    #[inline]
    pub fn refresh(&mut self) {
        self.directory.refresh(&self.memory.directory);
        // A directory that could not be taken this time is still held; it is reference counted, but the services it
        // names must not be reused.
        if !self.directory.is_behind(&self.memory.directory) {
            self.memory.epochs.pass(self.thread);
        }
    }

    /// Decides one packet, rewrites it accordingly, and counts it.
    #[inline]
    pub fn process<P: Packet>(&self, packet: &mut P) -> Verdict {
        self.memory.shard(self.thread).received(packet.len() as u64);
        guideway_forward::process(packet, self)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.memory.epochs.leave(self.thread);
    }
}

impl Services for Worker {
    #[inline(always)]
    fn exact(&self, key: &ServiceKey) -> Option<ServiceId> {
        self.directory.lookup.exact(key)
    }

    #[inline(always)]
    fn prefix(&self, key: &ServiceKey) -> Option<ServiceId> {
        self.directory.lookup.prefix(key)
    }

    #[inline(always)]
    fn vip(&self, address: &[u8; 16]) -> Option<Vip> {
        self.directory.lookup.vip(address)
    }

    #[inline(always)]
    fn service(&self, id: ServiceId) -> Option<&Service> {
        self.memory.services.get(usize::from(id.0))
    }
}

impl Slots for Worker {
    #[inline(always)]
    fn slot(&self, offset: u32, index: u32) -> Option<Slot> {
        let place = (offset as usize).checked_add(index as usize)?;
        self.memory.slots.get(place).map(|word| Slot(word.load(Relaxed)))
    }
}

impl Backends for Worker {
    #[inline(always)]
    fn backend(&self, index: u32) -> Option<&Backend> {
        self.memory.backends.get(index as usize)
    }

    #[inline(always)]
    fn quic_backend(&self, service: ServiceId, server_id: u64) -> Option<u16> {
        self.directory.quic_backend(service, server_id)
    }
}

impl Flows for Worker {
    #[inline(always)]
    fn flow_mask(&self) -> u32 {
        // The number of buckets is a power of two, from a 32-bit limit.
        (self.memory.flows.len() - 1) as u32
    }

    #[inline(always)]
    fn flow_bucket(&self, index: u32) -> Option<&Bucket> {
        self.memory.flows.get(index as usize)
    }

    #[inline(always)]
    fn fragment_mask(&self) -> u32 {
        (self.memory.fragments.len() - 1) as u32
    }

    #[inline(always)]
    fn fragment_bucket(&self, index: u32) -> Option<&FragmentBucket> {
        self.memory.fragments.get(index as usize)
    }

    #[inline(always)]
    fn compare_exchange(&self, word: &AtomicU64, old: u64, new: u64) -> bool {
        compare_exchange(word, old, new)
    }
}

impl Clock for Worker {
    #[inline(always)]
    fn now_seconds(&self) -> u32 {
        self.memory.now_seconds()
    }

    #[inline(always)]
    fn allow_icmp(&self) -> bool {
        self.memory.icmp.allow(self.memory.now_seconds())
    }
}

impl Counters for Worker {
    #[inline(always)]
    fn outcome(&self, outcome: Outcome, bytes: u32) {
        self.memory.shard(self.thread).outcome(outcome, u64::from(bytes));
    }

    #[inline(always)]
    fn service(&self, service: ServiceId, bytes: u32) {
        self.memory.shard(self.thread).service(service, u64::from(bytes));
    }

    #[inline(always)]
    fn backend(&self, backend: u32, bytes: u32) {
        self.memory.shard(self.thread).backend(backend, u64::from(bytes));
    }

    #[inline(always)]
    fn event(&self, event: Event) {
        self.memory.shard(self.thread).event(event);
    }
}

impl<P: Packet> Answers<P> for Worker {}

impl State for Worker {
    #[inline(always)]
    fn settings(&self) -> &Settings {
        &self.memory.settings
    }
}
