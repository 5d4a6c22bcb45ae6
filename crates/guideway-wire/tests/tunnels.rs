//! Encapsulation and decapsulation, checked by etherparse and by bytes worked out by hand.

mod frames;

use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use frames::{assert_checksums, change, recipe};
use guideway_wire::decap::{self, DecapError, decapsulate};
use guideway_wire::encap::{decrement_ttl, encapsulate, fill_udp_checksum};
use guideway_wire::{EncapError, EncapSpec, MacAddr, Outer, SliceFrame, Tunnel, parse};
use proptest::prelude::*;

const PORT: u16 = 6080;
const V4: Outer = Outer::V4 { source: [10, 99, 0, 0], destination: [10, 1, 2, 3] };
const V6: Outer = Outer::V6 {
    source: [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1],
    destination: [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2],
};

fn spec(tunnel: Tunnel, outer: Outer, source_entropy_bits: u8) -> EncapSpec {
    EncapSpec {
        tunnel,
        outer,
        source_entropy_bits,
        gue_port: PORT,
        source_mac: MacAddr([2, 0, 0, 0, 0, 0xa]),
        destination_mac: MacAddr([2, 0, 0, 0, 0, 0xb]),
    }
}

fn tunnels() -> impl Strategy<Value = Tunnel> {
    prop_oneof![Just(Tunnel::Ipip), Just(Tunnel::Gre), Just(Tunnel::GueDirect), Just(Tunnel::GueHeader)]
}

/// A UDP packet of 30 bytes from 192.0.2.1:1000 to 198.51.100.1:53, payload "hi", DSCP 46 and ECT(0), in a frame
/// with a VLAN tag.
const PLAIN: [u8; 48] = [
    2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x81, 0x00, 0x00, 0x64, 0x08, 0x00, // Ethernet, VLAN 100
    0x45, 0xba, 0x00, 0x1e, 0x00, 0x01, 0x00, 0x00, 0x40, 0x11, 0x8d, 0xde, // IPv4
    192, 0, 2, 1, 198, 51, 100, 1, // addresses
    0x03, 0xe8, 0x00, 0x35, 0x00, 0x0a, 0x00, 0x00, b'h', b'i', // UDP
];

fn golden(tunnel: Tunnel, outer: Outer, ethertype: [u8; 2], headers: &[u8]) {
    let hash = 0x0000_8765_0000_0000;
    let (result, bytes) = change(&PLAIN, |p, parsed| encapsulate(p, parsed, &spec(tunnel, outer, 16), hash));
    assert_eq!(result, Ok(()));
    let mut expected = vec![2, 0, 0, 0, 0, 0xb, 2, 0, 0, 0, 0, 0xa, 0x81, 0x00, 0x00, 0x64];
    expected.extend_from_slice(&ethertype);
    expected.extend_from_slice(headers);
    expected.extend_from_slice(&PLAIN[18..]);
    assert_eq!(bytes, expected, "{tunnel:?}");
}

