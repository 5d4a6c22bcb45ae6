//! Which XDP program an interface has now, asked of the kernel by route netlink.

use std::io;
use std::os::fd::AsRawFd;

use aya::programs::loaded_programs;
use netlink_packet_core::{NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{LinkAttribute, LinkMessage, LinkXdp};
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, send, socket,
};

use crate::error::Error;

/// A program at an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Occupant {
    /// The program's id.
    pub id: u32,
    /// The program's name; empty if it has none or the kernel does not tell.
    pub name: String,
}

/// The program at the interface with this index, if there is one.
///
/// # Errors
/// [`Error::Attach`] when the kernel does not answer.
pub fn occupant(interface: &str, index: u32) -> Result<Option<Occupant>, Error> {
    let id = program_id(index).map_err(|error| Error::Attach {
        interface: interface.to_owned(),
        mode: "any",
        reason: format!("the kernel does not tell what is attached: {error}"),
    })?;
    Ok(id.map(|id| Occupant { id, name: name(id) }))
}

fn name(id: u32) -> String {
    let program = loaded_programs().flatten().find(|program| program.id() == id);
    program.and_then(|program| program.name_as_str().map(str::to_owned)).unwrap_or_default()
}

fn program_id(index: u32) -> io::Result<Option<u32>> {
    Ok(attached(&link(index)?))
}

/// What the kernel tells of the interface with this index.
pub(crate) fn link(index: u32) -> io::Result<LinkMessage> {
    let mut question = LinkMessage::default();
    question.header.index = index;
    describe_link(question)
}

/// The kernel's description of the interface that is asked for.
pub(crate) fn describe_link(question: LinkMessage) -> io::Result<LinkMessage> {
    let socket = socket(
        AddressFamily::Netlink,
        SockType::Datagram,
        SockFlag::SOCK_CLOEXEC,
        SockProtocol::NetlinkRoute,
    )?;
    bind(socket.as_raw_fd(), &NetlinkAddr::new(0, 0))?;
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST;
    let mut message =
        NetlinkMessage::new(header, NetlinkPayload::from(RouteNetlinkMessage::GetLink(question)));
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    send(socket.as_raw_fd(), &bytes, MsgFlags::empty())?;
    let mut answer = vec![0; ANSWER_BYTES];
    let length = recv(socket.as_raw_fd(), &mut answer, MsgFlags::empty())?;
    let message =
        NetlinkMessage::<RouteNetlinkMessage>::deserialize(answer.get(..length).unwrap_or_default())
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))?;
    match message.payload {
        NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewLink(link)) => Ok(link),
        NetlinkPayload::Error(error) => Err(error.to_io()),
        other => Err(io::Error::new(io::ErrorKind::InvalidData, format!("{other:?}"))),
    }
}

/// Room for the description of one interface.
const ANSWER_BYTES: usize = 64 * 1024;

/// The id of the program that it tells of.
pub(crate) fn attached(link: &LinkMessage) -> Option<u32> {
    let xdp = link.attributes.iter().find_map(|attribute| match attribute {
        LinkAttribute::Xdp(xdp) => Some(xdp),
        _ => None,
    })?;
    xdp.iter().find_map(|attribute| match attribute {
        LinkXdp::ProgId(id) | LinkXdp::DrvProgId(id) | LinkXdp::SkbProgId(id) => {
            Some(*id).filter(|id| *id != 0)
        }
        _ => None,
    })
}
