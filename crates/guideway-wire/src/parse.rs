//! One pass over a frame: where its layers lie, and the flow it belongs to.

use thiserror::Error;
use zerocopy::big_endian::U16;

use crate::ethernet::{EtherType, EthernetHeader, VlanTag};
use crate::flow::FlowKey;
use crate::icmp::IcmpHeader;
use crate::icmpv6::Icmpv6Header;
use crate::ip::{Fragment, IpProtocol, IpVersion};
use crate::ipv4::Ipv4Header;
use crate::ipv6::{self, Ipv6Header};
use crate::packet::PacketRead;
use crate::tcp::{TcpFlags, TcpHeader};
use crate::udp::UdpHeader;

/// VLAN tags that are followed.
pub const MAX_VLAN_TAGS: usize = 2;

/// What an ICMP or ICMPv6 message is to a load balancer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum IcmpClass {
    /// Not ICMP.
    None = 0,
    /// An echo request.
    EchoRequest,
    /// An echo reply.
    EchoReply,
    /// An error that quotes the packet it is about; see [`quoted_flow`].
    Error,
    /// Anything else: neighbour discovery, timestamps, …
    Other,
}

/// What [`parse`] found. All offsets count from the first byte of the frame.
// In this order, stores of neighbours that the compiler joins are aligned, as the kernel's verifier wants them on the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Parsed {
    /// The flow. A later fragment, and a protocol other than TCP and UDP, has ports of 0.
    pub key: FlowKey,
    /// Whether the packet is a fragment.
    pub fragment: Fragment,
    /// Length of the Ethernet header with its VLAN tags, 14 to 22: where the IP header begins.
    pub l2_len: usize,
    /// Where the transport header begins, past IP options and extension headers. In a later fragment: its data.
    pub l4_offset: usize,
    /// Length of the IP packet by its header. The frame is at least `l2_len` longer; what is beyond is padding.
    pub ip_length: usize,
    /// IP version.
    pub ip: IpVersion,
    /// Whether routers may not fragment: IPv4's DF; always so in IPv6.
    pub dont_fragment: bool,
    /// Control bits of TCP; none otherwise.
    pub tcp_flags: TcpFlags,
    /// Kind of ICMP or ICMPv6 message.
    pub icmp: IcmpClass,
    /// DSCP and ECN.
    pub traffic_class: u8,
    /// TTL or hop limit.
    pub ttl: u8,
}

impl Parsed {
    /// Nothing at all, to be filled.
    pub const EMPTY: Self = Self {
        key: FlowKey::v4([0; 4], [0; 4], 0, 0, IpProtocol(0)),
        fragment: Fragment::None,
        l2_len: 0,
        l4_offset: 0,
        ip_length: 0,
        ip: IpVersion::V4,
        traffic_class: 0,
        ttl: 0,
        dont_fragment: false,
        tcp_flags: TcpFlags(0),
        icmp: IcmpClass::None,
    };

    /// The transport protocol: that after IPv6's extension headers.
    #[inline(always)]
    pub const fn protocol(&self) -> IpProtocol {
        self.key.protocol
    }

    /// Where the IP packet ends.
    #[inline(always)]
    pub const fn end(&self) -> usize {
        self.l2_len.wrapping_add(self.ip_length)
    }

    /// Whether this packet already is a tunnel's: IP in IP, GRE, or UDP to `gue_port`.
    #[inline(always)]
    pub const fn is_tunnelled(&self, gue_port: u16) -> bool {
        match self.key.protocol {
            IpProtocol::IPV4 | IpProtocol::IPV6 | IpProtocol::GRE => true,
            IpProtocol::UDP => self.key.dst_port == gue_port && !self.fragment.is_later(),
            _ => false,
        }
    }
}

