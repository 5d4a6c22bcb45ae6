//! A small state in memory: what the cases run on in user space, and a model for other engines' tests.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::collections::HashMap;
use std::vec::Vec;

use guideway_wire::Packet;

use crate::cases::world::World;
use crate::outcome::{Event, Kind, Outcome};
use crate::record::{
    Active, Backend, Bucket, FragmentBucket, NO_SERVICE, Service, ServiceId, ServiceKey, Settings, Slot, Vip,
};
use crate::state::{Answers, Backends, Clock, Counters, Flows, Services, Slots, State};

/// One prefix service: address, significant bits, port, protocol, id.
type Prefix = ([u8; 16], u32, [u8; 2], u8, ServiceId);

/// A state that a test can look into. Its clock stands still until it is told.
#[derive(Debug)]
pub struct Memory {
    /// Seconds; set it to let time pass.
    pub now: AtomicU32,
    /// ICMP messages that may still be sent.
    pub icmp_tokens: AtomicU32,
    /// The machine's settings.
    pub settings: Settings,
    /// Service records by id.
    pub services: Vec<Service>,
    /// Backend records by global index.
    pub backends: Vec<Backend>,
    /// The flow table.
    pub flows: Vec<Bucket>,
    exact: HashMap<ServiceKey, ServiceId>,
    prefixes: Vec<Prefix>,
    vips: HashMap<[u8; 16], Vip>,
    quic: HashMap<(ServiceId, u64), u16>,
    slots: Vec<AtomicU32>,
    fragments: Vec<FragmentBucket>,
    outcomes: Vec<AtomicU64>,
    events: Vec<AtomicU64>,
    served: Vec<AtomicU64>,
    sent: Vec<AtomicU64>,
}

impl Memory {
    /// The state that `world` tells of, with a flow table of `buckets` (a power of two) buckets.
    pub fn new(world: &World, buckets: usize) -> Memory {
        let mut memory = Memory {
            now: AtomicU32::new(1_000),
            icmp_tokens: AtomicU32::new(world.icmp_tokens),
            settings: Settings::new([0x243f_6a88_85a3_08d3, 0x1319_8a2e_0370_7344]),
            services: Vec::new(),
            backends: world.backends.iter().map(Backend::new).collect(),
            flows: (0..buckets).map(|_| Bucket::default()).collect(),
            exact: HashMap::new(),
            prefixes: Vec::new(),
            vips: HashMap::new(),
            quic: HashMap::new(),
            slots: Vec::new(),
            fragments: (0..64).map(|_| FragmentBucket::default()).collect(),
            outcomes: counters(Outcome::COUNT),
            events: counters(Event::COUNT),
            served: counters(world.services.len()),
            sent: counters(world.backends.len()),
        };
        memory
            .settings
            .set_own_sources(world.own_sources.first().copied(), world.own_sources.get(1).copied());
        for (index, spec) in world.services.iter().enumerate() {
            let id = ServiceId(index as u16);
            let service = Service::new();
            service.set_backends(0, world.backends.len() as u32);
            service.set_policy(spec.policy);
            service.set_idle_seconds(spec.tcp_idle_seconds, spec.udp_idle_seconds);
            let first = Active::new(false, false, 1);
            for (table, slots) in
                [(service.table(first), &spec.table), (service.other_table(first), &spec.prior)]
            {
                table.set(memory.slots.len() as u32, slots.len() as u32, spec.seed ^ slots.len() as u64);
                memory.slots.extend(slots.iter().map(|slot| AtomicU32::new(slot.0)));
            }
            let active = Active::new(false, !spec.prior.is_empty(), 1);
            service.set_active(active.with_grace(spec.prior_in_grace));
            memory.services.push(service);
            let key = ServiceKey::new(spec.address, spec.port, spec.protocol);
            match spec.prefix_bits {
                Some(bits) => memory.prefixes.push((spec.address, bits, key.port, spec.protocol, id)),
                None => {
                    memory.exact.insert(key, id);
                    let vip = memory.vips.entry(spec.address).or_insert(Vip::EMPTY);
                    *vip = vip.with(spec.protocol, id);
                }
            }
            for &(server, local) in &spec.quic_servers {
                memory.quic.insert((id, server), local);
            }
        }
        let any_port = world.services.iter().any(|spec| spec.port == 0 && spec.prefix_bits.is_none());
        memory.settings.set_lookups(any_port, !memory.prefixes.is_empty());
        memory
    }

    /// Rewrites every slot of a service's active table.
    pub fn rewrite_slots(&self, service: ServiceId, rewrite: impl Fn(Slot) -> Slot) {
        let Some(service) = self.services.get(service.0 as usize) else { return };
        let (offset, size) = service.table(service.active()).place();
        for word in self.slots.iter().skip(offset as usize).take(size as usize) {
            word.store(rewrite(Slot(word.load(Relaxed))).0, Relaxed);
        }
    }

    /// Packets with this outcome.
    pub fn outcomes(&self, outcome: Outcome) -> u64 {
        self.outcomes.get(outcome.index() as usize).map_or(0, |count| count.load(Relaxed))
    }

