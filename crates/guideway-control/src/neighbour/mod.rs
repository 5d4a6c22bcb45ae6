//! Next hops: where on the link the frames to each backend go.
//!
//! The forwarder bypasses the kernel's routing, so somebody has to know for it which interface, which source MAC and
//! which neighbour lead to a backend, and notice when that changes. [`NeighbourTable`] decides, without I/O or clock:
//! it takes what the kernel says ([`Event`]) and gives next hops and what is to be asked or done ([`Request`]).
//! [`Follower`] is its netlink side.
//!
//! Frames of the forwarder are no proof to the kernel that a neighbour still answers, so its entry would go stale and
//! its MAC could be wrong for long. Each next hop in use is therefore confirmed about once a second
//! ([`CONFIRM_EVERY`]); one that does not answer in [`CONFIRM_WITHIN`] is resolved anew by broadcast, while frames go
//! on to the MAC that was known. So a MAC that changes without a word is followed within two seconds.

mod choose;
mod egress;
mod follower;
mod hop;
mod netlink;
mod table;

pub use egress::egress;
pub use follower::Follower;
pub use hop::{CONFIRM_EVERY, CONFIRM_WITHIN, HELD_WHILE_RESOLVING, RESOLVE_AGAIN};
pub use netlink::{NetlinkError, is_local};
pub use table::{Counts, NeighbourTable};

use std::net::IpAddr;

/// A MAC address.
pub type Mac = [u8; 6];

/// A neighbour on a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The index of the interface.
    pub interface: u32,
    /// The address: a router's, or a backend's own.
    pub address: IpAddr,
}

/// One way of a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Path {
    /// The index of the interface.
    pub interface: u32,
    /// The router; `None` where the backend itself is on the link.
    pub gateway: Option<IpAddr>,
    /// Its share beside the other ways of the route: 1 to 256.
    pub weight: u16,
    /// The largest IP packet that the route is said to take, bytes, if it is said.
    pub mtu: Option<u16>,
}

/// An interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// Its MAC; `None` for links without.
    pub mac: Option<Mac>,
    /// Whether it is on and has a carrier.
    pub running: bool,
    /// The largest IP packet that it takes, bytes, if the kernel tells.
    pub mtu: Option<u16>,
}

/// What the kernel says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// An interface is as described.
    Link {
        /// Its index.
        interface: u32,
        /// What there is to it.
        link: Link,
    },
    /// These are all the interfaces there are, by their indices.
    Links(Vec<(u32, Link)>),
    /// An interface is gone.
    LinkGone {
        /// Its index.
        interface: u32,
    },
    /// A neighbour is as described.
    Neighbour {
        /// Which.
        place: Place,
        /// What is known of it.
        state: Resolution,
    },
    /// Routes or rules changed.
    RoutesChanged,
    /// The answer to [`Request::Route`]: the ways to a backend, none when it cannot be reached.
    Route {
        /// The backend.
        backend: IpAddr,
        /// The ways.
        paths: Vec<Path>,
    },
    /// Events were lost: everything has to be read again.
    Lost,
}

/// What the kernel knows of a neighbour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Resolution {
    /// It was heard from lately.
    Confirmed(Mac),
    /// It was heard from, and that is long ago or is being looked into.
    Doubtful(Mac),
    /// Somebody set it for good.
    Permanent(Mac),
    /// Its MAC is not known.
    Unknown,
}

/// What the table wants asked or done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Request {
    /// Tell all links and all neighbours as events.
    Dump,
    /// Tell the ways to a backend.
    Route(IpAddr),
    /// Resolve a neighbour of which nothing is known.
    Resolve(Place),
    /// Ask a known neighbour, by its MAC, whether it is still there.
    Confirm(Place),
    /// Forget what is known of a neighbour and resolve it anew.
    Restart(Place),
}
