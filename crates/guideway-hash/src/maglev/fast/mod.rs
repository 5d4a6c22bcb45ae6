//! The fast fill: the same table as the textbook's, several times sooner.
//!
//! A fill of M slots looks at some M ln M of them, whatever the number of backends. What makes that slow is not
//! what the loop seems to say:
//!
//! * Each look costs a division and touches a table that the first-level cache can't hold. Here a bitmap of M bits
//!   says what is taken, and a walk moves on by addition.
//! * Whether a slot is free is unpredictable in the middle of a fill, so each turn costs a mispredicted branch. Here
//!   thirty-two slots of a walk are looked at together, and the free ones are found by counting bits; with gathered
//!   loads where the processor has them ([`Kernel::Avx2`]). They serve their backend's later turns as well, since what
//!   has been taken stays so.
//! * Two thirds of all looks belong to the last sqrt(M) turns. Here the walk is inverted for those: each free slot
//!   tells how far along the walk it lies, and the least far is taken.
//!
//! Scratch memory is 72 bytes a backend, one bit a slot, and a few words for each of the last turns.

#[cfg(target_arch = "x86_64")]
mod avx2;
mod board;
mod portable;
mod reach;
mod seek;
mod tail;
mod walk;

use super::{BuildError, Preference, Turns, fill_textbook, preference};
use crate::table::{MAX_NARROW_BACKENDS, Table};
use board::{Board, Owner};

/// How a fill looks for free slots. All kernels give the same table; they differ in speed only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kernel {
    /// Plain integer code, on every machine.
    Portable,
    /// Gathered loads of eight slots at a time, on x86-64 processors with AVX2.
    Avx2,
}

impl Kernel {
    /// The fastest kernel that this machine runs.
    pub fn detect() -> Self {
        if Self::Avx2.is_available() { Self::Avx2 } else { Self::Portable }
    }

    /// Whether this machine runs this kernel.
    pub fn is_available(self) -> bool {
        match self {
            Self::Portable => true,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => avx2::is_available(),
            #[cfg(not(target_arch = "x86_64"))]
            Self::Avx2 => false,
        }
    }

    /// Its name, in lower case.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            Self::Avx2 => "avx2",
        }
    }
}

/// As [`fill`](super::fill), by the given kernel, or by [`Kernel::Portable`] where the machine does not run it.
///
/// # Errors
/// As [`fill`](super::fill).
pub fn fill_with(
    kernel: Kernel,
    size: u32,
    preferences: &[Preference],
    turns: impl Turns,
) -> Result<Table, BuildError> {
    if size >= 1 << 31 {
        // Two such slot numbers don't add up in 32 bits. No table that serves traffic comes near.
        return fill_textbook(size, preferences, turns);
    }
    preference::validate(size, preferences)?;
    if preferences.len() <= MAX_NARROW_BACKENDS {
        run::<u16>(kernel, size, preferences, turns)
    } else {
        run::<u32>(kernel, size, preferences, turns)
    }
}

/// A turn that was given to a backend that does not exist.
struct Unknown {
    turn: u32,
    backend: u32,
}

impl Unknown {
    fn among(self, backends: usize) -> BuildError {
        BuildError::UnknownBackend { turn: self.turn, backend: self.backend, backends }
    }
}

fn run<S: Owner>(
    kernel: Kernel,
    size: u32,
    preferences: &[Preference],
    mut turns: impl Turns,
) -> Result<Table, BuildError> {
    let mut board = Board::<S>::new(size, preferences)?;
    // The last turns search among as many free slots, whose places in a list must fit a slot's entry.
    let walked = size - (2 * size.isqrt()).clamp(1, size).min(u16::MAX.into());
    // As long as a look in three finds its slot taken at most; measured.
    let sparse = walked.min((u64::from(size) * 3 / 10) as u32);
    walk::step_by_step(&mut board, &mut turns, 0..sparse)?;
    #[cfg(target_arch = "x86_64")]
    if kernel == Kernel::Avx2 && avx2::is_available() {
        avx2::turns(&mut board, &mut turns, sparse..walked)?;
        tail::finish::<S, avx2::Search>(&mut board, &mut turns, walked)?;
        return Ok(board.into_table());
    }
    let _ = kernel;
    portable::turns(&mut board, &mut turns, sparse..walked)?;
    tail::finish::<S, portable::Search>(&mut board, &mut turns, walked)?;
    Ok(board.into_table())
}
