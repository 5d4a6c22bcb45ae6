//! The forwarding decision of the Guideway load balancer, written once and compiled twice: for the BPF verifier and
//! for user space.
//!
//! The decision is a function of one packet and of state that it reads through small traits ([`state`]). The kernel
//! shell implements them over maps, the user-space engine over memory, so tests, fuzzing and replays exercise the very
//! code that runs in the kernel. Nothing here allocates, locks, panics, or loops without a bound.
//!
//! [`process`] takes the packet through its steps, one module each, in this order: parse (the wire crate) →
//! [`service`] → [`slot`] with flow hash → where unsettled or tracked, [`flow`] table → [`send`]: backend, size,
//! encapsulation, next hop. Beside the road lie [`fragment`], [`quic`], [`icmp`] and [`answer`].
//!
//! * [`record`]: the words that controller and forwarder share: slots, services, backends, flow entries.
//! * [`state`]: where a decision reads them from.
//! * [`word`]: what those records are made of.
//! * [`tunnel_end`]: the backend's side: what is taken out of a tunnel, and the segment size that a server announces.
//! * [`probe`]: a health probe's way into the tunnel.
//! * [`outcome`]: what a decision says: a [`Verdict`], and the one counter ([`Outcome`]) that each packet belongs to.
#![no_std]
#![cfg_attr(not(target_arch = "bpf"), forbid(unsafe_code))]
#![deny(unsafe_code)]

#[cfg(feature = "cases")]
extern crate std;

pub mod answer;
#[cfg(feature = "cases")]
pub mod cases;
pub mod flow;
pub mod fragment;
pub mod icmp;
pub mod outcome;
pub mod probe;
mod process;
pub mod quic;
pub mod record;
pub mod send;
pub mod service;
pub mod slot;
pub mod state;
pub mod tunnel_end;
pub mod word;

pub use outcome::{Event, Outcome, Verdict};
pub use process::process;
pub use state::State;
