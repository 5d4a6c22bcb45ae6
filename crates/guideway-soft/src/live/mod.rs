//! The forwarding core on the links of this machine, by packet sockets.
//!
//! The kernel sees the frames as well, so whatever is passed needs no more. For the same reason the addresses of
//! services must not be local, and the kernel must not forward them.

mod forwarder;
mod socket;
#[expect(unsafe_code, reason = "the address of a packet socket has no safe constructor")]
mod sys;

pub use forwarder::{LiveForwarder, StartError};
pub use socket::{MAX_FRAME, PacketSocket, Way};
