//! A packet put through the forwarding core over the live state, without a trace: nothing is counted or remembered.
//!
//! The decision is the same source that the kernel runs, reading the same records, slots and flow table. So what it says
//! is what the next such packet meets; the program in the kernel can be asked as a referee beside.

mod sample;

use std::cell::{Cell, OnceCell, RefCell};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use guideway_forward::record::{
    Backend, Bucket, FragmentBucket, Service, ServiceId, ServiceKey, Settings, Slot, Tag, Vip,
};
use guideway_forward::state::{Answers, Backends, Clock, Counters, Flows, Services, Slots};
use guideway_forward::{Event, Outcome, State, Verdict, process};
use guideway_soft::Directory;
use guideway_wire::{FlowKey, Packet, SliceFrame};

use crate::engine::Engine;

pub use sample::Sample;

/// Room before and behind a frame: the largest outer headers, and the largest answer to a short frame.
const ROOM: usize = 256;

/// What became of a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trial {
    /// The verdict.
    pub verdict: Verdict,
    /// The outcome that it would be counted under.
    pub outcome: Option<Outcome>,
    /// What else would be counted.
    pub events: Vec<Event>,
    /// The service that it is for.
    pub service: Option<ServiceId>,
    /// The global index of the backend that it goes to.
    pub backend: Option<u32>,
    /// The offset and number of the slots that were read, in order: of the active table, then of the prior one.
    pub slots: Vec<(u32, u32, Slot)>,
    /// What the flow table knows of the flow, if it was asked.
    pub remembered: Option<Tag>,
    /// The frame as it would leave.
    pub frame: Vec<u8>,
}

/// Puts a frame through the core over an engine's live state.
pub fn trial(engine: &impl Engine, frame: &[u8]) -> Option<Trial> {
    let (bindings, quic) = engine.published();
    let view = View {
        engine,
        directory: Directory::build(&bindings, &quic),
        bucket: OnceCell::new(),
        fragments: OnceCell::new(),
        hash: Cell::new(None),
        notes: RefCell::default(),
    };
    let mut buffer = vec![0; frame.len() + 2 * ROOM];
    buffer.get_mut(ROOM..ROOM + frame.len())?.copy_from_slice(frame);
    let mut packet = SliceFrame::new(&mut buffer, ROOM, frame.len())?;
    let verdict = process(&mut packet, &view);
    let frame = packet.bytes().to_vec();
    let remembered = view.hash.get().and_then(|hash| {
        // The bucket as it was before this packet.
        let bucket = engine.flows().get((hash as usize) & (engine.flows().len() - 1))?;
        bucket.entries.iter().filter_map(|entry| entry.tag()).find(|tag| tag.is_of(hash))
    });
    let notes = view.notes.into_inner();
    Some(Trial {
        verdict,
        outcome: notes.outcome,
        events: notes.events,
        service: notes.service,
        backend: notes.backend,
        slots: notes.slots,
        remembered,
        frame,
    })
}

#[derive(Debug, Default)]
struct Notes {
    outcome: Option<Outcome>,
    events: Vec<Event>,
    service: Option<ServiceId>,
    backend: Option<u32>,
    slots: Vec<(u32, u32, Slot)>,
}

/// The live state, with copies of the buckets that a packet would write to.
struct View<'a, E> {
    engine: &'a E,
    directory: Directory,
    /// A flow has one bucket, and a packet one flow.
    bucket: OnceCell<(u32, Bucket)>,
    fragments: OnceCell<(u32, FragmentBucket)>,
    /// Of the flow, where the flow table was asked for it.
    hash: Cell<Option<u64>>,
    notes: RefCell<Notes>,
}

impl<E: Engine> Services for View<'_, E> {
    fn exact(&self, key: &ServiceKey) -> Option<ServiceId> {
        self.directory.lookup().exact(key)
    }

    fn prefix(&self, key: &ServiceKey) -> Option<ServiceId> {
        self.directory.lookup().prefix(key)
    }

    fn vip(&self, address: &[u8; 16]) -> Option<Vip> {
        self.directory.lookup().vip(address)
    }

    fn service(&self, id: ServiceId) -> Option<&Service> {
        self.engine.service(id)
    }
}

impl<E: Engine> Slots for View<'_, E> {
    fn slot(&self, offset: u32, index: u32) -> Option<Slot> {
        let place = (offset as usize).checked_add(index as usize)?;
        let slot = self.engine.slots().get(place).map(|word| Slot(word.load(Relaxed)))?;
        self.notes.borrow_mut().slots.push((offset, index, slot));
        Some(slot)
    }
}

impl<E: Engine> Backends for View<'_, E> {
    fn backend(&self, index: u32) -> Option<&Backend> {
        self.engine.backend(index)
    }

    fn quic_backend(&self, service: ServiceId, server_id: u64) -> Option<u16> {
        self.directory.quic_backend(service, server_id)
    }
}

impl<E: Engine> Flows for View<'_, E> {
    fn flow_mask(&self) -> u32 {
        // The number of buckets is a power of two, from a 32-bit limit.
        self.engine.flows().len().wrapping_sub(1) as u32
    }

    fn flow_bucket(&self, index: u32) -> Option<&Bucket> {
        let live = self.engine.flows().get(index as usize)?;
        let (copied, bucket) = self.bucket.get_or_init(|| (index, copy(live)));
        (*copied == index).then_some(bucket)
    }

    /// One bucket, empty: what other fragments did is left out.
    fn fragment_mask(&self) -> u32 {
        0
    }

    fn fragment_bucket(&self, index: u32) -> Option<&FragmentBucket> {
        Some(&self.fragments.get_or_init(|| (index, FragmentBucket::default())).1)
    }

    fn compare_exchange(&self, word: &AtomicU64, old: u64, new: u64) -> bool {
        // Words of copies alone come here.
        word.compare_exchange(old, new, Relaxed, Relaxed).is_ok()
    }
}

impl<E: Engine> Clock for View<'_, E> {
    fn now_seconds(&self) -> u32 {
        self.engine.now_seconds()
    }

    fn allow_icmp(&self) -> bool {
        true
    }
}

impl<E: Engine> Counters for View<'_, E> {
    fn outcome(&self, outcome: Outcome, _bytes: u32) {
        self.notes.borrow_mut().outcome = Some(outcome);
    }

    fn service(&self, service: ServiceId, _bytes: u32) {
        self.notes.borrow_mut().service = Some(service);
    }

    fn backend(&self, backend: u32, _bytes: u32) {
        self.notes.borrow_mut().backend = Some(backend);
    }

    fn event(&self, event: Event) {
        self.notes.borrow_mut().events.push(event);
    }
}

impl<E: Engine> State for View<'_, E> {
    fn settings(&self) -> &Settings {
        self.engine.settings()
    }

    fn keyed_hash(&self, flow: &FlowKey, service: ServiceId) -> u64 {
        let hash = self.settings().keyed_hash(flow, service);
        self.hash.set(Some(hash));
        hash
    }
}

impl<E: Engine, P: Packet> Answers<P> for View<'_, E> {}

fn copy(bucket: &Bucket) -> Bucket {
    let copy = Bucket::default();
    for (to, from) in copy.entries.iter().zip(&bucket.entries) {
        to.info.store(from.info.load(Relaxed), Relaxed);
        to.tag.store(from.tag.load(Relaxed), Relaxed);
    }
    copy
}
