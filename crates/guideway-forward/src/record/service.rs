//! A service: its two tables, its policy and its idle times.

use guideway_wire::{FlowHasher, FlowKey, HashKey};

use core::sync::atomic::{Ordering::Relaxed, Ordering::Release};

use crate::word::{AtomicU64, steady};

/// A service as the forwarder sees it: three cache lines, of which a packet reads two.
///
/// Every word is changed whole. To change table size or seed the controller fills the table that is not active, and
/// then stores `active`: a packet sees the old size, offset and seed or the new ones, never a mixture.
#[derive(Debug)]
#[cfg_attr(target_has_atomic = "64", derive(zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::KnownLayout))]
#[repr(C, align(64))]
pub struct Service {
    active: AtomicU64,
    /// Base in the high half, length in the low.
    backends: AtomicU64,
    policy: AtomicU64,
    /// TCP idle time in the high half, UDP in the low, seconds.
    idle: AtomicU64,
    spare: [AtomicU64; 4],
    tables: [TableRef; 2],
}

impl Service {
    /// A service without a table, without backends, and with the default policy.
    pub const fn new() -> Service {
        Service {
            active: AtomicU64::new(0),
            backends: AtomicU64::new(0),
            policy: AtomicU64::new(0),
            idle: AtomicU64::new(((DEFAULT_TCP_IDLE_SECONDS as u64) << 32) | DEFAULT_UDP_IDLE_SECONDS as u64),
            spare: [const { AtomicU64::new(0) }; 4],
            tables: [TableRef::new(), TableRef::new()],
        }
    }

    /// Every word that packets read; those of its tables are their own.
    pub const fn words(&self) -> [&AtomicU64; 4] {
        let Service { active, backends, policy, idle, spare: _, tables: _ } = self;
        [active, backends, policy, idle]
    }

    /// Which table is active, and whether the other is still consulted for older flows.
    #[inline(always)]
    pub fn active(&self) -> Active {
        Active(self.active.load(Relaxed))
    }

    /// Flips to what `active` says; everything stored before is visible to whoever sees the flip.
    pub fn set_active(&self, active: Active) {
        self.active.store(active.0, Release);
    }

    /// The table that takes new flows.
    #[inline(always)]
    pub fn table(&self, active: Active) -> &TableRef {
        let [first, second] = &self.tables;
        if active.second() { second } else { first }
    }

    /// The table beside it: the prior one while [`Active::prior`] says so, otherwise free to be written.
    #[inline(always)]
    pub fn other_table(&self, active: Active) -> &TableRef {
        let [first, second] = &self.tables;
        if active.second() { first } else { second }
    }

    /// `(base, length)` of the service's run in the backend array: the global index of local index `i` is `base + i`.
    #[inline(always)]
    pub fn backends(&self) -> (u32, u32) {
        halves(self.backends.load(Relaxed))
    }

    /// Moves or resizes the run of backends.
    pub fn set_backends(&self, base: u32, length: u32) {
        self.backends.store(((base as u64) << 32) | length as u64, Release);
    }

    /// The global index of a local one, if the service has that many backends.
    #[inline(always)]
    pub fn backend_index(&self, local: u16) -> Option<u32> {
        let (base, length) = self.backends();
        // A run lies within the array, so the sum cannot wrap; an engine checks it once more.
        if (local as u32) < length { Some(base.wrapping_add(local as u32)) } else { None }
    }

    /// What the service does with its packets.
    #[inline(always)]
    pub fn policy(&self) -> Policy {
        Policy(self.policy.load(Relaxed))
    }

    /// Replaces the policy.
    pub fn set_policy(&self, policy: Policy) {
        self.policy.store(policy.0, Release);
    }

    /// Seconds after which a silent TCP flow is forgotten.
    #[inline(always)]
    pub fn tcp_idle_seconds(&self) -> u32 {
        halves(self.idle.load(Relaxed)).0
    }

    /// Seconds after which a silent UDP flow is forgotten, and how long the grace of a change lasts.
    #[inline(always)]
    pub fn udp_idle_seconds(&self) -> u32 {
        halves(self.idle.load(Relaxed)).1
    }

