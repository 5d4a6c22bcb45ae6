//! The other end of a veth pair, which decides whether what a program sends in native mode arrives.
//!
//! Such a frame (`XDP_TX`) goes into a ring of the other end, and only a program at that end has the kernel empty it at
//! once (`veth_xdp_flush` in drivers/net/veth.c); with receive offload (GRO) but no program it lies there until
//! something else wakes the queue, and with neither it is dropped. A program that passes everything is enough: [`Pass`].

use std::io;

use aya::programs::links::FdLink;
use aya::programs::xdp::XdpMode;
use aya::programs::{Program, Xdp};
use aya::{Ebpf, EbpfLoader};
use netlink_packet_core::DefaultNla;
use netlink_packet_route::link::{InfoKind, LinkAttribute, LinkInfo, LinkMessage};

use crate::attach::attach_error;
use crate::balancer::describe;
use crate::error::Error;
use crate::namespace::within;
use crate::object;
use crate::occupant::{attached, describe_link};
use crate::preflight::ethtool::{Driver, Flag};

/// What there is at the far end of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Peer {
    /// The interface is not one of a veth pair.
    None,
    /// The other end has a program: what is sent arrives.
    Ready,
    /// The other end has no program: what is sent is lost, or comes late.
    Deaf {
        /// Its name, in its own namespace.
        name: String,
    },
    /// The other end is where this process may not look.
    Unknown {
        /// What the kernel says.
        reason: String,
    },
}

impl Peer {
    /// Why native mode must not be used; `None` if nothing is known against it.
    pub fn objection(&self) -> Option<String> {
        match self {
            Peer::None | Peer::Ready | Peer::Unknown { .. } => None,
            Peer::Deaf { name } => Some(format!(
                "it is one end of a veth pair whose other end, `{name}`, has no XDP program, and without one it loses \
                 what is sent from native mode"
            )),
        }
    }

    /// What to do about the objection.
    pub const REMEDY: &'static str =
        "attach a program that passes everything to the other end, or ask for generic mode";
}

/// Looks at the other end of the interface with this index, in whatever namespace that is.
///
/// # Errors
/// [`Error::Attach`] when the kernel does not tell about the interface itself.
pub fn peer(interface: &str, index: u32) -> Result<Peer, Error> {
    let own = describe_link(question(index, None)).map_err(|error| Error::Attach {
        interface: interface.to_owned(),
        mode: "any",
        reason: format!("the kernel does not tell what kind of interface it is: {}", describe(&error)),
    })?;
    if !is_veth(&own) {
        return Ok(Peer::None);
    }
    let Some((other, namespace)) = other_end(&own) else {
        return Ok(Peer::Unknown { reason: "the kernel does not tell which interface it is".into() });
    };
    Ok(match describe_link(question(other, namespace)) {
        Ok(link) if attached(&link).is_some() => Peer::Ready,
        Ok(link) => Peer::Deaf { name: name(&link) },
        Err(error) => Peer::Unknown { reason: unreachable(&error) },
    })
}

/// What uploads suffer from at one end of a veth pair in generic mode, and the remedy, to be run at the other end. `None`
/// where the interface is no such end, or the remedy is done. Where the other end cannot be looked at, it counts as not
/// done.
pub fn joined_by_peer(index: u32) -> Option<(String, String)> {
    let hands_over_many =
        |driver: &Driver<'_>| Some(driver.flag(Flag::Tso)? != 0 || driver.flag(Flag::Gso)? != 0);
    let peer = peer_unless_not(index, hands_over_many)?;
    Some((
        "the other end of its pair hands over many packets as one (TSO, GSO), which fit no tunnel, so that large uploads \
         stall unless that is switched off there"
            .to_owned(),
        format!("ethtool -K {peer} tso off gso off (at the other end)"),
    ))
}

/// What connections suffer from at one end of a veth pair in native mode, and the remedy, to be run at the other end. `None`
/// as for [`joined_by_peer`].
///
/// What the other end's own host sends there has checksums for a device to finish, and a pair has none. The kernel's stack
/// knows that such a packet never was on a wire; in a tunnel it comes to another host, which drops it.
pub fn unfinished_by_peer(index: u32) -> Option<(String, String)> {
    let leaves_checksums = |driver: &Driver<'_>| Some(driver.flag(Flag::Checksums)? != 0);
    let peer = peer_unless_not(index, leaves_checksums)?;
    Some((
        "the other end of its pair leaves checksums unfinished (tx-checksumming) of what its own host sends, and backends drop \
         that: connections from there are never answered, unless that is switched off"
            .to_owned(),
        format!("ethtool -K {peer} tx off (at the other end)"),
    ))
}

