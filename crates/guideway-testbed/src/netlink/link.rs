//! Network interfaces.

use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{
    InfoData, InfoKind, InfoVeth, LinkAttribute, LinkFlags, LinkInfo, LinkMessage, State,
};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};

use super::Mode;
use crate::error::{Context, Error, Result};
use crate::namespace::Namespace;
use crate::sys::{self, Offload};
use crate::wait;

/// How long a pair may take to come up.
const CARRIER: Duration = Duration::from_secs(5);

/// The MAC of bridges, locally administered; one namespace has one of them at most on a link layer.
const BRIDGE_MAC: [u8; 6] = [0x02, 0x67, 0x77, 0x62, 0x72, 0x01];

/// An interface of a namespace.
#[derive(Debug, Clone)]
pub struct Link {
    namespace: Namespace,
    name: String,
    index: u32,
    mac: [u8; 6],
}

/// Makes a pair of interfaces, each in its namespace, of this MTU in bytes, and switches both on.
///
/// The kernel sums what they send, so that every frame that a program reads there is whole.
///
/// # Errors
/// [`Error::System`].
pub fn veth_pair(one: (&Namespace, &str), other: (&Namespace, &str), mtu: u32) -> Result<(Link, Link)> {
    let mut peer = LinkMessage::default();
    peer.attributes = vec![
        LinkAttribute::IfName(other.1.to_owned()),
        LinkAttribute::Mtu(mtu),
        LinkAttribute::NetNsFd(other.0.handle().as_raw_fd()),
    ];
    let mut message = LinkMessage::default();
    message.attributes = vec![
        LinkAttribute::IfName(one.1.to_owned()),
        LinkAttribute::Mtu(mtu),
        LinkAttribute::LinkInfo(vec![
            LinkInfo::Kind(InfoKind::Veth),
            LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(peer))),
        ]),
    ];
    one.0.route_socket().request(RouteNetlinkMessage::NewLink(message), Mode::Create, || {
        format!("making the pair {} in {} and {} in {}", one.1, one.0.label(), other.1, other.0.label())
    })?;
    let pair = (one.0.link(one.1)?, other.0.link(other.1)?);
    for link in [&pair.0, &pair.1] {
        link.set_offload(Offload::Checksum, false)?;
        link.set_up(true)?;
    }
    // The kernel drops what is sent before it has noticed, a little later, that both ends are on.
    for link in [&pair.0, &pair.1] {
        wait::until(CARRIER, "carrier", || match link.has_carrier() {
            Ok(true) => Ok(()),
            Ok(false) => Err(format!("{} in {} is not up yet", link.name, link.namespace.label())),
            Err(error) => Err(error.to_string()),
        })?;
    }
    Ok(pair)
}

impl Namespace {
    /// The interface of this name.
    ///
    /// # Errors
    /// [`Error::System`] when there is none.
    pub fn link(&self, name: &str) -> Result<Link> {
        let what = || format!("looking for interface {name} in {}", self.label());
        let message = self.read_link(name, &what)?;
        let mac = message.attributes.iter().find_map(|attribute| match attribute {
            LinkAttribute::Address(bytes) => <[u8; 6]>::try_from(bytes.as_slice()).ok(),
            _ => None,
        });
        Ok(Link {
            namespace: self.clone(),
            name: name.to_owned(),
            index: message.header.index,
            mac: mac.unwrap_or_default(),
        })
    }

    /// Makes a bridge, which forwards at once, and switches it on.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn add_bridge(&self, name: &str) -> Result<Link> {
        let mut message = LinkMessage::default();
        message.attributes = vec![
            LinkAttribute::IfName(name.to_owned()),
            // One of its own: otherwise it takes over a port's, and changes when ports come and go.
            LinkAttribute::Address(BRIDGE_MAC.to_vec()),
            LinkAttribute::LinkInfo(vec![LinkInfo::Kind(InfoKind::Bridge)]),
        ];
        self.route_socket().request(RouteNetlinkMessage::NewLink(message), Mode::Create, || {
            format!("making the bridge {name} in {}", self.label())
        })?;
        let link = self.link(name)?;
        link.set_up(true)?;
        Ok(link)
    }

    fn read_link(&self, name: &str, what: &impl Fn() -> String) -> Result<LinkMessage> {
        let mut message = LinkMessage::default();
        message.attributes = vec![LinkAttribute::IfName(name.to_owned())];
        let answers =
            self.route_socket().request(RouteNetlinkMessage::GetLink(message), Mode::Change, what)?;
        answers
            .into_iter()
            .find_map(|answer| match answer {
                RouteNetlinkMessage::NewLink(link) => Some(link),
                _ => None,
            })
            .ok_or_else(|| Error::Answer { what: what(), answer: "nothing".to_owned() })
    }
}

