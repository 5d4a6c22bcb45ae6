//! Maglev hashing.

mod draft;
mod error;
pub mod fast;
mod native;
mod preference;
mod textbook;
mod turns;
mod weighted;

pub use draft::{Draft, Turn};
pub use error::BuildError;
pub use native::{Maglev, MaglevBuilder};
pub use preference::Preference;
pub use textbook::fill_textbook;
pub use turns::{RoundRobin, Turns};
pub use weighted::Weighted;

use alloc::vec::Vec;

use crate::table::{MAX_NARROW_BACKENDS, Slots, Table};

/// Fills a table of `size` slots: turn after turn, the backend whose turn it is takes its most wanted free slot.
///
/// The owners are indices into `preferences`. `size` may be any number with which every skip is coprime: a prime,
/// or a power of two when all skips are odd. There may be more backends than slots; then those whose turn never
/// comes own nothing.
///
/// # Errors
/// [`BuildError`]: a preference that does not visit every slot, no backend, a turn for a backend that does not
/// exist, no memory.
pub fn fill(size: u32, preferences: &[Preference], turns: impl Turns) -> Result<Table, BuildError> {
    fast::fill_with(fast::Kernel::detect(), size, preferences, turns)
}

/// Packs `owners`, one a slot, as narrow as `backends` allows.
fn assemble(size: u32, backends: usize, owners: impl Iterator<Item = u32>) -> Result<Table, BuildError> {
    let out_of_memory = |_| BuildError::Allocation { slots: size, backends };
    if backends <= MAX_NARROW_BACKENDS {
        let mut slots: Vec<u16> = Vec::new();
        slots.try_reserve_exact(size as usize).map_err(out_of_memory)?;
        slots.extend(owners.map(|owner| owner as u16));
        Ok(Table::new(Slots::U16(slots.into_boxed_slice())))
    } else {
        let mut slots: Vec<u32> = Vec::new();
        slots.try_reserve_exact(size as usize).map_err(out_of_memory)?;
        slots.extend(owners);
        Ok(Table::new(Slots::U32(slots.into_boxed_slice())))
    }
}
