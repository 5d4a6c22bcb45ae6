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
