//! Answers built in place of the packet they answer.
//!
//! An answer goes back the way the packet came: Ethernet and IP addresses change places (so the source is the VIP), VLAN
//! tags stay, TTL is [`REPLY_TTL`] and checksums are complete.

use thiserror::Error;
use zerocopy::big_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, Unaligned};

use crate::address::Address;
use crate::checksum::{self, Sum};
use crate::ethernet::EthernetHeader;
use crate::flow::FlowKey;
use crate::icmp::IcmpHeader;
use crate::icmpv6::Icmpv6Header;
use crate::ip::{IpProtocol, IpVersion, ecn};
use crate::ipv4::Ipv4Header;
use crate::ipv6::Ipv6Header;
use crate::link::Link;
use crate::packet::Packet;
use crate::parse::{IcmpClass, Parsed};
use crate::tcp::{TcpFlags, TcpHeader};

/// TTL and hop limit of answers.
pub const REPLY_TTL: u8 = 64;

/// Most bytes of the original IP packet that "fragmentation needed" quotes: its header with options and the longest TCP header.
/// RFC 792 asks for 28, RFC 1812 §4.3.2.3 wishes for more, up to 576 in all; a fixed small bound is what the kernel's verifier takes.
pub const QUOTE_V4: usize = 128;

/// Most bytes of the original IP packet that "packet too big" quotes: IPv6 header, several extension headers and the longest TCP header.
/// RFC 4443 §3.2 would fill up to 1280.
pub const QUOTE_V6: usize = 256;

/// The smallest MTU that "packet too big" may give: RFC 8200 §5 requires it of every link, and senders ignore less.
pub const MIN_MTU_V6: u32 = 1280;

/// Why no answer was built. Unless it says otherwise the frame is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
#[repr(u8)]
pub enum ReplyError {
    /// No answer may be sent to such a packet: RFC 1122 §3.2.2 and RFC 4443 §2.4 for ICMP errors, RFC 9293 §3.10.7 for resets.
    #[error("no answer may be sent to this packet")]
    Forbidden = 0,
    /// The packet is not of the kind that this answers.
    #[error("the packet is not of the kind that this answers")]
    WrongKind,
    /// Not enough head room for an ICMP error. The frame may have been cut.
    #[error("no head room for the answer: reserve 48 bytes before each frame")]
    NoHeadRoom,
    /// The frame is not the one that was parsed. It may have been changed in part.
    #[error("the frame is shorter than its parsed description: parse it again after changing it")]
    Mismatch,
}

/// Turns the frame into "fragmentation needed" (RFC 792, RFC 1191 §4) or "packet too big" (RFC 4443 §3.2), from its
/// destination to its source.
///
/// `mtu` is the largest IP packet that would have fitted. ICMP's field holds 65,535 at most and a larger one is given as
/// that; below 1280 ICMPv6 says 1280. Needs 28 bytes of head room for IPv4, 48 for IPv6.
///
/// # Errors
/// See [`ReplyError`]. Forbidden in answer to ICMP errors, later fragments, and packets from or to group addresses.
#[inline(always)]
pub fn too_big<P: Packet>(packet: &mut P, parsed: &Parsed, mtu: u32) -> Result<(), ReplyError> {
    icmp_error(packet, parsed, Complaint::TooBig { mtu })
}

/// Turns the frame into "port unreachable" (RFC 792, RFC 4443 §3.1), from its destination to its source: what a host
/// says on which nobody listens. Head room as for [`too_big`].
///
/// # Errors
/// As [`too_big`].
#[inline(always)]
pub fn port_unreachable<P: Packet>(packet: &mut P, parsed: &Parsed) -> Result<(), ReplyError> {
    icmp_error(packet, parsed, Complaint::PortUnreachable)
}

/// What an ICMP error complains of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Complaint {
    /// See [`too_big`].
    TooBig {
        /// The largest IP packet that would have fitted, bytes.
        mtu: u32,
    },
    /// See [`port_unreachable`].
    PortUnreachable,
}

