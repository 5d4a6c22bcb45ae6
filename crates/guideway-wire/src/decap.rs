//! Strict decapsulation.
//!
//! Takes off exactly what [`crate::encap`] puts on, and the optional GRE and GUE fields that other encapsulators may add.
//! A packet that is not what it says is refused with its reason, never passed half understood: a decapsulator stands before
//! services that trust what comes out of it.
//!
//! ECN is joined by the rules of RFC 6040 §4.2: a congestion mark of the tunnel's path reaches the inner packet if that is
//! ECN-capable, and the packet is refused if it is not. The inner DSCP stays.

use thiserror::Error;
use zerocopy::big_endian::U16;

use crate::address::Address;
use crate::checksum::{self, Sum};
use crate::encap::{MAX_CHECKSUM_WORDS, Tunnel};
use crate::ethernet::EtherType;
use crate::gre::GreHeader;
use crate::gue::GueHeader;
use crate::ip::{Fragment, IpProtocol, IpVersion, ecn};
use crate::ipv4::{self, Ipv4Header};
use crate::ipv6::Ipv6Header;
use crate::link::Link;
use crate::packet::{Packet, PacketRead};
use crate::parse::Parsed;
use crate::udp::UdpHeader;

/// What was taken off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decapsulated {
    /// Kind of tunnel.
    pub tunnel: Tunnel,
    /// Outer source: the balancer.
    pub source: Address,
    /// Outer destination.
    pub destination: Address,
    /// Family of the packet that came out.
    pub inner: IpVersion,
}

/// Why a packet was not decapsulated. The frame is then unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
#[repr(u8)]
pub enum DecapError {
    /// Not a tunnel's packet: pass it.
    #[error("the packet is none of IP in IP, GRE and GUE to the given port")]
    NotTunnelled = 0,
    /// The outer packet is a fragment, which must be reassembled first.
    #[error("the outer packet is a fragment: raise the MTU between balancer and backend")]
    Fragmented,
    /// The outer IPv4 header's checksum is wrong.
    #[error("the checksum of the outer IPv4 header is wrong")]
    OuterChecksum,
    /// A GRE header with a checksum, or with bits that RFC 2784 and RFC 2890 do not define.
    #[error("the GRE header has a checksum or flags that are not supported")]
    GreFlags,
    /// The GRE payload is neither IPv4 nor IPv6.
    #[error("the GRE header announces neither IPv4 nor IPv6")]
    GreProtocol,
    /// A GUE control message.
    #[error("the GUE packet is a control message")]
    GueControl,
    /// A GUE variant above 1, or a payload that is neither IPv4 nor IPv6.
    #[error("the GUE packet is of an unknown variant or announces neither IPv4 nor IPv6")]
    GueProtocol,
    /// A GUE header with flags, whose optional fields (security, fragmentation) are not supported.
    #[error("the GUE header has flags that are not supported")]
    GueFlags,
    /// The packet ends within the tunnel's or the inner header.
    #[error("the packet ends within its tunnel header or its inner IP header")]
    Truncated,
    /// The inner packet's version is not the announced one.
    #[error("the inner packet is not of the IP version that was announced")]
    InnerVersion,
    /// The inner packet does not fill the outer one exactly.
    #[error("the length of the inner packet does not match that of the outer one")]
    InnerLength,
    /// Congestion experienced on the way, and the inner packet cannot say so (RFC 6040 §4.2).
    #[error("the outer header is marked with congestion and the inner packet is not ECN-capable")]
    EcnViolation,
    /// The head of the packet cannot be moved here, which is the frame's affair and not the packet's.
    #[error("the frame is not the one that was parsed, or its front cannot be taken off")]
    Immovable,
}

/// A tunnel's packet that can be taken off, as [`examine`] found it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inside {
    /// Kind of tunnel.
    pub tunnel: Tunnel,
    /// Family of the inner packet.
    pub version: IpVersion,
    /// Where the inner packet begins, from the first byte of the frame.
    pub at: usize,
    /// The ECN bits that it will have.
    ecn: u8,
}

impl Inside {
    /// Where the inner packet is going; `None` for an IPv6 address in IPv4-mapped form, which must not appear on the
    /// wire (RFC 4942 §2.2) and would read like the IPv4 one.
    #[inline(always)]
    pub fn destination<P: PacketRead + ?Sized>(&self, packet: &P) -> Option<Address> {
        match self.version {
            IpVersion::V4 => Some(Address::v4(packet.read::<Ipv4Header>(self.at)?.destination)),
            IpVersion::V6 => {
                let address = Address::v6(packet.read::<Ipv6Header>(self.at)?.destination);
                if address.is_v4() { None } else { Some(address) }
            }
        }
    }
}

