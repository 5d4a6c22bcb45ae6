//! How far along a walk a slot lies.
//!
//! The slot that a walk comes to after `rank` steps is `at + rank * skip mod M`; so the rank of a slot is
//! `(slot - at) * skip^-1 mod M`.

use super::board::Walker;

/// A walk, prepared for comparing how far along it slots lie.
pub(super) trait Reach: Copy {
    /// The walk of `walker` on a circle of `size` slots, where `inverse` is `skip^-1 mod size`.
    fn new(size: u32, walker: Walker, inverse: u32) -> Self;

    /// A number that is the larger, the farther along the walk `slot` lies.
    fn key(self, slot: u32) -> u32;

    /// The slot that has this key.
    fn slot(self, key: u32) -> u32;
}

/// Ranks themselves, for tables of any size.
#[derive(Clone, Copy)]
pub(super) struct Exact {
    size: u32,
    walker: Walker,
    inverse: u32,
    /// `inverse * 2^32 / size`, rounded down.
    reciprocal: u32,
}

impl Reach for Exact {
    fn new(size: u32, walker: Walker, inverse: u32) -> Self {
        Self { size, walker, inverse, reciprocal: ((u64::from(inverse) << 32) / u64::from(size)) as u32 }
    }

    #[inline(always)]
    fn key(self, slot: u32) -> u32 {
        let distance = slot.wrapping_sub(self.walker.at);
        let distance = distance.min(distance.wrapping_add(self.size));
        // distance * inverse mod size: the estimate of the quotient is at most one too small.
        let quotient = ((u64::from(distance) * u64::from(self.reciprocal)) >> 32) as u32;
        let rest = distance.wrapping_mul(self.inverse).wrapping_sub(quotient.wrapping_mul(self.size));
        rest.min(rest.wrapping_sub(self.size))
    }

    fn slot(self, rank: u32) -> u32 {
        slot_at(self.size, self.walker, rank)
    }
}

/// Ranks as fractions of M, in units of 2^-32: one multiplication a slot, whose overflow is the remainder.
///
/// The factor is `inverse / M` rounded to such a unit, so keys of the smallest and the largest slot are off by up to M / 2
/// units from each other. Two neighbouring ranks are 2^32 / M units apart. So the order is right, and the rank can be
/// read off the key, while M^2 is below 2^33.
#[derive(Clone, Copy)]
pub(super) struct Fraction {
    size: u32,
    walker: Walker,
    factor: u32,
    start: u32,
}

impl Fraction {
    /// Below sqrt(2^33), with room for the units that rounding costs.
    pub(super) const MAX_SIZE: u32 = 92_000;
}

impl Reach for Fraction {
    fn new(size: u32, walker: Walker, inverse: u32) -> Self {
        let modulus = u64::from(size);
        let scaled = u64::from(inverse) << 32;
        let up = scaled % modulus * 2 >= modulus;
        let factor = (scaled / modulus) as u32 + u32::from(up);
        // Where the factor is too small a slot's key lies below its rank, by M / 2 units at most.
        let lift = if up { 0 } else { size / 2 + 1 };
        let start = ((u64::from(walker.at) * u64::from(inverse) % modulus) << 32) / modulus;
        Self { size, walker, factor, start: (start as u32).wrapping_sub(lift) }
    }

    #[inline(always)]
    fn key(self, slot: u32) -> u32 {
        slot.wrapping_mul(self.factor).wrapping_sub(self.start)
    }

    fn slot(self, key: u32) -> u32 {
        slot_at(self.size, self.walker, ((u64::from(key) * u64::from(self.size)) >> 32) as u32)
    }
}

/// The slot after `rank` steps.
fn slot_at(size: u32, Walker { at, skip }: Walker, rank: u32) -> u32 {
    ((u64::from(at) + u64::from(rank) * u64::from(skip)) % u64::from(size)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Checks that keys order the slots as the walk visits them, and lead back to them.
    fn check<R: Reach>(size: u32, walker: Walker) -> Result<(), TestCaseError> {
        let modulus = u64::from(size);
        // Fermat: size is prime.
        let inverse = (0..32).rev().fold(1, |power, bit| {
            let square = power * power % modulus;
            if (modulus - 2) >> bit & 1 == 1 { square * u64::from(walker.skip) % modulus } else { square }
        });
        let walk = R::new(size, walker, inverse as u32);
        let mut last = None;
        for rank in 0..size {
            let slot = slot_at(size, walker, rank);
            let key = walk.key(slot);
            prop_assert!(last < Some(key), "rank {} of {:?} on {} slots", rank, walker, size);
            prop_assert_eq!(walk.slot(key), slot);
            last = Some(key);
        }
        Ok(())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        #[test]
        fn keys_rise_along_the_walk(
            size in prop::sample::select(&[2_u32, 3, 7, 127, 4093, 65_521, 65_537, 91_997][..]), at: u32, skip: u32,
        ) {
            let walker = Walker { at: at % size, skip: skip % (size - 1) + 1 };
            check::<Exact>(size, walker)?;
            check::<Fraction>(size, walker)?;
        }
    }

    #[test]
    fn keys_rise_along_the_walk_where_rounding_is_worst() {
        for size in [65_537, 91_997] {
            for at in [0, 1, size / 2, size - 1] {
                for skip in [1, 2, size / 2, size / 2 + 1, size - 1] {
                    check::<Fraction>(size, Walker { at, skip }).unwrap();
                }
            }
        }
    }
}
