//! The forwarding core on the links of this machine, by packet sockets.
//!
//! The kernel sees the frames as well, so whatever is passed needs no more. For the same reason the addresses of
//! services must not be local, and the kernel must not forward them.
//!
//! Checksums that the sender's kernel left to a network card, as over a veth pair, are finished here before anything
//! looks at the frame. Packets that were joined on the way (TSO and GSO of the other end of such a pair, GRO of the
//! link itself) are not taken apart: they fit no tunnel, are counted ([`LiveForwarder::joined`]), and the joining has to
//! be switched off.

mod checksum;
mod forwarder;
mod socket;
#[expect(
    unsafe_code,
    reason = "addresses and options of packet sockets, and an interface's MTU, have no safe calls"
)]
mod sys;

pub use forwarder::{LiveForwarder, StartError};
pub use socket::{MAX_FRAME, PacketSocket, Way};