    /// Sets both idle times, in seconds.
    pub fn set_idle_seconds(&self, tcp: u32, udp: u32) {
        self.idle.store(((tcp as u64) << 32) | udp as u64, Release);
    }
}

impl Default for Service {
    fn default() -> Service {
        Service::new()
    }
}

/// Where a table lies in the slot array, and what its flows are hashed with: one cache line.
#[derive(Debug)]
#[cfg_attr(target_has_atomic = "64", derive(zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::KnownLayout))]
#[repr(C, align(64))]
pub struct TableRef {
    /// Offset in the high half, size in the low.
    place: AtomicU64,
    seed: AtomicU64,
    /// The keys of the seed's [`FlowHasher`], so that no packet has to derive them.
    keys: [AtomicU64; 5],
    spare: AtomicU64,
}

impl TableRef {
    /// No table: size 0.
    pub const fn new() -> TableRef {
        TableRef {
            place: AtomicU64::new(0),
            seed: AtomicU64::new(0),
            keys: [const { AtomicU64::new(0) }; 5],
            spare: AtomicU64::new(0),
        }
    }

    /// Every word that packets read, and the seed that those of the hash follow from.
    pub const fn words(&self) -> [&AtomicU64; 7] {
        let TableRef { place, seed, keys: [a, b, c, d, e], spare: _ } = self;
        [place, seed, a, b, c, d, e]
    }

    /// `(offset, size)` in slots.
    #[inline(always)]
    pub fn place(&self) -> (u32, u32) {
        halves(self.place.load(Relaxed))
    }

    /// The seed of the flow hash.
    #[inline(always)]
    pub fn seed(&self) -> u64 {
        self.seed.load(Relaxed)
    }

    /// The flow hash with the keys of the seed.
    #[inline(always)]
    pub fn hasher(&self) -> FlowHasher {
        let [a, b, c, d, e] = &self.keys;
        zerocopy::transmute!([steady(a), steady(b), steady(c), steady(d), steady(e)])
    }

    /// The flow's hash in this table.
    #[inline(always)]
    pub fn hash(&self, flow: &FlowKey, by: HashKey) -> u64 {
        self.hasher().hash(flow, by)
    }

    /// Points at another region. Only for the table that no packet consults, or, with the same size and seed, for
    /// another copy of the same slots.
    pub fn set(&self, offset: u32, size: u32, seed: u64) {
        self.seed.store(seed, Relaxed);
        let keys: [u64; 5] = zerocopy::transmute!(FlowHasher::new(seed));
        for (word, key) in self.keys.iter().zip(keys) {
            word.store(key, Relaxed);
        }
        self.place.store(((offset as u64) << 32) | size as u64, Release);
    }
}

impl Default for TableRef {
    fn default() -> TableRef {
        TableRef::new()
    }
}

/// The word that flips a service: bit 0 which table is active, bit 1 whether the other is still consulted for flows
/// older than the flip, bit 2 whether that holds for UDP too, high half the generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Active(pub u64);

impl Active {
    /// Composes the word.
    pub const fn new(second: bool, prior: bool, generation: u32) -> Active {
        Active(second as u64 | ((prior as u64) << 1) | ((generation as u64) << 32))
    }

    /// Whether the second table is the active one.
    #[inline(always)]
    pub const fn second(self) -> bool {
        self.0 & 1 != 0
    }

    /// Whether the table beside the active one is still consulted for older flows (after a change of size or seed).
    #[inline(always)]
    pub const fn prior(self) -> bool {
        self.0 & 2 != 0
    }

    /// The same, with or without grace: whether an unknown flow of a protocol without an opening packet still counts as
    /// older than the flip.
    #[must_use]
    pub const fn with_grace(self, grace: bool) -> Active {
        Active((self.0 & !4) | ((grace as u64) << 2))
    }

    /// Whether an unknown flow of a protocol without an opening packet (UDP) still counts as older than the flip, and
    /// so belongs to the prior table.
    #[inline(always)]
    pub const fn in_grace(self) -> bool {
        self.0 & 6 == 6
    }