impl Complaint {
    /// Type and code, and the field behind the checksum, of which IPv4 has the lower half alone.
    #[inline(always)]
    const fn fields(self, ip: IpVersion) -> ([u8; 2], u32) {
        match (self, ip) {
            (Self::TooBig { mtu }, IpVersion::V4) => {
                let told = if mtu > u16::MAX as u32 { u16::MAX as u32 } else { mtu };
                ([IcmpHeader::UNREACHABLE, IcmpHeader::FRAGMENTATION_NEEDED], told)
            }
            (Self::TooBig { mtu }, IpVersion::V6) => {
                ([Icmpv6Header::PACKET_TOO_BIG, 0], if mtu < MIN_MTU_V6 { MIN_MTU_V6 } else { mtu })
            }
            (Self::PortUnreachable, IpVersion::V4) => {
                ([IcmpHeader::UNREACHABLE, IcmpHeader::PORT_UNREACHABLE], 0)
            }
            (Self::PortUnreachable, IpVersion::V6) => {
                ([Icmpv6Header::UNREACHABLE, Icmpv6Header::PORT_UNREACHABLE], 0)
            }
        }
    }
}

/// Turns the frame into an ICMP error that quotes it. Head room as for [`too_big`].
///
/// # Errors
/// As [`too_big`].
#[inline(always)]
pub fn icmp_error<P: Packet>(
    packet: &mut P,
    parsed: &Parsed,
    complaint: Complaint,
) -> Result<(), ReplyError> {
    if parsed.fragment.is_later() || parsed.icmp == IcmpClass::Error || !answerable(packet, parsed) {
        return Err(ReplyError::Forbidden);
    }
    let (bound, header_len) = match parsed.ip {
        IpVersion::V4 => (QUOTE_V4, Ipv4Header::LEN),
        IpVersion::V6 => (QUOTE_V6, Ipv6Header::LEN),
    };
    // In words of four bytes: the smallest quotes, 28 and 48 bytes, are such.
    let quote = (if parsed.ip_length < bound { parsed.ip_length } else { bound }) & !3;
    let quoted = Sum::ZERO
        .add_packet::<{ QUOTE_V6 / 4 }, P>(packet, parsed.l2_len, quote)
        .ok_or(ReplyError::Mismatch)?;
    let link = Link::read(packet, parsed.l2_len).ok_or(ReplyError::Mismatch)?.turned();
    packet.truncate(parsed.l2_len.wrapping_add(quote)).ok_or(ReplyError::Mismatch)?;
    packet.grow_head(header_len.wrapping_add(IcmpHeader::LEN)).ok_or(ReplyError::NoHeadRoom)?;
    link.write(packet).ok_or(ReplyError::Mismatch)?;
    let length = IcmpHeader::LEN.wrapping_add(quote) as u16;
    let ([kind, code], word) = complaint.fields(parsed.ip);
    let quoted = quoted.add_u16(u16::from_be_bytes([kind, code])).add_u32(word);
    let written = match parsed.ip {
        IpVersion::V4 => {
            let icmp = IcmpHeader {
                kind,
                code,
                checksum: U16::new(quoted.checksum()),
                word1: U16::ZERO,
                word2: U16::new(word as u16),
            };
            // Precedence "internetwork control" (RFC 1812 §4.3.2.5).
            let ip = ipv4_back(&parsed.key, IpProtocol::ICMP, length, 0xc0);
            packet.write(parsed.l2_len, &Joined { ip, payload: icmp })
        }
        IpVersion::V6 => {
            let key = &parsed.key;
            let sum = quoted.add_pseudo_header(&key.dst, &key.src, IpProtocol::ICMPV6, length as u32);
            let icmp = Icmpv6Header { kind, code, checksum: U16::new(sum.checksum()), word: U32::new(word) };
            let ip = ipv6_back(key, IpProtocol::ICMPV6, length, 0);
            packet.write(parsed.l2_len, &Joined { ip, payload: icmp })
        }
    };
    written.ok_or(ReplyError::Mismatch)
}

