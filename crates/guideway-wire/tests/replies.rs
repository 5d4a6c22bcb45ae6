//! Replies, checked by etherparse.

mod frames;

use etherparse::{Icmpv4Type, Icmpv6Type, NetSlice, SlicedPacket, TransportSlice, icmpv4};
use frames::{Transport, assert_checksums, change, recipe};
use guideway_wire::reply::{QUOTE_V4, QUOTE_V6, ReplyError, echo_reply, tcp_reset, too_big};
use guideway_wire::{ParseError, parse};
use proptest::prelude::*;

/// Asserts what all replies share: the way back, tags, no padding, checksums.
fn assert_way_back(asked: &[u8], answer: &[u8]) -> Result<(), TestCaseError> {
    let (to, from) = (parse(asked).unwrap(), parse(answer).unwrap());
    prop_assert_eq!(&answer[..6], &asked[6..12]);
    prop_assert_eq!(&answer[6..12], &asked[..6]);
    prop_assert_eq!(&answer[12..to.l2_len], &asked[12..to.l2_len]);
    prop_assert_eq!((from.key.src, from.key.dst), (to.key.dst, to.key.src));
    prop_assert_eq!((from.end(), from.ttl), (answer.len(), 64));
    assert_checksums(answer);
    Ok(())
}

proptest! {
    #[test]
    fn too_big_tells_the_mtu_and_quotes(recipe in recipe(), mtu in 68u32..100_000) {
        let frame = recipe.frame();
        let (result, answer) = change(&frame, |p, parsed| too_big(p, parsed, mtu));
        prop_assert_eq!(result, Ok(()));
        assert_way_back(&frame, &answer)?;
        let asked = parse(&frame[..]).unwrap();
        let quote = match SlicedPacket::from_ethernet(&answer).unwrap().transport {
            Some(TransportSlice::Icmpv4(icmp)) => {
                let told = mtu.min(65_535) as u16;
                let needed = icmpv4::DestUnreachableHeader::FragmentationNeeded { next_hop_mtu: told };
                prop_assert_eq!(icmp.icmp_type(), Icmpv4Type::DestinationUnreachable(needed));
                prop_assert!(icmp.payload().len() <= QUOTE_V4);
                icmp.payload().to_vec()
            }
            Some(TransportSlice::Icmpv6(icmp)) => {
                prop_assert_eq!(icmp.icmp_type(), Icmpv6Type::PacketTooBig { mtu: mtu.max(1280) });
                prop_assert!(icmp.payload().len() <= QUOTE_V6);
                icmp.payload().to_vec()
            }
            other => panic!("{other:?}"),
        };
        let whole = &frame[asked.l2_len..asked.end()];
        prop_assert_eq!(&quote[..], &whole[..quote.len()]);
        let bound = if recipe.v6 { QUOTE_V6 } else { QUOTE_V4 };
        prop_assert!(quote.len() + 3 >= whole.len().min(bound));
        prop_assert!(quote.len() >= asked.l4_offset - asked.l2_len + 8);
    }

    #[test]
    fn reset_is_acceptable_to_its_receiver(recipe in recipe()) {
        let Transport::Tcp(flags) = recipe.transport else { return Ok(()) };
        let frame = recipe.frame();
        let (result, answer) = change(&frame, |p, parsed| tcp_reset(p, parsed));
        if flags & 4 != 0 {
            prop_assert_eq!(result, Err(ReplyError::Forbidden));
            prop_assert_eq!(answer, frame);
            return Ok(());
        }
        prop_assert_eq!(result, Ok(()));
        assert_way_back(&frame, &answer)?;
        let Some(TransportSlice::Tcp(reset)) = SlicedPacket::from_ethernet(&answer).unwrap().transport else {
            panic!("no TCP")
        };
        prop_assert_eq!((reset.source_port(), reset.destination_port()), (recipe.ports.1, recipe.ports.0));
        prop_assert!(reset.rst() && !reset.syn() && !reset.fin() && reset.payload().is_empty());
        // RFC 9293 §3.10.7.1: the segment's own acknowledgment as sequence number, or the acknowledgment of all it holds.
        if flags & 16 != 0 {
            prop_assert_eq!((reset.sequence_number(), reset.ack()), (0x0a0b_0c0d, false));
        } else {
            let length = recipe.payload.len() as u32 + u32::from(flags & 1) + u32::from(flags >> 1 & 1);
            prop_assert_eq!((reset.sequence_number(), reset.ack()), (0, true));
            prop_assert_eq!(reset.acknowledgment_number(), 0x0102_0304 + length);
        }
    }

    #[test]
    fn echo_comes_back_with_its_data(recipe in recipe()) {
        let frame = recipe.frame();
        let (result, answer) = change(&frame, |p, parsed| echo_reply(p, parsed));
        if recipe.transport != Transport::Echo {
            prop_assert_eq!(result, Err(ReplyError::WrongKind));
            return Ok(());
        }
        prop_assert_eq!(result, Ok(()));
        assert_way_back(&frame, &answer)?;
        let (id, seq) = recipe.ports;
        let echo = etherparse::IcmpEchoHeader { id, seq };
        match SlicedPacket::from_ethernet(&answer).unwrap() {
            SlicedPacket { net: Some(NetSlice::Ipv4(_)), transport: Some(TransportSlice::Icmpv4(icmp)), .. } => {
                prop_assert_eq!(icmp.icmp_type(), Icmpv4Type::EchoReply(echo));
                prop_assert_eq!(icmp.payload(), &recipe.payload[..]);
            }
            SlicedPacket { net: Some(NetSlice::Ipv6(_)), transport: Some(TransportSlice::Icmpv6(icmp)), .. } => {
                prop_assert_eq!(icmp.icmp_type(), Icmpv6Type::EchoReply(echo));
                prop_assert_eq!(icmp.payload(), &recipe.payload[..]);
            }
            other => panic!("{other:?}"),
        }
    }
}

