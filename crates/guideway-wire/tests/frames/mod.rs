//! Frames built by etherparse, an implementation that shares nothing with ours.
#![allow(dead_code, unreachable_pub, reason = "each test binary uses its part of a module that none exports")]

use etherparse::{
    IpNumber, Ipv4Extensions, Ipv4Header, Ipv4Options, Ipv6Extensions, Ipv6Header, Ipv6RawExtHeader,
    PacketBuilder, TransportSlice,
};
use guideway_wire::{Parsed, SliceFrame, parse};
use proptest::prelude::*;

/// What a generated frame carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    Tcp(u8),
    Udp,
    Echo,
}

/// All that a generated frame is made from.
#[derive(Clone, Debug)]
pub struct Recipe {
    pub tags: u8,
    pub v6: bool,
    /// Words of four bytes of IPv4 options, or IPv6 hop-by-hop and destination headers (0 to 2).
    pub options: u8,
    pub transport: Transport,
    pub source: [u8; 16],
    pub destination: [u8; 16],
    pub ports: (u16, u16),
    pub class: u8,
    pub ttl: u8,
    pub payload: Vec<u8>,
    pub padding: usize,
}

pub fn recipe() -> impl Strategy<Value = Recipe> {
    let transport = prop_oneof![
        any::<u8>().prop_map(|flags| Transport::Tcp(flags & 0x1f)),
        Just(Transport::Udp),
        Just(Transport::Echo)
    ];
    let bytes = proptest::collection::vec(any::<u8>(), 0..1200);
    (
        (0u8..3, any::<bool>(), 0u8..3, transport, any::<[u8; 16]>(), any::<[u8; 16]>()),
        (any::<(u16, u16)>(), any::<u8>(), 2u8.., bytes, 0usize..20),
    )
        .prop_map(|((tags, v6, options, transport, mut source, mut destination), rest)| {
            let (ports, class, ttl, payload, padding) = rest;
            // Single hosts, in a range where neither family has special addresses.
            source[0] = 0x20 | source[0] & 0x1f;
            destination[0] = 0x20 | destination[0] & 0x1f;
            Recipe { tags, v6, options, transport, source, destination, ports, class, ttl, payload, padding }
        })
}

impl Recipe {
    pub fn source_v4(&self) -> [u8; 4] {
        self.source[..4].try_into().unwrap()
    }

    pub fn destination_v4(&self) -> [u8; 4] {
        self.destination[..4].try_into().unwrap()
    }

    /// The frame's bytes.
    pub fn frame(&self) -> Vec<u8> {
        let start = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
        let ip = if self.v6 { self.ipv6() } else { self.ipv4() };
        let mut frame = Vec::new();
        let step = match self.tags {
            0 => start.ip(ip),
            1 => start.single_vlan(100.try_into().unwrap()).ip(ip),
            _ => start.double_vlan(200.try_into().unwrap(), 300.try_into().unwrap()).ip(ip),
        };
        let (source, destination) = self.ports;
        match (self.transport, self.v6) {
            (Transport::Tcp(flags), _) => {
                let mut header = etherparse::TcpHeader::new(source, destination, 0x0102_0304, 512);
                header.acknowledgment_number = 0x0a0b_0c0d;
                header.fin = flags & 1 != 0;
                header.syn = flags & 2 != 0;
                header.rst = flags & 4 != 0;
                header.psh = flags & 8 != 0;
                header.ack = flags & 16 != 0;
                step.tcp_header(header).write(&mut frame, &self.payload)
            }
            (Transport::Udp, _) => step.udp(source, destination).write(&mut frame, &self.payload),
            (Transport::Echo, false) => {
                step.icmpv4_echo_request(source, destination).write(&mut frame, &self.payload)
            }
            (Transport::Echo, true) => {
                step.icmpv6_echo_request(source, destination).write(&mut frame, &self.payload)
            }
        }
        .unwrap();
        frame.resize(frame.len() + self.padding, 0xee);
        frame
    }

