//! Route netlink: asking and telling the kernel on one socket, listening to it on another.

use std::io::{self, ErrorKind};
use std::net::IpAddr;

use guideway_netlink::{DATAGRAM_BYTES, RouteSocket, Unknown, listener, messages};
use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_REPLACE, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkMessage};
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourFlags, NeighbourMessage, NeighbourState,
};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteFlags, RouteMessage, RouteMetric, RouteNextHop, RouteNextHopFlags,
    RouteType, RouteVia,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use nix::errno::Errno;
use nix::sys::socket::{setsockopt, sockopt};
use tokio::net::UnixDatagram;

use super::{Event, Link, Mac, Path, Place, Request, Resolution};

/// How many bytes of events may wait; the kernel gives less to those without privileges.
const WAITING_BYTES: usize = 8 << 20;

/// Multicast groups as bits: links, neighbours, routes and rules of both families, next-hop objects.
/// (`RTNLGRP_LINK` 1, `NEIGH` 3, `IPV4_ROUTE` 7, `IPV4_RULE` 8, `IPV6_ROUTE` 11, `IPV6_RULE` 19, `NEXTHOP` 32.)
const GROUPS: u32 = 1 | 1 << 2 | 1 << 6 | 1 << 7 | 1 << 10 | 1 << 18 | 1 << 31;

/// `RTM_NEWNEXTHOP` and `RTM_DELNEXTHOP`, of which the codec knows nothing.
const NEXT_HOP_MESSAGES: [u16; 2] = [104, 105];

/// Netlink failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NetlinkError {
    /// The system refused.
    #[error("cannot {doing} by netlink: {error}")]
    System {
        /// What was tried.
        doing: &'static str,
        /// What the system said.
        error: io::Error,
    },
    /// Without the privilege, neighbours can be seen but not resolved.
    #[error("neighbours cannot be resolved without CAP_NET_ADMIN; run as root or grant it to the service")]
    Privilege,
}

/// Asks and tells.
#[derive(Debug)]
pub(super) struct Asker(RouteSocket);

impl Asker {
    /// In the network namespace of this thread.
    pub(super) fn open() -> Result<Self, NetlinkError> {
        RouteSocket::open().map(Self).map_err(|error| system("open a socket", error))
    }

    /// Carries out a request, and gives what came of it to `tell`.
    pub(super) fn carry_out(
        &mut self,
        request: Request,
        tell: &mut impl FnMut(Event),
    ) -> Result<(), NetlinkError> {
        match request {
            Request::Dump => {
                let links = self.0.ask(RouteNetlinkMessage::GetLink(LinkMessage::default()), NLM_F_DUMP);
                let links = links.map_err(|error| system("list interfaces", error))?;
                tell(Event::Links(links.iter().filter_map(link_of).collect()));
                let all = RouteNetlinkMessage::GetNeighbour(NeighbourMessage::default());
                let neighbours =
                    self.0.ask(all, NLM_F_DUMP).map_err(|error| system("list neighbours", error))?;
                neighbours.iter().filter_map(event_of).for_each(tell);
            }
            Request::Route(backend) => {
                // An address that cannot be reached is an error to the kernel, and no way to us.
                let answer = self.0.ask(route_to(backend), 0).unwrap_or_default();
                let paths = answer.iter().find_map(|answer| match answer {
                    RouteNetlinkMessage::NewRoute(route) => Some(paths_of(route)),
                    _ => None,
                });
                tell(Event::Route { backend, paths: paths.unwrap_or_default() });
            }
            Request::Resolve(place) => {
                self.set(place, NeighbourState::None, NeighbourFlags::Use, NLM_F_CREATE | NLM_F_REPLACE)?;
            }
            Request::Confirm(place) => {
                let known = self.set(place, NeighbourState::Probe, NeighbourFlags::empty(), NLM_F_REPLACE)?;
                if !known {
                    tell(Event::Neighbour { place, state: Resolution::Unknown });
                }
            }
            Request::Restart(place) => {
                self.set(place, NeighbourState::Failed, NeighbourFlags::empty(), NLM_F_REPLACE)?;
                self.set(place, NeighbourState::None, NeighbourFlags::Use, NLM_F_CREATE | NLM_F_REPLACE)?;
            }
        }
        Ok(())
    }

    /// `false` where there is no such neighbour or link; events tell, or told, the rest.
    fn set(
        &mut self,
        place: Place,
        state: NeighbourState,
        flags: NeighbourFlags,
        mode: u16,
    ) -> Result<bool, NetlinkError> {
        let mut message = NeighbourMessage::default();
        message.header.family = family(place.address);
        message.header.ifindex = place.interface;
        message.header.state = state;
        message.header.flags = flags;
        message.attributes = vec![NeighbourAttribute::Destination(match place.address {
            IpAddr::V4(v4) => NeighbourAddress::Inet(v4),
            IpAddr::V6(v6) => NeighbourAddress::Inet6(v6),
        })];
        match self.0.ask(RouteNetlinkMessage::NewNeighbour(message), NLM_F_ACK | mode) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::PermissionDenied => Err(NetlinkError::Privilege),
            Err(_) => Ok(false),
        }
    }
}