/// Takes the outer headers off the packet that `parsed` describes; the Ethernet header with its tags moves to the inner packet.
///
/// The UDP checksum of GUE is not verified; see [`udp_checksum_valid`].
///
/// # Errors
/// See [`DecapError`].
#[inline(always)]
pub fn decapsulate<P: Packet>(
    packet: &mut P,
    parsed: &Parsed,
    gue_port: u16,
) -> Result<Decapsulated, DecapError> {
    let inside = examine(packet, parsed, gue_port)?;
    take_off(packet, parsed, &inside)?;
    Ok(Decapsulated {
        tunnel: inside.tunnel,
        source: parsed.key.src,
        destination: parsed.key.dst,
        inner: inside.version,
    })
}

/// Looks into the tunnel's packet that `parsed` describes and changes nothing: for whoever wants to know what is inside
/// before it is taken out.
///
/// # Errors
/// See [`DecapError`].
#[inline(always)]
pub fn examine<P: PacketRead + ?Sized>(
    packet: &P,
    parsed: &Parsed,
    gue_port: u16,
) -> Result<Inside, DecapError> {
    if !parsed.is_tunnelled(gue_port) {
        return Err(DecapError::NotTunnelled);
    }
    if !matches!(parsed.fragment, Fragment::None | Fragment::Atomic { .. }) {
        return Err(DecapError::Fragmented);
    }
    if matches!(parsed.ip, IpVersion::V4) && ipv4::checksum_valid(packet, parsed.l2_len) != Some(true) {
        return Err(DecapError::OuterChecksum);
    }
    let (tunnel, version, at) = tunnel_header(packet, parsed)?;
    let (length, class) = inner_header(packet, version, at)?;
    if at.wrapping_add(length) != parsed.end() {
        return Err(DecapError::InnerLength);
    }
    let ecn =
        joined_ecn(class & ecn::MASK, parsed.traffic_class & ecn::MASK).ok_or(DecapError::EcnViolation)?;
    Ok(Inside { tunnel, version, at, ecn })
}

/// Takes off what `inside` tells of, which [`examine`] found in this very packet.
///
/// # Errors
/// [`DecapError::Immovable`].
#[inline(always)]
pub fn take_off<P: Packet>(packet: &mut P, parsed: &Parsed, inside: &Inside) -> Result<(), DecapError> {
    let link =
        Link::read(packet, parsed.l2_len).ok_or(DecapError::Immovable)?.announcing(match inside.version {
            IpVersion::V4 => EtherType::IPV4,
            IpVersion::V6 => EtherType::IPV6,
        });
    if packet.len() > parsed.end() {
        packet.truncate(parsed.end()).ok_or(DecapError::Immovable)?;
    }
    packet.shrink_head(inside.at.wrapping_sub(parsed.l2_len)).ok_or(DecapError::Immovable)?;
    link.write(packet).ok_or(DecapError::Immovable)?;
    set_ecn(packet, inside, parsed.l2_len).ok_or(DecapError::Immovable)
}

/// Whether a whole UDP packet may be taken as undamaged: its checksum is right or 0, that is, absent.
/// `None` if the packet is no whole UDP datagram or longer than [`MAX_CHECKSUM_WORDS`].
pub fn udp_checksum_valid<P: PacketRead + ?Sized>(packet: &P, parsed: &Parsed) -> Option<bool> {
    if parsed.key.protocol != IpProtocol::UDP || parsed.fragment.datagram_id().is_some() {
        return None;
    }
    let header: UdpHeader = packet.read(parsed.l4_offset)?;
    if header.checksum.get() == 0 {
        return Some(true);
    }
    let length = header.length.get();
    let sum = Sum::ZERO
        .add_pseudo_header(&parsed.key.src, &parsed.key.dst, IpProtocol::UDP, length as u32)
        .add_packet::<MAX_CHECKSUM_WORDS, P>(packet, parsed.l4_offset, length as usize)?;
    Some(sum.fold() == 0xffff)
}

/// Kind of tunnel, inner version and where the inner packet begins.
#[inline(always)]
fn tunnel_header<P: PacketRead + ?Sized>(
    packet: &P,
    parsed: &Parsed,
) -> Result<(Tunnel, IpVersion, usize), DecapError> {
    let at = parsed.l4_offset;
    match parsed.key.protocol {
        IpProtocol::IPV4 => Ok((Tunnel::Ipip, IpVersion::V4, at)),
        IpProtocol::IPV6 => Ok((Tunnel::Ipip, IpVersion::V6, at)),
        IpProtocol::GRE => {
            let header: GreHeader = packet.read(at).ok_or(DecapError::Truncated)?;
            let length = header.full_length().ok_or(DecapError::GreFlags)?;
            if header.flags.get() & GreHeader::CHECKSUM != 0 {
                return Err(DecapError::GreFlags);
            }
            let inner = match header.ethertype() {
                EtherType::IPV4 => IpVersion::V4,
                EtherType::IPV6 => IpVersion::V6,
                _ => return Err(DecapError::GreProtocol),
            };
            Ok((Tunnel::Gre, inner, at.wrapping_add(length)))
        }
        _ => gue_header(packet, parsed),
    }
}

