//! Links, addresses, routes and neighbours by route netlink, without any other program.

mod address;
mod link;
mod neighbour;
mod route;

use netlink_packet_core::{NLM_F_ACK, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE};
use netlink_packet_route::RouteNetlinkMessage;

pub use link::{Link, veth_pair};
pub use route::{Hop, Route};

use crate::error::{Context, Result};

/// How a request treats what is there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// It must not be there yet.
    Create,
    /// It is replaced.
    Replace,
    /// Nothing new is made.
    Change,
}

/// A route netlink socket; it belongs to the namespace of the thread that opened it.
#[derive(Debug)]
pub(crate) struct RouteSocket(guideway_netlink::RouteSocket);

impl RouteSocket {
    pub(crate) fn open() -> Result<Self> {
        guideway_netlink::RouteSocket::open()
            .map(Self)
            .context(|| "opening a route netlink socket".to_owned())
    }

    /// Sends a request, waits until the kernel has done it, and returns what it answered beside. `what` is for errors.
    pub(crate) fn request(
        &mut self,
        message: RouteNetlinkMessage,
        mode: Mode,
        what: impl FnOnce() -> String,
    ) -> Result<Vec<RouteNetlinkMessage>> {
        let mode = match mode {
            Mode::Create => NLM_F_CREATE | NLM_F_EXCL,
            Mode::Replace => NLM_F_CREATE | NLM_F_REPLACE,
            Mode::Change => 0,
        };
        self.0.ask(message, NLM_F_ACK | mode).context(what)
    }
}
