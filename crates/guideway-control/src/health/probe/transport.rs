//! Sockets of probes: where they go, which mark they carry, by which device they leave.

use std::io;
use std::io::ErrorKind::{AddrNotAvailable, HostUnreachable, NetworkUnreachable};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;
use std::time::Duration;

use nix::net::if_::if_indextoname;
use rustix::io::Errno;
use rustix::net::sockopt::set_tcp_quickack;
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tokio::net::{TcpSocket, TcpStream, UdpSocket};

use super::progress::{Progress, words};
use crate::health::round::{Fault, Stage};

/// What this host lacks to send to an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lack {
    /// A route there.
    Route,
    /// An address of its own: without one, Linux sends IPv4 packets from 0.0.0.0.
    Source,
}

/// What is lacking, if anything is; nothing is sent.
pub(super) fn lack(address: IpAddr) -> Option<Lack> {
    let any: IpAddr =
        if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = std::net::UdpSocket::bind((any, 0)).ok()?;
    match socket.connect((address, 9)).and_then(|()| socket.local_addr()) {
        Ok(from) => from.ip().is_unspecified().then_some(Lack::Source),
        Err(error) => match error.kind() {
            NetworkUnreachable | HostUnreachable => Some(Lack::Route),
            AddrNotAvailable => Some(Lack::Source),
            _ => None,
        },
    }
}

/// The way of one leg's packets.
#[derive(Debug, Clone, Copy)]
pub(super) struct Transport {
    pub(super) target: SocketAddr,
    pub(super) mark: Option<u32>,
    /// The index of the interface that they leave by.
    pub(super) device: Option<u32>,
}

/// What a socket is made for; those of one kind can stand in for one another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Kind {
    is_v6: bool,
    is_marked: bool,
}

impl Transport {
    /// What kind of socket it takes.
    pub(super) fn kind(&self) -> Kind {
        Kind { is_v6: self.target.is_ipv6(), is_marked: self.mark.is_some() }
    }

    /// Begins to open a connection, by a socket of its [kind](Self::kind) that is connected to nothing, or a new one. Its last
    /// packet is held back for a moment, in which a connection that is to serve no other purpose is to be reset.
    pub(super) fn connecting(&self, idle: Option<Socket>) -> Result<Socket, Fault> {
        let progress = Progress::default();
        let socket = match idle {
            Some(socket) => self.marked(socket)?,
            None => self.socket(Type::STREAM, Protocol::TCP, &progress)?,
        };
        // Forgotten with each connection. Where it is refused, the backend's program sees one more that says nothing.
        let _ = set_tcp_quickack(&socket, false);
        match rustix::net::connect(&socket, &self.target) {
            Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
            Err(error) => Err(progress.fault(&error.into())),
        }
    }

    /// Opens a connection.
    pub(super) async fn connect(&self, progress: &Progress) -> Result<TcpStream, Fault> {
        progress.enter(Stage::Connect);
        let socket = self.socket(Type::STREAM, Protocol::TCP, progress)?;
        socket.set_tcp_nodelay(true).map_err(|error| progress.fault(&error))?;
        let socket = TcpSocket::from_std_stream(socket.into());
        socket.connect(self.target).await.map_err(|error| progress.fault(&error))
    }

    /// Has a connection that served its purpose end by a reset when it is closed: none is left behind that waits for its last
    /// packets.
    pub(super) fn abandon(socket: &impl AsFd) {
        // Where that is refused, it ends the ordinary way.
        let _ = SockRef::from(socket).set_linger(Some(Duration::ZERO));
    }

    /// A socket for datagrams to and from the target alone.
    pub(super) fn datagrams(&self, progress: &Progress) -> Result<UdpSocket, Fault> {
        progress.enter(Stage::Connect);
        let socket = self.socket(Type::DGRAM, Protocol::UDP, progress)?;
        let failed = |error| progress.fault(&error);
        socket.connect(&self.target.into()).map_err(failed)?;
        UdpSocket::from_std(socket.into()).map_err(failed)
    }

    fn marked(&self, socket: Socket) -> Result<Socket, Fault> {
        if let Some(mark) = self.mark {
            socket.set_mark(mark).map_err(|error| Fault::Local {
                said: format!(
                    "{}: a tunnel probe marks its packets, which needs CAP_NET_ADMIN",
                    words(&error)
                ),
            })?;
        }
        Ok(socket)
    }

    fn socket(&self, kind: Type, protocol: Protocol, progress: &Progress) -> Result<Socket, Fault> {
        let failed = |error| progress.fault(&error);
        let domain = Domain::for_address(self.target);
        let socket = Socket::new(domain, kind.nonblocking().cloexec(), Some(protocol)).map_err(failed)?;
        let socket = self.marked(socket)?;
        if let Some(device) = self.device {
            // The kernel takes a name, and remembers the index.
            let bound = if_indextoname(device)
                .map_err(io::Error::from)
                .and_then(|name| socket.bind_device(Some(name.as_bytes())));
            bound.map_err(|error| Fault::Local { said: format!("interface {device}: {}", words(&error)) })?;
        }
        Ok(socket)
    }
}
