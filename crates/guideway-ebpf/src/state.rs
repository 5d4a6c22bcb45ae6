//! The forwarder's state over the kernel's maps.

use core::ptr;
use core::sync::atomic::Ordering::Relaxed;

use aya_ebpf::Global;
use aya_ebpf::btf_maps::lpm_trie::Key;
use aya_ebpf::helpers::bpf_ktime_get_coarse_ns;
use guideway_forward::answer::Question;
use guideway_forward::flow::Memo;
use guideway_forward::record::directory;
use guideway_forward::record::pace::next_window;
use guideway_forward::record::{
    Backend, Books, Bucket, FragmentBucket, PrefixKey, QuicKey, Service, ServiceId, ServiceKey, Settings,
    Slot, TableRef, Tally, Vip,
};
use guideway_forward::slot::{Choice, Spot};
use guideway_forward::state::{Answers, Backends, Clock, Counters, Flows, Services, Slots};
use guideway_forward::word::AtomicU64;
use guideway_forward::{Event, Outcome, State};
use guideway_wire::{FlowKey, HashKey, Parsed};

use crate::apart;
use crate::frame::Frame;

use crate::maps::{
    BACKENDS, BOOKS, DIRECTORY, FLOWS, FRAGMENTS, PACE, PREFIXES, QUIC, SENT, SERVED, SERVICES, SETTINGS,
    SLOTS, SLOTS_A_LINE, VIP_PREFIXES,
};
use crate::opaque::{compare_exchange, opaque};
use crate::trie::AddressKey;

const NANOSECONDS: u64 = 1_000_000_000;

/// The counts of so many backends stay in the caches that are near; looking for them twice would only take time.
const NEAR: u32 = 4_096;

/// Buckets of the flow table less one. The loader sets it, so the verifier takes it for a constant.
#[unsafe(no_mangle)]
pub static FLOW_MASK: Global<u32> = Global::new(0);

/// Buckets of the fragment cache less one.
#[unsafe(no_mangle)]
pub static FRAGMENT_MASK: Global<u32> = Global::new(0);

/// The maps, and what every packet needs of them, looked up once.
#[derive(Debug)]
pub struct Kernel {
    settings: &'static Settings,
    books: *mut Books,
}

impl Kernel {
    /// `None` if the maps were not made as this object says, which the loader does not let happen.
    #[inline(always)]
    pub fn new() -> Option<Kernel> {
        Some(Kernel { settings: SETTINGS.get(0)?, books: BOOKS.get_ptr_mut(0)? })
    }

    /// Counts a packet that came in.
    #[inline(always)]
    pub fn received(&self, bytes: u32) {
        // SAFETY: the value is this CPU's own, and this CPU does nothing else with it meanwhile.
        unsafe { (*self.books).received.add(bytes) };
    }
}

impl Services for Kernel {
    #[inline(always)]
    fn exact(&self, key: &ServiceKey) -> Option<ServiceId> {
        let value = directory::find(self.settings.directory(), key, |line| DIRECTORY.get(line))?;
        Some(ServiceId(value as u16))
    }

    #[inline(always)]
    fn prefix(&self, key: &ServiceKey) -> Option<ServiceId> {
        let [bits, rest @ ..]: [u32; 6] = zerocopy::transmute!(PrefixKey::of(key));
        PREFIXES.get(&Key::new(bits, zerocopy::transmute!(rest))).copied()
    }

    #[inline(always)]
    fn vip(&self, address: &[u8; 16]) -> Option<Vip> {
        let (at, key) = (self.settings.directory(), ServiceKey::of_address(*address));
        if directory::may_know(at, address, |line| DIRECTORY.get(line))
            && let Some(vip) = directory::find(at, &key, |line| DIRECTORY.get(line))
        {
            return Some(zerocopy::transmute!(vip));
        }
        if !self.settings.has_prefixes() {
            return None;
        }
        VIP_PREFIXES.get(&AddressKey::new(address).key).copied()
    }

    #[inline(always)]
    fn may_be_vip(&self, address: &[u8; 16]) -> bool {
        directory::may_know(self.settings.directory(), address, |line| DIRECTORY.get(line))
            || self.settings.has_prefixes()
    }

    #[inline(always)]
    fn service(&self, id: ServiceId) -> Option<&Service> {
        SERVICES.get(id.0 as u32)
    }
}

impl Slots for Kernel {
    #[inline(always)]
    fn slot(&self, offset: u32, index: u32) -> Option<Slot> {
        // A table lies within the array, so the sum does not wrap; the map checks it once more.
        let place = offset.wrapping_add(index);
        let line = SLOTS.get(place / SLOTS_A_LINE as u32)?;
        let slot = &line[place as usize % SLOTS_A_LINE];
        // SAFETY: a reference; volatile, since the controller stores here meanwhile.
        Some(Slot(unsafe { ptr::read_volatile(slot) }))
    }
}

impl Backends for Kernel {
    #[inline(always)]
    fn backend(&self, index: u32) -> Option<&Backend> {
        BACKENDS.get(index)
    }