/// Turns a TCP segment into the reset that a host without such a connection would send (RFC 9293 §3.10.7.1):
/// acceptable to the sender, whatever the segment was.
///
/// # Errors
/// See [`ReplyError`]. Forbidden in answer to resets, fragments, and packets from or to group addresses.
#[inline(always)]
pub fn tcp_reset<P: Packet>(packet: &mut P, parsed: &Parsed) -> Result<(), ReplyError> {
    if parsed.key.protocol != IpProtocol::TCP {
        return Err(ReplyError::WrongKind);
    }
    if parsed.fragment.datagram_id().is_some()
        || parsed.tcp_flags.has(TcpFlags::RST)
        || !answerable(packet, parsed)
    {
        return Err(ReplyError::Forbidden);
    }
    let segment: TcpHeader = packet.read(parsed.l4_offset).ok_or(ReplyError::Mismatch)?;
    let mut reset = reset_for(&segment, parsed.end().wrapping_sub(parsed.l4_offset));
    let length = TcpHeader::LEN as u16;
    let key = &parsed.key;
    let sum = sum_of(&reset).add_pseudo_header(&key.dst, &key.src, IpProtocol::TCP, length as u32);
    reset.checksum = U16::new(sum.checksum());
    let link = Link::read(packet, parsed.l2_len).ok_or(ReplyError::Mismatch)?.turned();
    let header_len = match parsed.ip {
        IpVersion::V4 => Ipv4Header::LEN,
        IpVersion::V6 => Ipv6Header::LEN,
    };
    packet
        .truncate(parsed.l2_len.wrapping_add(header_len).wrapping_add(TcpHeader::LEN))
        .ok_or(ReplyError::Mismatch)?;
    link.write(packet).ok_or(ReplyError::Mismatch)?;
    let written = match parsed.ip {
        IpVersion::V4 => {
            let ip = ipv4_back(key, IpProtocol::TCP, length, 0);
            packet.write(parsed.l2_len, &Joined { ip, payload: reset })
        }
        IpVersion::V6 => {
            let ip = ipv6_back(key, IpProtocol::TCP, length, 0);
            packet.write(parsed.l2_len, &Joined { ip, payload: reset })
        }
    };
    written.ok_or(ReplyError::Mismatch)
}

/// Turns an echo request into its reply (RFC 792, RFC 4443 §4.2). The data come back as they are, their checksum is
/// updated and not computed anew, so damage stays visible. IP options and extension headers are left out.
///
/// # Errors
/// See [`ReplyError`]. Forbidden in answer to fragments and packets from or to group addresses.
#[inline(always)]
pub fn echo_reply<P: Packet>(packet: &mut P, parsed: &Parsed) -> Result<(), ReplyError> {
    if parsed.icmp != IcmpClass::EchoRequest {
        return Err(ReplyError::WrongKind);
    }
    if parsed.fragment.datagram_id().is_some() || !answerable(packet, parsed) {
        return Err(ReplyError::Forbidden);
    }
    // The first four bytes are the same in ICMP and ICMPv6.
    let [first, checksum]: [U16; 2] = packet.read(parsed.l4_offset).ok_or(ReplyError::Mismatch)?;
    let link = Link::read(packet, parsed.l2_len).ok_or(ReplyError::Mismatch)?.turned();
    if packet.len() > parsed.end() {
        packet.truncate(parsed.end()).ok_or(ReplyError::Mismatch)?;
    }
    let (kind, header_len) = match parsed.ip {
        IpVersion::V4 => (IcmpHeader::ECHO_REPLY, Ipv4Header::LEN),
        IpVersion::V6 => (Icmpv6Header::ECHO_REPLY, Ipv6Header::LEN),
    };
    let code = first.get() & 0x00ff;
    let now = (kind as u16) << 8 | code;
    let checksum = checksum::update(checksum.get(), first.get(), now);
    packet.write(parsed.l4_offset, &[U16::new(now), U16::new(checksum)]).ok_or(ReplyError::Mismatch)?;
    let length = parsed.end().wrapping_sub(parsed.l4_offset) as u16;
    let l4_offset = parsed.l2_len.wrapping_add(header_len);
    if parsed.l4_offset > l4_offset {
        packet.shrink_head(parsed.l4_offset.wrapping_sub(l4_offset)).ok_or(ReplyError::Mismatch)?;
    }
    link.write(packet).ok_or(ReplyError::Mismatch)?;
    let written = match parsed.ip {
        IpVersion::V4 => {
            let ip = ipv4_back(&parsed.key, IpProtocol::ICMP, length, parsed.traffic_class);
            packet.write(parsed.l2_len, &ip)
        }
        IpVersion::V6 => {
            let ip = ipv6_back(&parsed.key, IpProtocol::ICMPV6, length, parsed.traffic_class);
            packet.write(parsed.l2_len, &ip)
        }
    };
    written.ok_or(ReplyError::Mismatch)
}

