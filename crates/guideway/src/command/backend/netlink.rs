//! Interfaces and their addresses, by route netlink.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, OwnedFd};

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage,
    NetlinkPayload,
};
use netlink_packet_route::address::{AddressAttribute, AddressHeaderFlags, AddressMessage, AddressScope};
use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use nix::sys::socket::{
    AddressFamily as Domain, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, send,
    socket,
};

/// A connection to the kernel.
pub(crate) struct Netlink {
    socket: OwnedFd,
}

/// An interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Interface {
    pub(crate) index: u32,
    /// In bytes.
    pub(crate) mtu: u32,
    /// Whether it is switched on.
    pub(crate) up: bool,
    /// Whether there is somebody at the other end, as far as it can tell.
    pub(crate) carrier: bool,
}

impl Netlink {
    pub(crate) fn open() -> io::Result<Netlink> {
        let socket =
            socket(Domain::Netlink, SockType::Datagram, SockFlag::SOCK_CLOEXEC, SockProtocol::NetlinkRoute)?;
        bind(socket.as_raw_fd(), &NetlinkAddr::new(0, 0))?;
        Ok(Netlink { socket })
    }

    /// The interface of this name.
    pub(crate) fn interface(&self, name: &str) -> io::Result<Interface> {
        let mut message = LinkMessage::default();
        message.attributes = vec![LinkAttribute::IfName(name.to_owned())];
        let answers = self.ask(RouteNetlinkMessage::GetLink(message), NLM_F_ACK)?;
        let link = answers.into_iter().find_map(|answer| match answer {
            RouteNetlinkMessage::NewLink(link) => Some(link),
            _ => None,
        });
        let link = link.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        let mtu = link.attributes.iter().find_map(|attribute| match attribute {
            LinkAttribute::Mtu(mtu) => Some(*mtu),
            _ => None,
        });
        let flags = link.header.flags;
        Ok(Interface {
            index: link.header.index,
            mtu: mtu.unwrap_or_default(),
            up: flags.contains(LinkFlags::Up),
            carrier: flags.contains(LinkFlags::LowerUp),
        })
    }

    /// The addresses of an interface, or of all of them, but those that serve on their link alone.
    pub(crate) fn addresses(&self, index: Option<u32>) -> io::Result<Vec<IpAddr>> {
        let answers = self.ask(RouteNetlinkMessage::GetAddress(AddressMessage::default()), NLM_F_DUMP)?;
        let mut addresses = Vec::new();
        for answer in answers {
            let RouteNetlinkMessage::NewAddress(message) = answer else { continue };
            let of_another = index.is_some_and(|index| index != message.header.index);
            if of_another || message.header.scope == AddressScope::Link {
                continue;
            }
            let of =
                |wanted: fn(&AddressAttribute) -> Option<IpAddr>| message.attributes.iter().find_map(wanted);
            // With a peer, the local address is the one of this host.
            let local = of(|attribute| match attribute {
                AddressAttribute::Local(address) => Some(*address),
                _ => None,
            });
            let other = of(|attribute| match attribute {
                AddressAttribute::Address(address) => Some(*address),
                _ => None,
            });
            addresses.extend(local.or(other));
        }
        Ok(addresses)
    }

    /// Gives an interface an address of its own, with no network around it.
    pub(crate) fn add(&self, index: u32, address: IpAddr) -> io::Result<()> {
        let message = RouteNetlinkMessage::NewAddress(alone(index, address));
        self.ask(message, NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL).map(drop)
    }

    /// Takes such an address away.
    pub(crate) fn remove(&self, index: u32, address: IpAddr) -> io::Result<()> {
        self.ask(RouteNetlinkMessage::DelAddress(alone(index, address)), NLM_F_ACK).map(drop)
    }

    fn ask(&self, message: RouteNetlinkMessage, flags: u16) -> io::Result<Vec<RouteNetlinkMessage>> {
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | flags;
        let mut message = NetlinkMessage::new(header, NetlinkPayload::from(message));
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        send(self.socket.as_raw_fd(), &bytes, MsgFlags::empty())?;
        let mut answers = Vec::new();
        let mut buffer = vec![0; ANSWER_BYTES];
        loop {
            let length = recv(self.socket.as_raw_fd(), &mut buffer, MsgFlags::empty())?;
            let mut rest = buffer.get(..length).unwrap_or_default();
            while !rest.is_empty() {
                let message =
                    NetlinkMessage::<RouteNetlinkMessage>::deserialize(rest).map_err(io::Error::other)?;
                let taken = (message.header.length as usize).next_multiple_of(4).clamp(4, rest.len());
                rest = &rest[taken..];
                match message.payload {
                    NetlinkPayload::InnerMessage(answer) => answers.push(answer),
                    NetlinkPayload::Done(_) => return Ok(answers),
                    NetlinkPayload::Error(error) if error.code.is_none() => return Ok(answers),
                    NetlinkPayload::Error(error) => return Err(error.to_io()),
                    other => return Err(io::Error::other(format!("an answer of another kind: {other:?}"))),
                }
            }
        }
    }
}

/// Room for one datagram of answers: what the kernel fills at most.
const ANSWER_BYTES: usize = 64 * 1024;

fn alone(index: u32, address: IpAddr) -> AddressMessage {
    let mut message = AddressMessage::default();
    (message.header.family, message.header.prefix_len) = match address {
        IpAddr::V4(_) => (AddressFamily::Inet, 32),
        IpAddr::V6(_) => (AddressFamily::Inet6, 128),
    };
    // The whole point is that other hosts have it too.
    message.header.flags = AddressHeaderFlags::Nodad;
    message.header.index = index;
    message.attributes = vec![AddressAttribute::Local(address), AddressAttribute::Address(address)];
    message
}
