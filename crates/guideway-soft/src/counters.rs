//! The books: one counter for every outcome, and packets and bytes of every service and backend.
//!
//! Each packet thread has a shard of its own that nobody else writes, so counting is a load and a store; readers add
//! the shards up.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use guideway_forward::outcome::Kind;
use guideway_forward::record::{Books, ServiceId};
use guideway_forward::{Event, Outcome};

/// Packets and their bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count {
    /// Packets.
    pub packets: u64,
    /// Bytes of the packets, as the forwarding core counts them.
    pub bytes: u64,
}

impl std::ops::AddAssign for Count {
    fn add_assign(&mut self, other: Self) {
        self.packets += other.packets;
        self.bytes += other.bytes;
    }
}

impl From<guideway_forward::record::Tally> for Count {
    fn from(tally: guideway_forward::record::Tally) -> Self {
        Self { packets: tally.packets, bytes: tally.bytes }
    }
}

impl Count {
    /// What was counted after `before`, of the same counter.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self {
            packets: self.packets.wrapping_sub(before.packets),
            bytes: self.bytes.wrapping_sub(before.bytes),
        }
    }
}

/// A counter of one shard.
#[derive(Debug, Default)]
struct Tally {
    packets: AtomicU64,
    bytes: AtomicU64,
}

impl Tally {
    #[inline(always)]
    fn add(&self, bytes: u64) {
        add(&self.packets, 1);
        add(&self.bytes, bytes);
    }

    fn read(&self) -> Count {
        Count { packets: self.packets.load(Relaxed), bytes: self.bytes.load(Relaxed) }
    }
}

/// Only the shard's own thread adds, so no read-modify-write instruction is needed.
#[inline(always)]
fn add(counter: &AtomicU64, number: u64) {
    counter.store(counter.load(Relaxed).wrapping_add(number), Relaxed);
}

/// The counters of one packet thread.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Shard {
    received: Tally,
    outcomes: Box<[Tally]>,
    events: Box<[AtomicU64]>,
    services: Box<[Tally]>,
    backends: Box<[Tally]>,
}

impl Shard {
    pub(crate) fn new(services: usize, backends: usize) -> Self {
        let tallies = |number: usize| (0..number).map(|_| Tally::default()).collect();
        Self {
            received: Tally::default(),
            outcomes: tallies(Outcome::COUNT),
            events: (0..Event::COUNT).map(|_| AtomicU64::new(0)).collect(),
            services: tallies(services),
            backends: tallies(backends),
        }
    }

    #[inline(always)]
    pub(crate) fn received(&self, bytes: u64) {
        self.received.add(bytes);
    }

    #[inline(always)]
    pub(crate) fn outcome(&self, outcome: Outcome, bytes: u64) {
        if let Some(tally) = self.outcomes.get(outcome.index() as usize) {
            tally.add(bytes);
        }
    }

    #[inline(always)]
    pub(crate) fn event(&self, event: Event) {
        if let Some(counter) = self.events.get(event.index() as usize) {
            add(counter, 1);
        }
    }

    #[inline(always)]
    pub(crate) fn service(&self, id: ServiceId, bytes: u64) {
        if let Some(tally) = self.services.get(usize::from(id.0)) {
            tally.add(bytes);
        }
    }

    #[inline(always)]
    pub(crate) fn backend(&self, global: u32, bytes: u64) {
        if let Some(tally) = self.backends.get(global as usize) {
            tally.add(bytes);
        }
    }

    pub(crate) fn service_count(&self, id: ServiceId) -> Count {
        self.services.get(usize::from(id.0)).map(Tally::read).unwrap_or_default()
    }

    pub(crate) fn backend_count(&self, global: u32) -> Count {
        self.backends.get(global as usize).map(Tally::read).unwrap_or_default()
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        size_of::<Self>()
            + size_of_val(&*self.outcomes)
            + size_of_val(&*self.events)
            + size_of_val(&*self.services)
            + size_of_val(&*self.backends)
    }

    pub(crate) fn add_to(&self, totals: &mut Totals) {
        totals.received += self.received.read();
        for (total, tally) in totals.outcomes.iter_mut().zip(&self.outcomes) {
            *total += tally.read();
        }
        for (total, counter) in totals.events.iter_mut().zip(&self.events) {
            *total += counter.load(Relaxed);
        }
    }
}

