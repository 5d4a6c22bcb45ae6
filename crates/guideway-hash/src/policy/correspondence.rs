//! Who is who between two rosters, and what a change asked for.

use alloc::collections::TryReserveError;
use alloc::vec::Vec;
use core::cmp::Ordering;

use super::Roster;

/// What became of the members of one roster in another.
#[derive(Debug)]
pub struct Correspondence {
    /// Per old position, the new one, or [`GONE`].
    new_positions: Vec<u32>,
    /// Per old position, whether it lost weight. A member that is gone lost all of it.
    lighter: Vec<bool>,
    /// Per new position, whether it joined or gained weight.
    heavier: Vec<bool>,
}

const GONE: u32 = u32::MAX;

/// Why a slot or a flow changed its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    /// It did not.
    Stayed,
    /// Its old owner may no longer take new flows.
    Departed,
    /// The change asked for it: its new owner joined or gained weight, or its old owner lost some.
    Attracted,
    /// Nothing asked for it: both owners were there before and are there after, and neither did the old one lose
    /// weight nor the new one gain any.
    Needless,
}

impl Correspondence {
    /// Matches the members of `old` and `new` by identity. Differences in weight count only if `weighted`.
    ///
    /// # Errors
    /// When memory can't be had.
    pub fn new(old: &Roster, new: &Roster, weighted: bool) -> Result<Self, TryReserveError> {
        let mut this = Self {
            new_positions: filled(GONE, old.len())?,
            lighter: filled(true, old.len())?,
            heavier: filled(true, new.len())?,
        };
        // Both are sorted by identity: one walk over the two finds all pairs.
        let (mut before, mut after) = (0, 0);
        while before < old.len() && after < new.len() {
            let (was, is) = (old.member(before), new.member(after));
            match was.identity.cmp(is.identity) {
                Ordering::Less => before += 1,
                Ordering::Greater => after += 1,
                Ordering::Equal => {
                    this.new_positions[before] = after as u32;
                    this.lighter[before] = weighted && is.weight < was.weight;
                    this.heavier[after] = weighted && is.weight > was.weight;
                    before += 1;
                    after += 1;
                }
            }
        }
        Ok(this)
    }

    /// The new position of the member at old position `old`, if it is still there.
    #[inline]
    pub fn new_position(&self, old: u32) -> Option<u32> {
        let position = self.new_positions[old as usize];
        (position != GONE).then_some(position)
    }

    /// The new position of the member at old position `old`, if it is still there and no lighter than it was.
    #[inline]
    pub fn undiminished(&self, old: u32) -> Option<u32> {
        if self.lighter[old as usize] { None } else { self.new_position(old) }
    }

    /// The new positions of those that joined or gained weight.
    pub fn challengers(&self) -> impl Iterator<Item = u32> {
        (0u32..).zip(&self.heavier).filter(|&(_, &heavier)| heavier).map(|(position, _)| position)
    }

    /// Why something that old position `old` owned is now owned by new position `new`.
    #[inline]
    pub fn judge(&self, old: u32, new: u32) -> Move {
        match self.new_position(old) {
            Some(still) if still == new => Move::Stayed,
            None => Move::Departed,
            Some(_) if self.lighter[old as usize] || self.heavier[new as usize] => Move::Attracted,
            Some(_) => Move::Needless,
        }
    }
}

fn filled<T: Clone>(value: T, count: usize) -> Result<Vec<T>, TryReserveError> {
    let mut vec = Vec::new();
    vec.try_reserve_exact(count)?;
    vec.resize(count, value);
    Ok(vec)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Candidate;

    fn roster(list: &[(&str, u32)]) -> Roster {
        let list: Vec<_> =
            list.iter().map(|&(name, weight)| Candidate::new(name).with_weight(weight)).collect();
        Roster::new(&list).unwrap()
    }

    #[test]
    fn moves_are_judged_by_what_the_change_asked_for() {
        let old = roster(&[("a", 1), ("b", 2), ("c", 2), ("d", 2)]);
        let new = roster(&[("b", 2), ("c", 1), ("d", 3), ("e", 1)]);
        let change = Correspondence::new(&old, &new, true).unwrap();
        let [a, b, c, _d] = [0, 1, 2, 3];
        let [b_now, c_now, d_now, e_now] = [0, 1, 2, 3];
        assert_eq!(change.judge(a, b_now), Move::Departed);
        assert_eq!(change.judge(b, b_now), Move::Stayed);
        assert_eq!(change.judge(b, e_now), Move::Attracted);
        assert_eq!(change.judge(b, d_now), Move::Attracted);
        assert_eq!(change.judge(c, b_now), Move::Attracted);
        assert_eq!(change.judge(b, c_now), Move::Needless);
        assert_eq!(change.challengers().collect::<Vec<_>>(), [d_now, e_now]);

        let unweighted = Correspondence::new(&old, &new, false).unwrap();
        assert_eq!(unweighted.judge(b, d_now), Move::Needless);
        assert_eq!(unweighted.judge(c, b_now), Move::Needless);
        assert_eq!(unweighted.challengers().collect::<Vec<_>>(), [e_now]);
    }
}
