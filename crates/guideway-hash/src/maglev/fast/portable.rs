//! Looks without vectors.

use core::ops::Range;

use super::board::{Board, Owner};
use super::reach::Reach;
use super::seek::{self, ABREAST};
use super::tail;
use crate::maglev::{BuildError, Turns};

/// Gives the turns of `span`.
pub(super) fn turns<S: Owner>(
    board: &mut Board<S>,
    turns: &mut impl Turns,
    span: Range<u32>,
) -> Result<(), BuildError> {
    seek::turns(board, turns, span, |taken: &[u32], slots: [u32; ABREAST]| {
        (0..).zip(slots).fold(0, |refused, (place, slot)| {
            refused | ((taken[(slot >> 5) as usize] >> (slot & 31)) & 1) << place
        })
    })
}

/// The search of the last turns, by what every machine can do.
pub(super) struct Search;

impl tail::Search for Search {
    fn nearest<R: Reach>(free: &[u32], walks: &[R; 4]) -> [u32; 4] {
        tail::nearest(free, walks)
    }
}
