//! Outer headers made ready: what does not depend on the packet, computed once, in the words that are written.
//!
//! A forwarder keeps a [`ReadyOuter`] for each backend, and per packet fills in traffic class, lengths, checksum, and what
//! follows the flow. [`crate::encap`] tells the rules that the headers keep.

use zerocopy::native_endian::{U16, U32, U64};
use zerocopy::{Immutable, IntoBytes, Unaligned};

use crate::checksum::Sum;
use crate::encap::{EncapError, EncapSpec, OUTER_TTL, Outer, Tunnel};
use crate::ethernet::{EtherType, EthernetHeader, VlanTag};
use crate::ip::{IpProtocol, IpVersion};
use crate::ipv4::Ipv4Header;
use crate::ipv6::Ipv6Header;
use crate::packet::Packet;
use crate::parse::Parsed;

/// Outer headers but for what the packet decides. Words hold bytes as they lie in the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ReadyOuter {
    /// Kind of tunnel.
    pub tunnel: Tunnel,
    /// The outer family.
    pub version: IpVersion,
    /// Bytes that the headers add to the IP packet; [`overhead`](crate::encap::overhead).
    pub overhead: usize,
    /// How many of the lowest bits of the outer source follow the flow, up to 32.
    pub source_entropy_bits: u8,
    /// UDP destination port of GUE, in host order.
    pub gue_port: u16,
    /// Ethernet destination and the first two bytes of the source.
    pub link_first: u64,
    /// The last four bytes of the Ethernet source.
    pub link_last: u32,
    /// The outer source; IPv4 in mapped form.
    pub source: [u64; 2],
    /// The outer destination; IPv4 in mapped form.
    pub destination: [u64; 2],
    /// [`checksum_base`] of the destination; of use in IPv4 alone.
    pub checksum_base: u16,
}

impl ReadyOuter {
    /// What `spec` says, made ready.
    pub fn new(spec: &EncapSpec) -> Self {
        let (source, destination) = match spec.outer {
            Outer::V4 { source, destination } => (mapped(source), mapped(destination)),
            Outer::V6 { source, destination } => {
                (zerocopy::transmute!(source), zerocopy::transmute!(destination))
            }
        };
        let [a, b, c, d, e, f] = spec.destination_mac.0;
        let [g, h, i, j, k, l] = spec.source_mac.0;
        Self {
            tunnel: spec.tunnel,
            version: spec.outer.version(),
            overhead: spec.overhead(),
            source_entropy_bits: spec.source_entropy_bits.min(32),
            gue_port: spec.gue_port,
            link_first: u64::from_ne_bytes([a, b, c, d, e, f, g, h]),
            link_last: u32::from_ne_bytes([i, j, k, l]),
            source,
            destination,
            checksum_base: checksum_base(destination),
        }
    }

    /// Puts the headers before the packet that `parsed` describes, as [`encapsulate`](crate::encap::encapsulate) does.
    ///
    /// # Errors
    /// See [`EncapError`].
    #[inline(always)]
    pub fn put<P: Packet>(&self, packet: &mut P, parsed: &Parsed, flow_hash: u64) -> Result<(), EncapError> {
        let outer_length = parsed.ip_length.wrapping_add(self.overhead);
        let longest = match self.version {
            IpVersion::V4 => u16::MAX as usize,
            IpVersion::V6 => u16::MAX as usize + Ipv6Header::LEN,
        };
        if outer_length > longest {
            return Err(EncapError::TooLong);
        }
        if packet.len() > parsed.end() {
            packet.truncate(parsed.end()).ok_or(EncapError::Mismatch)?;
        }
        let tags = Tags::read(packet, parsed.l2_len).ok_or(EncapError::Mismatch)?;
        packet.grow_head(self.overhead).ok_or(EncapError::NoHeadRoom)?;
        let entropy = (flow_hash >> 32) as u32;
        self.write(packet, parsed, &tags, outer_length, entropy).ok_or(EncapError::Mismatch)
    }

