//! CityHash's way to make one word of two.

const MULTIPLIER: u64 = 0x9ddf_ea08_eb38_2d69;

/// CityHash `Hash128to64` of the 128-bit value with the given upper and lower words.
///
/// Source: `Hash128to64` in Geoff Pike's and Jyrki Alakuijala's `city.h`.
#[must_use]
pub const fn hash_128_to_64(upper: u64, lower: u64) -> u64 {
    let mut a = (lower ^ upper).wrapping_mul(MULTIPLIER);
    a ^= a >> 47;
    let mut b = (upper ^ a).wrapping_mul(MULTIPLIER);
    b ^= b >> 47;
    b.wrapping_mul(MULTIPLIER)
}