impl Link {
    /// Where it is.
    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its index.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// Its MAC; zeros for interfaces that have none.
    pub fn mac(&self) -> [u8; 6] {
        self.mac
    }

    /// Switches it on or off.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn set_up(&self, up: bool) -> Result<()> {
        let mut message = self.message();
        message.header.flags = if up { LinkFlags::Up } else { LinkFlags::empty() };
        message.header.change_mask = LinkFlags::Up;
        self.change(message, if up { "switching on" } else { "switching off" })
    }

    /// Changes its MTU, in bytes.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn set_mtu(&self, mtu: u32) -> Result<()> {
        let mut message = self.message();
        message.attributes.push(LinkAttribute::Mtu(mtu));
        self.change(message, &format!("setting the MTU {mtu} of"))
    }

    /// Makes it a port of a bridge of its namespace.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn set_bridge(&self, bridge: &Link) -> Result<()> {
        let mut message = self.message();
        message.attributes.push(LinkAttribute::Controller(bridge.index));
        self.change(message, &format!("attaching to {}", bridge.name))
    }

    /// Has it join packets that it receives, or not. A pair whose one end does takes frames that an XDP program at the
    /// other end sends (`XDP_TX`, redirects), without a program of its own.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn set_gro(&self, on: bool) -> Result<()> {
        self.set_offload(Offload::Gro, on)
    }

    /// Leaves the checksums of what it sends to whoever takes it, or not, and likewise the cutting of TCP's data into
    /// packets (TSO, GSO), which takes checksums left. New pairs of the kernel leave both; [`veth_pair`] has neither.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn set_left_undone(&self, checksums: bool, cutting: bool) -> Result<()> {
        self.set_offload(Offload::Tso, cutting)?;
        self.set_offload(Offload::Gso, cutting)?;
        self.set_offload(Offload::Checksum, checksums)
    }

    /// Whether it is on and its other end too.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn has_carrier(&self) -> Result<bool> {
        let what = || format!("reading interface {} in {}", self.name, self.namespace.label());
        let message = self.namespace.read_link(&self.name, &what)?;
        Ok(message.attributes.contains(&LinkAttribute::OperState(State::Up)))
    }

    /// How often its carrier has come or gone.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn carrier_changes(&self) -> Result<u32> {
        let what = || format!("reading interface {} in {}", self.name, self.namespace.label());
        let message = self.namespace.read_link(&self.name, &what)?;
        let changes = message.attributes.iter().find_map(|attribute| match attribute {
            LinkAttribute::CarrierChanges(changes) => Some(*changes),
            _ => None,
        });
        changes
            .ok_or_else(|| Error::Answer { what: what(), answer: "no count of carrier changes".to_owned() })
    }

    fn message(&self) -> LinkMessage {
        let mut message = LinkMessage::default();
        message.header.index = self.index;
        message
    }

    fn change(&self, message: LinkMessage, what: &str) -> Result<()> {
        let what = || format!("{what} interface {} in {}", self.name, self.namespace.label());
        let message = RouteNetlinkMessage::SetLink(message);
        self.namespace.route_socket().request(message, Mode::Change, what).map(drop)
    }

    fn set_offload(&self, offload: Offload, on: bool) -> Result<()> {
        let what =
            || format!("setting the offload {offload:?} of {} in {}", self.name, self.namespace.label());
        self.namespace.run(|| {
            let any = socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)
                .context(what)?;
            sys::set_offload(any.as_fd(), &self.name, offload, on).context(what)
        })?
    }
}
