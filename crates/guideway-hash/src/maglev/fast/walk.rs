//! The walk of a nearly empty table.

use core::ops::Range;

use super::Unknown;
use super::board::{Board, Owner};
use crate::maglev::{BuildError, Turns};

/// Gives the turns of `span` one look at a time: when a free slot is nearly always the first that is looked at,
/// guessing so is right, and looking at more would be wasted.
pub(super) fn step_by_step<S: Owner>(
    board: &mut Board<S>,
    turns: &mut impl Turns,
    span: Range<u32>,
) -> Result<(), BuildError> {
    let backends = board.walkers.len();
    let mut field = board.field();
    for turn in span {
        let backend = turns.next();
        if backend as usize >= backends {
            return Err(Unknown { turn, backend }.among(backends));
        }
        field.claim(backend);
    }
    Ok(())
}