/// Listens.
#[derive(Debug)]
pub(super) struct Listener {
    /// A netlink socket. The type is that of a datagram socket whose addresses nobody looks at: to wait for it and to
    /// receive from it is the same for every family.
    socket: UnixDatagram,
    buffer: Vec<u8>,
}

impl Listener {
    /// In the network namespace of this thread, and in the tokio runtime of it.
    pub(super) fn open() -> Result<Self, NetlinkError> {
        let socket = listener(GROUPS).map_err(|error| system("open a socket", error))?;
        // As much as we may have; with less, more events are lost and read again.
        let forced = setsockopt(&socket, sockopt::RcvBufForce, &WAITING_BYTES);
        let _ = forced.or_else(|_| setsockopt(&socket, sockopt::RcvBuf, &WAITING_BYTES));
        let socket = UnixDatagram::from_std(socket.into()).map_err(|error| system("wait", error))?;
        Ok(Self { socket, buffer: vec![0; DATAGRAM_BYTES] })
    }

    /// Waits until something is there.
    pub(super) async fn readable(&self) -> Result<(), NetlinkError> {
        self.socket.readable().await.map_err(|error| system("wait", error))
    }

    /// Reads what is there, one datagram, and gives its events to `tell`; `false` when nothing is there.
    pub(super) fn read(&mut self, tell: &mut impl FnMut(Event)) -> Result<bool, NetlinkError> {
        match self.socket.try_recv(&mut self.buffer) {
            Ok(length) => messages(&self.buffer[..length]).filter_map(event).for_each(tell),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // More came than had room.
            Err(error) if error.raw_os_error() == Some(Errno::ENOBUFS as i32) => tell(Event::Lost),
            Err(error) => return Err(system("listen", error)),
        }
        Ok(true)
    }
}

fn system(doing: &'static str, error: io::Error) -> NetlinkError {
    NetlinkError::System { doing, error }
}

fn event(message: Result<NetlinkMessage<RouteNetlinkMessage>, Unknown>) -> Option<Event> {
    match message {
        Ok(message) => match message.payload {
            NetlinkPayload::InnerMessage(message) => event_of(&message),
            NetlinkPayload::Overrun(_) => Some(Event::Lost),
            _ => None,
        },
        Err(Unknown { kind, .. }) if NEXT_HOP_MESSAGES.contains(&kind) => Some(Event::RoutesChanged),
        Err(_) => None,
    }
}

fn event_of(message: &RouteNetlinkMessage) -> Option<Event> {
    match message {
        RouteNetlinkMessage::NewLink(_) => {
            let (interface, link) = link_of(message)?;
            Some(Event::Link { interface, link })
        }
        RouteNetlinkMessage::DelLink(link) if link.header.interface_family == AddressFamily::Unspec => {
            Some(Event::LinkGone { interface: link.header.index })
        }
        RouteNetlinkMessage::NewNeighbour(neighbour) => {
            let place = place_of(neighbour)?;
            Some(Event::Neighbour { place, state: resolution_of(neighbour) })
        }
        RouteNetlinkMessage::DelNeighbour(neighbour) => {
            let place = place_of(neighbour)?;
            Some(Event::Neighbour { place, state: Resolution::Unknown })
        }
        RouteNetlinkMessage::NewRoute(route) | RouteNetlinkMessage::DelRoute(route) => {
            // Cached results of single look-ups are no routes.
            (!route.header.flags.contains(RouteFlags::Cloned)).then_some(Event::RoutesChanged)
        }
        RouteNetlinkMessage::NewRule(_) | RouteNetlinkMessage::DelRule(_) => Some(Event::RoutesChanged),
        _ => None,
    }
}

/// Its index, and what there is to it. Bridges tell of their ports with messages of another family.
fn link_of(message: &RouteNetlinkMessage) -> Option<(u32, Link)> {
    let RouteNetlinkMessage::NewLink(link) = message else { return None };
    if link.header.interface_family != AddressFamily::Unspec {
        return None;
    }
    let mac = link.attributes.iter().find_map(|attribute| match attribute {
        LinkAttribute::Address(address) => mac_of(address),
        _ => None,
    });
    let running = link.header.flags.contains(LinkFlags::Up | LinkFlags::Running);
    let mtu = link.attributes.iter().find_map(|attribute| match attribute {
        LinkAttribute::Mtu(mtu) => Some(u16::try_from(*mtu).unwrap_or(u16::MAX)),
        _ => None,
    });
    Some((link.header.index, Link { mac, running, mtu }))
}

fn place_of(neighbour: &NeighbourMessage) -> Option<Place> {
    let address = neighbour.attributes.iter().find_map(|attribute| match attribute {
        NeighbourAttribute::Destination(NeighbourAddress::Inet(v4)) => Some(IpAddr::V4(*v4)),
        NeighbourAttribute::Destination(NeighbourAddress::Inet6(v6)) => Some(IpAddr::V6(*v6)),
        _ => None,
    })?;
    Some(Place { interface: neighbour.header.ifindex, address })
}

