//! Guideway's own hash: word at a time, 64-bit arithmetic only, cheap in BPF.
//!
//! # Definition
//!
//! All arithmetic is unsigned and wraps at 2^64. A *round* absorbs one word `w` into the state `h`:
//!
//! ```text
//! round(h, w):   h ^= w;  h *= P1;  h ^= h >> 32;  h *= P2;  h ^= h >> 29
//! P1 = 0x9e3779b97f4a7c15    P2 = 0xbf58476d1ce4e5b9    P3 = 0x94d049bb133111eb
//! ```
//!
//! The hash of the bytes `key`, of length `n`, in `domain` under `seed` is:
//!
//! ```text
//! h = round(seed, domain)
//! for each 8 bytes of key, read little-endian as w:        h = round(h, w)
//! if 1 to 7 bytes are left, padded with zero bytes to w:   h = round(h, w)
//! h ^= n;  h *= P3;  h ^= h >> 32
//! ```
//!
//! Why so: BPF has no 128-bit multiply and the verifier likes short straight code, which rules out most fast
//! hashes of today. Two multiplications a word make the state depend on the seed in a non-linear way before the
//! next word arrives, so that which keys collide depends on the seed; with one multiplication a word, differences
//! in the top bits cancel whatever the seed is. It is not a cryptographic hash: who knows the seed can make
//! keys that collide.

use super::StableHasher;

const P1: u64 = 0x9e37_79b9_7f4a_7c15;
const P2: u64 = 0xbf58_476d_1ce4_e5b9;
const P3: u64 = 0x94d0_49bb_1331_11eb;

/// The seed of [`NativeHasher::default`]: the same everywhere, because a fleet shares it.
pub const DEFAULT_SEED: u64 = 0x6775_6964_6577_6179;

/// The native hash under one seed, which a whole fleet shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NativeHasher {
    seed: u64,
}

impl NativeHasher {
    /// The hash that `seed` keys.
    pub const fn new(seed: u64) -> Self {
        Self { seed }
    }

    /// The seed this hash is keyed by.
    pub const fn seed(&self) -> u64 {
        self.seed
    }

    /// The state from which [`hash_words`] gives the hashes of `domain`. It can be computed once and kept.
    pub const fn start(&self, domain: u64) -> u64 {
        start(self.seed, domain)
    }
}

impl Default for NativeHasher {
    fn default() -> Self {
        Self::new(DEFAULT_SEED)
    }
}

impl StableHasher for NativeHasher {
    fn hash(&self, domain: u64, key: &[u8]) -> u64 {
        let mut state = self.start(domain);
        let (words, rest) = key.as_chunks::<8>();
        for word in words {
            state = round(state, u64::from_le_bytes(*word));
        }
        if !rest.is_empty() {
            let mut last = [0; 8];
            last[..rest.len()].copy_from_slice(rest);
            state = round(state, u64::from_le_bytes(last));
        }
        finish(state, key.len() as u64)
    }
}

/// The state that `domain` starts from under `seed`.
#[inline]
pub const fn start(seed: u64, domain: u64) -> u64 {
    round(seed, domain)
}

/// The hash of whole words from a start state: what the packet path calls on a flow key.
///
/// `hash_words(start(seed, domain), words)` equals `NativeHasher::new(seed).hash(domain, bytes)` where `bytes` are
/// the words written one after the other, little-endian. The first argument may also be a plain seed: then
/// the result belongs to no domain.
#[inline]
pub const fn hash_words(seed: u64, words: &[u64]) -> u64 {
    let mut state = seed;
    let mut index = 0;
    while index < words.len() {
        state = round(state, words[index]);
        index += 1;
    }
    finish(state, words.len() as u64 * 8)
}

#[inline]
const fn round(state: u64, word: u64) -> u64 {
    let mut h = (state ^ word).wrapping_mul(P1);
    h ^= h >> 32;
    h = h.wrapping_mul(P2);
    h ^ (h >> 29)
}

#[inline]
const fn finish(state: u64, length: u64) -> u64 {
    let h = (state ^ length).wrapping_mul(P3);
    h ^ (h >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn words_and_bytes_agree() {
        let words = [0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210, 7];
        let bytes: Vec<u8> = words.iter().flat_map(|w: &u64| w.to_le_bytes()).collect();
        let hasher = NativeHasher::new(42);
        for n in 0..=3 {
            assert_eq!(hash_words(hasher.start(9), &words[..n]), hasher.hash(9, &bytes[..n * 8]));
        }
    }
    #[test]
    fn every_input_bit_flips_half_of_the_output_bits() {
        // 256 keys of 16 bytes: each output bit flips 128 times of 256 give or take 8; six deviations are 48.
        for input in 0..128 {
            let mut flips = [0_i32; 64];
            for i in 0..256_u64 {
                let mut key = [i.wrapping_mul(P1), i];
                let plain = hash_words(start(1, 4), &key);
                key[input / 64] ^= 1 << (input % 64);
                let changed = plain ^ hash_words(start(1, 4), &key);
                for (bit, flips) in flips.iter_mut().enumerate() {
                    *flips += ((changed >> bit) & 1) as i32;
                }
            }
            assert!(flips.iter().all(|flips| (flips - 128).abs() <= 48), "input bit {input}: {flips:?}");
        }
    }

    #[test]
    fn trailing_zeros_and_domains_count() {
        let hasher = NativeHasher::default();
        let keys: [&[u8]; 5] = [b"", b"\0", b"\0\0", b"\0\0\0\0\0\0\0\0", b"\0\0\0\0\0\0\0\0\0"];
        let mut seen: Vec<u64> =
            keys.iter().flat_map(|key| (0..4).map(|domain| hasher.hash(domain, key))).collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 20);
    }

    #[test]
    fn golden_values_never_change() {
        let hasher = NativeHasher::new(0);
        let golden =
            [0x86b6_d7c5_5438_cbe9, 0xb641_f5e0_bc83_5ff6, 0x8ce7_ce9d_49c1_6ad9, 0x9790_2e64_fff0_72c7];
        let keys: [&[u8]; 4] = [b"", b"a", b"10.0.0.1:443", b"0123456789abcdef"];
        assert_eq!(keys.map(|key| hasher.hash(4, key)), golden);
    }
}
