//! What serves on a backend.

use crate::error::Result;
use crate::server::{TcpServer, UdpEcho, echo, http};
use crate::topology::{Host, VIPS};

/// The port of HTTP.
pub const HTTP_PORT: u16 = 80;

/// The port of the TCP and UDP echo.
pub const ECHO_PORT: u16 = 7;

/// Built-in servers on the virtual addresses of a backend: HTTP, TCP echo and UDP echo.
#[derive(Debug)]
pub struct Servers {
    /// HTTP on [`HTTP_PORT`].
    pub http: TcpServer,
    /// TCP echo on [`ECHO_PORT`].
    pub echo: TcpServer,
    /// UDP echo on [`ECHO_PORT`].
    pub udp_echo: UdpEcho,
}

impl Servers {
    /// Starts them.
    ///
    /// # Errors
    /// [`crate::Error::System`].
    pub fn start(host: &Host) -> Result<Self> {
        let (space, name) = (&host.namespace, host.name.as_str());
        Ok(Self {
            http: TcpServer::start(space, &VIPS, HTTP_PORT, http(name))?,
            echo: TcpServer::start(space, &VIPS, ECHO_PORT, echo(name))?,
            udp_echo: UdpEcho::start(space, name, &VIPS, ECHO_PORT)?,
        })
    }
}
