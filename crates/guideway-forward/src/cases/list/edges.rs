//! What is not for a service, or cannot be served.

use std::format;
use std::string::ToString;
use std::vec;
use std::vec::Vec;

use guideway_wire::{Address, Tunnel};

use super::{case, drops, passes, reaches, step};
use crate::cases::packets::{self, Tcp, hash_bytes, tunnelled};
use crate::cases::world::{CLIENT4, OWN_MAC, OWN4, ROUTER_MAC, ServiceSpec, VIP4, World};
use crate::cases::{Case, Output};
use crate::outcome::Outcome;
use crate::record::{BackendState, NoBackendRule, Slot};

pub(super) fn cases() -> Vec<Case> {
    let usual = || World::usual(Slot::settled_on(1));
    let syn = packets::tcp(true, 40_000, Tcp::Syn, 0);
    let datagram = packets::udp(true, 5_000, b"hello");
    let patched = |frame: &[u8], at: usize, bytes: &[u8]| {
        let mut frame = frame.to_vec();
        if let Some(place) = frame.get_mut(at..at + bytes.len()) {
            place.copy_from_slice(bytes);
        }
        frame
    };
    let elsewhere = |frame: &[u8]| patched(frame, 30, &[192, 0, 2, 99]);
    let arp = [&[0xff; 6][..], &ROUTER_MAC, &[8, 6], &[0; 28]].concat();
    let mut tagged = syn.get(..12).unwrap_or_default().to_vec();
    tagged.extend([0x81, 0, 0x20, 100]);
    tagged.extend(syn.get(12..).unwrap_or_default());
    let mut tagged_out = tunnelled(&syn, Tunnel::Ipip, true, 2);
    tagged_out.splice(12..12, [0x81, 0, 0x20, 100]);
    let mut padded = syn.clone();
    padded.resize(64, 0);
    let empty = World::usual(Slot::EMPTY);
    let silent = empty.clone().with_policy(|policy| policy.with_no_backend(NoBackendRule::Drop));
    let mut unreachable = usual();
    for backend in &mut unreachable.backends {
        backend.next_hop.neighbour = [0; 6];
    }
    let mut any = usual();
    any.services.push(ServiceSpec::new(Address::v4(VIP4), 0, 17, Slot::settled_on(2)));
    let mut prefix = ServiceSpec::new(Address::v4([203, 0, 113, 0]), 0, 6, Slot::settled_on(3));
    prefix.prefix_bits = Some(96 + 24);
    any.services.push(prefix);
    let to_gue = patched(&datagram, 36, &6080u16.to_be_bytes());
    let in_gue = any.clone().with_tunnel(Tunnel::GueDirect, true);
    vec![
        case(
            "what is not for a VIP passes untouched",
            usual(),
            vec![
                passes(&arp, Outcome::PassedNotIp),
                passes(&elsewhere(&syn), Outcome::PassedNotVip),
                passes(&elsewhere(&packets::echo(true, b"ping")), Outcome::PassedNotVip),
                passes(&elsewhere(&packets::fragment_v4(17, 1, 0, true, &[0; 4])), Outcome::PassedNotVip),
                passes(&elsewhere(&packets::fragment_v4(17, 1, 80, true, &[0; 8])), Outcome::PassedNotVip),
                passes(&elsewhere(&patched(&syn, 14, &[0x41])), Outcome::PassedNotVip),
                passes(&elsewhere(&patched(&syn, 23, &[4])), Outcome::PassedNotVip),
                passes(&[1, 2, 3], Outcome::PassedNotVip),
            ],
        ),
        case(
            "what is for a VIP without a service passes",
            usual(),
            vec![
                passes(&patched(&syn, 36, &[0, 81]), Outcome::PassedNoService),
                passes(&patched(&syn, 23, &[132]), Outcome::PassedNoService),
                passes(&patched(&syn, 23, &[4]), Outcome::PassedTunnel),
                passes(&patched(&syn, 23, &[41]), Outcome::PassedTunnel),
                passes(&patched(&syn, 23, &[47]), Outcome::PassedTunnel),
            ],
        ),
        case(
            "what is broken for a VIP is dropped",
            usual(),
            vec![
                drops(&patched(&syn, 14, &[0x41]), Outcome::DroppedMalformed),
                drops(&patched(&syn, 16, &[9, 9]), Outcome::DroppedTruncated),
                drops(&patched(&syn, 46, &[0x10]), Outcome::DroppedMalformed),
                drops(&patched(&syn, 22, &[0]), Outcome::DroppedTtl),
                drops(&patched(&syn, 26, &VIP4), Outcome::DroppedBadSource),
                drops(&patched(&syn, 26, &[224, 0, 0, 1]), Outcome::DroppedBadSource),
                drops(&patched(&syn, 26, &OWN4), Outcome::DroppedOwnSource),
                reaches(&patched(&syn, 22, &[1]), 2),
            ],
        ),
        case(
            "an echo request to a VIP is answered",
            usual(),
            vec![
                step(&packets::echo(true, b"ping"), Outcome::AnsweredEcho, Output::Echo),
                step(&packets::echo(false, b"ping"), Outcome::AnsweredEcho, Output::Echo),
            ],
        ),
        case(
            "an empty service rejects",
            empty,
            vec![
                step(&packets::tcp(true, 40_000, Tcp::Ack, 0), Outcome::AnsweredReset, Output::Reset(77)),
                step(&syn, Outcome::AnsweredReset, Output::Reset(0)),
                step(&datagram, Outcome::AnsweredUnreachable, Output::Unreachable),
                step(
                    &packets::udp(false, 5_000, b"hello"),
                    Outcome::AnsweredUnreachable,
                    Output::Unreachable,
                ),
                drops(&packets::tcp(true, 40_000, Tcp::Rst, 0), Outcome::DroppedNoBackendUnanswered),
            ],
        ),
        case(
            "an empty service is silent if it says so",
            silent,
            vec![drops(&syn, Outcome::DroppedNoBackend), drops(&datagram, Outcome::DroppedNoBackend)],
        ),
        case(
            "tags stay and padding goes",
            usual(),
            vec![
                step(&tagged, Outcome::Forwarded, Output::Frame(tagged_out, Vec::new())),
                reaches(&padded, 2),
            ],
        ),
        case(
            "without a neighbour nothing leaves",
            unreachable,
            vec![drops(&syn, Outcome::DroppedNoNeighbour)],
        ),
        case(
            "a slot that names nobody is stale",
            usual().with_state(1, BackendState::Free),
            vec![drops(&syn, Outcome::DroppedStaleSlot)],
        ),
        case(
            "any port and prefixes",
            any,
            vec![
                reaches(&datagram, 2),
                reaches(&patched(&datagram, 36, &[0, 9]), 3),
                reaches(&to_gue, 3),
                reaches(&patched(&syn, 30, &[203, 0, 113, 77]), 4),
                passes(&patched(&syn, 30, &[203, 0, 114, 77]), Outcome::PassedNotVip),
                passes(&patched(&datagram, 30, &[203, 0, 113, 77]), Outcome::PassedNoService),
            ],
        ),
        case(
            "a packet in GUE is not put into GUE again",
            in_gue,
            vec![
                drops(&to_gue, Outcome::DroppedAlreadyEncapsulated),
                step(
                    &datagram,
                    Outcome::Forwarded,
                    Output::Frame(
                        tunnelled(&datagram, Tunnel::GueDirect, true, 2),
                        hash_bytes(Tunnel::GueDirect, true),
                    ),
                ),
            ],
        ),
        case(
            format!("replies of {} are nobody's business", CLIENT4.map(|byte| byte.to_string()).join(".")),
            usual(),
            vec![passes(
                &patched(&patched(&packets::echo(true, b"pong"), 34, &[0]), 6, &OWN_MAC),
                Outcome::PassedIcmp,
            )],
        ),
    ]
}
