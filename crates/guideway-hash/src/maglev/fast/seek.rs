//! The walk by thirty-two slots at a time, of which every free one is kept for its backend's later turns.

use alloc::vec::Vec;
use core::ops::Range;

use super::Unknown;
use super::board::{Board, Owner, Walker, step};
use crate::maglev::{BuildError, Turns};

/// Slots that are looked at together.
pub(super) const ABREAST: usize = 8;

/// How often so many are looked at before anything is decided.
const LOOKS: usize = 4;

/// A backend that has looked ahead on its walk.
///
/// Taken slots stay taken, so what it has passed over need not be looked at again, and what it has found free is still
/// next unless others took it: a look at one bit tells. So no look is wasted, however many there are at a time.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Seeker {
    /// The slots of its first look, in the order of its walk; those of the other looks are so many `strides` away.
    slots: [u32; ABREAST],
    /// How far zero to three looks go.
    strides: [u32; LOOKS],
    /// How far the next looks begin from `slots`: no way before the first ones, then four looks' way.
    ahead: u32,
    /// How far four looks go.
    stride: u32,
    /// Of the slots that it has looked at, those that were free and that it has not taken or found taken since.
    free: u32,
}

const _: () = assert!(size_of::<Seeker>() == 64, "a cache line");

impl Seeker {
    fn new(Walker { at, skip }: Walker, size: u32) -> Self {
        let mut slots = [at; ABREAST];
        for place in 1..ABREAST {
            slots[place] = step(slots[place - 1], skip, size);
        }
        let eight = (0..3).fold(skip, |stride, _| step(stride, stride, size));
        let mut strides = [0; LOOKS];
        for look in 1..LOOKS {
            strides[look] = step(strides[look - 1], eight, size);
        }
        Self { slots, strides, ahead: 0, stride: step(strides[LOOKS - 1], eight, size), free: 0 }
    }

    /// The slot at a place of those that it has looked at.
    #[inline(always)]
    fn slot(&self, place: u32, size: u32) -> u32 {
        let (look, place) = (place as usize / ABREAST, place as usize % ABREAST);
        step(self.slots[place], self.strides[look % LOOKS], size)
    }

    /// Looks at the next slots of its walk.
    #[inline(always)]
    fn look(&mut self, size: u32, refused: impl Fn([u32; ABREAST]) -> u32) {
        let on = |slots: [u32; ABREAST], by: u32| slots.map(|slot| step(slot, by, size));
        self.slots = on(self.slots, self.ahead);
        self.ahead = self.stride;
        let mut free = 0;
        for (look, &stride) in self.strides.iter().enumerate() {
            free |= (!refused(on(self.slots, stride)) & 0xff) << (ABREAST * look);
        }
        self.free = free;
    }

    /// The slot that it asks for next.
    fn at(&self, size: u32) -> u32 {
        match self.free {
            0 => step(self.slots[0], self.ahead, size),
            free => self.slot(free.trailing_zeros(), size),
        }
    }
}

/// Gives the turns of `span`. `refused` has a bit for each of the given slots, set where the bitmap says that it is taken.
#[inline(always)]
pub(super) fn turns<S: Owner>(
    board: &mut Board<S>,
    turns: &mut impl Turns,
    span: Range<u32>,
    refused: impl Fn(&[u32], [u32; ABREAST]) -> u32,
) -> Result<(), BuildError> {
    let (size, backends) = (board.size, board.walkers.len());
    let mut seekers = Vec::new();
    seekers.try_reserve_exact(backends).map_err(|_| BuildError::Allocation { slots: size, backends })?;
    seekers.extend(board.walkers.iter().map(|&walker| Seeker::new(walker, size)));
    let mut field = board.field();
    for turn in span {
        let backend = turns.next();
        let Some(seeker) = seekers.get_mut(backend as usize) else {
            return Err(Unknown { turn, backend }.among(backends));
        };
        loop {
            while seeker.free == 0 {
                seeker.look(size, |slots| refused(field.taken, slots));
            }
            let slot = seeker.slot(seeker.free.trailing_zeros(), size);
            seeker.free &= seeker.free - 1;
            if field.claim_free(backend, slot) {
                break;
            }
        }
    }
    for (walker, seeker) in board.walkers.iter_mut().zip(&seekers) {
        walker.at = seeker.at(size);
    }
    Ok(())
}