    /// The number of the committed table.
    pub const fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// What an unsettled slot does with a UDP flow that the flow table does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum UdpRule {
    /// Old until one UDP idle time after the change, new from then on; remembered either way.
    #[default]
    Grace,
    /// As `Grace`, and every flow is remembered even in settled slots.
    Track,
    /// New at once; nothing is remembered.
    Rehash,
}

/// What a TCP packet in the middle of a flow gets when its backend is not known or gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum OrphanRule {
    /// A reset from the VIP, at once.
    #[default]
    Reset,
    /// It is sent to the slot's present owner, whose own reset reaches the client.
    Rehash,
}

/// What a client gets when the service has no backend at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum NoBackendRule {
    /// A TCP reset, or an ICMP port unreachable.
    #[default]
    Reject,
    /// Silence, counted.
    Drop,
}

/// What happens to fragments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum FragmentRule {
    /// All fragments of a datagram go to one backend.
    #[default]
    Cache,
    /// None is forwarded.
    Drop,
}

/// A service's policy, packed into one word; all zero bits are the defaults.
///
/// Bit 0 hash key, bits 1–2 UDP rule, bit 3 track TCP always, bit 4 orphans, bit 5 no backend, bit 6 fragments, bit 7
/// QUIC on, bits 8–15 offset of the server id in the connection id, bits 16–23 its length, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
#[repr(transparent)]
pub struct Policy(pub u64);

impl Policy {
    /// What makes a flow.
    #[inline(always)]
    pub const fn hash_key(self) -> HashKey {
        if self.0 & 1 == 0 { HashKey::FiveTuple } else { HashKey::SourceAddress }
    }

    /// How UDP flows follow a change.
    #[inline(always)]
    pub const fn udp(self) -> UdpRule {
        match (self.0 >> 1) & 3 {
            1 => UdpRule::Track,
            2 => UdpRule::Rehash,
            _ => UdpRule::Grace,
        }
    }

    /// Whether every TCP flow is remembered, in settled slots too.
    #[inline(always)]
    pub const fn track_tcp(self) -> bool {
        self.0 & (1 << 3) != 0
    }

    /// What orphans get.
    #[inline(always)]
    pub const fn orphans(self) -> OrphanRule {
        if self.0 & (1 << 4) == 0 { OrphanRule::Reset } else { OrphanRule::Rehash }
    }

    /// What clients get without a backend.
    #[inline(always)]
    pub const fn no_backend(self) -> NoBackendRule {
        if self.0 & (1 << 5) == 0 { NoBackendRule::Reject } else { NoBackendRule::Drop }
    }

    /// What fragments get.
    #[inline(always)]
    pub const fn fragments(self) -> FragmentRule {
        if self.0 & (1 << 6) == 0 { FragmentRule::Cache } else { FragmentRule::Drop }
    }

    /// Where the server id lies in a QUIC connection id, as `(offset, length)` in bytes, if this is a QUIC service.
    #[inline(always)]
    pub const fn quic(self) -> Option<(u8, u8)> {
        if self.0 & (1 << 7) == 0 { None } else { Some(((self.0 >> 8) as u8, (self.0 >> 16) as u8)) }
    }

    /// With another hash key.
    #[must_use]
    pub const fn with_hash_key(self, key: HashKey) -> Policy {
        self.with(0, 1, key as u64)
    }

    /// With another UDP rule.
    #[must_use]
    pub const fn with_udp(self, rule: UdpRule) -> Policy {
        self.with(1, 3, rule as u64)
    }

    /// With every TCP flow remembered, or only those that need it.
    #[must_use]
    pub const fn with_track_tcp(self, always: bool) -> Policy {
        self.with(3, 1, always as u64)
    }

    /// With another rule for orphans.
    #[must_use]
    pub const fn with_orphans(self, rule: OrphanRule) -> Policy {
        self.with(4, 1, rule as u64)
    }

    /// With another rule for an empty service.
    #[must_use]
    pub const fn with_no_backend(self, rule: NoBackendRule) -> Policy {
        self.with(5, 1, rule as u64)
    }

    /// With another rule for fragments.
    #[must_use]
    pub const fn with_fragments(self, rule: FragmentRule) -> Policy {
        self.with(6, 1, rule as u64)
    }

