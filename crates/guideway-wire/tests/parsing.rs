//! Parsing, compared with etherparse.

mod frames;

use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use frames::{Transport, recipe};
use guideway_wire::parse::{destination, quoted_flow};
use guideway_wire::{Address, Fragment, IcmpClass, IpProtocol, IpVersion, ParseError, TcpFlags, parse};
use proptest::prelude::*;

proptest! {
    #[test]
    fn built_frames_are_understood(recipe in recipe()) {
        let frame = recipe.frame();
        let parsed = parse(&frame[..]).unwrap();
        prop_assert_eq!(parsed.l2_len, 14 + 4 * usize::from(recipe.tags));
        prop_assert_eq!(parsed.end(), frame.len() - recipe.padding);
        prop_assert_eq!(parsed.ip, if recipe.v6 { IpVersion::V6 } else { IpVersion::V4 });
        prop_assert_eq!((parsed.traffic_class, parsed.ttl), (recipe.class, recipe.ttl));
        prop_assert_eq!(parsed.dont_fragment, recipe.v6 || recipe.class & 1 != 0);
        prop_assert_eq!(parsed.fragment, Fragment::None);
        let (source, to) = if recipe.v6 {
            (Address::v6(recipe.source), Address::v6(recipe.destination))
        } else {
            (Address::v4(recipe.source_v4()), Address::v4(recipe.destination_v4()))
        };
        prop_assert_eq!((parsed.key.src, parsed.key.dst), (source, to));
        prop_assert_eq!(destination(&frame[..]), Some(to));
        let ports = (parsed.key.src_port, parsed.key.dst_port);
        match recipe.transport {
            Transport::Tcp(flags) => {
                prop_assert_eq!((parsed.protocol(), ports), (IpProtocol::TCP, recipe.ports));
                prop_assert_eq!(parsed.tcp_flags, TcpFlags(flags));
            }
            Transport::Udp => prop_assert_eq!((parsed.protocol(), ports), (IpProtocol::UDP, recipe.ports)),
            Transport::Echo => prop_assert_eq!((parsed.icmp, ports), (IcmpClass::EchoRequest, (0, 0))),
        }
    }

    /// Cut and damaged frames: what we accept, etherparse accepts and reads alike.
    #[test]
    fn what_is_accepted_is_read_alike(
        recipe in recipe(),
        keep in 0usize..1400,
        damage in proptest::collection::vec((0usize..110, any::<u8>()), 0..4),
    ) {
        let mut frame = recipe.frame();
        frame.truncate(keep.max(1));
        for (at, value) in damage {
            let len = frame.len();
            frame[at % len] = value;
        }
        let Ok(parsed) = parse(&frame[..]) else { return Ok(()) };
        prop_assert!(parsed.end() <= frame.len() && parsed.l4_offset <= parsed.end());
        let Ok(sliced) = SlicedPacket::from_ethernet(&frame) else {
            // etherparse also looks at lengths and versions inside ICMP and of headers that we pass over.
            return Ok(());
        };
        match (sliced.net.as_ref(), parsed.ip) {
            (Some(NetSlice::Ipv4(ip)), IpVersion::V4) => {
                prop_assert_eq!(Some(ip.header().source()), parsed.key.src.as_v4());
                prop_assert_eq!(Some(ip.header().destination()), parsed.key.dst.as_v4());
                prop_assert_eq!(usize::from(ip.header().total_len()), parsed.ip_length);
                let fragment = ip.header().more_fragments() || ip.header().fragments_offset().value() != 0;
                prop_assert_eq!(fragment, parsed.fragment.datagram_id().is_some());
            }
            (Some(NetSlice::Ipv6(ip)), IpVersion::V6) => {
                prop_assert_eq!(ip.header().source(), parsed.key.src.octets());
                prop_assert_eq!(ip.header().destination(), parsed.key.dst.octets());
                prop_assert_eq!(usize::from(ip.header().payload_length()) + 40, parsed.ip_length);
            }
            (net, _) => panic!("etherparse sees {net:?}"),
        }
        let ports = (parsed.key.src_port, parsed.key.dst_port);
        match sliced.transport {
            Some(TransportSlice::Tcp(tcp)) if parsed.protocol() == IpProtocol::TCP => {
                prop_assert_eq!((tcp.source_port(), tcp.destination_port()), ports);
            }
            Some(TransportSlice::Udp(udp)) if parsed.protocol() == IpProtocol::UDP => {
                prop_assert_eq!((udp.source_port(), udp.destination_port()), ports);
            }
            _ => {}
        }
    }

    #[test]
    fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..200), ethertype in 0u8..3) {
        let mut frame = bytes;
        let kind = [[0x08, 0x00], [0x86, 0xdd], [0x81, 0x00]][usize::from(ethertype)];
        if let Some(place) = frame.get_mut(12..14) {
            place.copy_from_slice(&kind);
        }
        if let Ok(parsed) = parse(&frame[..]) {
            prop_assert!(parsed.end() <= frame.len());
            let _ = quoted_flow(&frame[..], &parsed);
        }
        let _ = destination(&frame[..]);
    }

    /// The packet that a backend sent to the client, quoted by a router on the way, names the client's flow.
    #[test]
    fn quotes_name_the_flow_of_the_client(recipe in recipe(), cut in 8usize..40) {
        prop_assume!(recipe.transport != Transport::Echo);
        let sent = recipe.frame();
        let parsed = parse(&sent[..]).unwrap();
        let quote = &sent[parsed.l2_len..(parsed.l4_offset + cut).min(parsed.end())];
        let frame = icmp_error(recipe.v6, quote);
        let error = parse(&frame[..]).unwrap();
        prop_assert_eq!(error.icmp, IcmpClass::Error);
        prop_assert_eq!(quoted_flow(&frame[..], &error), Ok(parsed.key.reversed()));
        let short = icmp_error(recipe.v6, &quote[..parsed.l4_offset - parsed.l2_len + 3]);
        let error = parse(&short[..]).unwrap();
        prop_assert_eq!(quoted_flow(&short[..], &error), Err(ParseError::QuoteTruncated));
    }
}