fn resolution_of(neighbour: &NeighbourMessage) -> Resolution {
    let mac = neighbour.attributes.iter().find_map(|attribute| match attribute {
        NeighbourAttribute::LinkLayerAddress(address) => mac_of(address),
        _ => None,
    });
    match (neighbour.header.state, mac) {
        (NeighbourState::Reachable, Some(mac)) => Resolution::Confirmed(mac),
        (NeighbourState::Permanent | NeighbourState::Noarp, Some(mac)) => Resolution::Permanent(mac),
        (NeighbourState::Stale | NeighbourState::Delay | NeighbourState::Probe, Some(mac)) => {
            Resolution::Doubtful(mac)
        }
        _ => Resolution::Unknown,
    }
}

fn mac_of(address: &[u8]) -> Option<Mac> {
    Mac::try_from(address).ok().filter(|mac| *mac != [0; 6])
}

/// Whether packets to an address end at this host, by the routes of this thread's network namespace.
///
/// # Errors
/// When the kernel does not tell.
pub fn is_local(address: IpAddr) -> io::Result<bool> {
    match RouteSocket::open()?.ask(route_to(address), 0) {
        Ok(answers) => Ok(answers.iter().any(|answer| match answer {
            RouteNetlinkMessage::NewRoute(route) => route.header.kind == RouteType::Local,
            _ => false,
        })),
        // No route, or one that says so: it is not here.
        Err(error) if NO_WAY.iter().any(|no| error.raw_os_error() == Some(*no as i32)) => Ok(false),
        Err(error) => Err(error),
    }
}

/// What the kernel answers where no route leads to an address, or one that is `prohibit`, `blackhole` or the like.
const NO_WAY: [Errno; 4] = [Errno::ENETUNREACH, Errno::EHOSTUNREACH, Errno::EACCES, Errno::EINVAL];

/// Asks for the whole route, with all its ways, and not for the way of one packet.
fn route_to(backend: IpAddr) -> RouteNetlinkMessage {
    let mut message = RouteMessage::default();
    message.header.address_family = family(backend);
    message.header.destination_prefix_length = if backend.is_ipv4() { 32 } else { 128 };
    message.header.flags = RouteFlags::FibMatch;
    message.attributes = vec![RouteAttribute::Destination(backend.into())];
    RouteNetlinkMessage::GetRoute(message)
}

fn paths_of(route: &RouteMessage) -> Vec<Path> {
    if route.header.kind != RouteType::Unicast {
        return Vec::new();
    }
    let mtu = mtu_of(route);
    let ways = route.attributes.iter().find_map(|attribute| match attribute {
        RouteAttribute::MultiPath(ways) => Some(ways.iter().filter_map(|way| path_of(way, mtu)).collect()),
        _ => None,
    });
    ways.unwrap_or_else(|| {
        let interface = route.attributes.iter().find_map(|attribute| match attribute {
            RouteAttribute::Oif(interface) => Some(*interface),
            _ => None,
        });
        let path = |interface| Path { interface, gateway: gateway_of(&route.attributes), weight: 1, mtu };
        interface.map(path).into_iter().collect()
    })
}

/// What a route says of its MTU (`ip route … mtu`), for all its ways.
fn mtu_of(route: &RouteMessage) -> Option<u16> {
    let metrics = route.attributes.iter().find_map(|attribute| match attribute {
        RouteAttribute::Metrics(metrics) => Some(metrics),
        _ => None,
    })?;
    metrics.iter().find_map(|metric| match metric {
        RouteMetric::Mtu(mtu) if *mtu > 0 => Some(u16::try_from(*mtu).unwrap_or(u16::MAX)),
        _ => None,
    })
}

fn path_of(way: &RouteNextHop, mtu: Option<u16>) -> Option<Path> {
    let dead = RouteNextHopFlags::Dead | RouteNextHopFlags::Linkdown;
    (!way.flags.intersects(dead)).then(|| Path {
        interface: way.interface_index,
        gateway: gateway_of(&way.attributes),
        // The kernel counts weights from 0.
        weight: u16::from(way.hops) + 1,
        mtu,
    })
}

fn gateway_of(attributes: &[RouteAttribute]) -> Option<IpAddr> {
    attributes.iter().find_map(|attribute| match attribute {
        RouteAttribute::Gateway(RouteAddress::Inet(v4)) | RouteAttribute::Via(RouteVia::Inet(v4)) => {
            Some(IpAddr::V4(*v4))
        }
        RouteAttribute::Gateway(RouteAddress::Inet6(v6)) | RouteAttribute::Via(RouteVia::Inet6(v6)) => {
            Some(IpAddr::V6(*v6))
        }
        _ => None,
    })
}

fn family(address: IpAddr) -> AddressFamily {
    match address {
        IpAddr::V4(_) => AddressFamily::Inet,
        IpAddr::V6(_) => AddressFamily::Inet6,
    }
}
