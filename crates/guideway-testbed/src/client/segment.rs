//! TCP segments without content, made by hand.

use std::net::{IpAddr, SocketAddr};

use guideway_wire::checksum::Sum;
use guideway_wire::ethernet::{EtherType, EthernetHeader};
use guideway_wire::ipv4::Ipv4Header;
use guideway_wire::ipv6::Ipv6Header;
use guideway_wire::tcp::TcpHeader;
use guideway_wire::{Address, IpProtocol, MacAddr, TcpFlags};
use zerocopy::IntoBytes;
use zerocopy::big_endian::{U16, U32};

/// A TCP segment without content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// Who sends it.
    pub from: SocketAddr,
    /// To whom; of the same family.
    pub to: SocketAddr,
    /// Its control bits.
    pub flags: TcpFlags,
    /// Its sequence number.
    pub sequence: u32,
}

impl Segment {
    /// Its frame on a link, from and to these MACs.
    pub fn frame(&self, source: [u8; 6], destination: [u8; 6]) -> Vec<u8> {
        let transport = self.transport();
        let (ethertype, ip) = match (self.from.ip(), self.to.ip()) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                (EtherType::IPV4, v4([from.octets(), to.octets()], IpProtocol::TCP, transport.len()))
            }
            (from, to) => {
                let octets = |address| Address::from(address).octets();
                let header = Ipv6Header {
                    version_class_label: Ipv6Header::first_word(0, 0),
                    payload_length: U16::new(transport.len() as u16),
                    next_header: IpProtocol::TCP,
                    hop_limit: HOPS,
                    source: octets(from),
                    destination: octets(to),
                };
                (EtherType::IPV6, header.as_bytes().to_vec())
            }
        };
        let ethernet = EthernetHeader {
            destination: MacAddr(destination),
            source: MacAddr(source),
            ethertype: U16::new(ethertype.0),
        };
        [ethernet.as_bytes(), &ip, &transport].concat()
    }

    fn transport(&self) -> Vec<u8> {
        let mut header = TcpHeader {
            source: U16::new(self.from.port()),
            destination: U16::new(self.to.port()),
            sequence: U32::new(self.sequence),
            acknowledgment: U32::ZERO,
            data_offset: ((TcpHeader::LEN / 4) as u8) << 4,
            flags: self.flags,
            window: U16::new(0xffff),
            checksum: U16::ZERO,
            urgent: U16::ZERO,
        };
        let [from, to] = [self.from, self.to].map(|end| Address::from(end.ip()));
        let sum = Sum::ZERO
            .add_pseudo_header(&from, &to, IpProtocol::TCP, TcpHeader::LEN as u32)
            .add_bytes(header.as_bytes());
        header.checksum = U16::new(sum.checksum());
        header.as_bytes().to_vec()
    }
}

const HOPS: u8 = 64;

/// The header of an IPv4 packet that is not to be fragmented.
pub(super) fn v4([source, destination]: [[u8; 4]; 2], protocol: IpProtocol, content: usize) -> Vec<u8> {
    let header = Ipv4Header {
        version_length: Ipv4Header::VERSION_LENGTH_PLAIN,
        traffic_class: 0,
        total_length: U16::new((Ipv4Header::LEN + content) as u16),
        identification: U16::ZERO,
        flags_offset: U16::new(Ipv4Header::DONT_FRAGMENT),
        ttl: HOPS,
        protocol,
        checksum: U16::ZERO,
        source,
        destination,
    };
    header.with_checksum().as_bytes().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use guideway_wire::parse;

    #[test]
    fn what_is_made_is_what_is_read() {
        for (from, to) in
            [("198.18.0.1:4000", "192.0.2.10:80"), ("[2001:db8:200::1]:4000", "[2001:db8::10]:80")]
        {
            let segment = Segment {
                from: from.parse().unwrap(),
                to: to.parse().unwrap(),
                flags: TcpFlags::SYN,
                sequence: 77,
            };
            let frame = segment.frame([2; 6], [4; 6]);
            let parsed = parse(&frame[..]).unwrap();
            assert_eq!(SocketAddr::new(parsed.key.src.into(), parsed.key.src_port), segment.from);
            assert_eq!(SocketAddr::new(parsed.key.dst.into(), parsed.key.dst_port), segment.to);
            assert!(parsed.tcp_flags.opens());
            assert_eq!(frame[parsed.l4_offset + 4..][..4], 77_u32.to_be_bytes());
            let sum = Sum::ZERO
                .add_pseudo_header(&parsed.key.src, &parsed.key.dst, IpProtocol::TCP, 20)
                .add_bytes(&frame[parsed.l4_offset..]);
            assert_eq!(sum.checksum(), 0);
        }
    }
}