/// "Time exceeded" from a router, quoting `quote`.
fn icmp_error(v6: bool, quote: &[u8]) -> Vec<u8> {
    let start = etherparse::PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
    let mut frame = Vec::new();
    if v6 {
        let exceeded =
            etherparse::Icmpv6Type::TimeExceeded(etherparse::icmpv6::TimeExceededCode::HopLimitExceeded);
        start.ipv6([0x20; 16], [0x30; 16], 64).icmpv6(exceeded).write(&mut frame, quote).unwrap();
    } else {
        let exceeded =
            etherparse::Icmpv4Type::TimeExceeded(etherparse::icmpv4::TimeExceededCode::TtlExceededInTransit);
        start
            .ipv4([203, 0, 113, 1], [198, 51, 100, 1], 64)
            .icmpv4(exceeded)
            .write(&mut frame, quote)
            .unwrap();
    }
    frame
}

/// A TCP segment of 60 bytes over IPv4 with no options, in an untagged frame; `change` edits it.
fn edited(change: impl FnOnce(&mut Vec<u8>)) -> Result<guideway_wire::Parsed, ParseError> {
    let mut frame = Vec::new();
    etherparse::PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2])
        .ipv4([192, 0, 2, 1], [198, 51, 100, 1], 64)
        .tcp(1000, 80, 1, 100)
        .write(&mut frame, &[0; 20])
        .unwrap();
    change(&mut frame);
    parse(&frame[..])
}

/// A UDP packet over IPv6 with 16 bytes of payload, in an untagged frame; `change` edits it.
fn edited_v6(change: impl FnOnce(&mut Vec<u8>)) -> Result<guideway_wire::Parsed, ParseError> {
    let mut frame = Vec::new();
    etherparse::PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2])
        .ipv6([0x20; 16], [0x30; 16], 64)
        .udp(1000, 53)
        .write(&mut frame, &[0; 16])
        .unwrap();
    change(&mut frame);
    parse(&frame[..])
}

#[test]
fn each_fault_has_its_own_cause() {
    assert_eq!(edited(|f| f.truncate(13)), Err(ParseError::TruncatedEthernet));
    assert_eq!(edited(|f| f.truncate(33)), Err(ParseError::TruncatedIpv4));
    assert_eq!(edited(|f| f.truncate(73)), Err(ParseError::LengthBeyondFrame));
    assert_eq!(edited(|f| f[12..14].copy_from_slice(&[0x08, 0x06])), Err(ParseError::NotIp));
    assert_eq!(edited(|f| f[14] = 0x65), Err(ParseError::BadVersion));
    assert_eq!(edited(|f| f[14] = 0x44), Err(ParseError::BadHeaderLength));
    assert_eq!(edited(|f| f[16..18].copy_from_slice(&[0, 19])), Err(ParseError::BadHeaderLength));
    assert_eq!(edited(|f| f[16..18].copy_from_slice(&[0, 39])), Err(ParseError::TruncatedTransport));
    assert_eq!(edited(|f| f[46] = 0x40), Err(ParseError::BadTcpHeaderLength));
    assert_eq!(edited(|f| f[46] = 0xb0), Err(ParseError::BadTcpHeaderLength));
    assert_eq!(edited(|f| f[12..14].copy_from_slice(&[0x81, 0x00])).map(drop), Err(ParseError::NotIp));
    assert_eq!(edited(|f| f.splice(12..14, [0x81, 0, 0]).for_each(drop)), Err(ParseError::NotIp));
    let tags = [0x88, 0xa8, 0, 1, 0x81, 0, 0, 2, 0x81, 0, 0, 3];
    assert_eq!(edited(|f| f.splice(12..12, tags).for_each(drop)), Err(ParseError::TooManyVlanTags));
    assert_eq!(
        edited(|f| {
            f.splice(12..12, tags).for_each(drop);
            f.truncate(17);
        }),
        Err(ParseError::TruncatedVlan)
    );
    assert_eq!(edited_v6(|f| f.truncate(53)), Err(ParseError::TruncatedIpv6));
    assert_eq!(edited_v6(|f| f.truncate(77)), Err(ParseError::LengthBeyondFrame));
    assert_eq!(edited_v6(|f| f[14] = 0x45), Err(ParseError::BadVersion));
    assert_eq!(edited_v6(|f| f[58..60].copy_from_slice(&[0, 7])), Err(ParseError::BadUdpLength));
    assert_eq!(edited_v6(|f| f[58..60].copy_from_slice(&[0, 25])), Err(ParseError::BadUdpLength));
    assert_eq!(edited_v6(|f| f[20] = 60), Err(ParseError::TruncatedExtension));
    let mapped = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1];
    assert_eq!(edited_v6(|f| f[22..38].copy_from_slice(&mapped)), Err(ParseError::MappedAddress));
}

