//! Routes, with one way or several.

use std::io::ErrorKind;
use std::net::IpAddr;

use ipnet::IpNet;
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::route::{
    RouteAttribute, RouteHeader, RouteMessage, RouteMetric, RouteNextHop, RouteProtocol, RouteScope,
    RouteType,
};

use super::address::family;
use super::{Link, Mode};
use crate::error::{Error, Result};
use crate::namespace::Namespace;

/// A route of the main table.
#[derive(Debug, Clone)]
pub struct Route {
    /// Where to.
    pub destination: IpNet,
    /// The ways; of several, the kernel takes one a flow, all of equal weight. Without one, what would go there is
    /// discarded in silence.
    pub hops: Vec<Hop>,
    /// The greatest segment that TCP announces by this route, bytes.
    pub advertised_mss: Option<u32>,
}

/// One way of a route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hop {
    /// The next router; `None` when the destination is on the link itself.
    pub gateway: Option<IpAddr>,
    /// The index of the interface.
    pub interface: u32,
}

impl Hop {
    /// By this router on this link.
    pub fn via(gateway: IpAddr, link: &Link) -> Self {
        Self { gateway: Some(gateway), interface: link.index() }
    }
}

impl Route {
    /// A route with these ways.
    pub fn new(destination: IpNet, hops: Vec<Hop>) -> Self {
        Self { destination, hops, advertised_mss: None }
    }

    fn message(&self) -> RouteMessage {
        let mut message = RouteMessage::default();
        message.header.address_family = family(self.destination.addr());
        message.header.destination_prefix_length = self.destination.prefix_len();
        message.header.table = RouteHeader::RT_TABLE_MAIN;
        message.header.protocol = RouteProtocol::Static;
        message.header.scope = RouteScope::Universe;
        message.header.kind = if self.hops.is_empty() { RouteType::BlackHole } else { RouteType::Unicast };
        message.attributes.push(RouteAttribute::Destination(self.destination.network().into()));
        match self.hops.as_slice() {
            [] => {}
            [hop] => {
                message.attributes.extend(hop.gateway.map(|gateway| RouteAttribute::Gateway(gateway.into())));
                message.attributes.push(RouteAttribute::Oif(hop.interface));
            }
            hops => {
                let hops = hops.iter().map(|hop| {
                    let mut way = RouteNextHop::default();
                    way.interface_index = hop.interface;
                    way.attributes.extend(hop.gateway.map(|gateway| RouteAttribute::Gateway(gateway.into())));
                    way
                });
                message.attributes.push(RouteAttribute::MultiPath(hops.collect()));
            }
        }
        if let Some(mss) = self.advertised_mss {
            message.attributes.push(RouteAttribute::Metrics(vec![RouteMetric::Advmss(mss)]));
        }
        message
    }
}

impl Namespace {
    /// Adds a route, or replaces the one to the same destination.
    ///
    /// # Errors
    /// [`crate::Error::System`].
    pub fn set_route(&self, route: &Route) -> Result<()> {
        let message = RouteNetlinkMessage::NewRoute(route.message());
        self.route_socket().request(message, Mode::Replace, || self.about("setting", route))?;
        Ok(())
    }

    /// Takes the route to this destination away.
    ///
    /// # Errors
    /// [`crate::Error::System`] when there is none.
    pub fn remove_route(&self, destination: IpNet) -> Result<()> {
        let mut message = RouteMessage::default();
        message.header.address_family = family(destination.addr());
        message.header.destination_prefix_length = destination.prefix_len();
        message.header.table = RouteHeader::RT_TABLE_MAIN;
        message.header.scope = RouteScope::NoWhere;
        message.attributes.push(RouteAttribute::Destination(destination.network().into()));
        let what = || format!("removing the route to {destination} in {}", self.label());
        self.route_socket().request(RouteNetlinkMessage::DelRoute(message), Mode::Change, what)?;
        Ok(())
    }

    /// Whether packets to this address end in the namespace.
    ///
    /// # Errors
    /// [`crate::Error::System`].
    pub fn is_local(&self, address: IpAddr) -> Result<bool> {
        let mut message = RouteMessage::default();
        message.header.address_family = family(address);
        message.header.destination_prefix_length = if address.is_ipv4() { 32 } else { 128 };
        message.attributes.push(RouteAttribute::Destination(address.into()));
        let what = || format!("asking for the route to {address} in {}", self.label());
        let message = RouteNetlinkMessage::GetRoute(message);
        let answers = match self.route_socket().request(message, Mode::Change, what) {
            Err(Error::System { source, .. }) if source.kind() == ErrorKind::NetworkUnreachable => {
                return Ok(false);
            }
            answers => answers?,
        };
        Ok(answers.iter().any(|answer| {
            matches!(answer, RouteNetlinkMessage::NewRoute(route) if route.header.kind == RouteType::Local)
        }))
    }

    fn about(&self, doing: &str, route: &Route) -> String {
        format!("{doing} the route to {} in {}", route.destination, self.label())
    }
}
