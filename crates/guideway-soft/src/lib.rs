//! The forwarding core over memory: the same decision as in the kernel, without privileges.
//!
//! [`Memory`] holds all state, of a fixed size ([`Limits`]); a controller changes it while packet threads
//! ([`Worker`]) read it. The time is passed in.

#![deny(unsafe_code)]

pub mod capture;
pub mod counters;
pub mod directory;
mod epoch;
mod exact;
mod limiter;
pub mod limits;
#[cfg(feature = "live")]
pub mod live;
pub mod lookup;
pub mod memory;
mod published;
pub mod worker;

pub use counters::{Count, Totals, Unbalanced};
pub use directory::{Directory, QuicBinding};
pub use limits::{Limits, MemoryReport};
pub use lookup::Binding;
pub use memory::{Memory, NoMemory};
pub use worker::Worker;
