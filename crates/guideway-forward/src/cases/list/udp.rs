//! UDP by grace, tracked, and re-hashed.

use std::vec;
use std::vec::Vec;

use super::{case, counting, reaches, with_prior};
use crate::cases::packets::{self};
use crate::cases::world::World;
use crate::cases::{Case, Step};
use crate::outcome::Event;
use crate::record::{BackendState, Slot, UdpRule};

pub(super) fn cases() -> Vec<Case> {
    let (first, second) = (packets::udp(true, 5_000, b"first"), packets::udp(true, 5_001, b"second"));
    let unsettled = Slot::settled_on(0).change_owner(1);
    let rule = |slot: Slot, rule: UdpRule| World::usual(slot).with_policy(|policy| policy.with_udp(rule));
    vec![
        case(
            "a resize keeps older UDP flows where the prior table says, while its grace lasts",
            in_grace(with_prior(Slot::settled_on(2))),
            vec![counting(reaches(&first, 3), Event::FlowMiss), counting(reaches(&first, 3), Event::FlowHit)],
        ),
        case(
            "an unknown UDP flow is a new one when the grace of a resize is over",
            with_prior(Slot::settled_on(2)),
            vec![counting(reaches(&first, 2), Event::FlowMiss), counting(reaches(&first, 2), Event::FlowHit)],
        ),
        case(
            "in grace an unknown UDP flow is an old one",
            World::usual(unsettled),
            vec![
                counting(reaches(&first, 1), Event::FlowInserted),
                Step::Slots(unsettled.end_grace()),
                counting(reaches(&first, 1), Event::FlowHit),
                counting(reaches(&second, 2), Event::FlowInserted),
            ],
        ),
        case(
            "a fast UDP sender leaves a down backend at once",
            World::usual(unsettled),
            vec![
                reaches(&first, 1),
                Step::State(0, BackendState::Down),
                counting(reaches(&first, 2), Event::FlowVoid),
                counting(reaches(&first, 2), Event::FlowHit),
            ],
        ),
        case(
            "re-hashed UDP follows the change and is not remembered",
            rule(unsettled, UdpRule::Rehash),
            vec![reaches(&first, 2), Step::Slots(unsettled.change_owner(2)), reaches(&first, 3)],
        ),
        case(
            "tracked UDP is remembered in settled slots",
            rule(Slot::settled_on(1), UdpRule::Track),
            vec![
                counting(reaches(&first, 2), Event::FlowInserted),
                Step::Slots(Slot::settled_on(1).change_owner(2).end_grace()),
                counting(reaches(&first, 2), Event::FlowHit),
                reaches(&second, 3),
            ],
        ),
    ]
}

fn in_grace(mut world: World) -> World {
    for service in &mut world.services {
        service.prior_in_grace = true;
    }
    world
}
