//! The fill for walks that may miss slots: a system that doesn't notice would look for a free slot for ever.

use alloc::{vec, vec::Vec};

use crate::maglev::Turns;

/// A backend's walk over the table.
pub(super) trait Walk {
    /// The slot where it stands; then it takes one step.
    fn advance(&mut self) -> u32;
    /// After how many steps the walk has seen all that it ever will.
    fn period(&self) -> u64;
}

/// A walk that found no free slot.
pub(super) struct Stuck {
    /// Index of the backend.
    pub(super) backend: usize,
    /// Slots without owner.
    pub(super) free: u32,
}

/// Fills `size` slots: turn after turn, the backend whose turn it is goes on to its next free slot.
pub(super) fn fill<W: Walk>(size: u32, walks: &mut [W], mut turns: impl Turns) -> Result<Vec<u32>, Stuck> {
    let mut owners = vec![u32::MAX; size as usize];
    for taken in 0..size {
        let who = turns.next();
        let walk = &mut walks[who as usize];
        let mut left = walk.period();
        loop {
            let owner = &mut owners[walk.advance() as usize];
            if *owner == u32::MAX {
                *owner = who;
                break;
            }
            left -= 1;
            if left == 0 {
                return Err(Stuck { backend: who as usize, free: size - taken });
            }
        }
    }
    Ok(owners)
}

/// The slot `skip` further on, on a circle of `size` slots.
#[inline]
pub(super) const fn step(slot: u32, skip: u32, size: u32) -> u32 {
    let room = size - skip;
    if slot >= room { slot - room } else { slot + skip }
}

pub(super) const fn gcd(mut a: u32, mut b: u32) -> u32 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
