//! Clients that check what they get.

mod download;
mod echo;
mod flood;
pub mod http;
mod load;
mod ping;
mod segment;
mod udp;

pub use download::{Download, Progress};
pub use echo::{Broken, EchoFlow, EchoFlows};
pub use flood::{Flood, FloodKind};
pub use load::{Failed, HttpLoad, LoadReport, Pace};
pub use ping::ping;
pub use segment::Segment;
pub use udp::{UdpClient, UdpReport, UdpStream};
