//! A binary logarithm in integers, for the scores of weighted rendezvous hashing.
//!
//! A rendezvous score is `-w / ln u`. The `ln` of a C library or of Rust's `std` may differ in the last bit from
//! one machine, compiler or release to the next, and one bit is enough to send a flow to another backend. Here
//! the logarithm is computed from 64-bit integers alone (widening multiply, shift, add), which every machine
//! does alike, whatever its byte order or floating-point unit; its table is computed at compile time by the
//! same kind of arithmetic. The base does not matter, because only the order of scores does.
//!
//! The result is the true value rounded to a multiple of 2^-57, with an error below [`ERROR`] such steps.
//! It is the *definition* of the score: a machine that computed a better logarithm would be wrong.

/// Fraction bits of a [`Cost`]. The largest cost is 64, which is 2^63 in these steps.
pub const FRACTION_BITS: u32 = 57;

/// A bound on the difference between a cost and the true value, in steps of 2^-57.
pub const ERROR: u64 = 2;

/// `-log2 u` in steps of 2^-57, from 0 (u close to 1) to 2^63 (u = 2^-64).
pub type Cost = u64;

/// `-log2 u` for the number `u = (hash | 1) / 2^64`, which lies strictly between 0 and 1.
///
/// Setting the lowest bit puts `u` at the middle of one of 2^63 equal cells, so that zero can't occur and the
/// distribution is symmetric.
///
/// # Method
/// The mantissa's eight leading bits choose an interval with a stored reciprocal `r` and the stored `-log2 r`;
/// multiplying by `r` leaves `1 + z` with `|z| < 2^-8.9`, whose logarithm is a polynomial of degree six
/// (remainder below 2^-64). Every truncation is below 2^-60; the final one, to 57 bits, dominates.
#[inline]
pub fn cost(hash: u64) -> Cost {
    let x = hash | 1;
    let zeros = x.leading_zeros();
    let mantissa = x << zeros; // [1, 2) in steps of 2^-63
    let fraction = log2_mantissa(mantissa); // [0, 1] in steps of 2^-63
    // -log2 u = 64 - log2 x = (zeros + 1) - log2(mantissa)
    ((u64::from(zeros) + 1) << FRACTION_BITS) - (fraction >> (63 - FRACTION_BITS))
}

/// A value that is never above [`cost`] for the same hash, and costs one multiplication.
///
/// It is the first term of the series, `-ln u >= 1 - u`, less the error of [`cost`]. A candidate whose floor
/// already loses needs no logarithm; with N candidates about ln N need one.
#[inline]
pub fn floor(hash: u64) -> Cost {
    let gap = !(hash | 1); // 2^64 (1 - u), rounded down
    widening_high(gap, SLOPE).saturating_sub(ERROR)
}

/// A hash below which every hash costs more than `cost`: the inverse of [`floor`], a little on the safe side.
///
/// One division, which pays when many hashes are held against one cost.
#[inline]
pub fn least_hash_within(cost: Cost) -> u64 {
    // floor(hash) > cost as soon as the gap times the slope reaches 2^64 (cost + ERROR + 1).
    let gap = ((u128::from(cost) + u128::from(ERROR) + 1) << 64).div_ceil(u128::from(SLOPE));
    // The gap is that of `hash | 1`, so for a lower hash than this one it is at least as large.
    u64::try_from(gap).map_or(0, |gap| !gap)
}

/// `log2(e)` in steps of 2^-57, rounded down.
const SLOPE: u64 = 0x02e2_a8ec_a570_5fc2;

/// `log2(m)` for `m` in [1, 2), both in steps of 2^-63; at most 2^63.
#[inline]
fn log2_mantissa(mantissa: u64) -> u64 {
    let interval = &INTERVALS[((mantissa >> 55) & 0xff) as usize];
    // 1 + z in steps of 2^-63, so z follows as a signed number in the same steps.
    let z = widening_high(mantissa, interval.reciprocal).wrapping_sub(1 << 63) as i64;
    let log = interval.log as i64 + log2_near_one(z);
    // The true value lies in [0, 1); truncation may leave it a few steps outside.
    log.max(0) as u64
}

/// `log2(1 + z)` in steps of 2^-63 for a small `z` in the same steps.
#[inline]
fn log2_near_one(z: i64) -> i64 {
    const ONE: i64 = i64::MAX; // 1 - 2^-63
    let mut sum = ONE / 5 - scaled(z, ONE / 6);
    sum = ONE / 4 - scaled(z, sum);
    sum = ONE / 3 - scaled(z, sum);
    sum = ONE / 2 - scaled(z, sum);
    let ln = z - scaled(z, scaled(z, sum));
    // log2(e) - 1, in steps of 2^-63
    const LOG2_E_LESS_ONE: i64 = 0x38aa_3b29_5c17_f0bc;
    ln + scaled(ln, LOG2_E_LESS_ONE)
}

/// The product of two signed fractions in steps of 2^-63, rounded down.
#[inline]
fn scaled(a: i64, b: i64) -> i64 {
    ((i128::from(a) * i128::from(b)) >> 63) as i64
}

/// The upper half of a 64 by 64 bit product.
#[inline]
const fn widening_high(a: u64, b: u64) -> u64 {
    ((a as u128 * b as u128) >> 64) as u64
}

/// One of 256 equal parts of [1, 2).
#[derive(Clone, Copy)]
struct Interval {
    /// The reciprocal of the middle, in steps of 2^-64.
    reciprocal: u64,
    /// `-log2` of that reciprocal as stored, in steps of 2^-63: its rounding cancels out.
    log: u64,
}

static INTERVALS: [Interval; 256] = intervals();

