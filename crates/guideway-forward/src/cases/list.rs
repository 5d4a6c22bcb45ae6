//! The cases, grouped by what they are about.

use std::format;
use std::string::{String, ToString};
use std::vec;
use std::vec::Vec;

use guideway_wire::{Address, Tunnel};

use super::packets::{self, Tcp, hash_bytes, tunnelled};
use super::world::{CLIENT4, OWN_MAC, OWN4, ROUTER_MAC, ServiceSpec, VIP4, World};
use super::{Case, Expect, Output, Step};
use crate::outcome::{Event, Outcome};
use crate::record::{BackendState, FragmentRule, NoBackendRule, OrphanRule, Slot, UdpRule};

/// Every case.
pub fn all() -> Vec<Case> {
    let mut cases = families();
    cases.extend(persistence());
    cases.extend(udp());
    cases.extend(icmp_errors());
    cases.extend(sizes());
    cases.extend(fragments());
    cases.extend(quic());
    cases.extend(edges());
    cases
}

fn case(name: impl Into<String>, world: World, steps: Vec<Step>) -> Case {
    Case { name: name.into(), world, steps }
}

/// `input` must reach backend `10.0.0.last` by IPIP.
fn reaches(input: &[u8], last: u8) -> Step {
    let output = Output::Frame(tunnelled(input, Tunnel::Ipip, true, last), Vec::new());
    step(input, Outcome::Forwarded, output)
}

fn step(input: &[u8], outcome: Outcome, output: Output) -> Step {
    Step::Frame { input: input.to_vec(), expect: Expect { outcome, output, event: None } }
}

fn counting(step: Step, event: Event) -> Step {
    match step {
        Step::Frame { input, expect } => {
            Step::Frame { input, expect: Expect { event: Some(event), ..expect } }
        }
        other => other,
    }
}

fn passes(input: &[u8], outcome: Outcome) -> Step {
    step(input, outcome, Output::Same)
}

fn drops(input: &[u8], outcome: Outcome) -> Step {
    step(input, outcome, Output::Any)
}

/// A VIP of either family over an underlay of either family by every tunnel.
fn families() -> Vec<Case> {
    let tunnels = [Tunnel::Ipip, Tunnel::Gre, Tunnel::GueDirect, Tunnel::GueHeader];
    let mut cases = Vec::new();
    for tunnel in tunnels {
        for (vip4, underlay4) in [(true, true), (true, false), (false, true), (false, false)] {
            let name = format!("{tunnel:?}: {} in {}", family(vip4), family(underlay4));
            let world = World::usual(Slot::settled_on(1)).with_tunnel(tunnel, underlay4);
            let expected = |input: &[u8]| {
                let frame = tunnelled(input, tunnel, underlay4, 2);
                step(input, Outcome::Forwarded, Output::Frame(frame, hash_bytes(tunnel, underlay4)))
            };
            let mut marked = packets::udp(true, 5_000, b"marked");
            // DSCP 46 and ECT(0), both copied outside; the inner checksum stays as wrong as it now is.
            if let Some(class) = marked.get_mut(15) {
                *class = 0xba;
            }
            let steps = vec![
                expected(&packets::tcp(vip4, 40_000, Tcp::Ack, 64)),
                expected(&packets::udp(vip4, 40_000, b"payload")),
                expected(&marked),
            ];
            cases.push(case(name, world, steps));
        }
    }
    cases
}

const fn family(v4: bool) -> &'static str {
    if v4 { "IPv4" } else { "IPv6" }
}

/// TCP in settled and unsettled slots.
fn persistence() -> Vec<Case> {
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
            "a closing flow is soon forgotten",
            World::usual(unsettled),
            then(vec![
                reaches(&fin, 2),
                Step::Pass(5),
                reaches(&ack, 2),
                Step::Pass(11),
                counting(reaches(&ack, 1), Event::FlowMiss),
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

fn with_prior(prior: Slot) -> World {
    let mut world = World::usual(Slot::settled_on(1));
    for service in &mut world.services {
        service.prior = vec![prior; 7];
    }
    world
}

fn in_grace(mut world: World) -> World {
    for service in &mut world.services {
        service.prior_in_grace = true;
    }
    world
}

/// UDP by grace, tracked, and re-hashed.
fn udp() -> Vec<Case> {
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

/// Errors from routers on the way from the VIP to the client.
fn icmp_errors() -> Vec<Case> {
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

/// Packets that do not fit into the tunnel.
fn sizes() -> Vec<Case> {
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

/// A datagram of three fragments, in both orders.
fn fragments() -> Vec<Case> {
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
    let tcp_first = packets::fragment_v4(
        6,
        4,
        0,
        true,
        &[0, 1, 0, 80, 0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x10, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0],
    );
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

/// Server ids of two bytes behind the first byte of the connection id; `0x0003` is the third backend.
fn quic() -> Vec<Case> {
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

/// What is not for a service, or cannot be served.
fn edges() -> Vec<Case> {
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
