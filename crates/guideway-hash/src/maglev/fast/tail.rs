//! The last slots of a fill.
//!
//! A fill looks at some M ln M slots, and two thirds of them in its last sqrt(M) turns, when a backend walks past
//! hundreds of taken slots to find a free one. It is cheaper to ask each free slot how far along the walk it lies:
//! `rank = (slot - at) * skip^-1 mod M`. The smallest rank is the slot the walk would reach first.

use alloc::vec::Vec;

use super::board::{Board, Owner, Walker, step};
use crate::maglev::{BuildError, Turns};

/// Gives the last `count` turns: there are as many free slots.
pub(super) fn finish<S: Owner>(
    board: &mut Board<S>,
    turns: &mut impl Turns,
    count: u32,
    nearest: impl Fn(&[u32], &Walk) -> u32,
) -> Result<(), BuildError> {
    let (size, backends) = (board.size, board.walkers.len());
    let out_of_memory = |_| BuildError::Allocation { slots: size, backends };
    let mut order: Vec<u32> = Vec::new();
    order.try_reserve_exact(count as usize).map_err(out_of_memory)?;
    for done in 0..count {
        let backend = turns.next();
        if backend as usize >= backends {
            return Err(BuildError::UnknownBackend { turn: size - count + done, backend, backends });
        }
        order.push(backend);
    }
    let mut free: Vec<u32> = Vec::new();
    free.try_reserve_exact(count as usize).map_err(out_of_memory)?;
    free.extend(FreeSlots::new(&board.taken, size));
    debug_assert_eq!(free.len(), count as usize);
    // A free slot's owner is not needed yet: its entry holds the slot's place in the list.
    for (place, &slot) in free.iter().enumerate() {
        board.owners[slot as usize] = S::of(place as u32);
    }
    let inverses = inverses(board, &order).map_err(out_of_memory)?;
    for (&backend, &inverse) in order.iter().zip(&inverses) {
        let Walker { at, skip } = board.walkers[backend as usize];
        let walk =
            Walk { size, at, inverse, reciprocal: ((u64::from(inverse) << 32) / u64::from(size)) as u32 };
        let rank = nearest(&free, &walk);
        let slot = ((u64::from(at) + u64::from(rank) * u64::from(skip)) % u64::from(size)) as u32;
        let place: u32 = board.owners[slot as usize].into();
        free.swap_remove(place as usize);
        if let Some(&moved) = free.get(place as usize) {
            board.owners[moved as usize] = S::of(place);
        }
        board.owners[slot as usize] = S::of(backend);
        board.walkers[backend as usize].at = step(slot, skip, size);
    }
    Ok(())
}

/// A walk, prepared for asking how far along it slots lie.
pub(super) struct Walk {
    pub(super) size: u32,
    /// The slot at distance 0.
    pub(super) at: u32,
    /// `skip^-1 mod size`.
    pub(super) inverse: u32,
    /// `inverse * 2^32 / size`, rounded down.
    pub(super) reciprocal: u32,
}

impl Walk {
    /// How many steps along the walk `slot` lies.
    #[inline(always)]
    pub(super) fn rank(&self, slot: u32) -> u32 {
        let distance = slot.wrapping_sub(self.at);
        let distance = distance.min(distance.wrapping_add(self.size));
        // distance * inverse mod size: the estimate of the quotient is at most one too small.
        let quotient = ((u64::from(distance) * u64::from(self.reciprocal)) >> 32) as u32;
        let rest = distance.wrapping_mul(self.inverse).wrapping_sub(quotient.wrapping_mul(self.size));
        rest.min(rest.wrapping_sub(self.size))
    }
}

/// The smallest rank of `free`.
#[inline(always)]
pub(super) fn nearest(free: &[u32], walk: &Walk) -> u32 {
    free.iter().fold(u32::MAX, |least, &slot| least.min(walk.rank(slot)))
}

/// For each turn of `order`, the inverse of its backend's skip.
///
/// One inversion serves them all: with the products of all skips up to each one, the inverse of the last product
/// yields the single inverses backwards (Montgomery's trick).
fn inverses<S: Owner>(
    board: &Board<S>,
    order: &[u32],
) -> Result<Vec<u32>, alloc::collections::TryReserveError> {
    let size = u64::from(board.size);
    let skip_of = |backend: u32| u64::from(board.walkers[backend as usize].skip);
    let mut inverses = Vec::new();
    inverses.try_reserve_exact(order.len())?;
    let mut product = 1 % size;
    for &backend in order {
        inverses.push(product as u32);
        product = product * skip_of(backend) % size;
    }
    let mut inverse = invert(product, size);
    for (slot, &backend) in inverses.iter_mut().zip(order).rev() {
        *slot = (inverse * u64::from(*slot) % size) as u32;
        inverse = inverse * skip_of(backend) % size;
    }
    Ok(inverses)
}

/// The inverse of `a` modulo `modulus`, with which it is coprime, by the extended Euclidean algorithm.
fn invert(a: u64, modulus: u64) -> u64 {
    let (mut r0, mut r1) = (modulus as i64, a as i64);
    let (mut t0, mut t1) = (0_i64, 1_i64);
    while r1 != 0 {
        let quotient = r0 / r1;
        (r0, r1) = (r1, r0 - quotient * r1);
        (t0, t1) = (t1, t0 - quotient * t1);
    }
    t0.rem_euclid(modulus as i64) as u64
}

/// The free slots of a bitmap, in order.
struct FreeSlots<'a> {
    rest: core::iter::Enumerate<core::slice::Iter<'a, u32>>,
    free: u32,
    base: u32,
    size: u32,
}

impl<'a> FreeSlots<'a> {
    fn new(taken: &'a [u32], size: u32) -> Self {
        Self { rest: taken.iter().enumerate(), free: 0, base: 0, size }
    }
}

impl Iterator for FreeSlots<'_> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        while self.free == 0 {
            let (word, &taken) = self.rest.next()?;
            self.free = !taken;
            self.base = word as u32 * 32;
        }
        let slot = self.base + self.free.trailing_zeros();
        self.free &= self.free - 1;
        (slot < self.size).then_some(slot)
    }
}
