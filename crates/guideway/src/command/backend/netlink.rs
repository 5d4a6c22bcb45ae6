//! Interfaces and their addresses, by route netlink.

use std::io;
use std::net::IpAddr;

use guideway_netlink::RouteSocket;
use netlink_packet_core::{NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL};
use netlink_packet_route::address::{AddressAttribute, AddressHeaderFlags, AddressMessage, AddressScope};
use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

/// A connection to the kernel.
pub(crate) struct Netlink(RouteSocket);

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
        RouteSocket::open().map(Netlink)
    }

    /// The interface of this name.
    pub(crate) fn interface(&mut self, name: &str) -> io::Result<Interface> {
        let mut message = LinkMessage::default();
        message.attributes = vec![LinkAttribute::IfName(name.to_owned())];
        let answers = self.0.ask(RouteNetlinkMessage::GetLink(message), NLM_F_ACK)?;
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
    pub(crate) fn addresses(&mut self, index: Option<u32>) -> io::Result<Vec<IpAddr>> {
        let answers = self.0.ask(RouteNetlinkMessage::GetAddress(AddressMessage::default()), NLM_F_DUMP)?;
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
    pub(crate) fn add(&mut self, index: u32, address: IpAddr) -> io::Result<()> {
        let message = RouteNetlinkMessage::NewAddress(alone(index, address));
        self.0.ask(message, NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL).map(drop)
    }

    /// Takes such an address away.
    pub(crate) fn remove(&mut self, index: u32, address: IpAddr) -> io::Result<()> {
        self.0.ask(RouteNetlinkMessage::DelAddress(alone(index, address)), NLM_F_ACK).map(drop)
    }
}

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
