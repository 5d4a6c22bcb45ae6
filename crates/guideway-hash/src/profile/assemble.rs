//! From turns to a table whose owners are places in the caller's input.

use super::{Input, ProfileError, member::Placed};
use crate::{
    maglev::{self, BuildError, Preference, Turns},
    table::Table,
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
    let table = Table::pack(slots, backends, owners.map(place));
    Ok(table.map_err(|_| BuildError::Allocation { slots, backends })?)
}