    /// With QUIC routing by the `length` bytes (1–8) at `offset` of the connection id, or without.
    #[must_use]
    pub const fn with_quic(self, server_id: Option<(u8, u8)>) -> Policy {
        match server_id {
            None => self.with(7, 1, 0).with(8, 0xffff, 0),
            Some((offset, length)) => {
                self.with(7, 1, 1).with(8, 0xff, offset as u64).with(16, 0xff, length as u64)
            }
        }
    }

    const fn with(self, shift: u32, mask: u64, value: u64) -> Policy {
        Policy((self.0 & !(mask << shift)) | ((value & mask) << shift))
    }
}

impl core::fmt::Debug for Policy {
    fn fmt(&self, out: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        out.debug_struct("Policy")
            .field("hash_key", &self.hash_key())
            .field("udp", &self.udp())
            .field("track_tcp", &self.track_tcp())
            .field("orphans", &self.orphans())
            .field("no_backend", &self.no_backend())
            .field("fragments", &self.fragments())
            .field("quic", &self.quic())
            .finish()
    }
}

#[inline(always)]
const fn halves(word: u64) -> (u32, u32) {
    ((word >> 32) as u32, word as u32)
}

/// Idle time of TCP flows unless the service says otherwise: above the two hours of TCP keepalive would keep dead
/// flows for long; fifteen minutes covers what NATs on the way keep.
pub const DEFAULT_TCP_IDLE_SECONDS: u32 = 900;

/// Idle time of UDP flows unless the service says otherwise (RFC 4787 REQ-5 asks NATs for two minutes; a change of
/// backends should be over sooner).
pub const DEFAULT_UDP_IDLE_SECONDS: u32 = 30;

const _: () =
    assert!(size_of::<TableRef>() == 64 && size_of::<Service>() == 192 && align_of::<Service>() == 64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_policy_field_keeps_to_its_bits() {
        let policy = Policy::default()
            .with_hash_key(HashKey::SourceAddress)
            .with_udp(UdpRule::Rehash)
            .with_track_tcp(true)
            .with_orphans(OrphanRule::Rehash)
            .with_no_backend(NoBackendRule::Drop)
            .with_fragments(FragmentRule::Drop)
            .with_quic(Some((1, 2)));
        assert_eq!(policy.hash_key(), HashKey::SourceAddress);
        assert_eq!(policy.udp(), UdpRule::Rehash);
        assert!(policy.track_tcp());
        assert_eq!(policy.orphans(), OrphanRule::Rehash);
        assert_eq!(policy.no_backend(), NoBackendRule::Drop);
        assert_eq!(policy.fragments(), FragmentRule::Drop);
        assert_eq!(policy.quic(), Some((1, 2)));
        let back = policy
            .with_hash_key(HashKey::FiveTuple)
            .with_udp(UdpRule::Grace)
            .with_track_tcp(false)
            .with_orphans(OrphanRule::Reset)
            .with_no_backend(NoBackendRule::Reject)
            .with_fragments(FragmentRule::Cache)
            .with_quic(None);
        assert_eq!(back, Policy::default());
    }

    #[test]
    fn one_word_flips_the_table() {
        let service = Service::new();
        service.table(service.active()).set(10, 7, 1);
        service.other_table(service.active()).set(20, 11, 2);
        service.set_active(Active::new(true, true, 5));
        let active = service.active();
        assert_eq!(service.table(active).place(), (20, 11));
        assert_eq!(service.other_table(active).place(), (10, 7));
        assert!(active.prior());
        assert_eq!(active.generation(), 5);
    }

    #[test]
    fn there_is_no_grace_without_a_prior_table() {
        let active = Active::new(true, true, 5);
        assert!(!active.in_grace() && active.with_grace(true).in_grace());
        assert_eq!(active.with_grace(true).with_grace(false), active);
        assert!(!Active::new(true, false, 5).with_grace(true).in_grace());
        assert_eq!(active.with_grace(true).generation(), 5);
    }

    #[test]
    fn a_local_index_beyond_the_run_names_nothing() {
        let service = Service::new();
        service.set_backends(100, 3);
        assert_eq!(service.backend_index(2), Some(102));
        assert_eq!(service.backend_index(3), None);
        assert_eq!(service.backend_index(crate::record::NO_BACKEND), None);
    }
}
