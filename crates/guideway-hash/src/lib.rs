//! Consistent hashing for load balancers: a library, and a manual of the field.
//!
//! A balancer has to send all packets of a connection to one backend. It can remember where each connection went, or
//! it can compute it: hash what names the flow, and let the hash choose. Several balancers, or one before and after
//! a restart, then agree without talking. What is hard is *change*: when a backend comes or goes, as few flows as
//! possible should get another answer. That is consistent hashing, and there are several ways to it.
//!
//! # The manual
//!
//! | chapter | what it tells |
//! |---|---|
//! | [`hash`] | stable hashes: why a table's hash is part of the wire format; the native hash, defined |
//! | [`maglev`] | Maglev tables: the draft, turns by weight, the fast fill and its proof against the textbook |
//! | [`prime`] | table sizes: why primes, how many slots |
//! | [`table`] | the finished table: owner of a slot, digest of a fleet |
//! | [`policy`] | Maglev, rendezvous, ring, jump and modulo behind one trait: rule, cost, when to choose which |
//! | [`profile`] | other systems' tables bit for bit: Envoy, Cilium, Katran, IPVS, VPP and more |
//! | [`churn`] | what a change moves, how much of it needlessly, and how even the shares are |
//!
//! # Words
//!
//! A *table* has M *slots*, each owned by one *backend*. A *flow* is a connection; its *flow hash* is 64 bits, and
//! its slot is `hash mod M`: the one rule everywhere. *Churn* is the slots that change owner, and *needless* churn
//! those of them for which nothing asked: both owners are there before and after, and neither did the old one lose
//! weight nor the new one gain any ([`policy::Move`]).
//!
//! # A first table
//!
//! ```
//! use guideway_hash::TableSize;
//! use guideway_hash::maglev::{Maglev, MaglevBuilder};
//!
//! // Identity and weight; the order doesn't matter.
//! let backends = vec![("10.0.0.1:443", 1), ("10.0.0.2:443", 1), ("10.0.0.3:443", 2)];
//! let builder = MaglevBuilder::new().size(TableSize::auto(backends.len()));
//! let maglev = Maglev::new(builder, backends)?;
//!
//! assert_eq!(maglev.table().counts(3), [127, 127, 255]);
//! let backend = maglev.pick(b"198.51.100.7:51514 192.0.2.10:443 tcp");
//! assert!(backend.starts_with("10.0.0."));
//! # Ok::<(), guideway_hash::maglev::BuildError>(())
//! ```
//!
//! The crate needs an allocator but no standard library. It allocates tables fallibly: memory that can't be had is an
//! error that leaves what was in use alone. Builds are pure functions that share nothing, so as many run at a
//! time as there are cores.
#![no_std]

extern crate alloc;

pub mod churn;
pub mod hash;
pub mod maglev;
pub mod policy;
pub mod prime;
pub mod profile;
pub mod table;
#[cfg(feature = "vectors")]
pub mod vectors;

pub use hash::{NativeHasher, StableHasher};
pub use prime::TableSize;
pub use table::{Digest, FlowRule, Table};
