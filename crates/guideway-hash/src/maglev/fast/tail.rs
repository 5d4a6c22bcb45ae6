//! The last slots of a fill.
//!
//! A fill looks at some M ln M slots, and two thirds of them in its last sqrt(M) turns, when a backend walks past
//! hundreds of taken slots to find a free one. It is cheaper to ask each free slot how far along the walk it lies
//! ([`reach`](super::reach)): the nearest is the one that the walk would come to first.

use alloc::collections::TryReserveError;
use alloc::vec::Vec;

use super::board::{Board, Owner, Walker, step};
use super::reach::{Exact, Fraction, Reach};
use crate::maglev::{BuildError, Turns};

/// Turns that search together, before any of them claims: each free slot is loaded once for all of them.
pub(super) const BATCH: usize = 4;

/// How free slots are searched.
pub(super) trait Search {
    /// For each walk, the least key of the free slots.
    fn nearest<R: Reach>(free: &[u32], walks: &[R; BATCH]) -> [u32; BATCH];
}

/// [`Search::nearest`], to be compiled for any machine.
#[inline(always)]
pub(super) fn nearest<R: Reach>(free: &[u32], walks: &[R; BATCH]) -> [u32; BATCH] {
    let [a, b, c, d] = *walks;
    let mut least = [u32::MAX; BATCH];
    for &slot in free {
        least[0] = least[0].min(a.key(slot));
        least[1] = least[1].min(b.key(slot));
        least[2] = least[2].min(c.key(slot));
        least[3] = least[3].min(d.key(slot));
    }
    least
}

/// Gives the turns from `first` to the last: there are as many free slots.
pub(super) fn finish<S: Owner, F: Search>(
    board: &mut Board<S>,
    turns: &mut impl Turns,
    first: u32,
) -> Result<(), BuildError> {
    let (size, backends) = (board.size, board.walkers.len());
    let mut order: Vec<u32> = Vec::new();
    order
        .try_reserve_exact((size - first) as usize)
        .map_err(|_| BuildError::Allocation { slots: size, backends })?;
    for turn in first..size {
        let backend = turns.next();
        if backend as usize >= backends {
            return Err(BuildError::UnknownBackend { turn, backend, backends });
        }
        order.push(backend);
    }
    let finished = if size <= Fraction::MAX_SIZE {
        claim_all::<S, F, Fraction>(board, &order)
    } else {
        claim_all::<S, F, Exact>(board, &order)
    };
    finished.map_err(|_| BuildError::Allocation { slots: size, backends })
}

/// Gives the free slots to the backends of `order`, as many.
fn claim_all<S: Owner, F: Search, R: Reach>(
    board: &mut Board<S>,
    order: &[u32],
) -> Result<(), TryReserveError> {
    let inverses = inverses(board, order)?;
    let mut free = Free::of(board, order.len())?;
    let size = board.size;
    for (order, inverses) in order.chunks(BATCH).zip(inverses.chunks(BATCH)) {
        let walk =
            |board: &Board<S>, turn: usize| R::new(size, board.walkers[order[turn] as usize], inverses[turn]);
        // A short last batch searches for its first turn several times.
        let walks: [R; BATCH] =
            core::array::from_fn(|turn| walk(board, if turn < order.len() { turn } else { 0 }));
        let least = F::nearest(&free.slots, &walks);
        let found: [u32; BATCH] = core::array::from_fn(|turn| walks[turn].slot(least[turn]));
        for (turn, &backend) in order.iter().enumerate() {
            let mut slot = found[turn];
            if !free.has(board, slot) {
                let walk = walk(board, turn);
                slot = walk.slot(F::nearest(&free.slots, &[walk; BATCH])[0]);
            }
            free.give(board, slot, backend);
        }
    }
    Ok(())
}

/// The free slots, in no order. While a slot is free, its entry on the board holds its place in this list.
struct Free {
    slots: Vec<u32>,
}

impl Free {
    fn of<S: Owner>(board: &mut Board<S>, count: usize) -> Result<Self, TryReserveError> {
        let mut slots: Vec<u32> = Vec::new();
        slots.try_reserve_exact(count)?;
        for (base, &taken) in (0..).step_by(32).zip(&board.taken) {
            let mut free = !taken;
            while free != 0 {
                let slot = base + free.trailing_zeros();
                free &= free - 1;
                if slot < board.size {
                    board.owners[slot as usize] = S::of(slots.len() as u32);
                    slots.push(slot);
                }
            }
        }
        debug_assert_eq!(slots.len(), count);
        Ok(Self { slots })
    }

    fn has<S: Owner>(&self, board: &Board<S>, slot: u32) -> bool {
        let place: u32 = board.owners[slot as usize].into();
        self.slots.get(place as usize) == Some(&slot)
    }

    /// Gives a free slot to `backend`.
    fn give<S: Owner>(&mut self, board: &mut Board<S>, slot: u32, backend: u32) {
        let place: u32 = board.owners[slot as usize].into();
        self.slots.swap_remove(place as usize);
        if let Some(&moved) = self.slots.get(place as usize) {
            board.owners[moved as usize] = S::of(place);
        }
        board.owners[slot as usize] = S::of(backend);
        let Walker { at, skip } = &mut board.walkers[backend as usize];
        *at = step(slot, *skip, board.size);
    }
}

/// For each turn of `order`, the inverse of its backend's skip.
///
/// One inversion serves them all: with the products of all skips up to each one, the inverse of the last product
/// yields the single inverses backwards (Montgomery's trick).
fn inverses<S: Owner>(board: &Board<S>, order: &[u32]) -> Result<Vec<u32>, TryReserveError> {
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
