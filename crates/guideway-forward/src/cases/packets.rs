//! Packets and expected frames, built by an independent library or by hand, never by our own encapsulation.

use std::vec::Vec;

use etherparse::PacketBuilder;
use guideway_wire::Tunnel;

use super::world::{CLIENT4, CLIENT6, NEXT_MAC, OWN_MAC, OWN4, OWN6, ROUTER_MAC, VIP4, VIP6};

/// TCP control bits of a test packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tcp {
    /// Opens.
    Syn,
    /// In the middle.
    Ack,
    /// Ends.
    Fin,
    /// Ends at once.
    Rst,
}

/// A TCP segment from the client's `port` to the VIP's port 80, with `payload` bytes.
pub fn tcp(v4: bool, port: u16, flags: Tcp, payload: usize) -> Vec<u8> {
    let link = PacketBuilder::ethernet2(ROUTER_MAC, OWN_MAC);
    let ip = if v4 { link.ipv4(CLIENT4, VIP4, 61) } else { link.ipv6(CLIENT6, VIP6, 61) };
    let step = ip.tcp(port, 80, 1_000, 8_192);
    let step = match flags {
        Tcp::Syn => step.syn(),
        Tcp::Ack => step.ack(77),
        Tcp::Fin => step.ack(77).fin(),
        Tcp::Rst => step.rst(),
    };
    finish(payload, |out, bytes| step.write(out, bytes))
}

/// A UDP datagram from the client's `port` to the VIP's port 443 with these bytes.
pub fn udp(v4: bool, port: u16, payload: &[u8]) -> Vec<u8> {
    let link = PacketBuilder::ethernet2(ROUTER_MAC, OWN_MAC);
    let ip = if v4 { link.ipv4(CLIENT4, VIP4, 61) } else { link.ipv6(CLIENT6, VIP6, 61) };
    let mut frame = Vec::new();
    // Writing to a vector cannot fail, and the lengths fit.
    let _ = ip.udp(port, 443).write(&mut frame, payload);
    frame
}

/// An echo request from the client to the VIP.
pub fn echo(v4: bool, payload: &[u8]) -> Vec<u8> {
    let link = PacketBuilder::ethernet2(ROUTER_MAC, OWN_MAC);
    let mut frame = Vec::new();
    let _ = if v4 {
        link.ipv4(CLIENT4, VIP4, 61).icmpv4_echo_request(5, 6).write(&mut frame, payload)
    } else {
        link.ipv6(CLIENT6, VIP6, 61).icmpv6_echo_request(5, 6).write(&mut frame, payload)
    };
    frame
}

/// "Fragmentation needed" from a router at `203.0.113.1` to the VIP, quoting `quote`.
pub fn fragmentation_needed(quote: &[u8]) -> Vec<u8> {
    let kind = etherparse::Icmpv4Type::DestinationUnreachable(
        etherparse::icmpv4::DestUnreachableHeader::FragmentationNeeded { next_hop_mtu: 1400 },
    );
    let mut frame = Vec::new();
    let _ = PacketBuilder::ethernet2(ROUTER_MAC, OWN_MAC)
        .ipv4([203, 0, 113, 1], VIP4, 60)
        .icmpv4(kind)
        .write(&mut frame, quote);
    frame
}

