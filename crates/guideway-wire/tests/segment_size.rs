//! The announced maximum segment size, lowered with a checksum that stays right wherever the option lies.

use etherparse::{PacketBuilder, SlicedPacket, TransportSlice};
use guideway_wire::mss::{announced, clamp};
use guideway_wire::{SliceFrame, parse};

fn syn_ack(options: &[u8], v6: bool) -> Vec<u8> {
    let link = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
    let ip =
        if v6 { link.ipv6([1; 16], [2; 16], 64) } else { link.ipv4([192, 0, 2, 1], [198, 51, 100, 7], 64) };
    let tcp = ip.tcp(80, 40_000, 7, 65_000).syn().ack(8).options_raw(options).unwrap();
    let mut frame = Vec::new();
    tcp.write(&mut frame, &[]).unwrap();
    frame
}

fn checksum_is_right(frame: &[u8]) -> bool {
    let packet = SlicedPacket::from_ethernet(frame).unwrap();
    let Some(TransportSlice::Tcp(tcp)) = packet.transport else { return false };
    let expected = match packet.net.unwrap() {
        etherparse::NetSlice::Ipv4(ip) => {
            tcp.calc_checksum_ipv4(ip.header().source(), ip.header().destination())
        }
        etherparse::NetSlice::Ipv6(ip) => {
            tcp.calc_checksum_ipv6(ip.header().source(), ip.header().destination())
        }
        etherparse::NetSlice::Arp(_) => return false,
    };
    expected.unwrap() == tcp.checksum()
}

/// 1460 first, after one and after two bytes of padding, and behind the time stamps.
const PLACES: [&[u8]; 4] = [
    &[2, 4, 5, 180, 1, 3, 3, 7],
    &[1, 2, 4, 5, 180, 4, 2, 0],
    &[1, 1, 2, 4, 5, 180, 0, 0],
    &[8, 10, 0, 0, 0, 1, 0, 0, 0, 2, 3, 3, 7, 2, 4, 5, 180, 1, 1, 0],
];

#[test]
fn it_is_lowered_wherever_it_lies() {
    for v6 in [false, true] {
        for options in PLACES {
            for most in [1u16, 536, 1404, 1459] {
                let mut frame = syn_ack(options, v6);
                let before = frame.clone();
                assert!(checksum_is_right(&frame));
                let length = frame.len();
                let mut packet = SliceFrame::new(&mut frame, 0, length).unwrap();
                let parsed = parse(&packet).unwrap();
                assert_eq!(clamp(&mut packet, &parsed, most), Some(1460));
                assert_eq!(announced(&packet, &parsed).unwrap().mss, most);
                assert!(checksum_is_right(&frame), "{options:?} to {most}");
                // The two bytes of the option and the two of the checksum, no more.
                assert!(frame.iter().zip(&before).filter(|(a, b)| a != b).count() <= 4);
            }
        }
    }
}

#[test]
fn what_fits_stays() {
    for most in [1460u16, 9000] {
        let mut frame = syn_ack(PLACES[0], false);
        let before = frame.clone();
        let length = frame.len();
        let mut packet = SliceFrame::new(&mut frame, 0, length).unwrap();
        let parsed = parse(&packet).unwrap();
        assert_eq!(clamp(&mut packet, &parsed, most), None);
        assert_eq!(frame, before);
    }
}

#[test]
fn nothing_is_found_where_nothing_is_announced() {
    // No option; the end before it; a length that leads nowhere; one of another length.
    let without: [&[u8]; 4] = [&[], &[0, 2, 4, 5, 180, 0, 0, 0], &[8, 1, 2, 4, 5, 180, 0, 0], &[2, 3, 5, 0]];
    for options in without {
        let frame = syn_ack(options, false);
        let parsed = parse(&frame[..]).unwrap();
        assert_eq!(announced(&frame[..], &parsed), None, "{options:?}");
    }
    // A packet of a connection that is open.
    let mut frame = syn_ack(PLACES[0], false);
    frame[14 + 20 + 13] = 0x10;
    let parsed = parse(&frame[..]).unwrap();
    assert_eq!(announced(&frame[..], &parsed), None);
}
