//! Encapsulation in place, in the frame's head room.
//!
//! # Rules
//! - *Lengths* come from the inner IP header; Ethernet padding behind the inner packet is cut off first.
//! - *TTL* of the outer header is [`OUTER_TTL`], whatever the inner one's: the tunnel is one hop to the inner packet (RFC 2003 §3.1).
//! - *DSCP* is copied (RFC 2983 §3, uniform model), *ECN* too: "normal mode" of RFC 6040 §4.1. Decapsulators must follow
//!   RFC 6040 as Linux and [`crate::decap`] do, else congestion marks of the tunnel's path are lost.
//! - *Fragmentation*: outer IPv4 has DF set and identification 0 (RFC 6864 §4.1 leaves it free then); the caller answers
//!   "too big" beforehand.
//! - *UDP checksum* of GUE is 0: usual over IPv4, and over IPv6 allowed for tunnels by RFC 6935 §5 under the conditions of
//!   RFC 6936 §4: the inner packets carry checksums of their own, and a packet that goes astray is refused by the strict
//!   decapsulator. Receivers must allow it (Linux: `ip fou` and `udp6_zero_csum_rx`). Where they do not, call [`fill_udp_checksum`].
//! - *Outer source*: as given, or its lowest bits replaced by the flow's so that routers and network cards between
//!   spread flows. See [`EncapSpec::source_entropy_bits`].
//! - *UDP source port* of GUE: `0x8000 | bits 32 to 46 of the flow hash`: one of 32,768 ports, the same for a flow.
//! - *Flow label* of outer IPv6: bits 32 to 51 of the flow hash (RFC 6438 §3).
//!
//! The flow hash's upper half serves here since its residue picks the slot: all flows of a backend should differ in it.

use thiserror::Error;
use zerocopy::big_endian::U16;

use crate::checksum::Sum;
use crate::ethernet::MacAddr;
use crate::gre::GreHeader;
use crate::gue::GueHeader;
use crate::ip::{IpProtocol, IpVersion};
use crate::ipv4::Ipv4Header;
use crate::ipv6::Ipv6Header;
use crate::packet::Packet;
use crate::parse::Parsed;
use crate::ready::ReadyOuter;
use crate::udp::UdpHeader;

/// TTL and hop limit of the outer header.
pub const OUTER_TTL: u8 = 64;

/// How the inner packet is announced inside the outer one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Tunnel {
    /// IP in IP, any family in any (RFC 2003, RFC 2473, RFC 4213).
    Ipip = 0,
    /// GRE without optional fields (RFC 2784).
    Gre,
    /// GUE variant 1: the inner packet is the UDP payload.
    GueDirect,
    /// GUE variant 0: a header of four bytes before the inner packet.
    GueHeader,
}

/// The outer addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outer {
    /// IPv4.
    V4 {
        /// This balancer, or the base of its range.
        source: [u8; 4],
        /// The backend.
        destination: [u8; 4],
    },
    /// IPv6.
    V6 {
        /// This balancer, or the base of its range.
        source: [u8; 16],
        /// The backend.
        destination: [u8; 16],
    },
}

/// All that [`encapsulate`] needs to know beside the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EncapSpec {
    /// Kind of tunnel.
    pub tunnel: Tunnel,
    /// Outer addresses.
    pub outer: Outer,
    /// How many of the lowest bits of the outer source are taken from the flow: bits 32 and up of the flow hash.
    /// 0 leaves the source as it is; above 32 counts as 32. For IPv4, 16 bits of a /16 set aside for this are usual
    /// (decapsulators that check sources need to know the range), for IPv6 32 bits of a /96.
    pub source_entropy_bits: u8,
    /// UDP destination port of GUE; [`crate::gue::PORT`] unless the backends listen elsewhere.
    pub gue_port: u16,
    /// Ethernet source.
    pub source_mac: MacAddr,
    /// Ethernet destination: the next hop.
    pub destination_mac: MacAddr,
}

/// Why a packet was not encapsulated. The frame is then unchanged except for padding cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
#[repr(u8)]
pub enum EncapError {
    /// Not enough head room.
    #[error("no head room for the outer headers: reserve 52 bytes before each frame")]
    NoHeadRoom = 0,
    /// The outer length field cannot hold it.
    #[error("the encapsulated packet would be longer than its outer IP header can say (65535 bytes)")]
    TooLong,
    /// The frame is not the one that was parsed.
    #[error("the frame is shorter than its parsed description: parse it again after changing it")]
    Mismatch,
}

