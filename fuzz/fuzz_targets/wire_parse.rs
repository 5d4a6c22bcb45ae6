//! Any bytes as a frame: no panic, and what is accepted is read as etherparse reads it. Then every change that the
//! wire crate makes: what it gives back parses again, and etherparse finds the checksums right.
//!
//! The first two bytes pick the tunnel and the answer, the rest is the frame.
#![no_main]

use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use guideway_wire::decap::decapsulate;
use guideway_wire::encap::{decrement_ttl, encapsulate};
use guideway_wire::parse::{destination, quoted_flow};
use guideway_wire::{
    EncapSpec, IpProtocol, IpVersion, MacAddr, Outer, Parsed, SliceFrame, Tunnel, parse, quic, reply,
};
use libfuzzer_sys::fuzz_target;

const HEAD_ROOM: usize = 96;
const GUE_PORT: u16 = 6080;

fuzz_target!(|input: &[u8]| {
    let [choice, bits, frame @ ..] = input else { return };
    let _ = destination(frame);
    let Ok(parsed) = parse(frame) else { return };
    assert!(parsed.l4_offset <= parsed.end() && parsed.end() <= frame.len());
    compare(frame, &parsed);
    let _ = quoted_flow(frame, &parsed);
    if parsed.protocol() == IpProtocol::UDP {
        if let Some(header) = quic::parse(frame, parsed.l4_offset + 8, parsed.end()) {
            assert!(header.id_offset + header.id_len <= parsed.end());
            assert!(header.connection_id(frame, quic::MAX_CONNECTION_ID).is_some());
        }
    }
    tunnel(frame, &parsed, *choice, *bits);
    answer(frame, *choice);
    change(frame, |packet, parsed| decapsulate(packet, parsed, GUE_PORT).is_ok());
    change(frame, |packet, parsed| decrement_ttl(packet, parsed).is_some());
});

/// What etherparse understands too, it must read alike.
fn compare(frame: &[u8], parsed: &Parsed) {
    let Ok(sliced) = SlicedPacket::from_ethernet(frame) else { return };
    match (sliced.net, parsed.ip) {
        (Some(NetSlice::Ipv4(ip)), IpVersion::V4) => {
            assert_eq!(Some(ip.header().source()), parsed.key.src.as_v4());
            assert_eq!(Some(ip.header().destination()), parsed.key.dst.as_v4());
            assert_eq!(usize::from(ip.header().total_len()), parsed.ip_length);
        }
        (Some(NetSlice::Ipv6(ip)), IpVersion::V6) => {
            assert_eq!(ip.header().source(), parsed.key.src.octets());
            assert_eq!(ip.header().destination(), parsed.key.dst.octets());
        }
        (net, _) => panic!("etherparse sees {net:?}"),
    }
    let ports = (parsed.key.src_port, parsed.key.dst_port);
    match sliced.transport {
        Some(TransportSlice::Tcp(tcp)) if parsed.protocol() == IpProtocol::TCP => {
            assert_eq!((tcp.source_port(), tcp.destination_port()), ports);
        }
        Some(TransportSlice::Udp(udp)) if parsed.protocol() == IpProtocol::UDP => {
            assert_eq!((udp.source_port(), udp.destination_port()), ports);
        }
        _ => {}
    }
}

/// An encapsulated packet is what was asked for, and comes off again.
fn tunnel(frame: &[u8], parsed: &Parsed, choice: u8, bits: u8) {
    let tunnel = match choice & 3 {
        0 => Tunnel::Ipip,
        1 => Tunnel::Gre,
        2 => Tunnel::GueDirect,
        _ => Tunnel::GueHeader,
    };
    let outer = if choice & 4 == 0 {
        Outer::V4 { source: [10, 0, 0, 1], destination: [10, 0, 0, 2] }
    } else {
        Outer::V6 { source: [0xfd; 16], destination: [0xfc; 16] }
    };
    let spec = EncapSpec {
        tunnel,
        outer,
        source_entropy_bits: bits,
        gue_port: GUE_PORT,
        source_mac: MacAddr([2; 6]),
        destination_mac: MacAddr([4; 6]),
    };
    let Some(wrapped) =
        change(frame, |packet, parsed| encapsulate(packet, parsed, &spec, 0x1234_5678 << 32).is_ok())
    else {
        return;
    };
    assert_eq!(wrapped.len(), parsed.end() + spec.overhead());
    // The inner ECN bits were copied, so taking off changes nothing.
    let inner = change(&wrapped, |packet, parsed| decapsulate(packet, parsed, GUE_PORT).is_ok());
    let inner = inner.expect("what was put on comes off");
    assert_eq!(inner[parsed.l2_len..], frame[parsed.l2_len..parsed.end()]);
}

/// Answers parse, and go back to where the packet came from.
fn answer(frame: &[u8], choice: u8) {
    let built = change(frame, |packet, parsed| match choice >> 3 & 3 {
        0 => reply::tcp_reset(packet, parsed).is_ok(),
        1 => reply::echo_reply(packet, parsed).is_ok(),
        _ => reply::too_big(packet, parsed, 1400).is_ok(),
    });
    if let Some(answer) = built {
        let (to, from) =
            (parse(frame).expect("parsed before"), parse(&answer[..]).expect("an answer is well-formed"));
        assert_eq!((to.key.src, to.key.dst), (from.key.dst, from.key.src));
        if let Some(NetSlice::Ipv4(ip)) =
            SlicedPacket::from_ethernet(&answer).expect("an answer is well-formed").net
        {
            let header = ip.header().to_header();
            assert_eq!(header.header_checksum, header.calc_header_checksum());
        }
    }
}

/// The frame after `action`, if that says that it worked; if not, the frame must at least still be in its buffer.
fn change(frame: &[u8], action: impl FnOnce(&mut SliceFrame<'_>, &Parsed) -> bool) -> Option<Vec<u8>> {
    let mut buffer = vec![0; HEAD_ROOM];
    buffer.extend_from_slice(frame);
    let mut packet = SliceFrame::new(&mut buffer, HEAD_ROOM, frame.len())?;
    let parsed = parse(&packet).ok()?;
    action(&mut packet, &parsed).then(|| packet.bytes().to_vec())
}
