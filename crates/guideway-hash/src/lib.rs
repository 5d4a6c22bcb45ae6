//! Consistent hashing for load balancers.
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
