//! Table sizes: primes, so that every step length walks the whole table.

use core::fmt;

/// The largest table size, in slots.
pub const MAX: u32 = 5_000_011;

/// The sizes that [`TableSize::auto`] chooses from: primes just under the powers of two, the default, and the largest.
pub const LISTED: [u32; 17] = [
    251, 509, 1021, 2039, 4093, 8191, 16_381, 32_749, 65_537, 131_071, 262_139, 524_287, 655_373, 1_048_573,
    2_097_143, 4_194_301, 5_000_011,
];

/// Slots in a table: a prime from 2 to 5,000,011.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableSize(u32);

impl TableSize {
    /// 65,537 slots: the size that the Maglev paper (section 5.3) calls small, good for some 655 backends.
    pub const DEFAULT: Self = Self(65_537);

    /// `slots` as a table size.
    ///
    /// # Errors
    /// [`SizeError`] when `slots` is no prime from 2 to 5,000,011. It names the nearest sizes that are.
    pub fn new(slots: u32) -> Result<Self, SizeError> {
        if slots <= MAX && is_prime(slots) {
            return Ok(Self(slots));
        }
        let below = (2..=slots.min(MAX)).rev().find(|&n| is_prime(n));
        let above = (slots..=MAX).find(|&n| is_prime(n));
        Err(SizeError { slots, below, above })
    }

    /// The smallest listed prime that gives `backends` a hundred slots each, so that shares differ by at most 1 %;
    /// the largest size where none does.
    pub fn auto(backends: usize) -> Self {
        let wanted = backends.saturating_mul(100);
        let found = LISTED.iter().copied().find(|&size| size as usize >= wanted);
        Self(found.unwrap_or(MAX))
    }

    /// The number of slots.
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl Default for TableSize {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl fmt::Display for TableSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl TryFrom<u32> for TableSize {
    type Error = SizeError;

    fn try_from(slots: u32) -> Result<Self, SizeError> {
        Self::new(slots)
    }
}

/// A number of slots that no Maglev table can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeError {
    /// The number that was asked for.
    pub slots: u32,
    /// The nearest size below it.
    pub below: Option<u32>,
    /// The nearest size above it.
    pub above: Option<u32>,
}

impl fmt::Display for SizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "table size {} is not a prime from 2 to {MAX}; ", self.slots)?;
        match (self.below, self.above) {
            (Some(below), Some(above)) => write!(f, "the nearest sizes are {below} and {above}"),
            (Some(size), None) | (None, Some(size)) => write!(f, "the nearest size is {size}"),
            (None, None) => Ok(()),
        }
    }
}

impl core::error::Error for SizeError {}

/// Whether `n` is a prime, by trial division.
pub const fn is_prime(n: u32) -> bool {
    if n < 4 {
        return n >= 2;
    }
    if n.is_multiple_of(2) || n.is_multiple_of(3) {
        return false;
    }
    let mut d = 5;
    while (d as u64) * (d as u64) <= n as u64 {
        if n.is_multiple_of(d) || n.is_multiple_of(d + 2) {
            return false;
        }
        d += 6;
    }
    true
}