    #[inline(always)]
    fn quic_backend(&self, service: ServiceId, server_id: u64) -> Option<u16> {
        // SAFETY: the controller lets no element be reused before a grace period has passed.
        unsafe { QUIC.get(QuicKey::new(service, server_id)) }.copied()
    }
}

impl Flows for Kernel {
    #[inline(always)]
    fn flow_mask(&self) -> u32 {
        FLOW_MASK.load()
    }

    #[inline(always)]
    fn flow_bucket(&self, index: u32) -> Option<&Bucket> {
        FLOWS.get(index)
    }

    #[inline(always)]
    fn fragment_mask(&self) -> u32 {
        FRAGMENT_MASK.load()
    }

    #[inline(always)]
    fn fragment_bucket(&self, index: u32) -> Option<&FragmentBucket> {
        FRAGMENTS.get(index)
    }

    #[inline(always)]
    fn compare_exchange(&self, word: &AtomicU64, old: u64, new: u64) -> bool {
        // SAFETY: every atomic word that the core knows lies in a map value.
        unsafe { compare_exchange(word.as_ptr(), old, new) }
    }
}

impl Clock for Kernel {
    #[inline(always)]
    fn now_seconds(&self) -> u32 {
        if let Some(second) = PACE.get(0).and_then(|pace| pace.stopped_at()) {
            return second;
        }
        // SAFETY: the helper has no conditions.
        (unsafe { bpf_ktime_get_coarse_ns() } / NANOSECONDS) as u32
    }

    #[inline(always)]
    fn allow_icmp(&self) -> bool {
        let now = self.now_seconds();
        let Some(pace) = PACE.get(0) else {
            return false;
        };
        let window = pace.window.load(Relaxed);
        match next_window(window, now, pace.per_second()) {
            Some(next) => self.compare_exchange(&pace.window, window, next),
            None => false,
        }
    }
}

impl Counters for Kernel {
    #[inline(always)]
    fn outcome(&self, outcome: Outcome, bytes: u32) {
        let index = opaque(outcome.index() as usize);
        if index < Outcome::COUNT {
            // SAFETY: the value is this CPU's own, and the index was checked.
            unsafe { (*self.books).outcomes.get_unchecked_mut(index).add(bytes) };
        }
    }

    #[inline(always)]
    fn expect(&self, service: ServiceId, backend: u32) {
        if backend < NEAR {
            return;
        }
        fetch(SENT.get_ptr_mut(backend));
        fetch(SERVED.get_ptr_mut(service.0 as u32));
    }

    #[inline(always)]
    fn service(&self, service: ServiceId, bytes: u32) {
        if let Some(tally) = SERVED.get_ptr_mut(service.0 as u32) {
            // SAFETY: the value is this CPU's own.
            unsafe { (*tally).add(bytes) };
        }
    }

    #[inline(always)]
    fn backend(&self, backend: u32, bytes: u32) {
        if let Some(tally) = SENT.get_ptr_mut(backend) {
            // SAFETY: the value is this CPU's own.
            unsafe { (*tally).add(bytes) };
        }
    }

    #[inline(always)]
    fn event(&self, event: Event) {
        let index = opaque(event.index() as usize);
        if index < Event::COUNT {
            // SAFETY: as in `outcome`.
            let count = unsafe { (*self.books).events.get_unchecked_mut(index) };
            *count = count.wrapping_add(1);
        }
    }
}

/// Begins to read a tally, so that it is there when it is needed.
#[inline(always)]
fn fetch(tally: Option<*mut Tally>) {
    if let Some(tally) = tally {
        // SAFETY: the value is this CPU's own. Volatile, since nobody uses what is read.
        unsafe { ptr::read_volatile(&raw const (*tally).packets) };
    }
}

impl Answers<Frame> for Kernel {
    #[inline(always)]
    fn answer(&self, packet: &mut Frame, parsed: &Parsed, question: Question) -> Outcome {
        let (context, word) = (packet.context(), question.word());
        apart::outcome(if question.asks_for_reset(parsed) {
            apart::reset(context, parsed, word)
        } else {
            apart::answer(context, parsed, word)
        })
    }
}

impl State for Kernel {
    #[inline(always)]
    fn settings(&self) -> &Settings {
        self.settings
    }

    #[inline(always)]
    fn flow_hash(&self, table: &TableRef, flow: &FlowKey, by: HashKey) -> u64 {
        apart::flow_hash(table, flow, by as u8)
    }

    #[inline(always)]
    fn keyed_hash(&self, flow: &FlowKey, service: ServiceId) -> u64 {
        apart::keyed_hash(flow, service.0)
    }

    #[inline(always)]
    fn consult(&self, service: ServiceId, parsed: &Parsed, spot: Spot) -> Choice {
        Choice::from_word(apart::consult(service.0, parsed, spot.0))
    }

    #[inline(always)]
    fn belonging(&self, service: ServiceId, flow: &FlowKey, slot: Slot) -> Choice {
        Choice::from_word(apart::belonging(service.0, flow, slot.0))
    }

    #[inline(always)]
    fn remember(&self, hash: u64, service: ServiceId, memo: Memo) -> bool {
        apart::remember(hash, service.0, memo.0) != 0
    }
}
