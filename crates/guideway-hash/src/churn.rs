//! What a change of table or policy moves, how much of it needlessly, and how even the shares are.
//!
//! [`Churn`] compares two tables slot by slot, or two policies over a sample of flows. Everything that changed owner is
//! counted under one of three reasons (see [`Move`]):
//!
//! - *departed*: the old owner takes no new flows any more, so it had to move;
//! - *attracted*: the old owner stays, but the new one joined or gained weight, or the old one lost some: the change asked
//!   for it;
//! - *needless*: neither. It is the price of the rule, and what consistent hashing is judged by.
//!
//! Departed and attracted moves are not all unavoidable: [`Churn::least`] is the number that no rule with the same shares
//! could go below.
//!
//! [`Balance`] says how even shares are, with the measures of the literature defined.
//!
//! ```
//! use guideway_hash::churn::{Churn, flow_hashes};
//! use guideway_hash::policy::{Balancer, Candidate, Maglev, Policy, Rendezvous};
//!
//! let backends = ["a", "b", "c", "d"].map(|name| Candidate::new(name));
//! let mut before = Balancer::new(Maglev::default());
//! let mut after = Balancer::new(Maglev::default());
//! before.reconcile(&backends)?;
//! after.reconcile(&backends[..3])?;
//!
//! let churn = Churn::of_policies(&before, &after, flow_hashes(20_000))?;
//! assert!(churn.moves.needless < 100, "of 20,000 flows: {}", churn.moves.needless);
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```

use alloc::collections::TryReserveError;
use alloc::vec::Vec;
use core::cmp::Ordering;

use crate::hash::native;
use crate::policy::{Correspondence, Move, Moves, Policy, Roster};
use crate::table::Table;

/// What changed owner between two states.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Churn {
    /// How many slots or flows were compared, and how many moved, by reason.
    pub moves: Moves,
    /// The fewest that could have moved for each backend to end with as many as it did: what backends lost on balance.
    pub least: u64,
    /// Per backend of either state, in canonical order of identity.
    pub backends: Vec<BackendChurn>,
}

/// What one backend gained and lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BackendChurn {
    /// Its place in the old list, if it was eligible there.
    pub old: Option<u32>,
    /// Its place in the new list, if it is eligible there.
    pub new: Option<u32>,
    /// What it owned before.
    pub before: u64,
    /// What it owns after.
    pub after: u64,
    /// What it owns after and did not before.
    pub gained: u64,
    /// What it owned before and does not after.
    pub lost: u64,
    /// The part of what it lost that moved needlessly.
    pub lost_needlessly: u64,
}

/// Why two states can't be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChurnError {
    /// The tables have different sizes, so their slots don't correspond.
    #[error(
        "the old table has {old} slots and the new one {new}; compare them over a sample of flows instead"
    )]
    SizesDiffer {
        /// Slots of the old table.
        old: u32,
        /// Slots of the new table.
        new: u32,
    },
    /// Something is owned by a backend that the roster does not have.
    #[error(
        "owner {owner} is not among the {side} backends; give the backends that the {side} state was built from"
    )]
    UnknownOwner {
        /// The owner's place in the list.
        owner: u32,
        /// `old` or `new`.
        side: &'static str,
    },
    /// A policy has nothing committed.
    #[error("the {side} policy has nothing committed; reconcile it first")]
    NothingCommitted {
        /// `old` or `new`.
        side: &'static str,
    },
    /// Memory could not be had.
    #[error("out of memory while comparing")]
    Allocation,
}

impl From<TryReserveError> for ChurnError {
    fn from(_: TryReserveError) -> Self {
        Self::Allocation
    }
}

impl Churn {
    /// Compares two tables of one size, slot by slot. Owners are places in the lists that the rosters were made of.
    ///
    /// Differences in weight count as reasons to move only if `weighted`.
    ///
    /// # Errors
    /// [`ChurnError::SizesDiffer`], [`ChurnError::UnknownOwner`], [`ChurnError::Allocation`].
    pub fn of_tables(
        (old_table, old): (&Table, &Roster),
        (new_table, new): (&Table, &Roster),
        weighted: bool,
    ) -> Result<Self, ChurnError> {
        if old_table.size() != new_table.size() {
            return Err(ChurnError::SizesDiffer { old: old_table.size(), new: new_table.size() });
        }
        Self::of_owners(old, new, weighted, old_table.iter().zip(new_table))
    }

    /// Compares the answers of two tables of any sizes to flows of the given hashes.
    ///
    /// # Errors
    /// [`ChurnError::UnknownOwner`], [`ChurnError::Allocation`].
    pub fn of_tables_over_flows(
        (old_table, old): (&Table, &Roster),
        (new_table, new): (&Table, &Roster),
        weighted: bool,
        flows: impl Iterator<Item = u64>,
    ) -> Result<Self, ChurnError> {
        Self::of_owners(old, new, weighted, flows.map(|hash| (old_table.pick(hash), new_table.pick(hash))))
    }

    /// Compares the answers of two policies, of one kind or two, to flows of the given hashes.
    ///
    /// Differences in weight count as reasons to move if either policy is weighted.
    ///
    /// # Errors
    /// [`ChurnError::NothingCommitted`], [`ChurnError::Allocation`].
    pub fn of_policies(
        old: &(impl Policy + ?Sized),
        new: &(impl Policy + ?Sized),
        flows: impl Iterator<Item = u64>,
    ) -> Result<Self, ChurnError> {
        let old_roster = old.roster().ok_or(ChurnError::NothingCommitted { side: "old" })?;
        let new_roster = new.roster().ok_or(ChurnError::NothingCommitted { side: "new" })?;
        let weighted = old.is_weighted() || new.is_weighted();
        let owners =
            flows.filter_map(|hash| Some((old.pick_hash(hash)? as u32, new.pick_hash(hash)? as u32)));
        Self::of_owners(old_roster, new_roster, weighted, owners)
    }

    /// Compares pairs of an old and a new owner, each a place in the list that its roster was made of.
    ///
    /// # Errors
    /// [`ChurnError::UnknownOwner`], [`ChurnError::Allocation`].
    pub fn of_owners(
        old: &Roster,
        new: &Roster,
        weighted: bool,
        owners: impl Iterator<Item = (u32, u32)>,
    ) -> Result<Self, ChurnError> {
        let change = Correspondence::new(old, new, weighted)?;
        let Merged { mut backends, old_rows, new_rows } = merge(old, new)?;
        let (old_places, new_places) = (positions(old)?, positions(new)?);
        let find = |places: &[u32], owner: u32, side| {
            let place = places.get(owner as usize).copied().filter(|&position| position != NOWHERE);
            place.ok_or(ChurnError::UnknownOwner { owner, side })
        };
        let mut moves = Moves::default();
        for (was, is) in owners {
            let was = find(&old_places, was, "old")?;
            let is = find(&new_places, is, "new")?;
            let fate = change.judge(was, is);
            moves.count(fate);
            let loser = &mut backends[old_rows[was as usize] as usize];
            loser.before += 1;
            loser.lost += u64::from(fate != Move::Stayed);
            loser.lost_needlessly += u64::from(fate == Move::Needless);
            let winner = &mut backends[new_rows[is as usize] as usize];
            winner.after += 1;
            winner.gained += u64::from(fate != Move::Stayed);
        }
        let least = backends.iter().map(|backend| backend.before.saturating_sub(backend.after)).sum();
        Ok(Self { moves, least, backends })
    }
}

/// `count` hashes that stand for as many flows, the same in every run.
pub fn flow_hashes(count: u64) -> impl Iterator<Item = u64> + Clone {
    /// Any seed does; this one keeps the sample apart from other uses of the hash.
    const SEED: u64 = 0x666c_6f77_7361_6d70;
    (0..count).map(|number| native::hash_words(SEED, &[number]))
}

struct Merged {
    backends: Vec<BackendChurn>,
    /// Per old position, its row in `backends`.
    old_rows: Vec<u32>,
    /// Per new position, its row in `backends`.
    new_rows: Vec<u32>,
}

/// One row for each backend of either roster, in canonical order.
fn merge(old: &Roster, new: &Roster) -> Result<Merged, ChurnError> {
    let mut merged = Merged { backends: Vec::new(), old_rows: Vec::new(), new_rows: Vec::new() };
    merged.backends.try_reserve(old.len() + new.len())?;
    merged.old_rows.try_reserve_exact(old.len())?;
    merged.new_rows.try_reserve_exact(new.len())?;
    let (mut before, mut after) = (old.iter().peekable(), new.iter().peekable());
    loop {
        let order = match (before.peek(), after.peek()) {
            (None, None) => return Ok(merged),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(was), Some(is)) => was.identity.cmp(is.identity),
        };
        let row = merged.backends.len() as u32;
        let mut backend = BackendChurn::default();
        if order != Ordering::Greater {
            backend.old = before.next().map(|member| member.index);
            merged.old_rows.push(row);
        }
        if order != Ordering::Less {
            backend.new = after.next().map(|member| member.index);
            merged.new_rows.push(row);
        }
        merged.backends.push(backend);
    }
}

const NOWHERE: u32 = u32::MAX;

/// Per place in the list that `roster` was made of, the position, or [`NOWHERE`].
fn positions(roster: &Roster) -> Result<Vec<u32>, ChurnError> {
    let length = roster.iter().map(|member| member.index as usize + 1).max().unwrap_or(0);
    let mut positions = Vec::new();
    positions.try_reserve_exact(length)?;
    positions.resize(length, NOWHERE);
    for (position, member) in (0u32..).zip(roster.iter()) {
        positions[member.index as usize] = position;
    }
    Ok(positions)
}

/// How even the shares of backends are.
///
/// The *load* of a backend is what it owns divided by what it should own, `total x weight / sum of weights`; 1 is its
/// fair share. Backends of weight 0 are left out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Balance {
    /// Backends with a weight.
    pub backends: usize,
    /// What they own together.
    pub total: u64,
    /// The least that one owns.
    pub min: u64,
    /// The most that one owns.
    pub max: u64,
    /// What they own on average.
    pub mean: f64,
    /// The lowest load: least / mean where weights are equal.
    pub min_over_mean: f64,
    /// The highest load: most / mean where weights are equal.
    pub max_over_mean: f64,
    /// The coefficient of variation of the loads: their standard deviation over their mean.
    pub variation: f64,
    /// The over-provisioning factor: how much more capacity than its fair share each backend needs so that the busiest
    /// is not overloaded. It is the highest load less 1, so 0.02 means 2 % (the Maglev paper, section 5.3).
    pub over_provisioning: f64,
}

impl Balance {
    /// The balance of `counts`, with the weight of each. `None` when nothing is owned or nobody has a weight.
    pub fn of(counts: impl IntoIterator<Item = (u64, u32)> + Clone) -> Option<Self> {
        let counted = || counts.clone().into_iter().filter(|&(_, weight)| weight > 0);
        let backends = counted().count();
        let total: u64 = counted().map(|(count, _)| count).sum();
        let weights: u64 = counted().map(|(_, weight)| u64::from(weight)).sum();
        if backends == 0 || total == 0 {
            return None;
        }
        let load =
            |(count, weight): (u64, u32)| count as f64 * weights as f64 / (total as f64 * f64::from(weight));
        let loads = || counted().map(load);
        let mean_load = loads().sum::<f64>() / backends as f64;
        let variance =
            loads().map(|load| (load - mean_load) * (load - mean_load)).sum::<f64>() / backends as f64;
        let max_over_mean = loads().fold(0.0, f64::max);
        Some(Self {
            backends,
            total,
            min: counted().map(|(count, _)| count).min()?,
            max: counted().map(|(count, _)| count).max()?,
            mean: total as f64 / backends as f64,
            min_over_mean: loads().fold(f64::INFINITY, f64::min),
            max_over_mean,
            variation: square_root(variance) / mean_load,
            over_provisioning: max_over_mean - 1.0,
        })
    }
}

/// The square root, by Newton's method: `core` has none. Good to a few last bits, for reports.
fn square_root(value: f64) -> f64 {
    if value <= 0.0 {
        return 0.0;
    }
    // Halving the exponent gives a first guess within a factor of two.
    let mut root = f64::from_bits((value.to_bits() >> 1) + (1023 << 51));
    for _ in 0..6 {
        root = (root + value / root) / 2.0;
    }
    root
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{Balancer, Candidate, Modulo};
    use crate::table::Slots;

    fn roster(names: &[&str]) -> Roster {
        let list: Vec<_> = names.iter().map(Candidate::new).collect();
        Roster::new(&list).unwrap()
    }

    fn table(owners: &[u16]) -> Table {
        Table::new(Slots::U16(owners.into()))
    }

    #[test]
    fn the_papers_example_moves_one_slot_needlessly() {
        // M = 7: `1 0 1 0 2 2 0`, and `0 0 0 0 2 2 2` without B1. Slot 6 moves from B0 to B2 though both stay.
        let (old, new) = (roster(&["B0", "B1", "B2"]), roster(&["B0", "B2"]));
        let (before, after) = (table(&[1, 0, 1, 0, 2, 2, 0]), table(&[0, 0, 0, 0, 1, 1, 1]));
        let churn = Churn::of_tables((&before, &old), (&after, &new), true).unwrap();
        assert_eq!(churn.moves, Moves { compared: 7, departed: 2, attracted: 0, needless: 1 });
        assert_eq!(churn.least, 2);
        let b0 = BackendChurn {
            old: Some(0),
            new: Some(0),
            before: 3,
            after: 4,
            gained: 2,
            lost: 1,
            lost_needlessly: 1,
        };
        let b1 = BackendChurn { old: Some(1), before: 2, lost: 2, ..BackendChurn::default() };
        let b2 = BackendChurn {
            old: Some(2),
            new: Some(1),
            before: 2,
            after: 3,
            gained: 1,
            ..BackendChurn::default()
        };
        assert_eq!(churn.backends, [b0, b1, b2]);
    }

    #[test]
    fn a_newcomer_attracts() {
        let (old, new) = (roster(&["a", "c"]), roster(&["b", "a", "c"]));
        let (before, after) = (table(&[0, 0, 1, 1, 1]), table(&[1, 0, 0, 2, 1]));
        let churn = Churn::of_tables((&before, &old), (&after, &new), true).unwrap();
        assert_eq!(churn.moves, Moves { compared: 5, departed: 0, attracted: 2, needless: 1 });
    }

    #[test]
    fn what_cannot_be_compared_is_refused() {
        let two = roster(&["a", "b"]);
        let sizes = Churn::of_tables((&table(&[0, 1]), &two), (&table(&[0, 1, 0]), &two), true);
        assert_eq!(sizes, Err(ChurnError::SizesDiffer { old: 2, new: 3 }));
        let owner = Churn::of_tables((&table(&[0, 1]), &two), (&table(&[0, 5]), &two), true);
        assert_eq!(owner, Err(ChurnError::UnknownOwner { owner: 5, side: "new" }));
        let empty = Balancer::new(Modulo);
        let nothing = Churn::of_policies(&empty, &empty, flow_hashes(1));
        assert_eq!(nothing, Err(ChurnError::NothingCommitted { side: "old" }));
    }

    #[test]
    fn balance_measures_are_as_defined() {
        let even = Balance::of([(10, 1), (10, 1)]).unwrap();
        assert_eq!((even.max_over_mean, even.variation, even.over_provisioning), (1.0, 0.0, 0.0));

        let skewed = Balance::of([(30, 1), (10, 1), (5, 0)]).unwrap();
        assert_eq!((skewed.backends, skewed.total, skewed.min, skewed.max), (2, 40, 10, 30));
        assert!((skewed.max_over_mean - 1.5).abs() < 1e-12);
        assert!((skewed.over_provisioning - 0.5).abs() < 1e-12);
        assert!((skewed.variation - 0.5).abs() < 1e-12);

        let weighted = Balance::of([(75, 3), (25, 1)]).unwrap();
        assert!((weighted.max_over_mean - 1.0).abs() < 1e-12 && weighted.variation < 1e-9);

        assert_eq!(Balance::of([(0, 1)]), None);
        assert_eq!(Balance::of([(1, 0)]), None);
    }

    #[test]
    fn the_square_root_is_one() {
        for value in [1e-30, 1e-9, 0.25, 1.0, 2.0, 1e6, 1e30] {
            let root = square_root(value);
            assert!((root * root / value - 1.0).abs() < 1e-14, "{value}");
        }
    }
}
