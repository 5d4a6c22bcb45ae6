//! Links, addresses, routes and neighbours by route netlink, without any other program.

mod address;
mod link;
mod neighbour;
mod route;

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage,
    NetlinkPayload,
};
use netlink_packet_route::RouteNetlinkMessage;
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, send, socket,
};

pub use link::{Link, veth_pair};
pub use route::{Hop, Route};

use crate::error::{Context, Error, Result};

/// Room for one datagram of answers: what the kernel fills at most.
const ANSWER_BYTES: usize = 32 * 1024;

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
pub(crate) struct RouteSocket {
    socket: OwnedFd,
    sequence: u32,
}

impl RouteSocket {
    pub(crate) fn open() -> Result<Self> {
        let what = || "opening a route netlink socket".to_owned();
        let socket = socket(
            AddressFamily::Netlink,
            SockType::Datagram,
            SockFlag::SOCK_CLOEXEC,
            SockProtocol::NetlinkRoute,
        )
        .context(what)?;
        bind(socket.as_raw_fd(), &NetlinkAddr::new(0, 0)).context(what)?;
        Ok(Self { socket, sequence: 0 })
    }

    /// Sends a request, waits until the kernel has done it, and returns what it answered beside. `what` is for errors.
    pub(crate) fn request(
        &mut self,
        message: RouteNetlinkMessage,
        mode: Mode,
        what: impl Fn() -> String,
    ) -> Result<Vec<RouteNetlinkMessage>> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut header = NetlinkHeader::default();
        header.sequence_number = self.sequence;
        header.flags = NLM_F_REQUEST
            | NLM_F_ACK
            | match mode {
                Mode::Create => NLM_F_CREATE | NLM_F_EXCL,
                Mode::Replace => NLM_F_CREATE | NLM_F_REPLACE,
                Mode::Change => 0,
            };
        let mut message = NetlinkMessage::new(header, NetlinkPayload::from(message));
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        send(self.socket.as_raw_fd(), &bytes, MsgFlags::empty()).context(&what)?;
        self.answers(&what)
    }

    fn answers(&self, what: &impl Fn() -> String) -> Result<Vec<RouteNetlinkMessage>> {
        let mut answers = Vec::new();
        let mut buffer = vec![0; ANSWER_BYTES];
        loop {
            let length = recv(self.socket.as_raw_fd(), &mut buffer, MsgFlags::empty()).context(what)?;
            let mut rest = &buffer[..length];
            while !rest.is_empty() {
                let unexpected = |answer: String| Error::Answer { what: what(), answer };
                let message = NetlinkMessage::<RouteNetlinkMessage>::deserialize(rest)
                    .map_err(|error| unexpected(error.to_string()))?;
                let taken = (message.header.length as usize).next_multiple_of(4).min(rest.len());
                rest = &rest[taken..];
                if message.header.sequence_number != self.sequence {
                    continue;
                }
                match message.payload {
                    NetlinkPayload::InnerMessage(answer) => answers.push(answer),
                    NetlinkPayload::Error(error) => {
                        return match error.code {
                            None => Ok(answers),
                            Some(code) => {
                                Err(io::Error::from_raw_os_error(code.get().saturating_abs())).context(what)
                            }
                        };
                    }
                    NetlinkPayload::Done(_) => return Ok(answers),
                    other => return Err(unexpected(format!("{other:?}"))),
                }
            }
        }
    }
}