/// Why a frame was not understood. Each cause is one value, so that each can have its counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
#[repr(u8)]
pub enum ParseError {
    /// Not IP: ARP, LLDP, … Nothing is wrong with it.
    #[error("the frame carries neither IPv4 nor IPv6")]
    NotIp = 0,
    /// The frame ends within the Ethernet header.
    #[error("the frame ends within its Ethernet header of 14 bytes")]
    TruncatedEthernet,
    /// The frame ends within a VLAN tag.
    #[error("the frame ends within a VLAN tag")]
    TruncatedVlan,
    /// A third VLAN tag.
    #[error("the frame has more than two VLAN tags")]
    TooManyVlanTags,
    /// The frame ends within the IPv4 header.
    #[error("the frame ends within its IPv4 header")]
    TruncatedIpv4,
    /// The frame ends within the IPv6 header.
    #[error("the frame ends within its IPv6 header of 40 bytes")]
    TruncatedIpv6,
    /// The version field contradicts the EtherType or the tunnel protocol.
    #[error("the IP version field contradicts what announced the packet")]
    BadVersion,
    /// IPv4 header length below 20 or beyond the packet.
    #[error("the IPv4 header length field is below 20 bytes or above the total length")]
    BadHeaderLength,
    /// The packet ends beyond the frame.
    #[error("the IP header gives a length beyond the end of the frame")]
    LengthBeyondFrame,
    /// An IPv6 address in IPv4-mapped form, which must not appear on the wire (RFC 4942 §2.2).
    #[error("an IPv6 address is in IPv4-mapped form")]
    MappedAddress,
    /// The packet ends within IPv6's extension headers.
    #[error("the packet ends within its IPv6 extension headers")]
    TruncatedExtension,
    /// More than [`ipv6::MAX_EXTENSIONS`] extension headers.
    #[error("the packet has more than eight IPv6 extension headers")]
    TooManyExtensions,
    /// Hop-by-hop options not right after the IPv6 header (RFC 8200 §4.1).
    #[error("hop-by-hop options do not follow the IPv6 header at once")]
    MisplacedHopByHop,
    /// Two fragment headers.
    #[error("the packet has two IPv6 fragment headers")]
    NestedFragment,
    /// A first fragment without the whole transport header (RFC 1858 §3, RFC 3128, RFC 7112).
    #[error("the first fragment does not hold the whole transport header")]
    TinyFirstFragment,
    /// A fragment that would overwrite the TCP header of the first (RFC 1858 §4, RFC 3128).
    #[error("the fragment would overwrite the TCP header of its datagram")]
    OverlappingFragment,
    /// A fragment that ends above 65,535 bytes.
    #[error("the fragment ends beyond the largest datagram of 65535 bytes")]
    FragmentBeyondDatagram,
    /// The packet ends within the transport header.
    #[error("the packet ends within its transport header")]
    TruncatedTransport,
    /// TCP header length below 20 or beyond the packet.
    #[error("the TCP header length field is below 20 bytes or beyond the packet")]
    BadTcpHeaderLength,
    /// UDP length below 8 or beyond the packet.
    #[error("the UDP length field is below 8 bytes or beyond the packet")]
    BadUdpLength,
    /// An ICMP error that quotes too little to name a flow.
    #[error("the ICMP error quotes too little of a packet to name its flow")]
    QuoteTruncated,
    /// An ICMP error that quotes something other than a well-formed IP packet of the same family.
    #[error("the ICMP error quotes no well-formed IP packet of its own family")]
    QuoteMalformed,
    /// An ICMP error about a later fragment, which names no ports.
    #[error("the ICMP error quotes a later fragment, which has no ports")]
    QuoteWithoutPorts,
}

/// Parses a frame from its Ethernet header to its transport header.
///
/// Checksums are not verified: the packet's own receiver does that. Ethernet padding after the IP packet is fine.
///
/// # Errors
/// See [`ParseError`]; [`destination`] tells in many cases where such a frame is going all the same.
#[inline(always)]
pub fn parse<P: PacketRead + ?Sized>(packet: &P) -> Result<Parsed, ParseError> {
    let mut parsed = Parsed::EMPTY;
    parse_into(packet, &mut parsed)?;
    Ok(parsed)
}

