//! A backend's order of preference over the slots.

use super::BuildError;

/// A backend's order of preference over the slots: `offset`, `offset + skip`, `offset + 2 skip`, … modulo M.
///
/// It visits every slot once when `skip` is coprime with M, as it always is when M is prime.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Preference {
    /// The most wanted slot, below M.
    pub offset: u32,
    /// The distance to the next, from 1 to M - 1 (any value below M when M is 1).
    pub skip: u32,
}

impl Preference {
    /// The slots in order of preference, for a table of `size` slots.
    ///
    /// The iterator ends after `size` slots. It repeats itself before that when `skip` is not coprime with `size`.
    pub fn slots(self, size: u32) -> impl Iterator<Item = u32> {
        let mut slot = self.offset;
        (0..size).map(move |_| {
            let this = slot;
            slot = step(slot, self.skip, size);
            this
        })
    }
}

/// The slot `skip` further on, on a circle of `size` slots.
#[inline]
pub(super) const fn step(slot: u32, skip: u32, size: u32) -> u32 {
    let room = size - skip;
    if slot >= room { slot - room } else { slot + skip }
}

/// Checks that a fill over these preferences ends with every slot owned.
pub(super) fn validate(size: u32, preferences: &[Preference]) -> Result<(), BuildError> {
    if size == 0 {
        return Err(BuildError::NoSlots);
    }
    if preferences.is_empty() {
        return Err(BuildError::NoEligibleBackend);
    }
    // A prime is coprime with everything below it, which spares a division chain per backend.
    let prime = crate::prime::is_prime(size);
    for (backend, &Preference { offset, skip }) in preferences.iter().enumerate() {
        let full =
            if size == 1 { skip == 0 } else { skip > 0 && skip < size && (prime || gcd(skip, size) == 1) };
        if offset >= size || !full {
            return Err(BuildError::BadPreference { backend, offset, skip, slots: size });
        }
    }
    Ok(())
}

const fn gcd(mut a: u32, mut b: u32) -> u32 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
