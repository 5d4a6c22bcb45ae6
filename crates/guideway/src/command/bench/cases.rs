//! The kinds of packets, and how long each may take.

use guideway_forward::outcome::Pass;
use guideway_forward::record::{Policy, UdpRule};
use guideway_forward::{Event, Outcome};
use guideway_wire::Tunnel;
use guideway_xdp::harness::{Clients, Course, Services};

use super::frames::{
    ACK, CLIENT, DESTINATION, QUOTED_CLIENT, SOURCE, SOURCE6, SYN, fragment, icmp_error, tcp, tcp6, udp,
};
use super::world::{Group, SERVER_ID};

/// One kind of packet.
pub(super) struct Case {
    pub(super) name: &'static str,
    pub(super) goal: Goal,
    pub(super) course: Course,
    /// What becomes of every packet.
    pub(super) outcome: Outcome,
    /// What has to be counted besides, for every packet or nearly every one.
    pub(super) event: Option<Event>,
    /// A packet that has to come before.
    pub(super) opener: Option<Vec<u8>>,
    /// Whether its way is also timed step by step.
    pub(super) by_steps: bool,
    /// Of how many lines of memory each read picks one whose place another read has told: where the service is, its record,
    /// the slot, the backend. None where they fit the caches.
    pub(super) reads: &'static [u32],
}

/// How long a packet may take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Goal {
    /// Nanoseconds.
    Within(f64),
    /// So many times what the case of this name takes.
    Times(f64, &'static str),
    /// Only measured.
    None,
}

pub(super) const ONE_FLOW: &str = "TCP, established, 1 flow";
pub(super) const MANY_FLOWS: &str = "TCP, established, 1,048,576 flows";
const SOME_FLOWS: &str = "TCP, established, 65,536 flows";

const ONE: u32 = 0;
const SOME: u32 = 0xffff;
const MANY: u32 = 0xf_ffff;
/// So many that none comes twice within a run.
const NEW: u32 = 0xff_ffff;

/// Where each group of services listens.
const fn vip(group: u32) -> u32 {
    // 198.18.0.0/15 is for benchmarks (RFC 2544 appendix C.2.2).
    0xc612_0000 + (group << 8)
}

/// The services of the ordinary cases, which fit the default limits together.
pub(super) fn ordinary_groups() -> Vec<Group> {
    vec![
        Group::usual(vip(0)),
        Group { settled: false, ..Group::usual(vip(1)) },
        Group::udp(vip(2)),
        Group { policy: Policy(0).with_udp(UdpRule::Track), ..Group::udp(vip(3)) },
        Group { ipv6: true, underlay_v6: true, ..Group::usual(vip(4)) },
        Group { underlay_v6: true, ..Group::usual(vip(5)) },
        Group { tunnel: Tunnel::GueDirect, ..Group::usual(vip(6)) },
        Group { tunnel: Tunnel::GueHeader, ..Group::usual(vip(7)) },
        Group { tunnel: Tunnel::Gre, ..Group::usual(vip(8)) },
        Group { policy: Policy(0).with_quic(Some((1, 2))), ..Group::udp(vip(9)) },
        Group { services: 100, slots: 1_021, ..Group::usual(vip(10)) },
    ]
}

/// New flows only, in a flow table of their own: they fill it, so that each takes the place of another.
pub(super) fn flood() -> Vec<Case> {
    vec![counting(
        case("TCP, new, unsettled slots, full table", Goal::Within(150.0), tcp(vip(1), SYN), NEW),
        Event::FlowInserted,
    )]
}

/// The services of the large cases.
pub(super) fn large_groups() -> Vec<Group> {
    vec![
        Group { services: 10_000, slots: 1_021, ..Group::usual(vip(0)) },
        Group { backends: 10_000, slots: 1_000_003, ..Group::usual(vip(100)) },
    ]
}