/// As [`parse`], into a place that the caller has: each field goes there as it is read, and none is kept till the end. After
/// an error the place holds nothing of worth.
///
/// # Errors
/// As [`parse`].
#[inline(always)]
pub fn parse_into<P: PacketRead + ?Sized>(packet: &P, parsed: &mut Parsed) -> Result<(), ParseError> {
    let (ethertype, l2_len) = link(packet)?;
    match ethertype {
        EtherType::IPV4 => parse_ipv4(packet, l2_len, parsed),
        EtherType::IPV6 => parse_ipv6(packet, l2_len, parsed),
        _ => Err(ParseError::NotIp),
    }
}

/// The destination address of a frame that [`parse`] refused, if its fixed IP header is there.
///
/// So that a malformed packet to somebody else can be passed on untouched, and one to a VIP be dropped and counted.
#[inline(always)]
pub fn destination<P: PacketRead + ?Sized>(packet: &P) -> Option<crate::Address> {
    let (ethertype, l2_len) = link(packet).ok()?;
    match ethertype {
        EtherType::IPV4 => Some(crate::Address::v4(packet.read::<Ipv4Header>(l2_len)?.destination)),
        EtherType::IPV6 => Some(crate::Address::v6(packet.read::<Ipv6Header>(l2_len)?.destination)),
        _ => None,
    }
}

/// The flow that an ICMP error is about, seen from the client: the quoted packet went from a VIP to a client, and the
/// key returned is the one of the client's packets to the VIP.
///
/// Call it for packets of [`IcmpClass::Error`]. The quote may be cut after eight bytes of its transport header (RFC 792),
/// and may have IP options or extension headers. For quoted protocols without ports the ports are 0.
///
/// # Errors
/// [`ParseError::QuoteTruncated`], [`ParseError::QuoteMalformed`], [`ParseError::QuoteWithoutPorts`].
#[inline(always)]
pub fn quoted_flow<P: PacketRead + ?Sized>(packet: &P, parsed: &Parsed) -> Result<FlowKey, ParseError> {
    // ICMP and ICMPv6 both have eight bytes before the quote.
    let at = parsed.l4_offset.wrapping_add(IcmpHeader::LEN);
    let end = parsed.end();
    match parsed.ip {
        IpVersion::V4 => quoted_ipv4(packet, at, end),
        IpVersion::V6 => quoted_ipv6(packet, at, end),
    }
}

/// The EtherType after VLAN tags, and where what it announces begins.
#[inline(always)]
fn link<P: PacketRead + ?Sized>(packet: &P) -> Result<(EtherType, usize), ParseError> {
    let header: EthernetHeader = packet.read(0).ok_or(ParseError::TruncatedEthernet)?;
    let mut ethertype = header.ethertype();
    let mut at = EthernetHeader::LEN;
    for _ in 0..MAX_VLAN_TAGS {
        if !ethertype.is_vlan() {
            break;
        }
        let tag: VlanTag = packet.read(at).ok_or(ParseError::TruncatedVlan)?;
        ethertype = tag.ethertype();
        at += VlanTag::LEN;
    }
    if ethertype.is_vlan() { Err(ParseError::TooManyVlanTags) } else { Ok((ethertype, at)) }
}

#[inline(always)]
fn parse_ipv4<P: PacketRead + ?Sized>(
    packet: &P,
    l2_len: usize,
    parsed: &mut Parsed,
) -> Result<(), ParseError> {
    let header: Ipv4Header = packet.read(l2_len).ok_or(ParseError::TruncatedIpv4)?;
    if header.version() != 4 {
        return Err(ParseError::BadVersion);
    }
    let header_length = header.header_length();
    let ip_length = header.total_length.get() as usize;
    if header_length < Ipv4Header::LEN || header_length > ip_length {
        return Err(ParseError::BadHeaderLength);
    }
    if l2_len + ip_length > packet.len() {
        return Err(ParseError::LengthBeyondFrame);
    }
    let id = header.identification.get() as u32;
    let offset = header.fragment_offset();
    let fragment = match (offset, header.more_fragments()) {
        (0, false) => Fragment::None,
        (0, true) => Fragment::First { id },
        _ => Fragment::Later { id, offset },
    };
    *parsed = Parsed {
        key: FlowKey::v4(header.source, header.destination, 0, 0, header.protocol),
        fragment,
        l2_len,
        l4_offset: l2_len + header_length,
        ip_length,
        ip: IpVersion::V4,
        traffic_class: header.traffic_class,
        ttl: header.ttl,
        dont_fragment: header.dont_fragment(),
        tcp_flags: TcpFlags(0),
        icmp: IcmpClass::None,
    };
    parse_transport(packet, parsed)
}

