//! The half-filled table: who owns what, and what is free.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::maglev::{BuildError, Preference};
use crate::table::{Slots, Table};

/// A slot's owner as it is stored.
pub(super) trait Owner: Copy + Default + Into<u32> {
    /// `value`, which fits.
    fn of(value: u32) -> Self;
    /// The owners as a table keeps them.
    fn slots(owners: Box<[Self]>) -> Slots;
}

impl Owner for u16 {
    #[inline(always)]
    fn of(value: u32) -> Self {
        value as Self
    }

    fn slots(owners: Box<[Self]>) -> Slots {
        Slots::U16(owners)
    }
}

impl Owner for u32 {
    #[inline(always)]
    fn of(value: u32) -> Self {
        value
    }

    fn slots(owners: Box<[Self]>) -> Slots {
        Slots::U32(owners)
    }
}

/// A backend on its walk through the slots.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct Walker {
    /// The slot it asks for next.
    pub(super) at: u32,
    /// How far its steps go.
    pub(super) skip: u32,
}

/// A table while it is filled. It takes one bit a slot and eight bytes a backend besides the table.
pub(super) struct Board<S> {
    pub(super) size: u32,
    pub(super) walkers: Vec<Walker>,
    /// One bit a slot, 32 to a word: set where the slot is taken. Bits past the last slot are unused.
    pub(super) taken: Vec<u32>,
    pub(super) owners: Vec<S>,
}

impl<S: Owner> Board<S> {
    /// An empty board.
    pub(super) fn new(size: u32, preferences: &[Preference]) -> Result<Self, BuildError> {
        let backends = preferences.len();
        let out_of_memory = |_| BuildError::Allocation { slots: size, backends };
        let mut walkers = Vec::new();
        walkers.try_reserve_exact(backends).map_err(out_of_memory)?;
        walkers.extend(preferences.iter().map(|p| Walker { at: p.offset, skip: p.skip }));
        let mut taken = Vec::new();
        let words = size.div_ceil(32) as usize;
        taken.try_reserve_exact(words).map_err(out_of_memory)?;
        taken.resize(words, 0);
        let mut owners = Vec::new();
        owners.try_reserve_exact(size as usize).map_err(out_of_memory)?;
        owners.resize(size as usize, S::default());
        Ok(Self { size, walkers, taken, owners })
    }

    /// Its parts as slices, so that the compiler sees that no store moves them.
    pub(super) fn field(&mut self) -> Field<'_, S> {
        let Self { size, walkers, taken, owners } = self;
        Field { size: *size, walkers, taken, owners }
    }

    /// The full table.
    pub(super) fn into_table(self) -> Table {
        Table::new(S::slots(self.owners.into_boxed_slice()))
    }
}

/// A [`Board`] while turns are taken.
pub(super) struct Field<'a, S> {
    pub(super) size: u32,
    pub(super) walkers: &'a mut [Walker],
    pub(super) taken: &'a mut [u32],
    owners: &'a mut [S],
}

impl<S: Owner> Field<'_, S> {
    /// Gives `backend`, which exists, the first free slot from where it stands, one look at a time.
    #[inline(always)]
    pub(super) fn claim(&mut self, backend: u32) {
        let Walker { mut at, skip } = self.walkers[backend as usize];
        while !self.claim_free(backend, at) {
            at = step(at, skip, self.size);
        }
        self.walkers[backend as usize].at = step(at, skip, self.size);
    }

    /// Gives `backend` this slot if it is free, and says whether it was.
    #[inline(always)]
    pub(super) fn claim_free(&mut self, backend: u32, slot: u32) -> bool {
        let word = &mut self.taken[(slot >> 5) as usize];
        let bit = 1 << (slot & 31);
        let free = *word & bit == 0;
        if free {
            *word |= bit;
            self.owners[slot as usize] = S::of(backend);
        }
        free
    }
}

/// The slot `skip` after `slot`. Both are below `size`, which is below 2^31.
#[inline(always)]
pub(super) fn step(slot: u32, skip: u32, size: u32) -> u32 {
    let next = slot + skip;
    // Where the sum is below the size the difference wraps round to something larger.
    next.min(next.wrapping_sub(size))
}