#[test]
fn fragments_are_told_apart() {
    let flags = |value: u16| move |f: &mut Vec<u8>| f[20..22].copy_from_slice(&value.to_be_bytes());
    let first = edited(flags(0x2000)).unwrap();
    assert_eq!((first.fragment, first.key.dst_port), (Fragment::First { id: 0 }, 80));
    let later = edited(flags(0x2003)).unwrap();
    assert_eq!((later.fragment, later.key.dst_port), (Fragment::Later { id: 0, offset: 3 }, 0));
    // RFC 1858: offset 1 overwrites the flags of TCP, 2 the rest of its header.
    assert_eq!(edited(flags(0x0001)), Err(ParseError::OverlappingFragment));
    assert_eq!(edited(flags(0x0002)), Err(ParseError::OverlappingFragment));
    assert_eq!(edited(flags(0x1fff)), Err(ParseError::FragmentBeyondDatagram));
    let tiny = |f: &mut Vec<u8>| {
        flags(0x2000)(f);
        f[16..18].copy_from_slice(&[0, 36]);
    };
    assert_eq!(edited(tiny), Err(ParseError::TinyFirstFragment));
    // UDP fragments of eight bytes are fine, and so is an offset of eight bytes.
    let udp = edited(|f| {
        f[23] = 17;
        flags(0x0001)(f);
    });
    assert_eq!(udp.map(|p| p.fragment), Ok(Fragment::Later { id: 0, offset: 1 }));
}

#[test]
fn ipv6_fragments_are_told_apart() {
    // A fragment header before the UDP header: next header 17, then offset and M, then the identification.
    let with = |offset_more: u8| {
        edited_v6(|f| {
            f.splice(54..54, [17, 0, 0, offset_more, 0, 0, 0, 9]).for_each(drop);
            f[19] += 8;
            f[20] = 44;
        })
        .map(|p| (p.fragment, p.key.dst_port))
    };
    assert_eq!(with(0), Ok((Fragment::Atomic { id: 9 }, 53)));
    assert_eq!(with(1), Ok((Fragment::First { id: 9 }, 53)));
    assert_eq!(with(9), Ok((Fragment::Later { id: 9, offset: 1 }, 0)));
}

#[test]
fn quotes_without_ports_are_refused() {
    let quote = |edit: &dyn Fn(&mut Vec<u8>)| {
        let mut inner =
            vec![0x45, 0, 0, 60, 0, 0, 0, 0, 64, 6, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 0, 80, 4, 0, 0, 0, 0, 0];
        edit(&mut inner);
        let frame = icmp_error(false, &inner);
        quoted_flow(&frame[..], &parse(&frame[..]).unwrap())
    };
    assert_eq!(quote(&|_| ()).map(|k| (k.src_port, k.dst_port)), Ok((1024, 80)));
    assert_eq!(quote(&|q| q[7] = 1), Err(ParseError::QuoteWithoutPorts));
    assert_eq!(quote(&|q| q[0] = 0x65), Err(ParseError::QuoteMalformed));
    assert_eq!(quote(&|q| q[0] = 0x44), Err(ParseError::QuoteMalformed));
    assert_eq!(quote(&|q| q.truncate(19)), Err(ParseError::QuoteTruncated));
    assert_eq!(quote(&|q| q[9] = 1).map(|k| (k.src_port, k.protocol)), Ok((0, IpProtocol::ICMP)));
}
