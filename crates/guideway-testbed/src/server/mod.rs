//! Servers that say which backend they are.

mod http;
mod tcp;
mod udp;

pub use http::http;
pub use tcp::{TcpServer, echo};
pub use udp::UdpEcho;