const fn intervals() -> [Interval; 256] {
    let mut table = [Interval { reciprocal: 0, log: 0 }; 256];
    let mut i = 0;
    while i < 256 {
        // The middle is (512 + 2i + 1) / 512, so its reciprocal is 2^9 / (513 + 2i), below one.
        let reciprocal = ((1u128 << 73) / (513 + 2 * i as u128)) as u64;
        // log2(r / 2^64) = log2(r / 2^63) - 1, and r / 2^63 lies in [1, 2).
        table[i] = Interval { reciprocal, log: (1 << 63) - log2_by_squaring(reciprocal) };
        i += 1;
    }
    table
}

/// `log2(m)` for `m` in [1, 2), both in steps of 2^-63, digit by digit: squaring doubles the logarithm, and each
/// time that the square reaches 2 the next digit is one.
///
/// The plainest definition, with 127-bit intermediates: an error enters at 2^-126 and doubles 63 times, so all
/// digits but the last are true. Too slow for a packet, right for the table and for the tests.
const fn log2_by_squaring(mantissa: u64) -> u64 {
    let mut value = (mantissa as u128) << 63; // steps of 2^-126
    let mut log = 0u64;
    let mut digit = 0;
    while digit < 63 {
        value = square(value);
        log <<= 1;
        if value >> 127 != 0 {
            value >>= 1;
            log |= 1;
        }
        digit += 1;
    }
    log
}

/// The square of a number in [1, 2), in steps of 2^-126, rounded down by at most three steps.
const fn square(value: u128) -> u128 {
    let high = value >> 64;
    let low = value & u64::MAX as u128;
    // value^2 / 2^126 = high^2 * 4 + (high * low) / 2^61 + low^2 / 2^126
    let middle = high * low;
    ((high * high) << 2) + (middle >> 61) + ((low * low) >> 126)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The same value by the digit method, in steps of 2^-57, rounded down.
    fn by_squaring(hash: u64) -> u64 {
        let x = hash | 1;
        let zeros = x.leading_zeros();
        let steps = ((u128::from(zeros) + 1) << 63) - u128::from(log2_by_squaring(x << zeros));
        (steps >> 6) as u64
    }

    /// Hashes at and around every place where the method changes its mind.
    fn edges() -> impl Iterator<Item = u64> {
        (0..64).flat_map(|zeros| {
            (0..=256u64).flat_map(move |part| {
                let start = (1u128 << 63) + (u128::from(part) << 55);
                (-3i128..=3)
                    .map(move |near| ((start as i128 + near) >> zeros).clamp(0, u64::MAX as i128) as u64)
            })
        })
    }

    #[test]
    fn powers_of_two_are_nearly_exact() {
        for exponent in 1..64u32 {
            let expected = u64::from(64 - exponent) << FRACTION_BITS;
            // The lowest bit is set, so u is 2^-exponent larger in proportion, and the cost a little lower.
            let lower = (3 << (FRACTION_BITS - 1)) >> exponent;
            assert!(expected.abs_diff(cost(1 << exponent)) <= lower + ERROR, "2^{exponent}");
        }
        assert_eq!(cost(0), 1 << 63, "the smallest u is 2^-64");
        assert_eq!(cost(1), 1 << 63);
        assert!(cost(u64::MAX) <= ERROR);
    }

    #[test]
    fn agrees_with_the_digit_method_at_every_edge() {
        for hash in edges() {
            let difference = cost(hash).abs_diff(by_squaring(hash));
            assert!(difference <= ERROR, "{hash:#x} differs by {difference} steps");
        }
    }

    #[test]
    fn never_rises_with_the_hash_across_edges() {
        for hash in edges() {
            assert!(cost(hash.saturating_add(2)) <= cost(hash), "{hash:#x}");
        }
    }

    #[test]
    fn the_floor_is_never_above_the_cost_at_edges() {
        for hash in edges() {
            assert!(floor(hash) <= cost(hash), "{hash:#x}");
        }
    }

    #[test]
    fn golden_values_hold_on_every_machine() {
        let hashes =
            [0, 3, 0x0123_4567_89ab_cdef, 0x8000_0000_0000_0000, 0xdead_beef_cafe_babe, u64::MAX - 2];
        let costs = [
            9_223_372_036_854_775_808,
            8_994_954_867_970_167_537,
            1_126_084_545_955_828_434,
            144_115_188_075_855_872,
            28_993_133_688_280_919,
            1,
        ];
        assert_eq!(hashes.map(cost), costs, "each is the true value rounded up");
    }

    proptest! {
        #[test]
        fn agrees_with_the_digit_method(hash: u64, shift in 0u32..64) {
            let hash = hash >> shift;
            prop_assert!(cost(hash).abs_diff(by_squaring(hash)) <= ERROR);
            prop_assert!(floor(hash) <= cost(hash));
        }

        #[test]
        fn agrees_with_the_floating_point_logarithm(hash: u64) {
            let exact = -((hash | 1) as f64 / 2f64.powi(64)).log2();
            let ours = cost(hash) as f64 / 2f64.powi(FRACTION_BITS as i32);
            prop_assert!((exact - ours).abs() < 1e-13, "{exact} {ours}");
        }

        #[test]
        fn hashes_below_the_least_cost_more(hash: u64, shift in 0u32..64, below in 0u64..1_000) {
            for hash in [hash, u64::MAX - (hash >> shift)] {
                let least = least_hash_within(cost(hash));
                prop_assert!(least <= hash | 1);
                if let Some(lower) = least.checked_sub(below + 1) {
                    prop_assert!(cost(lower) > cost(hash), "{hash:#x} {lower:#x}");
                }
            }
        }

        #[test]
        fn never_rises_with_the_hash(a: u64, b: u64) {
            prop_assert!(cost(a.min(b)) >= cost(a.max(b)));
        }
    }
}