/// The outer IPv6 header before `length` bytes of payload: class 0xba, label 0x08765, hop limit 64.
fn outer_v6(length: u8, next: u8) -> Vec<u8> {
    let mut bytes = vec![0x6b, 0xa0, 0x87, 0x65, 0x00, length, next, 64];
    bytes.extend_from_slice(&[0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x87, 0x65]);
    bytes.extend_from_slice(&[0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
    bytes
}

/// The outer IPv4 header: DF, TTL 64, the source's lowest 16 bits 0x8765.
fn outer_v4(length: u8, protocol: u8, checksum: [u8; 2]) -> Vec<u8> {
    let [a, b] = checksum;
    vec![0x45, 0xba, 0, length, 0, 0, 0x40, 0, 64, protocol, a, b, 10, 99, 0x87, 0x65, 10, 1, 2, 3]
}

#[test]
fn golden_bytes_over_ipv4() {
    // Sums of the words but the checksum, by hand. Fixed part: 45ba + 4000 + 4000 + 0a63 + 8765 + 0a01 + 0203 = 16386.
    // With length 32 and protocol 4 it is 163bc: 63bd after the carry, complement 9c42.
    golden(Tunnel::Ipip, V4, [8, 0], &outer_v4(50, 4, [0x9c, 0x42]));
    // Length 54 (36), protocol 47 (2f): 163eb, 63ec, 9c13.
    let mut gre = outer_v4(54, 47, [0x9c, 0x13]);
    gre.extend_from_slice(&[0, 0, 0x08, 0x00]);
    golden(Tunnel::Gre, V4, [8, 0], &gre);
    // Length 58 (3a), protocol 17 (11): 163d1, 63d2, 9c2d. UDP source port 8000 | 0765, length 38, no checksum.
    let mut direct = outer_v4(58, 17, [0x9c, 0x2d]);
    direct.extend_from_slice(&[0x87, 0x65, 0x17, 0xc0, 0, 38, 0, 0]);
    golden(Tunnel::GueDirect, V4, [8, 0], &direct);
    // Length 62 (3e): 163d5, 63d6, 9c29. GUE: variant 0, no optional fields, protocol 4, no flags.
    let mut header = outer_v4(62, 17, [0x9c, 0x29]);
    header.extend_from_slice(&[0x87, 0x65, 0x17, 0xc0, 0, 42, 0, 0, 0, 4, 0, 0]);
    golden(Tunnel::GueHeader, V4, [8, 0], &header);
}

#[test]
fn golden_bytes_over_ipv6() {
    golden(Tunnel::Ipip, V6, [0x86, 0xdd], &outer_v6(30, 4));
    let mut gre = outer_v6(34, 47);
    gre.extend_from_slice(&[0, 0, 0x08, 0x00]);
    golden(Tunnel::Gre, V6, [0x86, 0xdd], &gre);
    let mut direct = outer_v6(38, 17);
    direct.extend_from_slice(&[0x87, 0x65, 0x17, 0xc0, 0, 38, 0, 0]);
    golden(Tunnel::GueDirect, V6, [0x86, 0xdd], &direct);
    let mut header = outer_v6(42, 17);
    header.extend_from_slice(&[0x87, 0x65, 0x17, 0xc0, 0, 42, 0, 0, 0, 4, 0, 0]);
    golden(Tunnel::GueHeader, V6, [0x86, 0xdd], &header);
}

proptest! {
    #[test]
    fn every_encapsulation_is_well_formed_and_comes_off_again(
        recipe in recipe(),
        tunnel in tunnels(),
        over_v6: bool,
        entropy in 0u8..=32,
        hash: u64,
    ) {
        let frame = recipe.frame();
        let spec = spec(tunnel, if over_v6 { V6 } else { V4 }, entropy);
        let (result, wrapped) = change(&frame, |p, parsed| encapsulate(p, parsed, &spec, hash));
        prop_assert_eq!(result, Ok(()));
        let plain = &frame[..frame.len() - recipe.padding];
        prop_assert_eq!(wrapped.len(), plain.len() + spec.overhead());
        assert_checksums(&wrapped);

        let sliced = SlicedPacket::from_ethernet(&wrapped).unwrap();
        prop_assert_eq!(sliced.vlan_ids().len(), usize::from(recipe.tags));
        let header_len = match sliced.net.as_ref().unwrap() {
            NetSlice::Ipv4(ip) => {
                let ip = ip.header();
                prop_assert!(!over_v6 && ip.dont_fragment());
                prop_assert_eq!((ip.ttl(), ip.dcp().value() << 2 | ip.ecn().value()), (64, recipe.class));
                let kept = u32::MAX.checked_shl(u32::from(entropy)).unwrap_or(0);
                prop_assert_eq!(u32::from_be_bytes(ip.source()) & kept, 0x0a63_0000 & kept);
                20
            }
            NetSlice::Ipv6(ip) => {
                let ip = ip.header();
                prop_assert!(over_v6);
                prop_assert_eq!((ip.hop_limit(), ip.traffic_class()), (64, recipe.class));
                prop_assert_eq!(u64::from(ip.flow_label().value()), hash >> 32 & 0xf_ffff);
                40
            }
            NetSlice::Arp(_) => unreachable!(),
        };
        let l2 = 14 + 4 * usize::from(recipe.tags);
        prop_assert_eq!(&wrapped[l2 + spec.overhead()..], &plain[l2..]);
        if matches!(tunnel, Tunnel::GueDirect | Tunnel::GueHeader) {
            let Some(TransportSlice::Udp(udp)) = sliced.transport else { panic!("no UDP") };
            prop_assert_eq!(usize::from(udp.length()), wrapped.len() - l2 - header_len);
            prop_assert_eq!((udp.destination_port(), udp.checksum()), (PORT, 0));
            prop_assert_eq!(udp.source_port(), 0x8000 | (hash >> 32) as u16 & 0x7fff);
        }

        let (result, inner) = change(&wrapped, |p, parsed| decapsulate(p, parsed, PORT));
        let result = result.unwrap();
        prop_assert_eq!(result.tunnel, tunnel);
        prop_assert_eq!(&inner[l2 - 2..], &plain[l2 - 2..]);
    }

    #[test]
    fn udp_checksum_can_be_filled_in(recipe in recipe(), header: bool, over_v6: bool) {
        let tunnel = if header { Tunnel::GueHeader } else { Tunnel::GueDirect };
        let spec = spec(tunnel, if over_v6 { V6 } else { V4 }, 0);
        let (_, wrapped) = change(&recipe.frame(), |p, parsed| encapsulate(p, parsed, &spec, 7));
        let (filled, mut summed) = change(&wrapped, |p, parsed| fill_udp_checksum(p, parsed));
        prop_assert_eq!(filled, Some(()));
        let Some(TransportSlice::Udp(udp)) = SlicedPacket::from_ethernet(&summed).unwrap().transport else {
            panic!("no UDP")
        };
        prop_assert!(udp.checksum() != 0);
        assert_checksums(&summed);
        let parsed = parse(&summed[..]).unwrap();
        prop_assert_eq!(decap::udp_checksum_valid(&summed[..], &parsed), Some(true));
        *summed.last_mut().unwrap() ^= 0x10;
        prop_assert_eq!(decap::udp_checksum_valid(&summed[..], &parsed), Some(false));
    }

    #[test]
    fn a_hop_is_taken_and_nothing_else(recipe in recipe()) {
        let frame = recipe.frame();
        let (taken, after) = change(&frame, |p, parsed| decrement_ttl(p, parsed));
        prop_assert_eq!(taken, Some(()));
        assert_checksums(&after[..after.len() - recipe.padding]);
        let parsed = parse(&after[..]).unwrap();
        prop_assert_eq!(parsed.ttl, recipe.ttl - 1);
        let differing = frame.iter().zip(&after).filter(|(a, b)| a != b).count();
        prop_assert!(differing <= 3);
    }

    #[test]
    fn decapsulation_refuses_any_wrong_length(
        recipe in recipe(),
        tunnel in tunnels(),
        over_v6: bool,
        delta in prop_oneof![-20i32..0, 1i32..20],
    ) {
        let spec = spec(tunnel, if over_v6 { V6 } else { V4 }, 0);
        let (_, mut wrapped) = change(&recipe.frame(), |p, parsed| encapsulate(p, parsed, &spec, 7));
        let l2 = 14 + 4 * usize::from(recipe.tags);
        let at = l2 + spec.overhead() + if recipe.v6 { 4 } else { 2 };
        let length = i32::from(u16::from_be_bytes([wrapped[at], wrapped[at + 1]])) + delta;
        prop_assume!((0..=0xffff).contains(&length));
        wrapped[at..at + 2].copy_from_slice(&(length as u16).to_be_bytes());
        let (result, after) = change(&wrapped, |p, parsed| decapsulate(p, parsed, PORT));
        prop_assert_eq!(result, Err(DecapError::InnerLength));
        prop_assert_eq!(after, wrapped);
    }

    #[test]
    fn decapsulation_survives_any_damage(
        recipe in recipe(),
        tunnel in tunnels(),
        over_v6: bool,
        damage in proptest::collection::vec((0usize..120, any::<u8>()), 1..5),
    ) {
        let spec = spec(tunnel, if over_v6 { V6 } else { V4 }, 0);
        let (_, mut wrapped) = change(&recipe.frame(), |p, parsed| encapsulate(p, parsed, &spec, 7));
        for (at, value) in damage {
            let len = wrapped.len();
            wrapped[at % len] = value;
        }
        if let Ok(parsed) = parse(&wrapped[..]) {
            let mut buffer = wrapped.clone();
            let mut packet = SliceFrame::new(&mut buffer, 0, wrapped.len()).unwrap();
            match decapsulate(&mut packet, &parsed, PORT) {
                Ok(_) => prop_assert!(packet.bytes().len() < wrapped.len()),
                Err(_) => prop_assert_eq!(packet.bytes(), &wrapped[..]),
            }
        }
    }
}

#[test]
fn no_head_room_is_an_error() {
    let mut buffer = PLAIN;
    let mut packet = SliceFrame::new(&mut buffer, 0, PLAIN.len()).unwrap();
    let parsed = parse(&packet).unwrap();
    let result = encapsulate(&mut packet, &parsed, &spec(Tunnel::Ipip, V4, 0), 0);
    assert_eq!(result, Err(EncapError::NoHeadRoom));
    assert_eq!(packet.bytes(), PLAIN);
}

#[test]
fn too_long_for_the_outer_header_is_an_error() {
    let mut frame = vec![0u8; 18 + 65_520];
    frame[..48].copy_from_slice(&PLAIN);
    frame[20..22].copy_from_slice(&65_520u16.to_be_bytes());
    let (over_v4, _) = change(&frame, |p, parsed| encapsulate(p, parsed, &spec(Tunnel::Ipip, V4, 0), 0));
    assert_eq!(over_v4, Err(EncapError::TooLong));
    // IPv6 does not count its own header.
    let (over_v6, _) = change(&frame, |p, parsed| encapsulate(p, parsed, &spec(Tunnel::Ipip, V6, 0), 0));
    assert_eq!(over_v6, Ok(()));
}

/// RFC 6040 §4.2, figure 4: rows by inner, columns by outer codepoint, each in the order Not-ECT, ECT(0), ECT(1), CE.
#[test]
fn ecn_is_joined_by_the_table() {
    let order = [0b00, 0b10, 0b01, 0b11];
    let table = [
        [Some(0b00), Some(0b00), Some(0b00), None],
        [Some(0b10), Some(0b10), Some(0b01), Some(0b11)],
        [Some(0b01), Some(0b01), Some(0b01), Some(0b11)],
        [Some(0b11), Some(0b11), Some(0b11), Some(0b11)],
    ];
    for (inner, row) in order.into_iter().zip(table) {
        for (outer, expected) in order.into_iter().zip(row) {
            assert_eq!(decap::joined_ecn(inner, outer), expected, "inner {inner} outer {outer}");
        }
    }
}

#[test]
fn congestion_on_the_way_reaches_the_inner_packet() {
    for (outer, at, bit) in [(V4, 18 + 1, 0b01), (V6, 18 + 1, 0b0001_0000)] {
        let (_, mut wrapped) =
            change(&PLAIN, |p, parsed| encapsulate(p, parsed, &spec(Tunnel::Ipip, outer, 0), 7));
        // ECT(0) becomes CE, with the IPv4 checksum kept right by hand: the word grew by one.
        wrapped[at] |= bit;
        if outer == V4 {
            let checksum = u16::from_be_bytes([wrapped[28], wrapped[29]]) - 1;
            wrapped[28..30].copy_from_slice(&checksum.to_be_bytes());
        }
        let (result, inner) = change(&wrapped, |p, parsed| decapsulate(p, parsed, PORT));
        assert!(result.is_ok());
        assert_eq!(parse(&inner[..]).unwrap().traffic_class, 0xbb);
        assert_checksums(&inner);
    }
}

#[test]
fn decapsulation_names_its_reason() {
    let refuse = |tunnel, outer: Outer, damage: &dyn Fn(&mut Vec<u8>)| {
        let (_, mut wrapped) = change(&PLAIN, |p, parsed| encapsulate(p, parsed, &spec(tunnel, outer, 0), 7));
        damage(&mut wrapped);
        let (result, after) = change(&wrapped, |p, parsed| decapsulate(p, parsed, PORT));
        assert_eq!(after, wrapped);
        result.unwrap_err()
    };
    // The outer IPv6 header begins at 18 and ends at 58.
    assert_eq!(refuse(Tunnel::Ipip, V4, &|f| f[28] ^= 1), DecapError::OuterChecksum);
    assert_eq!(refuse(Tunnel::Gre, V6, &|f| f[58] = 0x80), DecapError::GreFlags);
    assert_eq!(refuse(Tunnel::Gre, V6, &|f| f[59] = 1), DecapError::GreFlags);
    assert_eq!(refuse(Tunnel::Gre, V6, &|f| f[60] = 9), DecapError::GreProtocol);
    assert_eq!(refuse(Tunnel::GueHeader, V6, &|f| f[66] = 0x20), DecapError::GueControl);
    assert_eq!(refuse(Tunnel::GueHeader, V6, &|f| f[66] = 0x80), DecapError::GueProtocol);
    assert_eq!(refuse(Tunnel::GueHeader, V6, &|f| f[67] = 6), DecapError::GueProtocol);
    assert_eq!(refuse(Tunnel::GueHeader, V6, &|f| f[69] = 1), DecapError::GueFlags);
    assert_eq!(refuse(Tunnel::GueHeader, V6, &|f| f[67] = 41), DecapError::InnerVersion);
    assert_eq!(refuse(Tunnel::Ipip, V6, &|f| f[58] = 0x65), DecapError::InnerVersion);
    assert_eq!(refuse(Tunnel::GueDirect, V6, &|f| f[63] -= 1), DecapError::InnerLength);
    assert_eq!(refuse(Tunnel::GueDirect, V6, &|f| f[60] = 9), DecapError::NotTunnelled);
}
