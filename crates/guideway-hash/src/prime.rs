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

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn listed_sizes_are_primes_in_order() {
        assert!(LISTED.iter().all(|&size| TableSize::new(size).is_ok()));
        assert!(LISTED.is_sorted());
    }

    #[test]
    fn a_size_that_is_no_prime_is_refused_with_its_neighbours() {
        let error = TableSize::new(65_536).unwrap_err();
        assert_eq!((error.below, error.above), (Some(65_521), Some(65_537)));
        assert_eq!(TableSize::new(0).unwrap_err().above, Some(2));
        assert_eq!(TableSize::new(5_000_077).unwrap_err().below, Some(MAX));
        let text = "table size 100 is not a prime from 2 to 5000011; the nearest sizes are 97 and 101";
        assert_eq!(TableSize::new(100).unwrap_err().to_string(), text);
    }

    #[test]
    fn auto_gives_a_hundred_slots_a_backend() {
        let sizes = [0, 2, 3, 655, 656, 50_000, 50_001, usize::MAX].map(|n| TableSize::auto(n).get());
        assert_eq!(sizes, [251, 251, 509, 65_537, 131_071, MAX, MAX, MAX]);
    }

    #[test]
    fn trial_division_agrees_with_a_sieve() {
        let mut composite = alloc::vec![false; 10_000];
        for n in 2..10_000 {
            assert_eq!(is_prime(n), !composite[n as usize], "{n}");
            for multiple in (2 * n..10_000).step_by(n as usize) {
                composite[multiple as usize] = true;
            }
        }
        assert!(is_prime(4_294_967_291) && !is_prime(u32::MAX) && !is_prime(65_537 * 3));
    }
}
