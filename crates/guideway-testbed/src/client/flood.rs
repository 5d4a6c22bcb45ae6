//! Packets by the thousand, each of a flow of its own, from hosts that do not exist.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use guideway_wire::ethernet::{EtherType, EthernetHeader};
use guideway_wire::udp::UdpHeader;
use guideway_wire::{IpProtocol, MacAddr, TcpFlags};
use ipnet::IpNet;
use zerocopy::IntoBytes;
use zerocopy::big_endian::U16;

use super::segment::{Segment, v4};
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
    from: [u8; 6],
    to: [u8; 6],
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
        let socket = PacketSocket::open(&client.link)?;
        Ok(Self { socket, from: client.link.mac(), to: client.port.mac(), sent: 0 })
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
        let source = Ipv4Addr::from(u32::from(NOBODY) | (mixed & 0x1_ffff));
        let source_port = (mixed >> 17) as u16 | 0x8000;
        let IpAddr::V4(vip) = VIP_V4 else { return Vec::new() };
        match kind {
            FloodKind::Syn => {
                let [from, to] = [(source.into(), source_port), (VIP_V4, port)].map(SocketAddr::from);
                Segment { from, to, flags: TcpFlags::SYN, sequence: number }.frame(self.from, self.to)
            }
            FloodKind::Udp => {
                let ethernet = EthernetHeader {
                    destination: MacAddr(self.to),
                    source: MacAddr(self.from),
                    ethertype: U16::new(EtherType::IPV4.0),
                };
                let datagram = datagram(source_port, port);
                let ip = v4([source.octets(), vip.octets()], IpProtocol::UDP, datagram.len());
                [ethernet.as_bytes(), &ip, &datagram].concat()
            }
        }
    }
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
