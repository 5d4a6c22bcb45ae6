//! Frames as clients would send them: Ethernet, IPv4, and TCP, UDP or QUIC.

use guideway_wire::checksum::Sum;
use guideway_wire::{FlowKey, IpProtocol};

use super::traffic::{Kind, Send};

/// The virtual address.
pub(crate) const VIP: [u8; 4] = [192, 0, 2, 10];
/// The length of connection ids that servers give out; the server id is bytes 1 and 2.
pub(crate) const QUIC_ID_LEN: u8 = 8;
/// Where the server id begins in a connection id.
pub(crate) const SERVER_ID_OFFSET: u8 = 1;
/// Bytes of a server id.
pub(crate) const SERVER_ID_LEN: u8 = 2;

const ETHERNET: [u8; 14] = [2, 0, 0, 0, 2, 2, 2, 0, 0, 0, 1, 1, 8, 0];

/// The key of a client's flow to the service of its kind.
pub(crate) fn key(kind: Kind, client: [u8; 4], port: u16) -> FlowKey {
    let protocol = if kind == Kind::Tcp { IpProtocol::TCP } else { IpProtocol::UDP };
    FlowKey::v4(client, VIP, port, kind.port(), protocol)
}

/// Writes the frame of `send` into `out`. `server_id` is what the client's connection id names, once it knows one.
pub(crate) fn write(out: &mut Vec<u8>, client: [u8; 4], port: u16, kind: Kind, send: Send, server_id: u16) {
    out.clear();
    out.extend(ETHERNET);
    let protocol = if kind == Kind::Tcp { 6 } else { 17 };
    out.extend([0x45, 0, 0, 0, 0, 1, 0x40, 0, 61, protocol, 0, 0]);
    out.extend(client);
    out.extend(VIP);
    out.extend(port.to_be_bytes());
    out.extend(kind.port().to_be_bytes());
    match kind {
        Kind::Tcp => {
            out.extend([0, 0, 3, 0xe8, 0, 0, 0, 77, 0x50, tcp_flags(send), 0x20, 0, 0, 0, 0, 0]);
            out.extend(if send == Send::Data { [0x5a; 24].as_slice() } else { &[] });
        }
        Kind::Udp => {
            out.extend([0, 32, 0, 0]);
            out.extend([0x5a; 24]);
        }
        Kind::Quic => {
            let payload = quic(client, port, send, server_id);
            out.extend((8 + payload.len() as u16).to_be_bytes());
            out.extend([0, 0]);
            out.extend(payload);
        }
    }
    let length = (out.len() - ETHERNET.len()) as u16;
    out[16..18].copy_from_slice(&length.to_be_bytes());
    let checksum = Sum::ZERO.add_bytes(&out[14..34]).checksum();
    out[24..26].copy_from_slice(&checksum.to_be_bytes());
}

fn tcp_flags(send: Send) -> u8 {
    match send {
        Send::Open => 0x02,
        Send::Fin => 0x11,
        Send::Reset => 0x04,
        Send::Handshake | Send::Data => 0x10,
    }
}

fn quic(client: [u8; 4], port: u16, send: Send, server_id: u16) -> Vec<u8> {
    let [high, low] = server_id.to_be_bytes();
    let given = [0x40, high, low, 9, 9, 9, 9, 9];
    let mut payload = match send {
        // RFC 9000 §17.2.2: a client's first Initial has an id of its own choice, which may look like anything.
        Send::Open => {
            let ([a, b, c, d], [e, f]) = (client, port.to_be_bytes());
            vec![0xc3, 0, 0, 0, 1, QUIC_ID_LEN, 0x40, e ^ c, f ^ d, a, b, c, d, e, 0, 0]
        }
        Send::Handshake => {
            let mut long = vec![0xe3, 0, 0, 0, 1, QUIC_ID_LEN];
            long.extend(given);
            long.push(0);
            long
        }
        Send::Data | Send::Fin | Send::Reset => {
            let mut short = vec![0x43];
            short.extend(given);
            short
        }
    };
    payload.extend([0x5a; 24]);
    payload
}

#[cfg(test)]
mod tests {
    use etherparse::{NetSlice, SlicedPacket, TransportSlice};

    use super::*;

    #[test]
    fn another_parser_reads_what_was_meant() {
        let mut frame = Vec::new();
        for kind in Kind::ALL {
            for send in [Send::Open, Send::Handshake, Send::Data, Send::Fin, Send::Reset] {
                write(&mut frame, [10, 1, 2, 3], 4567, kind, send, 7);
                let parsed = SlicedPacket::from_ethernet(&frame).unwrap();
                let Some(NetSlice::Ipv4(ip)) = parsed.net else { panic!("no IPv4") };
                assert_eq!(ip.header().source(), [10, 1, 2, 3]);
                assert_eq!(ip.header().header_checksum(), ip.header().to_header().calc_header_checksum());
                match parsed.transport {
                    Some(TransportSlice::Tcp(tcp)) => {
                        assert_eq!(kind, Kind::Tcp);
                        assert_eq!((tcp.source_port(), tcp.destination_port()), (4567, 80));
                        assert_eq!(tcp.syn(), send == Send::Open);
                        assert_eq!(tcp.fin(), send == Send::Fin);
                        assert_eq!(tcp.rst(), send == Send::Reset);
                    }
                    Some(TransportSlice::Udp(udp)) => {
                        assert_ne!(kind, Kind::Tcp);
                        assert_eq!(udp.destination_port(), kind.port());
                        assert_eq!(usize::from(udp.length()), udp.slice().len());
                    }
                    other => panic!("{other:?}"),
                }
            }
        }
    }

    #[test]
    fn the_balancers_parser_gives_the_key_of_the_flow() {
        let mut frame = Vec::new();
        for kind in Kind::ALL {
            write(&mut frame, [10, 1, 2, 3], 4567, kind, Send::Open, 0);
            let parsed = guideway_wire::parse(frame.as_slice()).unwrap();
            assert_eq!(parsed.key, key(kind, [10, 1, 2, 3], 4567));
        }
    }
}
