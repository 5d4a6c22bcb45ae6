//! From turns to a table whose owners are places in the caller's input.

use alloc::{boxed::Box, vec::Vec};

use super::{Input, ProfileError, member::Placed};
use crate::{
    maglev::{self, BuildError, Preference, Turns},
    table::{MAX_NARROW_BACKENDS, Slots, Table},
};

/// Fills the table by turns, then names its owners by their places.
pub(super) fn fill(
    input: &Input<'_>,
    members: &[Placed<'_>],
    preferences: &[Preference],
    turns: impl Turns,
) -> Result<Table, ProfileError> {
    let filled = maglev::fill(input.size, preferences, turns)?;
    relabel(input, filled.iter(), |index| members[index as usize].place)
}

/// The table of these owners, each renamed by `place`.
pub(super) fn relabel(
    input: &Input<'_>,
    owners: impl Iterator<Item = u32>,
    place: impl Fn(u32) -> u32,
) -> Result<Table, ProfileError> {
    let (slots, backends) = (input.size, input.members.len());
    let out_of_memory = |_| BuildError::Allocation { slots, backends };
    let slots = if backends <= MAX_NARROW_BACKENDS {
        let mut narrow: Vec<u16> = Vec::new();
        narrow.try_reserve_exact(slots as usize).map_err(out_of_memory)?;
        narrow.extend(owners.map(|owner| place(owner) as u16));
        Slots::U16(Box::from(narrow))
    } else {
        let mut wide: Vec<u32> = Vec::new();
        wide.try_reserve_exact(slots as usize).map_err(out_of_memory)?;
        wide.extend(owners.map(place));
        Slots::U32(Box::from(wide))
    };
    Ok(Table::new(slots))
}
