//! The forwarding decision of the Guideway load balancer, written once and compiled twice: for the BPF verifier and
//! for user space.
//!
//! The decision is a function of one packet and of state that it reads through small traits ([`state`]). The kernel
//! shell implements them over maps, the user-space engine over memory, so tests, fuzzing and replays exercise the very
//! code that runs in the kernel. Nothing here allocates, locks, panics, or loops without a bound.
//!
//! * [`record`]: the words that controller and forwarder share: slots, services, backends, flow entries.
//! * [`state`]: where a decision reads them from.
//! * [`outcome`]: what a decision says: a [`Verdict`], and the one counter ([`Outcome`]) that each packet belongs to.
#![no_std]
#![forbid(unsafe_code)]

pub mod outcome;
pub mod record;
pub mod state;

pub use outcome::{Event, Outcome, Verdict};
pub use state::State;