/// The totals of a forwarder: every packet under exactly one outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Totals {
    /// All packets that came in.
    pub received: Count,
    outcomes: [Count; Outcome::COUNT],
    events: [u64; Event::COUNT],
}

impl Default for Totals {
    fn default() -> Self {
        Self {
            received: Count::default(),
            outcomes: [Count::default(); Outcome::COUNT],
            events: [0; Event::COUNT],
        }
    }
}

impl Totals {
    /// Adds what one CPU counted.
    pub fn add(&mut self, books: &Books) {
        self.received += books.received.into();
        for (total, tally) in self.outcomes.iter_mut().zip(&books.outcomes) {
            *total += Count::from(*tally);
        }
        for (total, count) in self.events.iter_mut().zip(&books.events) {
            *total += count;
        }
    }

    /// Packets with this outcome.
    pub fn outcome(&self, outcome: Outcome) -> Count {
        self.outcomes[outcome.index() as usize]
    }

    /// How often this happened.
    pub fn event(&self, event: Event) -> u64 {
        self.events[event.index() as usize]
    }

    /// Every outcome with its count.
    pub fn outcomes(&self) -> impl Iterator<Item = (Outcome, Count)> + '_ {
        Outcome::ALL.iter().map(|&outcome| (outcome, self.outcome(outcome)))
    }

    /// Every event with its count.
    pub fn events(&self) -> impl Iterator<Item = (Event, u64)> + '_ {
        Event::ALL.iter().map(|&event| (event, self.event(event)))
    }

    /// Packets of one of the four terms of the books.
    pub fn kind(&self, kind: Kind) -> Count {
        let mut sum = Count::default();
        for (outcome, count) in self.outcomes() {
            if outcome.kind() == kind {
                sum += count;
            }
        }
        sum
    }

    /// Checks that received = forwarded + answered + passed + Σ dropped.
    ///
    /// # Errors
    /// [`Unbalanced`], with both sides. It can also be seen for an instant while packets flow.
    pub fn balance(&self) -> Result<(), Unbalanced> {
        let accounted: u64 = self.outcomes.iter().map(|count| count.packets).sum();
        if accounted == self.received.packets {
            Ok(())
        } else {
            Err(Unbalanced { received: self.received.packets, accounted })
        }
    }
}

/// The books do not balance: packets were lost, or counted twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the books do not balance: {received} packets received, {accounted} accounted for; \
     this is a fault of the forwarder, please report it"
)]
pub struct Unbalanced {
    /// Packets that came in.
    pub received: u64,
    /// The sum over all outcomes.
    pub accounted: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_add_up() {
        let shards = [Shard::new(2, 3), Shard::new(2, 3)];
        for shard in &shards {
            shard.received(100);
            shard.outcome(Outcome::Forwarded, 100);
            shard.service(ServiceId(1), 100);
            shard.backend(2, 100);
            shard.event(Event::FlowHit);
        }
        let mut totals = Totals::default();
        shards.iter().for_each(|shard| shard.add_to(&mut totals));
        assert_eq!(totals.outcome(Outcome::Forwarded), Count { packets: 2, bytes: 200 });
        assert_eq!(totals.kind(Kind::Forwarded), totals.received);
        assert_eq!(totals.event(Event::FlowHit), 2);
        assert_eq!(totals.balance(), Ok(()));
        assert_eq!(shards[0].service_count(ServiceId(1)), Count { packets: 1, bytes: 100 });
        assert_eq!(shards[0].backend_count(2).packets, 1);
    }

    #[test]
    fn an_unknown_index_is_not_counted() {
        let shard = Shard::new(1, 1);
        shard.service(ServiceId(9), 1);
        shard.backend(9, 1);
        assert_eq!(shard.backend_count(9), Count::default());
    }

    #[test]
    fn a_packet_without_an_outcome_unbalances_the_books() {
        let shard = Shard::new(0, 0);
        shard.received(60);
        let mut totals = Totals::default();
        shard.add_to(&mut totals);
        assert_eq!(totals.balance(), Err(Unbalanced { received: 1, accounted: 0 }));
    }
}