    #[inline(always)]
    fn write<P: Packet>(
        &self,
        packet: &mut P,
        parsed: &Parsed,
        tags: &Tags,
        outer_length: usize,
        entropy: u32,
    ) -> Option<()> {
        self.write_link(packet, tags, parsed.l2_len)?;
        let at = parsed.l2_len;
        let (after_ip, ip_length) = match self.version {
            IpVersion::V4 => {
                packet.write(at, &self.ipv4(parsed, outer_length, entropy))?;
                (at.wrapping_add(Ipv4Header::LEN), Ipv4Header::LEN)
            }
            IpVersion::V6 => {
                packet.write(at, &self.ipv6(parsed, outer_length, entropy))?;
                (at.wrapping_add(Ipv6Header::LEN), Ipv6Header::LEN)
            }
        };
        if matches!(self.tunnel, Tunnel::Ipip) {
            return Some(());
        }
        if matches!(self.tunnel, Tunnel::Gre) {
            let protocol = match parsed.ip {
                IpVersion::V4 => EtherType::IPV4,
                IpVersion::V6 => EtherType::IPV6,
            };
            return packet.write(after_ip, &[U16::new(0), U16::new(protocol.0.to_be())]);
        }
        let udp: u64 = zerocopy::transmute!([
            (0x8000 | (entropy as u16 & 0x7fff)).to_be(),
            self.gue_port.to_be(),
            (outer_length.wrapping_sub(ip_length) as u16).to_be(),
            0
        ]);
        if matches!(self.tunnel, Tunnel::GueDirect) {
            return packet.write(after_ip, &U64::new(udp));
        }
        let gue = u32::from_ne_bytes([0, parsed.ip.as_payload().0, 0, 0]);
        packet.write(after_ip, &UdpAndGue { udp: U64::new(udp), gue: U32::new(gue) })
    }

    #[inline(always)]
    fn write_link<P: Packet>(&self, packet: &mut P, tags: &Tags, l2_len: usize) -> Option<()> {
        let ethertype = match self.version {
            IpVersion::V4 => EtherType::IPV4,
            IpVersion::V6 => EtherType::IPV6,
        };
        let ethertype = U16::new(ethertype.0.to_be());
        let macs = Macs { first: U64::new(self.link_first), last: U32::new(self.link_last) };
        if l2_len == EthernetHeader::LEN {
            return packet.write(0, &MacsAndType { macs, ethertype });
        }
        packet.write(0, &macs)?;
        tags.write(packet, l2_len)?;
        packet.write(l2_len.wrapping_sub(ETHERTYPE), &ethertype)
    }

    #[inline(always)]
    fn ipv4(&self, parsed: &Parsed, outer_length: usize, entropy: u32) -> Ipv4Words {
        let [_, source]: [u32; 2] = zerocopy::transmute!(self.source[1]);
        let [_, destination]: [u32; 2] = zerocopy::transmute!(self.destination[1]);
        let source = self.with_entropy(source, entropy);
        let class = u16::from_ne_bytes([Ipv4Header::VERSION_LENGTH_PLAIN, parsed.traffic_class]);
        let length = (outer_length as u16).to_be();
        let hops = u16::from_ne_bytes([OUTER_TTL, announced(self.tunnel, parsed.ip).0]);
        // The sum does not depend on the order of bytes (RFC 1071 section 2), so it is made of words as they lie.
        let sum = Sum::ZERO
            .add_u16(self.checksum_base)
            .add_u16(class)
            .add_u16(length)
            .add_u16(hops)
            .add_u16(source as u16)
            .add_u16((source >> 16) as u16);
        let hops: u32 = zerocopy::transmute!([hops, sum.checksum()]);
        Ipv4Words {
            first: U64::new(zerocopy::transmute!([class, length, 0, DONT_FRAGMENT])),
            second: U64::new(zerocopy::transmute!([hops, source])),
            destination: U32::new(destination),
        }
    }

