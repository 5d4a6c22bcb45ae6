//! Checksums that a sender's kernel left to its network card.
//!
//! Over a veth pair there is no card: such a packet arrives with the sum of its pseudo-header alone where its checksum
//! should be (`CHECKSUM_PARTIAL`), and the host that takes it out of a tunnel would find it damaged.

use guideway_wire::checksum::Sum;
use guideway_wire::{Fragment, IpProtocol, parse};

/// Puts the right checksum of TCP, UDP or ICMPv6 into a whole packet. Whether there was one to put.
pub(super) fn finish(frame: &mut [u8]) -> bool {
    // A kernel sums what it cuts into fragments itself.
    let Some(parsed) = parse(&*frame).ok().filter(|parsed| parsed.fragment == Fragment::None) else {
        return false;
    };
    let protocol = parsed.protocol();
    let place = match protocol {
        IpProtocol::TCP => 16,
        IpProtocol::UDP => 6,
        IpProtocol::ICMPV6 => 2,
        _ => return false,
    };
    let Some(segment) = frame.get_mut(parsed.l4_offset..parsed.end()) else { return false };
    let Ok(length) = u32::try_from(segment.len()) else { return false };
    match segment.get_mut(place..place + 2) {
        // No checksum at all (RFC 768): the sum of a pseudo-header is never 0.
        Some([0, 0]) if protocol == IpProtocol::UDP => return false,
        Some(field) => field.fill(0),
        None => return false,
    }
    let sum =
        Sum::ZERO.add_pseudo_header(&parsed.key.src, &parsed.key.dst, protocol, length).add_bytes(segment);
    let checksum = if protocol == IpProtocol::UDP { sum.udp_checksum() } else { sum.checksum() };
    if let Some(field) = segment.get_mut(place..place + 2) {
        field.copy_from_slice(&checksum.to_be_bytes());
    }
    true
}

#[cfg(test)]
mod tests {
    use etherparse::PacketBuilder;
    use proptest::prelude::*;

    use super::*;

    const V4: [[u8; 4]; 2] = [[198, 51, 100, 7], [192, 0, 2, 10]];
    const V6: [[u8; 16]; 2] = [[0x20; 16], [0x2a; 16]];

    /// TCP, UDP over either version, and ICMPv6, with right checksums, and where each lies in the frame.
    fn packets(payload: &[u8]) -> Vec<(Vec<u8>, usize)> {
        let v4 = || PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4(V4[0], V4[1], 64);
        let v6 = || PacketBuilder::ethernet2([2; 6], [4; 6]).ipv6(V6[0], V6[1], 64);
        let mut packets = Vec::new();
        for (step, start) in [(v4().tcp(1, 2, 3, 4), 34), (v6().tcp(1, 2, 3, 4), 54)] {
            let mut bytes = Vec::new();
            step.write(&mut bytes, payload).unwrap();
            packets.push((bytes, start + 16));
        }
        for (step, start) in [(v4().udp(1, 2), 34), (v6().udp(1, 2), 54)] {
            let mut bytes = Vec::new();
            step.write(&mut bytes, payload).unwrap();
            packets.push((bytes, start + 6));
        }
        let mut bytes = Vec::new();
        v6().icmpv6_echo_request(7, 1).write(&mut bytes, payload).unwrap();
        packets.push((bytes, 54 + 2));
        packets
    }

    proptest! {
        #[test]
        fn whatever_the_sender_left_there_the_checksum_becomes_right(
            payload in proptest::collection::vec(any::<u8>(), 0..200),
            left in 1u16..,
            padding in 0usize..4,
        ) {
            for (whole, place) in packets(&payload) {
                let mut frame = [&whole[..], &vec![0xee; padding]].concat();
                frame[place..place + 2].copy_from_slice(&left.to_be_bytes());
                prop_assert!(finish(&mut frame));
                prop_assert_eq!(&frame[..whole.len()], &whole[..]);
            }
        }
    }

    #[test]
    fn what_has_no_checksum_to_finish_stays_as_it_is() {
        let (mut datagram, place) = packets(b"without").remove(2);
        datagram[place..place + 2].fill(0);
        let mut fragment = packets(b"a part").remove(2).0;
        fragment[20] |= 0x20;
        let arp = [&[0xff; 6][..], &[2; 6], &[8, 6], &[0; 46]].concat();
        let cut = packets(b"cut short").remove(0).0[..40].to_vec();
        for frame in [datagram, fragment, arp, cut] {
            let mut after = frame.clone();
            assert!(!finish(&mut after));
            assert_eq!(after, frame);
        }
    }
}
