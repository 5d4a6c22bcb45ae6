//! The walk without vectors: several slots of one walk are looked at before anything is decided.

use super::Unknown;
use super::board::{Board, Owner, Walker, step};
use super::walk::walk;
use crate::maglev::Turns;

/// Gives `count` turns, looking at `K` slots at a time, 8 at most.
///
/// Whether a slot is free is a coin toss in the middle of a fill, and a branch on it is mispredicted as often as a
/// coin. So `K` answers are collected as bits, and the first free slot is found by counting.
pub(super) fn turns<S: Owner, const K: usize>(
    board: &mut Board<S>,
    turns: &mut impl Turns,
    count: u32,
) -> Result<(), Unknown> {
    let size = board.size;
    walk(board, turns, count, |taken, Walker { mut at, skip }| {
        loop {
            let mut wanted = [0_u32; 8];
            let mut refused = 0;
            for (place, wanted) in wanted[..K].iter_mut().enumerate() {
                *wanted = at;
                refused |= ((taken[(at >> 5) as usize] >> (at & 31)) & 1) << place;
                at = step(at, skip, size);
            }
            let first_free = refused.trailing_ones() as usize;
            if first_free < K {
                return wanted[first_free & 7];
            }
        }
    })
}

/// Gives the first `count` turns, when a free slot is nearly always the first that is looked at: then guessing so
/// is right, and looking at more would be wasted.
pub(super) fn open_turns<S: Owner>(
    board: &mut Board<S>,
    turns: &mut impl Turns,
    count: u32,
) -> Result<(), Unknown> {
    let Board { size, walkers, taken, owners } = board;
    let (size, walkers, taken, owners) = (*size, &mut walkers[..], &mut taken[..], &mut owners[..]);
    for after in 0..count {
        let backend = turns.next();
        let Some(walker) = walkers.get_mut(backend as usize) else { return Err(Unknown { after, backend }) };
        let Walker { mut at, skip } = *walker;
        loop {
            let word = &mut taken[(at >> 5) as usize];
            let bit = 1 << (at & 31);
            if *word & bit == 0 {
                *word |= bit;
                break;
            }
            at = step(at, skip, size);
        }
        owners[at as usize] = S::of(backend);
        walker.at = step(at, skip, size);
    }
    Ok(())
}
