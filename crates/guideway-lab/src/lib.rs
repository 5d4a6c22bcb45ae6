//! Experiments: what the documents quote is computed here, from a seed, by one command.
//!
//! * [`persistence`]: which connections survive changes of the backends, on the real controller and forwarding core.
#![forbid(unsafe_code)]

pub mod persistence;
mod random;