#[inline(always)]
fn gue_header<P: PacketRead + ?Sized>(
    packet: &P,
    parsed: &Parsed,
) -> Result<(Tunnel, IpVersion, usize), DecapError> {
    let udp: UdpHeader = packet.read(parsed.l4_offset).ok_or(DecapError::Truncated)?;
    let at = parsed.l4_offset.wrapping_add(UdpHeader::LEN);
    if parsed.l4_offset.wrapping_add(udp.length.get() as usize) != parsed.end() {
        return Err(DecapError::InnerLength);
    }
    let header: GueHeader = packet.read(at).ok_or(DecapError::Truncated)?;
    match header.variant() {
        0 => {
            if header.is_control() {
                return Err(DecapError::GueControl);
            }
            if header.flags.get() != 0 {
                return Err(DecapError::GueFlags);
            }
            let inner = match header.protocol {
                IpProtocol::IPV4 => IpVersion::V4,
                IpProtocol::IPV6 => IpVersion::V6,
                _ => return Err(DecapError::GueProtocol),
            };
            Ok((Tunnel::GueHeader, inner, at.wrapping_add(header.full_length())))
        }
        1 => {
            let inner = IpVersion::of_first_byte(header.variant_length).ok_or(DecapError::GueProtocol)?;
            Ok((Tunnel::GueDirect, inner, at))
        }
        _ => Err(DecapError::GueProtocol),
    }
}

/// The length and the traffic class that the inner IP header gives, once its version is the expected one.
#[inline(always)]
fn inner_header<P: PacketRead + ?Sized>(
    packet: &P,
    inner: IpVersion,
    at: usize,
) -> Result<(usize, u8), DecapError> {
    let first: u8 = packet.read(at).ok_or(DecapError::Truncated)?;
    if first >> 4 != inner as u8 {
        return Err(DecapError::InnerVersion);
    }
    match inner {
        IpVersion::V4 => {
            let header: Ipv4Header = packet.read(at).ok_or(DecapError::Truncated)?;
            let length = header.total_length.get() as usize;
            if header.header_length() < Ipv4Header::LEN || header.header_length() > length {
                Err(DecapError::InnerLength)
            } else {
                Ok((length, header.traffic_class))
            }
        }
        IpVersion::V6 => {
            let header: Ipv6Header = packet.read(at).ok_or(DecapError::Truncated)?;
            Ok((Ipv6Header::LEN + header.payload_length.get() as usize, header.traffic_class()))
        }
    }
}

/// The inner ECN bits after decapsulation, or `None` if the packet must be dropped (RFC 6040 §4.2, figure 4).
#[inline(always)]
pub const fn joined_ecn(inner: u8, outer: u8) -> Option<u8> {
    match (inner, outer) {
        (ecn::NOT_ECT, ecn::CE) => None,
        (ecn::NOT_ECT, _) => Some(ecn::NOT_ECT),
        (_, ecn::CE) => Some(ecn::CE),
        (ecn::ECT_0, ecn::ECT_1) => Some(ecn::ECT_1),
        (inner, _) => Some(inner),
    }
}

/// Carries the tunnel's ECN mark into the header of what was inside, which now begins at `at`.
#[inline(always)]
fn set_ecn<P: Packet>(packet: &mut P, inside: &Inside, at: usize) -> Option<()> {
    match inside.version {
        IpVersion::V4 => {
            let mut header: Ipv4Header = packet.read(at)?;
            let class = header.traffic_class & !ecn::MASK | inside.ecn;
            if class == header.traffic_class {
                return Some(());
            }
            let old = u16::from_be_bytes([header.version_length, header.traffic_class]);
            let new = u16::from_be_bytes([header.version_length, class]);
            header.traffic_class = class;
            header.checksum = U16::new(checksum::update(header.checksum.get(), old, new));
            packet.write(at, &header)
        }
        IpVersion::V6 => {
            let header: Ipv6Header = packet.read(at)?;
            let class = header.traffic_class() & !ecn::MASK | inside.ecn;
            if class == header.traffic_class() {
                return Some(());
            }
            packet.write(at, &Ipv6Header::first_word(class, header.flow_label()))
        }
    }
}
