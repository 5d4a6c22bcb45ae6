//! The fill as the paper prints it, kept as the oracle that the fast fill is checked against.

use alloc::vec::Vec;

use super::{BuildError, Preference, Turns, preference};
use crate::table::Table;

/// What the paper writes as -1: no backend has claimed the slot.
const FREE: u32 = u32::MAX;

/// Fills a table by the literal loop of the paper's pseudocode (section 3.4), one multiplication and one division
/// for every slot that is looked at.
///
/// Some M ln M slots are looked at, whatever the number of backends. It is here to be compared with:
/// [`fill`](super::fill) gives the same table sooner.
///
/// # Errors
/// As [`fill`](super::fill).
pub fn fill_textbook(
    size: u32,
    preferences: &[Preference],
    mut turns: impl Turns,
) -> Result<Table, BuildError> {
    preference::validate(size, preferences)?;
    let backends = preferences.len();
    let modulus = u64::from(size);
    let mut next: Vec<u64> = Vec::new();
    let mut entry: Vec<u32> = Vec::new();
    let out_of_memory = |_| BuildError::Allocation { slots: size, backends };
    next.try_reserve_exact(backends).map_err(out_of_memory)?;
    next.resize(backends, 0);
    entry.try_reserve_exact(size as usize).map_err(out_of_memory)?;
    entry.resize(size as usize, FREE);
    for turn in 0..size {
        let backend = turns.next();
        let index = backend as usize;
        let &Preference { offset, skip } =
            preferences.get(index).ok_or(BuildError::UnknownBackend { turn, backend, backends })?;
        let slot_of = |place: u64| ((u64::from(offset) + place * u64::from(skip)) % modulus) as usize;
        let mut slot = slot_of(next[index]);
        while entry[slot] != FREE {
            next[index] += 1;
            slot = slot_of(next[index]);
        }
        entry[slot] = backend;
        next[index] += 1;
    }
    // Every slot has been claimed: M turns claimed one each.
    Table::pack(size, backends, entry.into_iter()).map_err(out_of_memory)
}
