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
}