pub(super) fn ordinary() -> Vec<Case> {
    let quic = udp(vip(9), &[0x40, 9, 0, SERVER_ID as u8, 1, 2, 3, 4, 5, 6, 7, 8]);
    let later = Case {
        opener: Some(fragment(vip(2), true)),
        event: Some(Event::FragmentHit),
        ..case("UDP, later fragment", Goal::None, fragment(vip(2), false), ONE)
    };
    let error = Clients { at: QUOTED_CLIENT, first: CLIENT, mask: SOME };
    let hundred = Services { at: DESTINATION, first: vip(10), count: 100 };
    vec![
        case(ONE_FLOW, Goal::Within(50.0), tcp(vip(0), ACK), ONE),
        case(SOME_FLOWS, Goal::Within(60.0), tcp(vip(0), ACK), SOME),
        Case { by_steps: true, ..case(MANY_FLOWS, Goal::Within(60.0), tcp(vip(0), ACK), MANY) },
        case("TCP, new, settled slots", Goal::Times(1.1, MANY_FLOWS), tcp(vip(0), SYN), MANY),
        counting(
            case("TCP, established, unsettled slots, 4,096 flows", Goal::None, tcp(vip(1), ACK), 0xfff),
            Event::FlowHit,
        ),
        case("UDP by grace, settled slots", Goal::None, udp(vip(2), b"hello"), SOME),
        counting(case("UDP tracked, 4,096 flows", Goal::None, udp(vip(3), b"hello"), 0xfff), Event::FlowHit),
        case_at("IPv6 in IPv6", Goal::Within(65.0), tcp6(vip(4), ACK), SOURCE6),
        case("IPv4 in IPv6", Goal::None, tcp(vip(5), ACK), SOME),
        case("GUE, variant 1", Goal::Within(65.0), tcp(vip(6), ACK), SOME),
        case("GUE, variant 0", Goal::Within(65.0), tcp(vip(7), ACK), SOME),
        case("GRE", Goal::None, tcp(vip(8), ACK), SOME),
        case("QUIC by server id", Goal::None, quic, SOME),
        varying(case("ICMP error", Goal::None, icmp_error(vip(0)), ONE), Some(error), None),
        later,
        Case {
            outcome: Pass::NotVip.outcome(),
            ..case("not for a VIP", Goal::Within(20.0), tcp(vip(200), ACK), SOME)
        },
        varying(
            case("100 services at random", Goal::Times(2.0, MANY_FLOWS), tcp(vip(10), ACK), MANY),
            Some(Clients { at: SOURCE, first: CLIENT, mask: MANY }),
            Some(hundred),
        ),
    ]
}

pub(super) fn large() -> Vec<Case> {
    let clients = Some(Clients { at: SOURCE, first: CLIENT, mask: MANY });
    let services = Services { at: DESTINATION, first: vip(0), count: 10_000 };
    let many_services = varying(
        case("10,000 services at random", Goal::Times(2.0, MANY_FLOWS), tcp(vip(0), ACK), MANY),
        clients,
        Some(services),
    );
    let many_backends =
        case("10,000 backends at random", Goal::Times(2.0, MANY_FLOWS), tcp(vip(100), ACK), MANY);
    vec![
        Case { by_steps: true, reads: &[10_000, 10_000, 10_000 * 1_021 / 16, 100_000], ..many_services },
        Case { by_steps: true, reads: &[1_000_003 / 16, 10_000], ..many_backends },
    ]
}

fn case(name: &'static str, goal: Goal, frame: Vec<u8>, flows: u32) -> Case {
    let clients = (flows != ONE).then_some(Clients { at: SOURCE, first: CLIENT, mask: flows });
    let course = Course { frame, clients, services: None };
    Case {
        name,
        goal,
        course,
        outcome: Outcome::Forwarded,
        event: None,
        opener: None,
        by_steps: false,
        reads: &[],
    }
}

fn case_at(name: &'static str, goal: Goal, frame: Vec<u8>, at: u32) -> Case {
    varying(case(name, goal, frame, ONE), Some(Clients { at, first: CLIENT, mask: SOME }), None)
}

fn counting(case: Case, event: Event) -> Case {
    Case { event: Some(event), ..case }
}

fn varying(case: Case, clients: Option<Clients>, services: Option<Services>) -> Case {
    let course = Course { clients, services, ..case.course };
    Case { course, ..case }
}
