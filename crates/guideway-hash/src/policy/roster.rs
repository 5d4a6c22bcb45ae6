//! The eligible candidates in canonical order: what a committed state was built from.

use alloc::vec::Vec;

use super::{Candidate, ReconcileError};

/// The eligible candidates of a slice, copied, in canonical order (ascending bytes of identity).
///
/// Policies number backends by their *position* here, so that the order of the caller's slice can't matter, and
/// answer with the *index* that each had in the slice.
#[derive(Debug, Default)]
pub struct Roster {
    identities: Vec<u8>,
    members: Vec<Entry>,
    /// Positions, in the order of the slice.
    by_index: Vec<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    start: usize,
    end: usize,
    weight: u32,
    index: u32,
}

/// One member of a [`Roster`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member<'a> {
    /// The bytes that are hashed.
    pub identity: &'a [u8],
    /// Its weight, at least 1.
    pub weight: u32,
    /// Its place in the slice of candidates.
    pub index: u32,
}

impl Roster {
    /// The eligible ones among `candidates`.
    ///
    /// # Errors
    /// [`ReconcileError::Duplicate`] when two eligible candidates have one identity, [`ReconcileError::TooMany`]
    /// when the slice is longer than `u32` can number, [`ReconcileError::Allocation`].
    pub fn new(candidates: &[Candidate<'_>]) -> Result<Self, ReconcileError> {
        let too_many = |_| ReconcileError::TooMany {
            eligible: candidates.len(),
            limit: u32::MAX as usize,
            policy: "a roster",
        };
        u32::try_from(candidates.len()).map_err(too_many)?;

        let eligible = || (0u32..).zip(candidates).filter(|(_, candidate)| candidate.is_eligible());
        let mut roster = Self::default();
        roster.identities.try_reserve_exact(eligible().map(|(_, c)| c.identity().len()).sum())?;
        let count = eligible().count();
        roster.members.try_reserve_exact(count)?;
        roster.by_index.try_reserve_exact(count)?;

        for (index, candidate) in eligible() {
            let start = roster.identities.len();
            roster.identities.extend_from_slice(candidate.identity());
            let end = roster.identities.len();
            roster.members.push(Entry { start, end, weight: candidate.weight(), index });
        }
        let bytes = &roster.identities;
        // The index decides between duplicates, so that the error names them in the caller's order.
        roster.members.sort_unstable_by_key(|entry| (&bytes[entry.start..entry.end], entry.index));
        let same = |pair: &&[Entry]| bytes[pair[0].start..pair[0].end] == bytes[pair[1].start..pair[1].end];
        if let Some(pair) = roster.members.windows(2).find(same) {
            let (first, second) = (pair[0].index as usize, pair[1].index as usize);
            return Err(ReconcileError::Duplicate { first, second });
        }
        roster.by_index.extend(0..count as u32);
        let members = &roster.members;
        roster.by_index.sort_unstable_by_key(|&position| members[position as usize].index);
        Ok(roster)
    }

    /// How many members there are.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// The member at `position`.
    ///
    /// # Panics
    /// When `position` is not below [`len`](Self::len).
    pub fn member(&self, position: usize) -> Member<'_> {
        let entry = self.members[position];
        let identity = &self.identities[entry.start..entry.end];
        Member { identity, weight: entry.weight, index: entry.index }
    }

    /// The members in canonical order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Member<'_>> + Clone {
        (0..self.len()).map(|position| self.member(position))
    }

    /// The position of the member that has `index` in the slice, if that candidate is eligible.
    pub fn position(&self, index: u32) -> Option<u32> {
        let found = self.by_index.binary_search_by_key(&index, |&p| self.members[p as usize].index);
        found.ok().map(|at| self.by_index[at])
    }

    /// Where `candidates` first departs from the slice that this roster was made of, as far as the roster can tell:
    /// in which of them are eligible, their identities, indices and order, and their weights if `weighted`.
    ///
    /// Takes time proportional to the slice and no memory.
    pub fn first_difference(&self, candidates: &[Candidate<'_>], weighted: bool) -> Option<usize> {
        let mut committed = self.by_index.iter().map(|&position| self.member(position as usize));
        for (index, candidate) in candidates.iter().enumerate().filter(|(_, c)| c.is_eligible()) {
            let Some(member) = committed.next() else { return Some(index) };
            let same = member.index as usize == index
                && member.identity == candidate.identity()
                && (!weighted || member.weight == candidate.weight());
            if !same {
                return Some(index.min(member.index as usize));
            }
        }
        committed.next().map(|missing| (missing.index as usize).min(candidates.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::State;

    #[test]
    fn order_is_by_identity_and_index_is_kept() {
        let roster = Roster::new(&[Candidate::new("b"), Candidate::new("c"), Candidate::new("a")]).unwrap();
        let seen: Vec<_> = roster.iter().map(|m| (m.identity, m.index)).collect();
        assert_eq!(seen, [(&b"a"[..], 2), (b"b", 0), (b"c", 1)]);
        assert_eq!(roster.position(0), Some(1));
        assert_eq!(roster.position(3), None);
    }

    #[test]
    fn duplicates_are_named_in_the_callers_order() {
        let list = [Candidate::new("b"), Candidate::new("a"), Candidate::new("c"), Candidate::new("a")];
        assert_eq!(Roster::new(&list).unwrap_err(), ReconcileError::Duplicate { first: 1, second: 3 });
    }

    #[test]
    fn an_ineligible_duplicate_is_no_duplicate() {
        let list = [Candidate::new("a"), Candidate::new("a").with_state(State::Ineligible)];
        assert_eq!(Roster::new(&list).unwrap().len(), 1);
        let list = [Candidate::new("a").with_weight(0), Candidate::new("a")];
        assert_eq!(Roster::new(&list).unwrap().member(0).index, 1);
    }

    #[test]
    fn differences_are_found_where_they_are() {
        let (a, b, c) = (Candidate::new("a"), Candidate::new("b"), Candidate::new("c"));
        let roster = Roster::new(&[a, b]).unwrap();
        assert_eq!(roster.first_difference(&[a, b], true), None);
        assert_eq!(roster.first_difference(&[b, a], true), Some(0));
        assert_eq!(roster.first_difference(&[a, b, c], true), Some(2));
        assert_eq!(roster.first_difference(&[a], true), Some(1));
        assert_eq!(roster.first_difference(&[a, b.with_weight(2)], true), Some(1));
        assert_eq!(roster.first_difference(&[a, b.with_weight(2)], false), None);
        assert_eq!(roster.first_difference(&[a, b.with_weight(0)], false), Some(1));
        assert_eq!(roster.first_difference(&[a, b, c.with_state(State::Ineligible)], true), None);
        assert_eq!(roster.first_difference(&[a, c.with_state(State::Ineligible), b], true), Some(1));
        assert_eq!(roster.first_difference(&[a.with_state(State::Ineligible), b], true), Some(0));
    }
}
