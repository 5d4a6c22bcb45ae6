//! Packets that do not fit into the tunnel.

use std::format;
use std::vec;
use std::vec::Vec;

use guideway_wire::Tunnel;

use super::{case, counting, drops, family, reaches, step};
use crate::cases::packets::{self, Tcp, hash_bytes, tunnelled};
use crate::cases::world::World;
use crate::cases::{Case, Output};
use crate::outcome::{Event, Outcome};
use crate::record::Slot;

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let tunnels = [(Tunnel::Ipip, 0), (Tunnel::Gre, 4), (Tunnel::GueDirect, 8), (Tunnel::GueHeader, 12)];
    for (tunnel, extra) in tunnels {
        for underlay4 in [true, false] {
            let room = 1500 - if underlay4 { 20 } else { 40 } - extra;
            for vip4 in [true, false] {
                let headers = if vip4 { 40 } else { 60 };
                let fits = packets::tcp(vip4, 40_000, Tcp::Ack, room - headers);
                let frame = tunnelled(&fits, tunnel, underlay4, 2);
                let big = packets::tcp(vip4, 40_000, Tcp::Ack, room - headers + 1);
                let datagram = packets::udp(vip4, 5_000, &vec![1; 1500 - headers + 12]);
                let too_big =
                    |input: &[u8]| step(input, Outcome::AnsweredTooBig, Output::TooBig(room as u32));
                cases.push(case(
                    format!("too big: {tunnel:?}, {} in {}", family(vip4), family(underlay4)),
                    World::usual(Slot::settled_on(1)).with_tunnel(tunnel, underlay4),
                    vec![
                        step(&fits, Outcome::Forwarded, Output::Frame(frame, hash_bytes(tunnel, underlay4))),
                        too_big(&big),
                        too_big(&datagram),
                    ],
                ));
            }
        }
    }
    let mut limited = World::usual(Slot::settled_on(1));
    limited.icmp_tokens = 0;
    let big = packets::tcp(true, 40_000, Tcp::Ack, 1460);
    let mut may_fragment = big.clone();
    // Clears DF; a wrong header checksum is not the balancer's business.
    if let Some(flags) = may_fragment.get_mut(20) {
        *flags = 0;
    }
    let error = packets::fragmentation_needed(
        &packets::quote_v4(40_000, 0).into_iter().chain(vec![0; 1448]).collect::<Vec<_>>(),
    );
    cases.push(case(
        "too big beyond the rate limit",
        limited,
        vec![counting(drops(&big, Outcome::DroppedTooBigRateLimited), Event::IcmpRateLimited)],
    ));
    // A datagram of 4,000 bytes as a host with an MTU of 1500 fragments it, and as it does once it was told.
    let long = packets::udp(true, 5_000, &vec![7; 4_000]);
    let piece = |id: u16, from: usize, to: usize| {
        packets::fragment_v4(
            17,
            id,
            from as u16,
            to < 4_008,
            long.get(34 + from..34 + to).unwrap_or_default(),
        )
    };
    let (first, second) = (piece(1, 0, 1_480), piece(1, 1_480, 2_960));
    cases.push(case(
        "too big without DF is told as well, and a long datagram then comes through",
        World::usual(Slot::settled_on(1)),
        vec![
            step(&may_fragment, Outcome::AnsweredTooBig, Output::TooBig(1480)),
            step(&first, Outcome::AnsweredTooBig, Output::TooBig(1480)),
            reaches(&piece(2, 0, 1_456), 2),
            reaches(&piece(2, 1_456, 2_912), 2),
            reaches(&piece(2, 2_912, 4_008), 2),
        ],
    ));
    cases.push(case(
        "no error about an error, and none about a later fragment",
        World::usual(Slot::settled_on(1)),
        vec![drops(&error, Outcome::DroppedTooBig), drops(&second, Outcome::DroppedTooBig)],
    ));
    let mut narrow = World::usual(Slot::settled_on(1));
    for backend in &mut narrow.backends {
        backend.mtu = 1280;
    }
    cases.push(case(
        "IPv6 is never told less than 1280",
        narrow,
        vec![
            step(&packets::tcp(false, 40_000, Tcp::Ack, 1300), Outcome::AnsweredTooBig, Output::TooBig(1280)),
            drops(&packets::tcp(false, 40_000, Tcp::Ack, 1210), Outcome::DroppedTooBig),
        ],
    ));
    cases
}