/// Bytes that an encapsulation adds to the IP packet: what the path's MTU must have to spare.
#[inline(always)]
pub const fn overhead(tunnel: Tunnel, outer: IpVersion) -> usize {
    let ip = match outer {
        IpVersion::V4 => Ipv4Header::LEN,
        IpVersion::V6 => Ipv6Header::LEN,
    };
    ip + match tunnel {
        Tunnel::Ipip => 0,
        Tunnel::Gre => GreHeader::LEN,
        Tunnel::GueDirect => UdpHeader::LEN,
        Tunnel::GueHeader => UdpHeader::LEN + GueHeader::LEN,
    }
}

impl Outer {
    /// The family of the outer header.
    #[inline(always)]
    pub const fn version(&self) -> IpVersion {
        match self {
            Self::V4 { .. } => IpVersion::V4,
            Self::V6 { .. } => IpVersion::V6,
        }
    }
}

impl EncapSpec {
    /// Bytes that this encapsulation adds to the IP packet.
    #[inline(always)]
    pub const fn overhead(&self) -> usize {
        overhead(self.tunnel, self.outer.version())
    }
}

/// Puts outer headers before the packet that `parsed` describes, and a new Ethernet header with the old tags before them.
///
/// `flow_hash` feeds the outer source, the UDP source port and the flow label; equal hashes give equal outer headers.
///
/// # Errors
/// See [`EncapError`].
#[inline(always)]
pub fn encapsulate<P: Packet>(
    packet: &mut P,
    parsed: &Parsed,
    spec: &EncapSpec,
    flow_hash: u64,
) -> Result<(), EncapError> {
    ReadyOuter::new(spec).put(packet, parsed, flow_hash)
}

/// Takes one hop off the inner packet before it is encapsulated, as a router would: IPv4 with its checksum updated.
/// `None`, and nothing changed, if the packet has no hop left or is not the one described.
#[inline(always)]
pub fn decrement_ttl<P: Packet>(packet: &mut P, parsed: &Parsed) -> Option<()> {
    match parsed.ip {
        IpVersion::V4 => {
            let header = packet.read::<Ipv4Header>(parsed.l2_len)?.decrement_ttl()?;
            packet.write(parsed.l2_len, &header)
        }
        IpVersion::V6 => {
            let header = packet.read::<Ipv6Header>(parsed.l2_len)?.decrement_hop_limit()?;
            packet.write(parsed.l2_len.wrapping_add(HOP_LIMIT_OFFSET), &header.hop_limit)
        }
    }
}

/// Where an IPv6 header has its hop limit.
const HOP_LIMIT_OFFSET: usize = 7;

/// The largest UDP datagram, in words of four bytes, that [`fill_udp_checksum`] sums: a jumbo frame of 9,216 bytes.
pub const MAX_CHECKSUM_WORDS: usize = 9216 / 4;

/// Computes the UDP checksum of a whole packet in a frame: the one that `parsed` describes, so parse again after [`encapsulate`].
///
/// For paths whose receivers refuse a checksum of 0. It reads the whole packet, so it costs time in proportion to its length.
/// `None` if the packet is no whole UDP datagram, or longer than [`MAX_CHECKSUM_WORDS`].
pub fn fill_udp_checksum<P: Packet>(packet: &mut P, parsed: &Parsed) -> Option<()> {
    if parsed.key.protocol != IpProtocol::UDP || parsed.fragment.datagram_id().is_some() {
        return None;
    }
    let mut header: UdpHeader = packet.read(parsed.l4_offset)?;
    header.checksum = U16::ZERO;
    packet.write(parsed.l4_offset, &header)?;
    let length = header.length.get();
    let sum = Sum::ZERO
        .add_pseudo_header(&parsed.key.src, &parsed.key.dst, IpProtocol::UDP, length as u32)
        .add_packet::<MAX_CHECKSUM_WORDS, P>(packet, parsed.l4_offset, length as usize)?;
    header.checksum = U16::new(sum.udp_checksum());
    packet.write(parsed.l4_offset, &header)
}
