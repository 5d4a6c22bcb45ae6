//! From what a capture saw to what a forwarder takes: Ethernet frames.

use std::fmt;

/// A link type by its number in the registry of tcpdump.org.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LinkType(pub u32);

impl LinkType {
    /// The BSD loopback: a protocol family in the byte order of the machine that captured.
    pub const NULL: Self = Self(0);
    /// Ethernet.
    pub const ETHERNET: Self = Self(1);
    /// IP without a link header, and the two numbers that some systems write for it.
    pub const RAW: [Self; 3] = [Self(101), Self(12), Self(14)];
    /// The OpenBSD loopback: a protocol family in network byte order.
    pub const LOOP: Self = Self(108);
    /// Linux "any" interface.
    pub const LINUX_SLL: Self = Self(113);
    /// IPv4 without a link header.
    pub const IPV4: Self = Self(228);
    /// IPv6 without a link header.
    pub const IPV6: Self = Self(229);
    /// Linux "any" interface, second version.
    pub const LINUX_SLL2: Self = Self(276);
}

impl fmt::Display for LinkType {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "link type {}", self.0)
    }
}

/// What a packet is for the forwarder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frame<'a> {
    /// An Ethernet frame: as captured, or with a header made up for a link that has none.
    Ethernet(&'a [u8]),
    /// The link is none that frames can be made of.
    UnsupportedLink(LinkType),
    /// The packet is too short to have its link's header.
    TooShort,
}

const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;
const ETHERNET_LEN: usize = 14;

/// The addresses of made-up headers: locally administered.
const TO: [u8; 6] = [2, 0, 0, 0, 0, 0xfe];
const FROM: [u8; 6] = [2, 0, 0, 0, 0, 0xfd];

/// Makes frames, and keeps the memory for them.
#[derive(Default)]
pub(super) struct Reframer {
    frame: Vec<u8>,
}

impl Reframer {
    pub(super) fn frame<'a>(&'a mut self, link: LinkType, data: &'a [u8]) -> Frame<'a> {
        let made = match link {
            LinkType::ETHERNET if data.len() >= ETHERNET_LEN => return Frame::Ethernet(data),
            LinkType::ETHERNET => None,
            LinkType::NULL => null(data, false),
            LinkType::LOOP => null(data, true),
            LinkType::IPV4 | LinkType::IPV6 => raw(data),
            LinkType::LINUX_SLL => cooked(data),
            LinkType::LINUX_SLL2 => cooked_2(data),
            link if LinkType::RAW.contains(&link) => raw(data),
            link => return Frame::UnsupportedLink(link),
        };
        let Some((from, ethertype, payload)) = made else { return Frame::TooShort };
        self.frame.clear();
        self.frame.extend_from_slice(&TO);
        self.frame.extend_from_slice(&from);
        self.frame.extend_from_slice(&ethertype.to_be_bytes());
        self.frame.extend_from_slice(payload);
        Frame::Ethernet(&self.frame)
    }
}

type Made<'a> = Option<([u8; 6], u16, &'a [u8])>;

/// The version tells the family.
fn raw(data: &[u8]) -> Made<'_> {
    let ethertype = if data.first()? >> 4 == 6 { ETHERTYPE_IPV6 } else { ETHERTYPE_IPV4 };
    Some((FROM, ethertype, data))
}

/// A family of four bytes. Families are small, which tells the byte order of a machine that is not ours.
fn null(data: &[u8], network_order: bool) -> Made<'_> {
    let (&family, payload) = data.split_first_chunk::<4>()?;
    let big = u32::from_be_bytes(family);
    let family = if network_order || big <= 0xffff { big } else { big.swap_bytes() };
    let ethertype = match family {
        2 => ETHERTYPE_IPV4,
        // NetBSD and OpenBSD, FreeBSD, macOS, Linux.
        24 | 28 | 30 | 10 => ETHERTYPE_IPV6,
        // Some other protocol: an ethertype that nobody takes for IP (RFC 7042: local experiments).
        _ => 0x88b5,
    };
    Some((FROM, ethertype, payload))
}

/// Packet type, ARPHRD, length of the address, address, protocol: 16 bytes.
fn cooked(data: &[u8]) -> Made<'_> {
    let (head, payload) = data.split_first_chunk::<16>()?;
    Some((
        sender([head[2], head[3]], u16::from_be_bytes([head[4], head[5]]), &head[6..12]),
        u16::from_be_bytes([head[14], head[15]]),
        payload,
    ))
}

/// Protocol, reserved, interface, ARPHRD, packet type, length of the address, address: 20 bytes.
fn cooked_2(data: &[u8]) -> Made<'_> {
    let (head, payload) = data.split_first_chunk::<20>()?;
    Some((
        sender([head[8], head[9]], u16::from(head[11]), &head[12..18]),
        u16::from_be_bytes([head[0], head[1]]),
        payload,
    ))
}

/// The sender's address where the link has addresses of Ethernet's kind (ARPHRD_ETHER).
fn sender(arphrd: [u8; 2], length: u16, address: &[u8]) -> [u8; 6] {
    match <[u8; 6]>::try_from(address) {
        Ok(address) if arphrd == [0, 1] && length == 6 => address,
        _ => FROM,
    }
}
