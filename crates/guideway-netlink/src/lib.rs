//! Route netlink: one question at a time to the kernel, and listening to what it tells.
//!
//! A socket belongs to the network namespace of the thread that opened it. What is asked and told are the messages of
//! [`netlink_packet_route`]; see rtnetlink(7).

mod datagram;
mod route_socket;

pub use datagram::{DATAGRAM_BYTES, Unknown, messages};
pub use route_socket::{RouteSocket, listener};
