//! Errors from routers on the way from the VIP to the client.

use std::vec;
use std::vec::Vec;

use super::{case, drops, reaches};
use crate::cases::Case;
use crate::cases::packets::{self, Tcp};
use crate::cases::world::World;
use crate::outcome::Outcome;
use crate::record::Slot;

pub(super) fn cases() -> Vec<Case> {
    let unsettled = Slot::settled_on(0).change_owner(1);
    let syn = |v4| packets::tcp(v4, 40_000, Tcp::Syn, 0);
    let short = packets::quote_v4(40_000, 0);
    let short = short.get(..27).unwrap_or_default().to_vec();
    vec![
        case(
            "an ICMP error follows the flow that it quotes",
            World::usual(unsettled),
            vec![
                reaches(&syn(true), 2),
                reaches(&packets::fragmentation_needed(&packets::quote_v4(40_000, 0)), 2),
                reaches(&packets::fragmentation_needed(&packets::quote_v4(40_000, 4)), 2),
                reaches(&packets::fragmentation_needed(&packets::quote_v4(40_001, 0)), 1),
                reaches(&syn(false), 2),
                reaches(&packets::packet_too_big(&packets::quote_v6(40_000)), 2),
                drops(&packets::fragmentation_needed(&short), Outcome::DroppedShortIcmpQuote),
            ],
        ),
        case(
            "an ICMP error without a backend is dropped",
            World::usual(Slot::EMPTY),
            vec![drops(
                &packets::fragmentation_needed(&packets::quote_v4(40_000, 0)),
                Outcome::DroppedIcmpNoBackend,
            )],
        ),
    ]
}
