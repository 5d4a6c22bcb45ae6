//! Server ids of two bytes behind the first byte of the connection id; `0x0003` is the third backend.

use std::vec;
use std::vec::Vec;

use super::{case, counting, reaches};
use crate::cases::packets::{self};
use crate::cases::world::World;
use crate::cases::{Case, Step};
use crate::outcome::Event;
use crate::record::{BackendState, Slot};

pub(super) fn cases() -> Vec<Case> {
    let mut world = World::usual(Slot::settled_on(0)).with_policy(|policy| policy.with_quic(Some((1, 2))));
    for service in &mut world.services {
        service.quic_servers = vec![(3, 2)];
    }
    let short = |port, id: u8| packets::udp(true, port, &[0x40, 9, 0, id, 1, 2, 3, 4, 5, 6]);
    let long = |kind: u8, id: u8| {
        packets::udp(true, 5_000, &[0xc0 | kind << 4, 0, 0, 0, 1, 8, 9, 0, id, 1, 2, 3, 4, 5, 0, 0, 0])
    };
    vec![case(
        "QUIC goes where its connection id says",
        world.clone(),
        vec![
            reaches(&short(5_000, 3), 3),
            reaches(&short(6_000, 3), 3),
            reaches(&packets::udp(true, 6_000, &[0x16, 9, 0, 3, 1, 2, 3, 4, 5, 6]), 3),
            reaches(&long(0, 3), 1),
            reaches(&long(1, 3), 1),
            reaches(&long(2, 3), 3),
            counting(reaches(&short(5_000, 4), 1), Event::QuicUnknownId),
            counting(reaches(&packets::udp(true, 5_000, &[0x40, 9, 0]), 1), Event::QuicShort),
            counting(reaches(&packets::udp(true, 5_000, &[]), 1), Event::QuicShort),
            Step::State(2, BackendState::Draining),
            reaches(&short(5_000, 3), 3),
            Step::State(2, BackendState::Down),
            counting(reaches(&short(5_000, 3), 1), Event::QuicUnknownId),
        ],
    )]
}
