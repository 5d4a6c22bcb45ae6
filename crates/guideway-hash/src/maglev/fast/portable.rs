//! The walk without vectors: several slots of one walk are looked at before anything is decided.

use core::ops::Range;

use super::Unknown;
use super::board::{Board, Owner, Walker, step};
use super::reach::Reach;
use super::tail;
use super::walk::walk;
use crate::maglev::Turns;

/// Gives the turns of `span`, looking at `K` slots at a time, 8 at most.
///
/// Whether a slot is free is a coin toss in the middle of a fill, and a branch on it is mispredicted as often as a
/// coin. So `K` answers are collected as bits, and the first free slot is found by counting.
pub(super) fn turns<S: Owner, const K: usize>(
    board: &mut Board<S>,
    turns: &mut impl Turns,
    span: Range<u32>,
) -> Result<(), Unknown> {
    let size = board.size;
    walk(board, turns, span, |taken, Walker { mut at, skip }| {
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

/// Gives the turns of `span`, looking at sixteen slots at a time.
///
/// When walks are long, each step waits for the one before. Four walkers who go four steps at a time don't.
pub(super) fn far_turns<S: Owner>(
    board: &mut Board<S>,
    turns: &mut impl Turns,
    span: Range<u32>,
) -> Result<(), Unknown> {
    let size = board.size;
    walk(board, turns, span, |taken, Walker { at, skip }| {
        let double = step(skip, skip, size);
        let stride = step(double, double, size);
        let second = step(at, skip, size);
        let mut four = [at, second, step(at, double, size), step(second, double, size)];
        loop {
            let mut wanted = [[0_u32; 4]; 4];
            let mut refused = 0;
            for (round, wanted) in wanted.iter_mut().enumerate() {
                *wanted = four;
                for (place, at) in four.iter_mut().enumerate() {
                    refused |= ((taken[(*at >> 5) as usize] >> (*at & 31)) & 1) << (4 * round + place);
                    *at = step(*at, stride, size);
                }
            }
            let first_free = refused.trailing_ones() as usize;
            if first_free < 16 {
                return wanted[first_free / 4 % 4][first_free % 4];
            }
        }
    })
}

/// The search of the last turns, by what every machine can do.
pub(super) struct Search;

impl tail::Search for Search {
    fn nearest<R: Reach>(free: &[u32], walks: &[R; 4]) -> [u32; 4] {
        tail::nearest(free, walks)
    }
}
