//! Addresses of interfaces.

use std::net::IpAddr;
use std::time::Duration;

use ipnet::IpNet;
use netlink_packet_route::address::{AddressAttribute, AddressHeaderFlags, AddressMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use super::{Link, Mode};
use crate::error::Result;
use crate::wait;

/// How long an address may take to serve.
const LOCAL: Duration = Duration::from_secs(5);

impl Link {
    /// Gives it an address with the length of its network, and waits until it serves.
    ///
    /// # Errors
    /// [`crate::Error::System`].
    pub fn add_address(&self, address: IpNet) -> Result<()> {
        let message = RouteNetlinkMessage::NewAddress(self.address_message(address));
        self.namespace().route_socket().request(message, Mode::Create, || self.about("adding", address))?;
        // IPv6 addresses become local a little later.
        wait::until(LOCAL, "an address to serve", || match self.namespace().is_local(address.addr()) {
            Ok(true) => Ok(()),
            Ok(false) => Err(format!("{address} is not local yet")),
            Err(error) => Err(error.to_string()),
        })
    }

    /// Takes an address away.
    ///
    /// # Errors
    /// [`crate::Error::System`].
    pub fn remove_address(&self, address: IpNet) -> Result<()> {
        let message = RouteNetlinkMessage::DelAddress(self.address_message(address));
        self.namespace().route_socket().request(message, Mode::Change, || self.about("removing", address))?;
        Ok(())
    }

    fn address_message(&self, address: IpNet) -> AddressMessage {
        let mut message = AddressMessage::default();
        message.header.family = family(address.addr());
        // Without a look for others that have it, which would keep it from serving for a moment.
        message.header.flags = AddressHeaderFlags::Nodad;
        message.header.prefix_len = address.prefix_len();
        message.header.index = self.index();
        message.attributes =
            vec![AddressAttribute::Local(address.addr()), AddressAttribute::Address(address.addr())];
        message
    }

    fn about(&self, doing: &str, address: IpNet) -> String {
        format!("{doing} {address} at {} in {}", self.name(), self.namespace().label())
    }
}

pub(super) fn family(address: IpAddr) -> AddressFamily {
    match address {
        IpAddr::V4(_) => AddressFamily::Inet,
        IpAddr::V6(_) => AddressFamily::Inet6,
    }
}
