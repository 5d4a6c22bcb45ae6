//! Maglev tables as a policy.

use alloc::vec::Vec;

use super::{Correspondence, ReconcileError, Roster, Rule};
use crate::hash::StableHasher;
use crate::maglev::{BuildError, MaglevBuilder};
use crate::prime::TableSize;
use crate::table::Table;

/// Maglev hashing: the backends draft the slots of a table in turns.
///
/// **Rule.** Each backend has a permutation of the M slots, made of two hashes of its identity. Turn after turn a
/// backend takes the first slot of its permutation that is still free, until none is. With weights a backend of
/// twice the weight has twice the turns. The flow goes to the owner of slot `hash mod M`. The table is that of
/// [`MaglevBuilder`].
///
/// **Cost.** A pick is one array read. Any change fills the whole table anew, about M ln M steps. M slots of memory.
///
/// **When.** For load balancers: many flows, few changes, and shares that must be even. Without weights they differ
/// by at most one slot. A change also moves a few slots between backends that it did not touch, the fewer the larger
/// M is; where that matters more than even shares, take a [`RendezvousTable`](super::RendezvousTable).
///
/// **Source.** D. Eisenbud et al., "Maglev: A Fast and Reliable Software Network Load Balancer", NSDI 2016, section
/// 3.4. Weights are Guideway's own: the paper leaves them out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Maglev {
    size: TableSize,
    weighted: bool,
}

impl Maglev {
    /// A table of `size` slots that heeds weights.
    pub fn new(size: TableSize) -> Self {
        Self { size, weighted: true }
    }

    /// A table of `size` slots in which all backends are equal: the paper's own. A change of weights changes nothing.
    pub fn unweighted(size: TableSize) -> Self {
        Self { size, weighted: false }
    }

    /// Slots of the table.
    pub fn size(&self) -> TableSize {
        self.size
    }
}

impl Default for Maglev {
    /// 65,537 slots, weighted.
    fn default() -> Self {
        Self::new(TableSize::DEFAULT)
    }
}

impl Rule for Maglev {
    type Built = Table;

    fn name(&self) -> &'static str {
        "maglev"
    }

    fn is_weighted(&self) -> bool {
        self.weighted
    }

    fn limit(&self) -> usize {
        self.size.get() as usize
    }

    fn build<H: StableHasher>(
        &self,
        hasher: &H,
        roster: &Roster,
        _prior: Option<(&Table, &Correspondence)>,
    ) -> Result<Table, ReconcileError> {
        let mut backends = Vec::new();
        backends.try_reserve_exact(roster.len())?;
        let weight = |weight| if self.weighted { weight } else { 1 };
        backends.extend(roster.iter().map(|member| (member.identity, weight(member.weight))));
        let table = MaglevBuilder::new().size(self.size).hasher(hasher).build(&backends);
        table.map_err(|error| match error {
            BuildError::Allocation { .. } => ReconcileError::Allocation,
            other => ReconcileError::Maglev(other),
        })
    }

    #[inline]
    fn owner(table: &Table, hash: u64) -> u32 {
        table.pick(hash)
    }

    fn slots(table: &Table) -> Option<u32> {
        Some(table.size())
    }
}
