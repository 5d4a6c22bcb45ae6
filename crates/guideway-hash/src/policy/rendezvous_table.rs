//! A table filled by rendezvous hashing.

use alloc::vec::Vec;

use super::rendezvous::Bidders;
use super::{Correspondence, ReconcileError, Roster, Rule};
use crate::hash::StableHasher;
use crate::prime::TableSize;
use crate::table::Table;

/// A table in which each slot belongs to its weighted rendezvous winner: the look-up of Maglev, the churn of rendezvous.
///
/// **Rule.** Slot s goes to the winner of key s under [`Rendezvous`](super::Rendezvous). The flow goes to the owner of slot
/// `hash mod M`.
///
/// **Cost.** A pick is one array read. The first build scores M x N pairs. A change scores only the backends that joined
/// or gained weight against each slot's owner, and all backends for the slots whose owner left or lost weight: O(M) steps for
/// one backend.
///
/// **When.** Affinity matters more than the last percent of balance. No slot ever moves needlessly, at any size; but shares
/// are those of M throws of a dice, so a backend due m slots has about m ± sqrt(m) of them (655 ± 26 for 100 backends at
/// 65,537), where [`Maglev`](super::Maglev) gives 655 or 656.
///
/// **Source.** The score as for [`Rendezvous`](super::Rendezvous). Filling a fixed table with winners is what GitHub's GLB
/// director does (2016), with its own hash and two winners a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RendezvousTable {
    size: TableSize,
}

impl RendezvousTable {
    /// A table of `size` slots.
    pub fn new(size: TableSize) -> Self {
        Self { size }
    }

    /// Slots of the table.
    pub fn size(&self) -> TableSize {
        self.size
    }
}

impl Rule for RendezvousTable {
    type Built = Table;

    fn name(&self) -> &'static str {
        "rendezvous-table"
    }

    fn is_weighted(&self) -> bool {
        true
    }

    fn limit(&self) -> usize {
        self.size.get() as usize
    }

    fn build<H: StableHasher>(
        &self,
        hasher: &H,
        roster: &Roster,
        prior: Option<(&Table, &Correspondence)>,
    ) -> Result<Table, ReconcileError> {
        let bidders = Bidders::new(hasher, roster)?;
        let size = self.size.get();
        let slots = 0..size;
        let fresh = |slot: u32| bidders.winner(u64::from(slot));
        let Some((before, change)) = prior else {
            return Ok(Table::pack(size, roster.len(), slots.map(fresh))?);
        };
        let mut challengers = Vec::new();
        challengers.try_reserve_exact(change.challengers().count())?;
        challengers.extend(change.challengers());
        // An owner that lost nothing still beats all whom it beat: only those who gained can take its slot.
        let kept = |slot: u32| match change.undiminished(before.owner(slot)) {
            Some(owner) => bidders.winner_among(owner, &challengers, u64::from(slot)),
            None => fresh(slot),
        };
        Ok(Table::pack(size, roster.len(), slots.map(kept))?)
    }

    #[inline]
    fn owner(table: &Table, hash: u64) -> u32 {
        table.pick(hash)
    }

    fn slots(table: &Table) -> Option<u32> {
        Some(table.size())
    }
}
