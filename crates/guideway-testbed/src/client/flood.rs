//! Packets by the thousand, each of a flow of its own, from hosts that do not exist.

use std::io;
use std::net::Ipv4Addr;

use guideway_wire::checksum::Sum;
use guideway_wire::ethernet::{EtherType, EthernetHeader};
use guideway_wire::ipv4::Ipv4Header;
use guideway_wire::tcp::TcpHeader;
use guideway_wire::udp::UdpHeader;
use guideway_wire::{Address, IpProtocol, MacAddr, TcpFlags};
use ipnet::IpNet;
use zerocopy::IntoBytes;
use zerocopy::big_endian::{U16, U32};

use crate::error::{Context, Result};
use crate::netlink::Route;
use crate::packet::PacketSocket;
use crate::topology::{Network, VIP_V4};

/// Where the packets claim to be from (RFC 2544).
const NOBODY: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 0);
const NOBODY_BITS: u8 = 15;

/// Frames made before they are sent.
const BATCH: u32 = 1024;

/// A sender of such packets to the IPv4 virtual address, at the client's end of its link.
#[derive(Debug)]
pub struct Flood {
    socket: PacketSocket,
    ethernet: EthernetHeader,
    sent: u32,
}

/// What is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FloodKind {
    /// TCP SYNs.
    Syn,
    /// UDP datagrams without content.
    Udp,
}

impl Flood {
    /// Prepares one. The router will discard in silence what is sent back.
    ///
    /// # Errors
    /// [`crate::Error::System`].
    pub fn prepare(network: &Network) -> Result<Self> {
        let nobody = IpNet::new_assert(NOBODY.into(), NOBODY_BITS);
        network.router.namespace.set_route(&Route::new(nobody, Vec::new()))?;
        let client = &network.client;
        let ethernet = EthernetHeader {
            destination: MacAddr(client.port.mac()),
            source: MacAddr(client.link.mac()),
            ethertype: U16::new(EtherType::IPV4.0),
        };
        Ok(Self { socket: PacketSocket::open(&client.link)?, ethernet, sent: 0 })
    }

    /// Sends so many packets as fast as the link takes them; no two of them, over all calls, are of one flow.
    ///
    /// # Errors
    /// [`crate::Error::System`].
    pub fn send(&mut self, kind: FloodKind, port: u16, packets: u32) -> Result<()> {
        let send = |flood: &mut Self| -> io::Result<()> {
            let mut left = packets;
            while left > 0 {
                let batch = left.min(BATCH);
                let frames: Vec<_> = (0..batch).map(|_| flood.next(kind, port)).collect();
                flood.socket.send_all(&frames)?;
                left -= batch;
            }
            Ok(())
        };
        send(self).context(|| format!("flooding port {port}"))
    }

    fn next(&mut self, kind: FloodKind, port: u16) -> Vec<u8> {
        let number = self.sent;
        self.sent = self.sent.wrapping_add(1);
        // Multiplied by an odd number, so that neighbours in time are none in address and none comes twice.
        let mixed = number.wrapping_mul(0x9e37_79b1);
        let source = Ipv4Addr::from(u32::from(NOBODY) | (mixed & 0x1_ffff)).octets();
        let source_port = (mixed >> 17) as u16 | 0x8000;
        let std::net::IpAddr::V4(vip) = VIP_V4 else { return Vec::new() };
        let (protocol, transport) = match kind {
            FloodKind::Syn => (IpProtocol::TCP, syn(source, source_port, vip.octets(), port, number)),
            FloodKind::Udp => (IpProtocol::UDP, datagram(source_port, port)),
        };
        let ip = Ipv4Header {
            version_length: Ipv4Header::VERSION_LENGTH_PLAIN,
            traffic_class: 0,
            total_length: U16::new((Ipv4Header::LEN + transport.len()) as u16),
            identification: U16::new(number as u16),
            flags_offset: U16::new(Ipv4Header::DONT_FRAGMENT),
            ttl: 64,
            protocol,
            checksum: U16::ZERO,
            source,
            destination: vip.octets(),
        };
        [self.ethernet.as_bytes(), ip.with_checksum().as_bytes(), &transport].concat()
    }
}

fn syn(source: [u8; 4], source_port: u16, destination: [u8; 4], port: u16, sequence: u32) -> Vec<u8> {
    let mut header = TcpHeader {
        source: U16::new(source_port),
        destination: U16::new(port),
        sequence: U32::new(sequence),
        acknowledgment: U32::ZERO,
        data_offset: ((TcpHeader::LEN / 4) as u8) << 4,
        flags: TcpFlags::SYN,
        window: U16::new(0xffff),
        checksum: U16::ZERO,
        urgent: U16::ZERO,
    };
    let [source, destination] =
        [source, destination].map(|octets| Address::from(std::net::IpAddr::from(octets)));
    let sum = Sum::ZERO
        .add_pseudo_header(&source, &destination, IpProtocol::TCP, TcpHeader::LEN as u32)
        .add_bytes(header.as_bytes());
    header.checksum = U16::new(sum.checksum());
    header.as_bytes().to_vec()
}

fn datagram(source_port: u16, port: u16) -> Vec<u8> {
    let header = UdpHeader {
        source: U16::new(source_port),
        destination: U16::new(port),
        length: U16::new(UdpHeader::LEN as u16),
        checksum: U16::ZERO,
    };
    header.as_bytes().to_vec()
}
