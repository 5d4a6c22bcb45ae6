//! Datagrams in fragments, and what only looks like it.

use std::vec;
use std::vec::Vec;

use super::{case, counting, drops, passes, reaches};
use crate::cases::packets::{self};
use crate::cases::world::World;
use crate::cases::{Case, Step};
use crate::outcome::{Event, Outcome};
use crate::record::{FragmentRule, Slot};

pub(super) fn cases() -> Vec<Case> {
    let whole = packets::udp(true, 5_000, &vec![7; 3_000]);
    // UDP header and data lie behind 14 bytes of Ethernet and 20 of IPv4.
    let piece = |id: u16, from: usize, to: usize| {
        let data = whole.get(34 + from..34 + to.min(3_008)).unwrap_or_default();
        packets::fragment_v4(17, id, from as u16, to < 3_008, data)
    };
    let pieces = |id| [piece(id, 0, 1_400), piece(id, 1_400, 2_800), piece(id, 2_800, 3_008)];
    let ([a, b, c], [d, e, f]) = (pieces(1), pieces(2));
    let unsettled = Slot::settled_on(0).change_owner(1).end_grace();
    let drop_them =
        World::usual(Slot::settled_on(1)).with_policy(|policy| policy.with_fragments(FragmentRule::Drop));
    let tiny = packets::fragment_v4(6, 3, 0, true, &[0; 16]);
    let overlap = packets::fragment_v4(6, 3, 8, true, &[0; 16]);
    let tcp_later = packets::fragment_v4(6, 4, 24, false, &[0; 16]);
    let mut udp_alone = World::usual(Slot::settled_on(1));
    udp_alone.services.retain(|service| service.protocol == 17);
    let segment = |port: u8| {
        let tcp = [0, port, 0, 80, 0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x10, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0];
        packets::fragment_v4(6, 4, 0, true, &tcp)
    };
    let (tcp_first, tcp_other) = (segment(1), segment(2));
    let other = packets::udp(true, 5_001, &vec![7; 3_000]);
    let other_flow = packets::fragment_v4(17, 1, 0, true, other.get(34..1_434).unwrap_or_default());
    let other_port =
        packets::fragment_v4(17, 5, 0, true, &[0x10, 0, 0, 9, 0, 40, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    let its_rest = packets::fragment_v4(17, 5, 16, false, &[0; 24]);
    vec![
        case(
            "fragments in order keep together",
            World::usual(unsettled),
            vec![
                counting(reaches(&a, 2), Event::FragmentInserted),
                counting(reaches(&b, 2), Event::FragmentHit),
                Step::Slots(Slot::settled_on(3)),
                counting(reaches(&c, 2), Event::FragmentHit),
            ],
        ),
        case(
            "a later fragment first takes the others along",
            World::usual(unsettled),
            vec![
                counting(reaches(&e, 2), Event::FragmentInserted),
                Step::Slots(Slot::settled_on(3)),
                counting(reaches(&d, 2), Event::FragmentHit),
                counting(reaches(&f, 2), Event::FragmentHit),
            ],
        ),
        case(
            "an identification that another flow uses again takes none of its fragments elsewhere",
            World::usual(Slot::settled_on(1)),
            vec![
                reaches(&a, 2),
                reaches(&b, 2),
                reaches(&tcp_first, 2),
                reaches(&tcp_later, 2),
                Step::Slots(Slot::settled_on(3)),
                counting(reaches(&other_flow, 4), Event::FragmentInserted),
                counting(reaches(&b, 4), Event::FragmentHit),
                counting(reaches(&tcp_other, 4), Event::FragmentInserted),
                counting(reaches(&tcp_later, 4), Event::FragmentHit),
            ],
        ),
        case(
            "only one first fragment follows a later one that came before it",
            World::usual(Slot::settled_on(1)),
            vec![
                reaches(&c, 2),
                Step::Slots(Slot::settled_on(3)),
                counting(reaches(&a, 2), Event::FragmentHit),
                counting(reaches(&b, 2), Event::FragmentHit),
                reaches(&other_flow, 4),
                reaches(&b, 4),
            ],
        ),
        case(
            "fragments are dropped where the service says so",
            drop_them,
            vec![drops(&a, Outcome::DroppedFragment), drops(&b, Outcome::DroppedFragment)],
        ),
        case(
            "tiny, overlapping and unplaced fragments are refused",
            World::usual(Slot::settled_on(1)),
            vec![
                drops(&tiny, Outcome::DroppedTinyFragment),
                drops(&overlap, Outcome::DroppedOverlappingFragment),
                drops(&tcp_later, Outcome::DroppedUnknownFragment),
            ],
        ),
        case(
            "fragments of a protocol that the VIP does not serve pass, first or later",
            udp_alone,
            vec![
                passes(&tcp_later, Outcome::PassedNoService),
                passes(&tcp_first, Outcome::PassedNoService),
                passes(&tcp_later, Outcome::PassedNoService),
            ],
        ),
        case(
            "the rest of a datagram to a port that nobody serves passes as its first fragment does",
            World::usual(Slot::settled_on(1)),
            vec![
                passes(&other_port, Outcome::PassedNoService),
                passes(&its_rest, Outcome::PassedNoService),
                reaches(&a, 2),
                reaches(&b, 2),
            ],
        ),
    ]
}
