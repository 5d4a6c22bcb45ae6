//! Packets to try: the least that a flow can send.

use std::net::{IpAddr, SocketAddr};

use guideway_wire::checksum::Sum;
use guideway_wire::ethernet::{EtherType, EthernetHeader};
use guideway_wire::ipv4::Ipv4Header;
use guideway_wire::ipv6::Ipv6Header;
use guideway_wire::tcp::TcpHeader;
use guideway_wire::udp::UdpHeader;
use guideway_wire::{Address, IpProtocol, MacAddr, TcpFlags};
use zerocopy::IntoBytes;
use zerocopy::big_endian::{U16, U32};

/// What a flow sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Sample {
    /// The first segment of a connection.
    TcpSyn,
    /// A segment in the middle of a connection.
    TcpAck,
    /// An empty datagram.
    Udp,
}

impl Sample {
    /// The frame of this packet; `None` where the addresses are of two families.
    pub fn frame(self, source: SocketAddr, destination: SocketAddr) -> Option<Vec<u8>> {
        let flags = match self {
            Self::TcpSyn => Some(TcpFlags::SYN),
            Self::TcpAck => Some(TcpFlags::ACK),
            Self::Udp => None,
        };
        let protocol = if flags.is_some() { IpProtocol::TCP } else { IpProtocol::UDP };
        let (from, to) = (source.ip(), destination.ip());
        let [a, b] = [from, to].map(Address::from);
        let length = if flags.is_some() { TcpHeader::LEN } else { UdpHeader::LEN };
        let sum = Sum::ZERO.add_pseudo_header(&a, &b, protocol, length as u32);
        let ports = [source.port(), destination.port()].map(U16::new);
        let transport = match flags {
            Some(flags) => {
                let mut header = TcpHeader {
                    source: ports[0],
                    destination: ports[1],
                    sequence: U32::new(1),
                    acknowledgment: U32::new(u32::from(flags.has(TcpFlags::ACK))),
                    data_offset: ((TcpHeader::LEN / 4) as u8) << 4,
                    flags,
                    window: U16::new(0xffff),
                    checksum: U16::ZERO,
                    urgent: U16::ZERO,
                };
                header.checksum = U16::new(sum.add_bytes(header.as_bytes()).checksum());
                header.as_bytes().to_vec()
            }
            None => {
                let mut header = UdpHeader {
                    source: ports[0],
                    destination: ports[1],
                    length: U16::new(UdpHeader::LEN as u16),
                    checksum: U16::ZERO,
                };
                header.checksum = U16::new(sum.add_bytes(header.as_bytes()).checksum());
                header.as_bytes().to_vec()
            }
        };
        let (ethertype, ip) = match (from, to) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                let header = Ipv4Header {
                    version_length: Ipv4Header::VERSION_LENGTH_PLAIN,
                    traffic_class: 0,
                    total_length: U16::new((Ipv4Header::LEN + length) as u16),
                    identification: U16::ZERO,
                    flags_offset: U16::new(Ipv4Header::DONT_FRAGMENT),
                    ttl: 64,
                    protocol,
                    checksum: U16::ZERO,
                    source: from.octets(),
                    destination: to.octets(),
                };
                (EtherType::IPV4, header.with_checksum().as_bytes().to_vec())
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                let header = Ipv6Header {
                    version_class_label: U32::new(6 << 28),
                    payload_length: U16::new(length as u16),
                    next_header: protocol,
                    hop_limit: 64,
                    source: from.octets(),
                    destination: to.octets(),
                };
                (EtherType::IPV6, header.as_bytes().to_vec())
            }
            _ => return None,
        };
        let ethernet = EthernetHeader {
            destination: MacAddr([2, 0, 0, 0, 0, 1]),
            source: MacAddr([2, 0, 0, 0, 0, 2]),
            ethertype: U16::new(ethertype.0),
        };
        Some([ethernet.as_bytes(), &ip, &transport].concat())
    }
}
