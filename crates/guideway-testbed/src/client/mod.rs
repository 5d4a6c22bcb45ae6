//! Clients that check what they get.

mod echo;
pub mod http;
mod udp;

pub use echo::{Broken, EchoFlow, EchoFlows};
pub use udp::{UdpClient, UdpReport, UdpStream};
