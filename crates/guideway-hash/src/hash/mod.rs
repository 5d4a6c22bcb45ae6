//! Stable hashes: the same 64 bits in every process, on every machine, of either endianness.
//!
//! A load balancer's hash is part of its wire format. Two balancers behind one anycast address, or one balancer
//! before and after a restart, keep a connection on its backend only if they hash alike; so nothing here is
//! seeded by the process, and every read of a key is little-endian by definition, not by machine.
//!
//! A [`StableHasher`] hashes a key *in a domain*: a number that says what the hash is for ([`OFFSET`], [`SKIP`],
//! [`FLOW`], …). Two domains behave as two independent functions, which one seed then keys together.

pub mod native;

pub use native::NativeHasher;

/// A 64-bit hash of bytes that never changes.
///
/// Implementors promise that equal `(self, domain, key)` give equal results in every process, on every machine,
/// and in every later version. A hasher that is seeded per process (the standard library's default) breaks the
/// promise and with it every connection at the next restart.
pub trait StableHasher {
    /// The hash of `key` in `domain`.
    fn hash(&self, domain: u64, key: &[u8]) -> u64;
}

impl<H: StableHasher + ?Sized> StableHasher for &H {
    fn hash(&self, domain: u64, key: &[u8]) -> u64 {
        (**self).hash(domain, key)
    }
}

/// Where a backend's Maglev permutation starts.
pub const OFFSET: u64 = 1;
/// How far each step of a backend's Maglev permutation goes.
pub const SKIP: u64 = 2;
/// Orders in which ties between backends are broken by hash.
pub const ORDER: u64 = 3;
/// A flow key, on its way to a slot.
pub const FLOW: u64 = 4;
/// A (backend, key) pair's rendezvous score.
pub const RENDEZVOUS: u64 = 5;
/// A virtual node's place on a ring.
pub const RING: u64 = 6;
/// The first state of a jump hash.
pub const JUMP: u64 = 7;
/// The fingerprint of a table.
pub const DIGEST: u64 = 8;