/// An IP header and what follows it at once, so that one write stores them.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, Unaligned)]
#[repr(C)]
struct Joined<I, T> {
    ip: I,
    payload: T,
}

/// Whether both ends are single hosts: no error and no reset goes to or comes from a group or a nobody.
#[inline(always)]
fn answerable<P: Packet>(packet: &P, parsed: &Parsed) -> bool {
    let Some(ethernet) = packet.read::<EthernetHeader>(0) else {
        return false;
    };
    !ethernet.destination.is_multicast()
        && match parsed.ip {
            IpVersion::V4 => {
                single_host_v4(parsed.key.src.low_v4()) && single_host_v4(parsed.key.dst.low_v4())
            }
            IpVersion::V6 => single_host_v6(&parsed.key.src) && single_host_v6(&parsed.key.dst),
        }
}

/// Neither "this network", loopback, multicast, reserved nor broadcast (RFC 1122 §3.2.1.3).
#[inline(always)]
const fn single_host_v4(address: [u8; 4]) -> bool {
    let [first, ..] = address;
    first != 0 && first != 127 && first < 224
}

/// Neither multicast nor one of `::/64`'s special addresses: unspecified, loopback.
#[inline(always)]
const fn single_host_v6(address: &Address) -> bool {
    let (high, low) = address.halves();
    high >> 56 != 0xff && !(high == 0 && low <= 1)
}

/// The reset that answers a segment of `length` bytes, header included; its checksum is still 0.
#[inline(always)]
fn reset_for(segment: &TcpHeader, length: usize) -> TcpHeader {
    let flags = segment.flags;
    let (sequence, acknowledgment, reset_flags) = if flags.has(TcpFlags::ACK) {
        (segment.acknowledgment, U32::ZERO, TcpFlags::RST)
    } else {
        let data = length.wrapping_sub(segment.header_length()) as u32;
        let controls = flags.has(TcpFlags::SYN) as u32 + flags.has(TcpFlags::FIN) as u32;
        let next = segment.sequence.get().wrapping_add(data).wrapping_add(controls);
        (U32::ZERO, U32::new(next), TcpFlags::RST.with(TcpFlags::ACK))
    };
    TcpHeader {
        source: segment.destination,
        destination: segment.source,
        sequence,
        acknowledgment,
        data_offset: ((TcpHeader::LEN / 4) as u8) << 4,
        flags: reset_flags,
        window: U16::ZERO,
        checksum: U16::ZERO,
        urgent: U16::ZERO,
    }
}

/// The sum of a TCP header without options, its checksum field left out.
#[inline(always)]
fn sum_of(header: &TcpHeader) -> Sum {
    Sum::ZERO
        .add_u16(header.source.get())
        .add_u16(header.destination.get())
        .add_u32(header.sequence.get())
        .add_u32(header.acknowledgment.get())
        .add_u16(u16::from_be_bytes([header.data_offset, header.flags.0]))
        .add_u16(header.window.get())
        .add_u16(header.urgent.get())
}

/// An IPv4 header from a packet's destination to its source, before a payload of `length` bytes. ECN is cleared: an answer is not
/// part of the sender's congestion control.
#[inline(always)]
fn ipv4_back(key: &FlowKey, protocol: IpProtocol, length: u16, traffic_class: u8) -> Ipv4Header {
    Ipv4Header {
        version_length: Ipv4Header::VERSION_LENGTH_PLAIN,
        traffic_class: traffic_class & !ecn::MASK,
        total_length: U16::new(length.wrapping_add(Ipv4Header::LEN as u16)),
        identification: U16::ZERO,
        flags_offset: U16::new(Ipv4Header::DONT_FRAGMENT),
        ttl: REPLY_TTL,
        protocol,
        checksum: U16::ZERO,
        source: key.dst.low_v4(),
        destination: key.src.low_v4(),
    }
    .with_checksum()
}

/// The same for IPv6.
#[inline(always)]
fn ipv6_back(key: &FlowKey, protocol: IpProtocol, length: u16, traffic_class: u8) -> Ipv6Header {
    Ipv6Header {
        version_class_label: Ipv6Header::first_word(traffic_class & !ecn::MASK, 0),
        payload_length: U16::new(length),
        next_header: protocol,
        hop_limit: REPLY_TTL,
        source: key.dst.octets(),
        destination: key.src.octets(),
    }
}