/// "Packet too big" from a router at `2001:db8:2::1` to the VIP, quoting `quote`.
pub fn packet_too_big(quote: &[u8]) -> Vec<u8> {
    let router = [0x20, 1, 0xd, 0xb8, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    let mut frame = Vec::new();
    let _ = PacketBuilder::ethernet2(ROUTER_MAC, OWN_MAC)
        .ipv6(router, VIP6, 60)
        .icmpv6(etherparse::Icmpv6Type::PacketTooBig { mtu: 1400 })
        .write(&mut frame, quote);
    frame
}

/// The first bytes of a packet from the VIP's TCP port 80 to the client's `port`: header (with `options` bytes of no-operation
/// options) and eight bytes of TCP.
pub fn quote_v4(port: u16, options: usize) -> Vec<u8> {
    let mut quote = std::vec![0x45 + (options / 4) as u8, 0, 0x05, 0xdc, 0, 1, 0x40, 0, 63, 6, 0, 0,];
    quote.extend(VIP4);
    quote.extend(CLIENT4);
    quote.extend(std::iter::repeat_n(1, options));
    quote.extend(80u16.to_be_bytes());
    quote.extend(port.to_be_bytes());
    quote.extend([0, 0, 0, 9]);
    quote
}

/// The same of IPv6, with a whole TCP header.
pub fn quote_v6(port: u16) -> Vec<u8> {
    let mut quote = std::vec![0x60, 0, 0, 0, 0x05, 0xb4, 6, 63];
    quote.extend(VIP6);
    quote.extend(CLIENT6);
    quote.extend(80u16.to_be_bytes());
    quote.extend(port.to_be_bytes());
    quote.extend([0, 0, 0, 9, 0, 0, 0, 0, 0x50, 0x10, 0, 0, 0, 0, 0, 0]);
    quote
}

/// One IPv4 UDP fragment of datagram `id`: `data` at `offset` bytes.
pub fn fragment_v4(protocol: u8, id: u16, offset: u16, more: bool, data: &[u8]) -> Vec<u8> {
    let mut frame = ethernet(OWN_MAC, ROUTER_MAC, 0x0800);
    let length = 20 + data.len() as u16;
    let flags = (offset / 8) | if more { 0x2000 } else { 0 };
    frame.extend(header_v4(length, id, flags, 61, protocol, CLIENT4, VIP4));
    frame.extend(data);
    frame
}

/// The frame that carries `inner` (a frame whose IP packet begins at byte 14) to backend `last`: outer headers by
/// hand, byte for byte. UDP source port and flow label, which follow the flow hash, are zero: see [`hash_bytes`].
pub fn tunnelled(inner: &[u8], tunnel: Tunnel, underlay_v4: bool, last: u8) -> Vec<u8> {
    let packet = inner.get(14..).unwrap_or_default();
    let inner_v4 = packet.first().is_some_and(|first| first >> 4 == 4);
    let length = match (packet.get(2..6), inner_v4) {
        (Some(&[a, b, _, _]), true) => u16::from_be_bytes([a, b]),
        (Some(&[_, _, a, b]), false) => 40 + u16::from_be_bytes([a, b]),
        _ => 0,
    };
    let packet = packet.get(..length as usize).unwrap_or_default();
    let class = match (inner_v4, packet.first(), packet.get(1)) {
        (true, _, Some(class)) => *class,
        (false, Some(first), Some(second)) => first << 4 | second >> 4,
        _ => 0,
    };
    let (kind, between) = match tunnel {
        Tunnel::Ipip => (if inner_v4 { 4 } else { 41 }, Vec::new()),
        Tunnel::Gre => (47, if inner_v4 { std::vec![0, 0, 8, 0] } else { std::vec![0, 0, 0x86, 0xdd] }),
        Tunnel::GueDirect => (17, udp_header(length + 8)),
        Tunnel::GueHeader => {
            let mut between = udp_header(length + 12);
            between.extend([0, if inner_v4 { 4 } else { 41 }, 0, 0]);
            (17, between)
        }
    };
    let payload = between.len() as u16 + length;
    let mut frame = ethernet(NEXT_MAC, OWN_MAC, if underlay_v4 { 0x0800 } else { 0x86dd });
    if underlay_v4 {
        let mut header = header_v4(20 + payload, 0, 0x4000, 64, kind, OWN4, [10, 0, 0, last]);
        header[1] = class;
        seal(&mut header);
        frame.extend(header);
    } else {
        frame.extend([0x60 | class >> 4, class << 4, 0, 0]);
        frame.extend(payload.to_be_bytes());
        frame.extend([kind, 64]);
        frame.extend(OWN6);
        let mut backend = OWN6;
        backend[15] = last;
        frame.extend(backend);
    }
    frame.extend(between);
    frame.extend(packet);
    frame
}

/// Which bytes of a tunnelled frame follow the flow hash: outer flow label and GUE source port.
pub fn hash_bytes(tunnel: Tunnel, underlay_v4: bool) -> Vec<usize> {
    let mut bytes = if underlay_v4 { Vec::new() } else { std::vec![15, 16, 17] };
    if matches!(tunnel, Tunnel::GueDirect | Tunnel::GueHeader) {
        let udp = if underlay_v4 { 34 } else { 54 };
        bytes.extend([udp, udp + 1]);
    }
    bytes
}

fn finish(
    payload: usize,
    write: impl FnOnce(&mut Vec<u8>, &[u8]) -> Result<(), etherparse::err::packet::BuildWriteError>,
) -> Vec<u8> {
    let mut frame = Vec::new();
    // Writing to a vector cannot fail, and the lengths fit.
    let _ = write(&mut frame, &std::vec![0x5a; payload]);
    frame
}

fn ethernet(to: [u8; 6], from: [u8; 6], kind: u16) -> Vec<u8> {
    let mut frame = Vec::from(to);
    frame.extend(from);
    frame.extend(kind.to_be_bytes());
    frame
}

fn header_v4(
    length: u16,
    id: u16,
    flags: u16,
    ttl: u8,
    protocol: u8,
    from: [u8; 4],
    to: [u8; 4],
) -> [u8; 20] {
    let ([a, b], [c, d], [e, f]) = (length.to_be_bytes(), id.to_be_bytes(), flags.to_be_bytes());
    let ([g, h, i, j], [k, l, m, n]) = (from, to);
    let mut header = [0x45, 0, a, b, c, d, e, f, ttl, protocol, 0, 0, g, h, i, j, k, l, m, n];
    seal(&mut header);
    header
}

/// Fills in the checksum, by RFC 1071's letter.
fn seal(header: &mut [u8; 20]) {
    (header[10], header[11]) = (0, 0);
    let mut sum: u32 = header.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    [header[10], header[11]] = (!(sum as u16)).to_be_bytes();
}

fn udp_header(length: u16) -> Vec<u8> {
    let mut header = std::vec![0, 0];
    header.extend(guideway_wire::gue::PORT.to_be_bytes());
    header.extend(length.to_be_bytes());
    header.extend([0, 0]);
    header
}
