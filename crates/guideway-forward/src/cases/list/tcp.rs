//! TCP in settled and unsettled slots.

use std::vec;
use std::vec::Vec;

use super::{case, counting, drops, reaches, step, with_prior};
use crate::cases::packets::{self, Tcp};
use crate::cases::world::World;
use crate::cases::{Case, Output, Step};
use crate::outcome::{Event, Outcome};
use crate::record::{BackendState, OrphanRule, Slot};

pub(super) fn cases() -> Vec<Case> {
    let (syn, ack) = (packets::tcp(true, 40_000, Tcp::Syn, 0), packets::tcp(true, 40_000, Tcp::Ack, 9));
    let (fin, reset) = (packets::tcp(true, 40_000, Tcp::Fin, 0), packets::tcp(true, 40_000, Tcp::Rst, 0));
    let unsettled = Slot::settled_on(0).change_owner(1);
    let pinned = [reaches(&syn, 2), reaches(&ack, 2)];
    let then = |steps: Vec<Step>| pinned.iter().cloned().chain(steps).collect::<Vec<_>>();
    let rehash = |world: World| world.with_policy(|policy| policy.with_orphans(OrphanRule::Rehash));
    let gone = World::usual(unsettled).with_state(0, BackendState::Down);
    vec![
        case(
            "a settled slot keeps every packet",
            World::usual(Slot::settled_on(2)),
            vec![reaches(&syn, 3), reaches(&ack, 3), reaches(&fin, 3), reaches(&reset, 3)],
        ),
        case(
            "an older flow stays, a new one follows the change",
            World::usual(unsettled),
            vec![
                counting(reaches(&ack, 1), Event::FlowAdopted),
                counting(reaches(&packets::tcp(true, 40_001, Tcp::Syn, 0), 2), Event::FlowInserted),
                counting(reaches(&packets::tcp(true, 40_001, Tcp::Ack, 0), 2), Event::FlowHit),
            ],
        ),
        case(
            "port reuse while the old backend drains",
            World::usual(unsettled),
            then(vec![
                Step::Slots(unsettled.change_owner(2)),
                Step::State(1, BackendState::Draining),
                reaches(&ack, 2),
                counting(reaches(&syn, 3), Event::FlowRewritten),
                reaches(&ack, 3),
            ]),
        ),
        case(
            "port reuse after the old backend is gone",
            World::usual(unsettled),
            then(vec![
                Step::Slots(unsettled.change_owner(2)),
                Step::State(1, BackendState::Free),
                counting(reaches(&syn, 3), Event::FlowRewritten),
                reaches(&ack, 3),
            ]),
        ),
        case(
            "a slot that returned to its first owner keeps the flows between",
            World::usual(unsettled),
            then(vec![
                Step::Slots(unsettled.change_owner(0)),
                reaches(&ack, 2),
                reaches(&packets::tcp(true, 40_002, Tcp::Ack, 0), 1),
            ]),
        ),
        case(
            "a resize keeps older flows where the prior table says",
            with_prior(Slot::settled_on(2)),
            vec![
                counting(reaches(&ack, 3), Event::FlowAdopted),
                reaches(&packets::tcp(true, 40_003, Tcp::Syn, 0), 2),
            ],
        ),
        case(
            "an orphan is reset",
            gone.clone(),
            vec![
                counting(step(&ack, Outcome::AnsweredReset, Output::Reset(77)), Event::MidflowNoEntry),
                counting(drops(&reset, Outcome::DroppedOrphan), Event::MidflowNoEntry),
            ],
        ),
        case(
            "an orphan is sent to the present owner",
            rehash(gone),
            vec![
                counting(reaches(&ack, 2), Event::MidflowNoEntry),
                counting(reaches(&ack, 2), Event::FlowHit),
            ],
        ),
        case(
            "an entry to a down backend is void",
            World::usual(unsettled),
            then(vec![
                Step::Slots(unsettled.change_owner(2)),
                Step::State(1, BackendState::Down),
                counting(step(&ack, Outcome::AnsweredReset, Output::Reset(77)), Event::FlowVoid),
            ]),
        ),
        case(
            "the last backends known are used when the table says so",
            World::usual(Slot::settled_on(1)).with_state(1, BackendState::Down),
            vec![reaches(&syn, 2), reaches(&ack, 2)],
        ),
        case(
            "a half-open flow is forgotten first",
            World::usual(unsettled),
            vec![reaches(&syn, 2), Step::Pass(31), counting(reaches(&ack, 1), Event::FlowMiss)],
        ),
        case(
            "a flow whose client closed its half may be silent for a minute",
            World::usual(unsettled),
            then(vec![
                reaches(&fin, 2),
                Step::Pass(60),
                counting(reaches(&ack, 2), Event::FlowHit),
                Step::Pass(60),
                counting(reaches(&ack, 2), Event::FlowHit),
                Step::Pass(61),
                counting(reaches(&ack, 1), Event::FlowMiss),
            ]),
        ),
        case(
            "a flow that was reset is soon forgotten",
            World::usual(unsettled),
            then(vec![
                reaches(&fin, 2),
                reaches(&reset, 2),
                Step::Pass(10),
                reaches(&reset, 2),
                Step::Pass(11),
                counting(reaches(&ack, 1), Event::FlowMiss),
            ]),
        ),
        case(
            "a flow that speaks after a reset lives",
            World::usual(unsettled),
            then(vec![
                reaches(&reset, 2),
                Step::Pass(5),
                reaches(&ack, 2),
                Step::Pass(300),
                counting(reaches(&ack, 2), Event::FlowHit),
            ]),
        ),
        case(
            "tracking always remembers in settled slots",
            World::usual(Slot::settled_on(1)).with_policy(|policy| policy.with_track_tcp(true)),
            vec![
                counting(reaches(&syn, 2), Event::FlowInserted),
                Step::Slots(Slot::settled_on(2)),
                counting(reaches(&ack, 2), Event::FlowHit),
            ],
        ),
    ]
}
