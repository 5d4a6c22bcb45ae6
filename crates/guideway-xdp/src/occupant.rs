//! Which XDP program an interface has now, asked of the kernel by route netlink.

use std::io;

use aya::programs::links::{LinkInfo, LinkType};
use aya::programs::{loaded_links, loaded_programs};
use guideway_netlink::RouteSocket;
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{LinkAttribute, LinkMessage, LinkXdp};
use nix::libc::{ENODEV, IFNAMSIZ};

use crate::balancer::{PROGRAM, describe};
use crate::error::{Error, Stranger};

/// A program at an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Occupant {
    /// The program's id.
    pub id: u32,
    /// The program's name; empty if it has none or the kernel does not tell.
    pub name: String,
}

impl Occupant {
    /// How it goes away from this interface.
    pub fn remedy(&self, interface: &str) -> String {
        Stranger { interface, name: &self.name, id: self.id }.remedy()
    }
}

/// The program at the interface with this index, if there is one.
///
/// # Errors
/// [`Error::Untold`] when the kernel does not answer.
pub fn occupant(interface: &str, index: u32) -> Result<Option<Occupant>, Error> {
    let id = program_id(index).map_err(|error| untold(interface, &error))?;
    Ok(id.map(|id| Occupant { id, name: name(id) }))
}

/// The balancers' programs at interfaces of this network namespace, whatever holds them, by interface.
///
/// # Errors
/// [`Error::Untold`] when the kernel does not answer.
pub fn balancers() -> Result<Vec<(String, Occupant)>, Error> {
    let mut found = Vec::new();
    let interfaces = nix::net::if_::if_nameindex().map_err(|error| untold("any", &error.into()))?;
    for interface in &interfaces {
        let name = interface.name().to_string_lossy();
        let balancer = occupant(&name, interface.index())?.filter(|there| there.name == PROGRAM);
        found.extend(balancer.map(|there| (name.into_owned(), there)));
    }
    Ok(found)
}

/// The program's name; empty if it has none or the kernel does not tell.
pub(crate) fn name(id: u32) -> String {
    let program = loaded_programs().flatten().find(|program| program.id() == id);
    program.and_then(|program| program.name_as_str().map(str::to_owned)).unwrap_or_default()
}

/// The name of the interface with this index, while there is one.
pub fn name_of(index: u32) -> Option<String> {
    let name = nix::net::if_::if_indextoname(index).ok()?;
    name.into_string().ok().filter(|name| !name.is_empty())
}

pub(crate) fn untold(interface: &str, error: &io::Error) -> Error {
    Error::Untold { interface: interface.to_owned(), reason: describe(error) }
}

/// The id of the link that holds a program at an interface; none where it is there without one.
pub(crate) fn holding_link(program: u32) -> Option<u32> {
    let is_it =
        |link: &LinkInfo| link.program_id() == program && matches!(link.link_type(), Ok(LinkType::Xdp));
    loaded_links().flatten().find(is_it).map(|link| link.id())
}

/// The id of the program at the interface with this index, if there is one.
pub(crate) fn program_id(index: u32) -> io::Result<Option<u32>> {
    Ok(attached(&link(index)?))
}

/// What the kernel tells of the interface with this index.
pub(crate) fn link(index: u32) -> io::Result<LinkMessage> {
    let mut question = LinkMessage::default();
    question.header.index = index;
    describe_link(question)
}

/// What the kernel tells of the interface of this name, if there is one. Where it cannot be asked, as without a descriptor,
/// that is not taken for none, as by `if_nametoindex(3)`, whose error is another one then.
pub(crate) fn named(interface: &str) -> io::Result<Option<LinkMessage>> {
    if interface.len() >= IFNAMSIZ {
        return Ok(None);
    }
    let mut question = LinkMessage::default();
    question.attributes.push(LinkAttribute::IfName(interface.to_owned()));
    match describe_link(question) {
        Ok(link) => Ok(Some(link)),
        Err(error) if error.raw_os_error() == Some(ENODEV) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The kernel's description of the interface that is asked for.
pub(crate) fn describe_link(question: LinkMessage) -> io::Result<LinkMessage> {
    let answers = RouteSocket::open()?.ask(RouteNetlinkMessage::GetLink(question), 0)?;
    let link = answers.into_iter().find_map(|answer| match answer {
        RouteNetlinkMessage::NewLink(link) => Some(link),
        _ => None,
    });
    link.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))
}

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