    /// How often this happened.
    pub fn events(&self, event: Event) -> u64 {
        self.events.get(event.index() as usize).map_or(0, |count| count.load(Relaxed))
    }

    /// Packets of one kind of fate.
    pub fn packets(&self, kind: Kind) -> u64 {
        Outcome::ALL
            .iter()
            .filter(|outcome| outcome.kind() == kind)
            .map(|outcome| self.outcomes(*outcome))
            .sum()
    }

    /// Packets forwarded, as the services count them and as the backends do.
    pub fn forwarded(&self) -> (u64, u64) {
        let sum = |counts: &[AtomicU64]| counts.iter().map(|count| count.load(Relaxed)).sum();
        (sum(&self.served), sum(&self.sent))
    }

    /// Entries of the flow table that are not free.
    pub fn remembered(&self) -> usize {
        self.flows.iter().flat_map(|bucket| &bucket.entries).filter(|entry| entry.tag().is_some()).count()
    }
}

fn counters(count: usize) -> Vec<AtomicU64> {
    (0..count).map(|_| AtomicU64::new(0)).collect()
}

fn bump(counters: &[AtomicU64], index: u32) {
    if let Some(counter) = counters.get(index as usize) {
        counter.fetch_add(1, Relaxed);
    }
}

fn in_prefix(address: &[u8; 16], prefix: &[u8; 16], bits: u32) -> bool {
    let differs = u128::from_be_bytes(*address) ^ u128::from_be_bytes(*prefix);
    differs.leading_zeros() >= bits
}

impl Services for Memory {
    fn exact(&self, key: &ServiceKey) -> Option<ServiceId> {
        self.exact.get(key).copied()
    }

    fn prefix(&self, key: &ServiceKey) -> Option<ServiceId> {
        let fits = |prefix: &&Prefix| {
            prefix.2 == key.port && prefix.3 == key.protocol && in_prefix(&key.address, &prefix.0, prefix.1)
        };
        self.prefixes.iter().filter(fits).max_by_key(|prefix| prefix.1).map(|prefix| prefix.4)
    }

    fn vip(&self, address: &[u8; 16]) -> Option<Vip> {
        let around = self.prefixes.iter().filter(|prefix| in_prefix(address, &prefix.0, prefix.1));
        let vip = around
            .fold(None, |vip: Option<Vip>, prefix| Some(vip.unwrap_or(Vip::EMPTY).with(prefix.3, prefix.4)));
        match (self.vips.get(address), vip) {
            (Some(exact), Some(vip)) => Some(vip.with(6, exact.tcp).with(17, exact.udp)),
            (exact, vip) => exact.copied().or(vip),
        }
    }

    fn service(&self, id: ServiceId) -> Option<&Service> {
        if id == NO_SERVICE { None } else { self.services.get(id.0 as usize) }
    }
}

impl Slots for Memory {
    fn slot(&self, offset: u32, index: u32) -> Option<Slot> {
        self.slots.get(offset.checked_add(index)? as usize).map(|word| Slot(word.load(Relaxed)))
    }
}

impl Backends for Memory {
    fn backend(&self, index: u32) -> Option<&Backend> {
        self.backends.get(index as usize)
    }

    fn quic_backend(&self, service: ServiceId, server_id: u64) -> Option<u16> {
        self.quic.get(&(service, server_id)).copied()
    }
}

impl Flows for Memory {
    fn flow_mask(&self) -> u32 {
        (self.flows.len() as u32).wrapping_sub(1)
    }

    fn flow_bucket(&self, index: u32) -> Option<&Bucket> {
        self.flows.get(index as usize)
    }

    fn fragment_mask(&self) -> u32 {
        (self.fragments.len() as u32).wrapping_sub(1)
    }

    fn fragment_bucket(&self, index: u32) -> Option<&FragmentBucket> {
        self.fragments.get(index as usize)
    }

    fn compare_exchange(&self, word: &AtomicU64, old: u64, new: u64) -> bool {
        word.compare_exchange(old, new, Relaxed, Relaxed).is_ok()
    }
}

impl Clock for Memory {
    fn now_seconds(&self) -> u32 {
        self.now.load(Relaxed)
    }

    fn allow_icmp(&self) -> bool {
        let take = |tokens: u32| tokens.checked_sub(1);
        self.icmp_tokens.fetch_update(Relaxed, Relaxed, take).is_ok()
    }
}

impl Counters for Memory {
    fn outcome(&self, outcome: Outcome, _bytes: u32) {
        bump(&self.outcomes, outcome.index());
    }

    fn service(&self, service: ServiceId, _bytes: u32) {
        bump(&self.served, service.0 as u32);
    }

    fn backend(&self, backend: u32, _bytes: u32) {
        bump(&self.sent, backend);
    }

    fn event(&self, event: Event) {
        bump(&self.events, event.index());
    }
}

impl<P: Packet> Answers<P> for Memory {}

impl State for Memory {
    fn settings(&self) -> &Settings {
        &self.settings
    }
}