    #[inline(always)]
    fn ipv6(&self, parsed: &Parsed, outer_length: usize, entropy: u32) -> Ipv6Words {
        let [high, low] = self.source;
        let [middle, low]: [u32; 2] = zerocopy::transmute!(low);
        let low: u64 = zerocopy::transmute!([middle, self.with_entropy(low, entropy)]);
        let class: u32 = zerocopy::transmute!(Ipv6Header::first_word(parsed.traffic_class, entropy));
        let length = (outer_length.wrapping_sub(Ipv6Header::LEN) as u16).to_be();
        let hops = u16::from_ne_bytes([announced(self.tunnel, parsed.ip).0, OUTER_TTL]);
        let hops: u32 = zerocopy::transmute!([length, hops]);
        Ipv6Words {
            first: U64::new(zerocopy::transmute!([class, hops])),
            source: [U64::new(high), U64::new(low)],
            destination: [U64::new(self.destination[0]), U64::new(self.destination[1])],
        }
    }

    /// The last word of the source with its lowest bits from the flow.
    #[inline(always)]
    const fn with_entropy(&self, word: u32, entropy: u32) -> u32 {
        let mask = (1u64 << (self.source_entropy_bits & 63)).wrapping_sub(1) as u32;
        (word & !mask.to_be()) | (entropy & mask).to_be()
    }
}

/// The ones' complement sum of what outer IPv4 headers to this address (in mapped form) have in common, but for the source.
#[inline(always)]
pub fn checksum_base(destination: [u64; 2]) -> u16 {
    let [_, destination]: [u32; 2] = zerocopy::transmute!(destination[1]);
    Sum::ZERO.add_u16(DONT_FRAGMENT).add_u32(destination).fold()
}

const DONT_FRAGMENT: u16 = Ipv4Header::DONT_FRAGMENT.to_be();

const ETHERTYPE: usize = size_of::<U16>();

/// Length of an Ethernet header with one tag.
const ONE_TAG: usize = EthernetHeader::LEN + VlanTag::LEN;

#[derive(IntoBytes, Immutable, Unaligned)]
#[repr(C)]
struct Macs {
    first: U64,
    last: U32,
}

#[derive(IntoBytes, Immutable, Unaligned)]
#[repr(C)]
struct MacsAndType {
    macs: Macs,
    ethertype: U16,
}

#[derive(IntoBytes, Immutable, Unaligned)]
#[repr(C)]
struct Ipv4Words {
    first: U64,
    second: U64,
    destination: U32,
}

#[derive(IntoBytes, Immutable, Unaligned)]
#[repr(C)]
struct Ipv6Words {
    first: U64,
    source: [U64; 2],
    destination: [U64; 2],
}

#[derive(IntoBytes, Immutable, Unaligned)]
#[repr(C)]
struct UdpAndGue {
    udp: U64,
    gue: U32,
}

const _: () = assert!(size_of::<Ipv4Words>() == Ipv4Header::LEN);
const _: () = assert!(size_of::<Ipv6Words>() == Ipv6Header::LEN);

/// The tags of a frame, each with the type that announces it: they stay where they are, behind the addresses.
struct Tags {
    outer: U32,
    inner: U32,
}

impl Tags {
    #[inline(always)]
    fn read<P: Packet>(packet: &P, l2_len: usize) -> Option<Self> {
        let none = U32::new(0);
        let outer =
            if l2_len > EthernetHeader::LEN { packet.read(EthernetHeader::LEN - ETHERTYPE)? } else { none };
        let inner = if l2_len > ONE_TAG { packet.read(ONE_TAG - ETHERTYPE)? } else { none };
        Some(Self { outer, inner })
    }

    #[inline(always)]
    fn write<P: Packet>(&self, packet: &mut P, l2_len: usize) -> Option<()> {
        if l2_len > EthernetHeader::LEN {
            packet.write(EthernetHeader::LEN - ETHERTYPE, &self.outer)?;
        }
        if l2_len > ONE_TAG {
            packet.write(ONE_TAG - ETHERTYPE, &self.inner)?;
        }
        Some(())
    }
}

/// The protocol number in the outer IP header.
#[inline(always)]
const fn announced(tunnel: Tunnel, inner: IpVersion) -> IpProtocol {
    match tunnel {
        Tunnel::Ipip => inner.as_payload(),
        Tunnel::Gre => IpProtocol::GRE,
        Tunnel::GueDirect | Tunnel::GueHeader => IpProtocol::UDP,
    }
}

#[inline(always)]
fn mapped(address: [u8; 4]) -> [u64; 2] {
    [0, zerocopy::transmute!([[0, 0, 0xff, 0xff], address])]
}