    fn ipv4(&self) -> etherparse::IpHeaders {
        let mut header =
            Ipv4Header::new(0, self.ttl, IpNumber::TCP, self.source_v4(), self.destination_v4()).unwrap();
        header.dscp = (self.class >> 2).try_into().unwrap();
        header.ecn = (self.class & 3).try_into().unwrap();
        header.dont_fragment = self.class & 1 != 0;
        // No-operation options (RFC 791 §3.1).
        header.options = Ipv4Options::try_from(&[1u8; 40][..4 * usize::from(self.options)]).unwrap();
        etherparse::IpHeaders::Ipv4(header, Ipv4Extensions::default())
    }

    fn ipv6(&self) -> etherparse::IpHeaders {
        let header = Ipv6Header {
            traffic_class: self.class,
            flow_label: 0x12345.try_into().unwrap(),
            hop_limit: self.ttl,
            source: self.source,
            destination: self.destination,
            ..Default::default()
        };
        let extension = |bytes: &[u8]| Some(Ipv6RawExtHeader::new_raw(IpNumber::UDP, bytes).unwrap());
        let mut extensions = Ipv6Extensions::default();
        if self.options > 0 {
            extensions.hop_by_hop_options = extension(&[1, 4, 0, 0, 0, 0]);
        }
        if self.options > 1 {
            extensions.destination_options = extension(&[1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        }
        etherparse::IpHeaders::Ipv6(header, extensions)
    }
}

/// Runs `action` on a frame with head room and gives the frame's bytes after it.
pub fn change<R>(frame: &[u8], action: impl FnOnce(&mut SliceFrame<'_>, &Parsed) -> R) -> (R, Vec<u8>) {
    let mut buffer = vec![0xa5; 100];
    buffer.extend_from_slice(frame);
    let mut packet = SliceFrame::new(&mut buffer, 100, frame.len()).unwrap();
    let parsed = parse(&packet).unwrap();
    let result = action(&mut packet, &parsed);
    (result, packet.bytes().to_vec())
}

/// Asserts by etherparse that a frame's IPv4 header checksum and transport checksum are right, the latter unless it is
/// a UDP checksum of zero.
pub fn assert_checksums(frame: &[u8]) {
    use etherparse::{NetSlice, SlicedPacket};
    let sliced = SlicedPacket::from_ethernet(frame).unwrap();
    let net = sliced.net.unwrap();
    let transport = sliced.transport;
    match net {
        NetSlice::Ipv4(ip) => {
            let header = ip.header().to_header();
            assert_eq!(header.header_checksum, header.calc_header_checksum());
            match transport {
                Some(TransportSlice::Tcp(tcp)) => {
                    let expected = tcp.to_header().calc_checksum_ipv4(&header, tcp.payload()).unwrap();
                    assert_eq!(tcp.checksum(), expected);
                }
                Some(TransportSlice::Udp(udp)) if udp.checksum() != 0 => {
                    let expected = udp.to_header().calc_checksum_ipv4(&header, udp.payload()).unwrap();
                    assert_eq!(udp.checksum(), expected);
                }
                Some(TransportSlice::Icmpv4(icmp)) => {
                    assert_eq!(icmp.checksum(), icmp.icmp_type().calc_checksum(icmp.payload()));
                }
                _ => {}
            }
        }
        NetSlice::Ipv6(ip) => {
            let header = ip.header().to_header();
            let (source, destination) = (header.source, header.destination);
            match transport {
                Some(TransportSlice::Tcp(tcp)) => {
                    let expected =
                        tcp.to_header().calc_checksum_ipv6_raw(source, destination, tcp.payload()).unwrap();
                    assert_eq!(tcp.checksum(), expected);
                }
                Some(TransportSlice::Udp(udp)) if udp.checksum() != 0 => {
                    let expected =
                        udp.to_header().calc_checksum_ipv6_raw(source, destination, udp.payload()).unwrap();
                    assert_eq!(udp.checksum(), expected);
                }
                Some(TransportSlice::Icmpv6(icmp)) => {
                    assert!(icmp.is_checksum_valid(source, destination));
                }
                _ => {}
            }
        }
        NetSlice::Arp(_) => panic!("not IP"),
    }
}
