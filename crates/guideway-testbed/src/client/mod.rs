//! Clients that check what they get.

mod echo;
mod flood;
pub mod http;
mod load;
mod ping;
mod udp;

pub use echo::{Broken, EchoFlow, EchoFlows};
pub use flood::{Flood, FloodKind};
pub use load::{HttpLoad, LoadReport};
pub use ping::ping;
pub use udp::{UdpClient, UdpReport, UdpStream};