#[inline(always)]
fn parse_ipv6<P: PacketRead + ?Sized>(
    packet: &P,
    l2_len: usize,
    parsed: &mut Parsed,
) -> Result<(), ParseError> {
    let header: Ipv6Header = packet.read(l2_len).ok_or(ParseError::TruncatedIpv6)?;
    if header.version() != 6 {
        return Err(ParseError::BadVersion);
    }
    let ip_length = Ipv6Header::LEN + header.payload_length.get() as usize;
    let end = l2_len + ip_length;
    if end > packet.len() {
        return Err(ParseError::LengthBeyondFrame);
    }
    let key = FlowKey::v6(header.source, header.destination, 0, 0, header.next_header);
    if key.src.is_v4() || key.dst.is_v4() {
        return Err(ParseError::MappedAddress);
    }
    let chain = ipv6::walk(packet, header.next_header, l2_len + Ipv6Header::LEN, end)?;
    *parsed = Parsed {
        key: FlowKey { protocol: chain.protocol, ..key },
        fragment: chain.fragment,
        l2_len,
        l4_offset: chain.offset,
        ip_length,
        ip: IpVersion::V6,
        traffic_class: header.traffic_class(),
        ttl: header.hop_limit,
        dont_fragment: true,
        tcp_flags: TcpFlags(0),
        icmp: IcmpClass::None,
    };
    parse_transport(packet, parsed)
}

/// Fills in what the transport header tells.
#[inline(always)]
fn parse_transport<P: PacketRead + ?Sized>(packet: &P, parsed: &mut Parsed) -> Result<(), ParseError> {
    let payload = parsed.end().wrapping_sub(parsed.l4_offset);
    if let Fragment::Later { offset, .. } = parsed.fragment {
        return later_fragment(parsed, offset as usize, payload);
    }
    let first = matches!(parsed.fragment, Fragment::First { .. });
    let cut = if first { ParseError::TinyFirstFragment } else { ParseError::TruncatedTransport };
    let at = parsed.l4_offset;
    match parsed.key.protocol {
        IpProtocol::TCP => {
            let header: TcpHeader =
                if payload < TcpHeader::LEN { None } else { packet.read(at) }.ok_or(cut)?;
            let length = header.header_length();
            // A first fragment may end within the options: RFC 1858 wants the fixed header there.
            if length < TcpHeader::LEN || (length > payload && !first) {
                return Err(ParseError::BadTcpHeaderLength);
            }
            parsed.key.src_port = header.source.get();
            parsed.key.dst_port = header.destination.get();
            parsed.tcp_flags = header.flags;
        }
        IpProtocol::UDP => {
            let header: UdpHeader =
                if payload < UdpHeader::LEN { None } else { packet.read(at) }.ok_or(cut)?;
            let length = header.length.get() as usize;
            if length < UdpHeader::LEN || (length > payload && !first) {
                return Err(ParseError::BadUdpLength);
            }
            parsed.key.src_port = header.source.get();
            parsed.key.dst_port = header.destination.get();
        }
        IpProtocol::ICMP if matches!(parsed.ip, IpVersion::V4) => {
            let kind = icmp_kind(packet, at, payload).ok_or(cut)?;
            parsed.icmp = match kind {
                IcmpHeader::ECHO_REQUEST => IcmpClass::EchoRequest,
                IcmpHeader::ECHO_REPLY => IcmpClass::EchoReply,
                kind if IcmpHeader::is_error(kind) => IcmpClass::Error,
                _ => IcmpClass::Other,
            };
        }
        IpProtocol::ICMPV6 if matches!(parsed.ip, IpVersion::V6) => {
            let kind = icmp_kind(packet, at, payload).ok_or(cut)?;
            parsed.icmp = match kind {
                Icmpv6Header::ECHO_REQUEST => IcmpClass::EchoRequest,
                Icmpv6Header::ECHO_REPLY => IcmpClass::EchoReply,
                kind if Icmpv6Header::is_error(kind) => IcmpClass::Error,
                _ => IcmpClass::Other,
            };
        }
        _ => {}
    }
    Ok(())
}

