//! The hash functions that other load balancers build their tables with.
//!
//! Each is written for the exact form in which a profile uses it, reads its input as bytes (so a big-endian machine
//! answers alike), and is checked against the vectors that its authors or its best-known port publish.
//! None of them serves the native profile.
//!
//! | function | used by | source |
//! |---|---|---|
//! | [`xxh64`] | `envoy` | xxHash specification 0.8, section XXH64 |
//! | [`siphash`] | `go-maglev`, `glb` (2-4), `ipvs-mh` (1-3) | Aumasson and Bernstein 2012 |
//! | [`half_siphash`] | `ipvs-mh` on 32-bit kernels (1-3) | the same authors' 32-bit variant |
//! | [`murmur3`] | `cilium`, `katran-v1`, `katran-v2` | MurmurHash3 x64 128 |
//! | [`spooky`], [`city`] | `katran-v1`, `katran-v2` | SpookyHash V2 short form, CityHash `Hash128to64` |
//! | [`jhash`] | flow hashes of `cilium` and Katran | Bob Jenkins's lookup3 as Linux words it |
//! | [`crc32c`], [`clib_xxhash`] | `vpp`, `vpp-26.02` | RFC 3720 appendix B.4; VPP `xxhash.h` |
//! | [`fnv`] | `reference`, `poise`, Katran's IPv4 hash | Fowler, Noll, Vo |
//! | [`splitmix64`] | `poise` | Steele, Lea, Flood 2014 |

pub mod city;
pub mod clib_xxhash;
pub mod crc32c;
pub mod fnv;
pub mod half_siphash;
pub mod jhash;
pub mod murmur3;
pub mod siphash;
pub mod splitmix64;
pub mod spooky;
pub mod xxh64;

/// The eight bytes at `at`, little-endian.
///
/// # Panics
/// When the slice is shorter; callers index within a length that they have just checked.
#[inline]
fn le_u64(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0u8; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

/// The four bytes at `at`, little-endian. Panics like [`le_u64`].
#[inline]
fn le_u32(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0u8; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}

/// Up to seven bytes as the low bytes of a little-endian word.
#[inline]
fn le_tail(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte))
}
