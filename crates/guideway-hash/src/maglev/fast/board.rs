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

/// A table while it is filled. It takes one bit a slot and eight bytes a backend besides the table itself.
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

    /// The full table.
    pub(super) fn into_table(self) -> Table {
        Table::new(S::slots(self.owners.into_boxed_slice()))
    }
}

/// The slot `skip` after `slot`. Both are below `size`, which is below 2^31.
#[inline(always)]
pub(super) fn step(slot: u32, skip: u32, size: u32) -> u32 {
    let next = slot + skip;
    // Where the sum is below the size the difference wraps round to something larger.
    next.min(next.wrapping_sub(size))
}
