//! VPP's `clib_xxhash`: one round of XXH64 over a single word.

const P1: u64 = 11_400_714_785_074_694_791;
const P2: u64 = 14_029_467_366_897_019_727;
const P3: u64 = 1_609_587_929_392_839_161;
const P4: u64 = 9_650_029_242_287_828_579;
const P5: u64 = 2_870_177_450_012_600_261;

/// The seed that VPP compiles in.
const SEED: u64 = 0x9e37_79b9_7f4a_7c13;

/// The hash of one word. It is XXH64 of the word's little-endian bytes under VPP's seed.
///
/// Source: `clib_xxhash` in VPP `src/vppinfra/xxhash.h`.
#[must_use]
pub const fn clib_xxhash(word: u64) -> u64 {
    let mut hash = SEED.wrapping_add(P5).wrapping_add(8);
    hash ^= word.wrapping_mul(P2).rotate_left(31).wrapping_mul(P1);
    hash = hash.rotate_left(27).wrapping_mul(P1).wrapping_add(P4);
    hash = (hash ^ hash >> 33).wrapping_mul(P2);
    hash = (hash ^ hash >> 29).wrapping_mul(P3);
    hash ^ hash >> 32
}

#[cfg(test)]
mod tests {
    use super::{SEED, clib_xxhash};
    use crate::profile::primitive::xxh64::xxh64;

    #[test]
    fn is_xxh64_of_eight_bytes() {
        for word in [0, 1, 0x0a00_0001_0000_0000, u64::MAX] {
            assert_eq!(clib_xxhash(word), xxh64(&word.to_le_bytes(), SEED), "{word:#x}");
        }
    }
}
