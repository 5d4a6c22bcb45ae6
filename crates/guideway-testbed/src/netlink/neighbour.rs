//! Fixed neighbours: which MAC an address has.

use std::net::IpAddr;

use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourMessage, NeighbourState,
};

use super::address::family;
use super::{Link, Mode};
use crate::error::Result;

impl Link {
    /// Says that `address` on this link has the given MAC, for good.
    ///
    /// # Errors
    /// [`crate::Error::System`].
    pub fn set_neighbour(&self, address: IpAddr, mac: [u8; 6]) -> Result<()> {
        let mut message = NeighbourMessage::default();
        message.header.family = family(address);
        message.header.ifindex = self.index();
        message.header.state = NeighbourState::Permanent;
        message.attributes = vec![
            NeighbourAttribute::Destination(match address {
                IpAddr::V4(v4) => NeighbourAddress::Inet(v4),
                IpAddr::V6(v6) => NeighbourAddress::Inet6(v6),
            }),
            NeighbourAttribute::LinkLayerAddress(mac.to_vec()),
        ];
        let what =
            || format!("setting the neighbour {address} at {} in {}", self.name(), self.namespace().label());
        let message = RouteNetlinkMessage::NewNeighbour(message);
        self.namespace().route_socket().request(message, Mode::Replace, what).map(drop)
    }
}
