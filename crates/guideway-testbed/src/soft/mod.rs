//! The forwarding core and its decapsulator in user space, on packet sockets.

mod decapsulator;
mod forwarder;

pub use decapsulator::{DecapCounts, SoftDecapsulator};
pub use forwarder::SoftForwarder;
