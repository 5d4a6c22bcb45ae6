//! Turns in batches: first all look, then all claim.

use super::Unknown;
use super::board::{Board, Owner, Walker, step};
use crate::maglev::Turns;

/// Turns that look before any of them claims.
///
/// If each turn claimed at once, its store would stand between its own loads and the next turn's. The two touch
/// the same word often enough for the processor to stop guessing that they don't, and to finish one turn before it
/// begins the next. Eight looks without a store between them overlap.
const BATCH: usize = 8;

/// Gives the turns of `span`. `find` is the first free slot of a walk, given the bitmap of taken slots.
///
/// A look moves its backend past the slot that it found, where the backend's next look in the batch begins. Claiming starts
/// at that slot and looks again: a turn whose slot was claimed earlier in the same batch walks on. That is rare, as long
/// as there are many more free slots than turns in a batch.
#[inline(always)]
pub(super) fn walk<S: Owner>(
    board: &mut Board<S>,
    turns: &mut impl Turns,
    span: core::ops::Range<u32>,
    find: impl Fn(&[u32], Walker) -> u32,
) -> Result<(), Unknown> {
    let mut field = board.field();
    let mut turn = span.start;
    while turn < span.end {
        let mut batch = [(0, 0); BATCH];
        let batch = &mut batch[..BATCH.min((span.end - turn) as usize)];
        for (turn, found) in (turn..).zip(&mut *batch) {
            let backend = turns.next();
            let Some(walker) = field.walkers.get_mut(backend as usize) else {
                return Err(Unknown { turn, backend });
            };
            let slot = find(field.taken, *walker);
            walker.at = step(slot, walker.skip, field.size);
            *found = (backend, slot);
        }
        for &mut (backend, slot) in &mut *batch {
            field.claim_from(backend, slot);
        }
        turn += batch.len() as u32;
    }
    Ok(())
}

/// Gives the turns of `span` one look at a time: when a free slot is nearly always the first that is looked at,
/// guessing so is right, and looking at more would be wasted.
pub(super) fn step_by_step<S: Owner>(
    board: &mut Board<S>,
    turns: &mut impl Turns,
    span: core::ops::Range<u32>,
) -> Result<(), Unknown> {
    let mut field = board.field();
    for turn in span {
        let backend = turns.next();
        if backend as usize >= field.walkers.len() {
            return Err(Unknown { turn, backend });
        }
        field.claim(backend);
    }
    Ok(())
}