/// The name of the other end of a pair, unless it is known not to be so there; `None` for an interface that is no such end.
fn peer_unless_not(index: u32, is_so: impl Fn(&Driver<'_>) -> Option<bool> + Sync) -> Option<String> {
    let own = describe_link(question(index, None)).ok().filter(is_veth)?;
    let peer = other_end(&own).and_then(|(other, namespace)| {
        describe_link(question(other, namespace)).ok().map(|link| (name(&link), namespace))
    });
    let Some((name, namespace)) = peer else { return Some("PEER".to_owned()) };
    let ask = || is_so(&Driver::of(&name).ok()?);
    let answer = match namespace {
        None => ask(),
        Some(number) => within(number, ask).flatten(),
    };
    (answer != Some(false)).then_some(name)
}

/// The index of the other end, and the number of its namespace unless that is this one.
fn other_end(own: &LinkMessage) -> Option<(u32, Option<i32>)> {
    let (mut other, mut namespace) = (None, None);
    for attribute in &own.attributes {
        match attribute {
            LinkAttribute::Link(index) => other = Some(*index),
            LinkAttribute::LinkNetNsId(id) => namespace = Some(*id),
            _ => {}
        }
    }
    other.map(|other| (other, namespace))
}

fn question(index: u32, namespace: Option<i32>) -> LinkMessage {
    let mut question = LinkMessage::default();
    question.header.index = index;
    if let Some(id) = namespace {
        let target = DefaultNla::new(IFLA_TARGET_NETNSID, id.to_ne_bytes().to_vec());
        question.attributes.push(LinkAttribute::Other(target));
    }
    question
}

/// linux/if_link.h: the namespace that is asked about, by the number that it has here.
const IFLA_TARGET_NETNSID: u16 = 46;

fn is_veth(link: &LinkMessage) -> bool {
    link.attributes.iter().any(|attribute| match attribute {
        LinkAttribute::LinkInfo(infos) => infos.contains(&LinkInfo::Kind(InfoKind::Veth)),
        _ => false,
    })
}

fn name(link: &LinkMessage) -> String {
    let name = link.attributes.iter().find_map(|attribute| match attribute {
        LinkAttribute::IfName(name) => Some(name.clone()),
        _ => None,
    });
    name.unwrap_or_default()
}

fn unreachable(error: &io::Error) -> String {
    format!("the kernel does not tell about the other end: {error}")
}

/// A program that passes every packet, at an interface. The other end of its link may send from native mode.
#[derive(Debug)]
pub struct Pass {
    // The link goes first, and the program with it.
    _link: FdLink,
    _ebpf: Ebpf,
}

impl Pass {
    /// Puts it at an interface, until it is dropped.
    ///
    /// # Errors
    /// [`Error::NotPermitted`], [`Error::Load`], [`Error::NoInterface`], [`Error::Attach`].
    pub fn attach(interface: &str) -> Result<Pass, Error> {
        let load = |reason: String| Error::Load { program: PASS, reason };
        let index =
            nix::net::if_::if_nametoindex(interface).map_err(|_| Error::NoInterface(interface.to_owned()))?;
        let mut ebpf = EbpfLoader::new().load(object::pass()).map_err(|error| load(describe(&error)))?;
        let program: &mut Xdp = match ebpf.program_mut(PASS) {
            Some(Program::Xdp(program)) => program,
            _ => return Err(load("the object has no such program".into())),
        };
        program.load().map_err(|error| load(describe(&error)))?;
        let failed = |error| attach_error(interface, crate::attach::Mode::Native, &error);
        let id = program.attach_to_if_index(index, XdpMode::Driver).map_err(failed)?;
        let link = program.take_link(id).map_err(failed)?;
        let link = FdLink::try_from(link).map_err(|error| load(describe(&error)))?;
        Ok(Pass { _link: link, _ebpf: ebpf })
    }
}

/// The program's name in its object.
const PASS: &str = "pass";