/// The checks on a fragment that has no transport header. `offset` is in units of eight bytes.
#[inline(always)]
fn later_fragment(parsed: &Parsed, offset: usize, payload: usize) -> Result<(), ParseError> {
    let start = offset << 3;
    if start + payload > u16::MAX as usize {
        return Err(ParseError::FragmentBeyondDatagram);
    }
    // Offsets of 8 and 16 bytes lie within TCP's fixed header, which the first fragment was made to hold whole.
    if parsed.key.protocol == IpProtocol::TCP && start < TcpHeader::LEN {
        return Err(ParseError::OverlappingFragment);
    }
    Ok(())
}

#[inline(always)]
fn icmp_kind<P: PacketRead + ?Sized>(packet: &P, at: usize, payload: usize) -> Option<u8> {
    if payload < IcmpHeader::LEN { None } else { packet.read(at) }
}

#[inline(always)]
fn quoted_ipv4<P: PacketRead + ?Sized>(packet: &P, at: usize, end: usize) -> Result<FlowKey, ParseError> {
    if at.wrapping_add(Ipv4Header::LEN) > end {
        return Err(ParseError::QuoteTruncated);
    }
    let header: Ipv4Header = packet.read(at).ok_or(ParseError::QuoteTruncated)?;
    let header_length = header.header_length();
    if header.version() != 4 || header_length < Ipv4Header::LEN {
        return Err(ParseError::QuoteMalformed);
    }
    if header.fragment_offset() != 0 {
        return Err(ParseError::QuoteWithoutPorts);
    }
    let (src_port, dst_port) = quoted_ports(packet, header.protocol, at.wrapping_add(header_length), end)?;
    Ok(FlowKey::v4(header.destination, header.source, dst_port, src_port, header.protocol))
}

#[inline(always)]
fn quoted_ipv6<P: PacketRead + ?Sized>(packet: &P, at: usize, end: usize) -> Result<FlowKey, ParseError> {
    let after = at.wrapping_add(Ipv6Header::LEN);
    if after > end {
        return Err(ParseError::QuoteTruncated);
    }
    let header: Ipv6Header = packet.read(at).ok_or(ParseError::QuoteTruncated)?;
    if header.version() != 6 {
        return Err(ParseError::QuoteMalformed);
    }
    let chain = ipv6::walk(packet, header.next_header, after, end).map_err(|error| match error {
        ParseError::TruncatedExtension | ParseError::TinyFirstFragment => ParseError::QuoteTruncated,
        _ => ParseError::QuoteMalformed,
    })?;
    if chain.fragment.is_later() {
        return Err(ParseError::QuoteWithoutPorts);
    }
    let (src_port, dst_port) = quoted_ports(packet, chain.protocol, chain.offset, end)?;
    let key = FlowKey::v6(header.destination, header.source, dst_port, src_port, chain.protocol);
    if key.src.is_v4() || key.dst.is_v4() {
        return Err(ParseError::QuoteMalformed);
    }
    Ok(key)
}

/// Source and destination port at the start of a quoted transport header; zeros for protocols without ports.
#[inline(always)]
fn quoted_ports<P: PacketRead + ?Sized>(
    packet: &P,
    protocol: IpProtocol,
    at: usize,
    end: usize,
) -> Result<(u16, u16), ParseError> {
    match protocol {
        IpProtocol::TCP | IpProtocol::UDP => {
            // RFC 792 promises eight bytes; a shorter quote was tampered with.
            if at.wrapping_add(8) > end {
                return Err(ParseError::QuoteTruncated);
            }
            let [source, destination]: [U16; 2] = packet.read(at).ok_or(ParseError::QuoteTruncated)?;
            Ok((source.get(), destination.get()))
        }
        _ => Ok((0, 0)),
    }
}