/// A UDP packet between hosts given by `source` and `destination`.
fn udp(source: [u8; 4], destination: [u8; 4]) -> Vec<u8> {
    let mut frame = Vec::new();
    etherparse::PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2])
        .ipv4(source, destination, 64)
        .udp(1, 2)
        .write(&mut frame, &[0; 40])
        .unwrap();
    frame
}

#[test]
fn no_error_answers_what_must_not_be_answered() {
    let refused = |frame: &[u8]| {
        let (result, after) = change(frame, |p, parsed| too_big(p, parsed, 1400));
        let refused = result == Err(ReplyError::Forbidden);
        assert!(!refused || after == frame);
        refused
    };
    let host = [192, 0, 2, 1];
    assert!(!refused(&udp(host, [198, 51, 100, 1])));
    for nobody in [[0, 0, 0, 0], [127, 0, 0, 1], [224, 0, 0, 1], [255; 4]] {
        assert!(refused(&udp(nobody, host)) && refused(&udp(host, nobody)));
    }
    let mut group = udp(host, [198, 51, 100, 1]);
    group[0] |= 1;
    assert!(refused(&group));
    let mut later = udp(host, [198, 51, 100, 1]);
    later[21] = 9;
    assert!(refused(&later));
    let (_, error) = change(&udp(host, [198, 51, 100, 1]), |p, parsed| too_big(p, parsed, 1400));
    assert!(refused(&error));
}

#[test]
fn first_fragments_get_no_reset_and_no_echo() {
    let mut frame = Vec::new();
    etherparse::PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2])
        .ipv4([192, 0, 2, 1], [198, 51, 100, 1], 64)
        .icmpv4_echo_request(1, 1)
        .write(&mut frame, &[0; 40])
        .unwrap();
    frame[20] |= 0x20;
    let (result, _) = change(&frame, |p, parsed| echo_reply(p, parsed));
    assert_eq!(result, Err(ReplyError::Forbidden));
    frame[23] = 6;
    // As TCP the same bytes have a data offset of 0.
    assert_eq!(parse(&frame[..]), Err(ParseError::BadTcpHeaderLength));
    frame[46] = 0x50;
    let (result, _) = change(&frame, |p, parsed| tcp_reset(p, parsed));
    assert_eq!(result, Err(ReplyError::Forbidden));
}
