//! MurmurHash3, the 128-bit variant for 64-bit machines.

use super::{le_tail, le_u64};

const C1: u64 = 0x87c3_7b91_1142_53d5;
const C2: u64 = 0x4cf5_ad43_2745_937f;

/// MurmurHash3 x64 128: the two result words, both started from `seed`.
///
/// Blocks are read little-endian, as the common machines do; the original reads them in the machine's own order.
/// Source: `MurmurHash3_x64_128` in Austin Appleby's SMHasher.
#[must_use]
pub fn murmur3_x64_128(bytes: &[u8], seed: u32) -> (u64, u64) {
    let (mut h1, mut h2) = (u64::from(seed), u64::from(seed));
    let whole = bytes.len() / 16 * 16;
    for at in (0..whole).step_by(16) {
        h1 ^= scramble_low(le_u64(bytes, at));
        h1 = h1.rotate_left(27).wrapping_add(h2).wrapping_mul(5).wrapping_add(0x52dc_e729);
        h2 ^= scramble_high(le_u64(bytes, at + 8));
        h2 = h2.rotate_left(31).wrapping_add(h1).wrapping_mul(5).wrapping_add(0x3849_5ab5);
    }

    let tail = &bytes[whole..];
    let (low, high) = tail.split_at(tail.len().min(8));
    if !high.is_empty() {
        h2 ^= scramble_high(le_tail(high));
    }
    if !low.is_empty() {
        h1 ^= scramble_low(le_tail(low));
    }

    h1 ^= bytes.len() as u64;
    h2 ^= bytes.len() as u64;
    h1 = h1.wrapping_add(h2);
    h2 = h2.wrapping_add(h1);
    h1 = avalanche(h1);
    h2 = avalanche(h2);
    h1 = h1.wrapping_add(h2);
    (h1, h2.wrapping_add(h1))
}

fn scramble_low(word: u64) -> u64 {
    word.wrapping_mul(C1).rotate_left(31).wrapping_mul(C2)
}

fn scramble_high(word: u64) -> u64 {
    word.wrapping_mul(C2).rotate_left(33).wrapping_mul(C1)
}

fn avalanche(mut hash: u64) -> u64 {
    hash = (hash ^ hash >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ hash >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ hash >> 33
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::murmur3_x64_128;

    #[test]
    fn published_strings() {
        assert_eq!(murmur3_x64_128(b"", 0), (0, 0));
        assert_eq!(murmur3_x64_128(b"hello", 0), (0xcbd8_a7b3_41bd_9b02, 0x5b1e_906a_48ae_1d19));
        assert_eq!(murmur3_x64_128(b"hello, world", 0), (0x342f_ac62_3a5e_bc8e, 0x4cdc_bc07_9642_414d));
        let long = b"The quick brown fox jumps over the lazy dog.";
        assert_eq!(murmur3_x64_128(long, 0), (0xcd99_481f_9ee9_02c9, 0x695d_a1a3_8987_b6e7));
    }

    #[test]
    fn smhasher_verification_value() {
        // SMHasher hashes prefixes of 0, 1, 2 … under seeds 256 - n, then hashes the concatenated results.
        let key: Vec<u8> = (0..=255).collect();
        let mut results = Vec::new();
        for length in 0..256usize {
            let (h1, h2) = murmur3_x64_128(&key[..length], (256 - length) as u32);
            results.extend_from_slice(&h1.to_le_bytes());
            results.extend_from_slice(&h2.to_le_bytes());
        }
        assert_eq!(murmur3_x64_128(&results, 0).0 as u32, 0x6384_ba69);
    }
}
