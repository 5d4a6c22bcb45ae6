//! `replay`: packets a second on one core, and where the time of a packet goes.
//!
//! Every case runs the same frames through growing parts of the path, in turns: copying the frame into a buffer, as every
//! replay must; parsing; encapsulating; the whole decision; and the replay around it with clock and events. A share is
//! the difference between two neighbours.

use std::fmt::Write;
use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use guideway_control::Controller;
use guideway_control::controller::spec::{
    Admin, AllDown, BackendSpec, Health, Listen, Protocol, ServiceSpec, TableRule, TableSizeSpec, TableSpec,
    TunnelSpec,
};
use guideway_control::replay::{HEAD_ROOM, Replay};
use guideway_forward::Verdict;
use guideway_forward::record::Policy;
use guideway_forward::record::backend::NextHop;
use guideway_soft::{Limits, Memory, Worker};
use guideway_wire::encap::encapsulate;
use guideway_wire::{EncapSpec, MacAddr, Outer, SliceFrame, Tunnel, parse};
use serde_json::{Value, json};

use crate::measure::{Candidate, machine, medians};
use crate::traffic::{BACKENDS, Capture, Kind, VIP4, VIP6};

/// What the mixed case is made of, in hundredths.
const MIX: &[(u32, Kind)] = &[
    (45, Kind::Tcp { v4: true }),
    (20, Kind::Tcp { v4: false }),
    (10, Kind::Syn),
    (15, Kind::Quic),
    (5, Kind::Dns),
    (4, Kind::Stranger),
    (1, Kind::IcmpError),
];

const CASES: &[(&str, &[(u32, Kind)])] = &[
    ("mixed", MIX),
    ("TCP, IPv4", &[(1, Kind::Tcp { v4: true })]),
    ("TCP, IPv6", &[(1, Kind::Tcp { v4: false })]),
    ("QUIC by server id", &[(1, Kind::Quic)]),
    ("not for a VIP", &[(1, Kind::Stranger)]),
];

/// The goal for the mixed case.
const GOAL_PER_SECOND: f64 = 5e6;

pub(crate) struct Report {
    machine: String,
    frames: usize,
    cases: Vec<Case>,
}

struct Case {
    name: &'static str,
    forwarded: usize,
    /// Nanoseconds a packet of each part, in the order of [`PARTS`].
    parts: [f64; 5],
}

const PARTS: [&str; 5] = ["copy", "parse", "encapsulate", "decide", "replay"];

impl Case {
    fn ns(&self) -> f64 {
        self.parts.iter().sum()
    }

    fn per_second(&self) -> f64 {
        1e9 / self.ns()
    }
}

pub(crate) fn run(quick: bool) -> Report {
    let frames = if quick { 250_000 } else { 1_000_000 };
    let rounds = if quick { 5 } else { 9 };
    let mut cases: Vec<Case> =
        CASES.iter().map(|&(name, kinds)| case(name, &Capture::new(frames, kinds), rounds, false)).collect();
    cases.push(case("mixed, all slots unsettled", &Capture::new(frames, MIX), rounds, true));
    Report { machine: machine(), frames, cases }
}

fn services() -> Vec<ServiceSpec> {
    let listen = |address: IpAddr, port: u16, protocol| {
        Listen::on(address, NonZeroU16::new(port).expect("ports above 0"), protocol)
    };
    let (v4, v6) = (IpAddr::from(VIP4), IpAddr::from(VIP6));
    let quic = Policy::default().with_quic(Some((1, 2)));
    let services = [
        ("web", vec![listen(v4, 80, Protocol::Tcp), listen(v6, 80, Protocol::Tcp)], Policy::default()),
        ("dns", vec![listen(v4, 53, Protocol::Udp)], Policy::default()),
        ("quic", vec![listen(v4, 443, Protocol::Udp)], quic),
    ];
    services.into_iter().map(|(name, listen, policy)| service(name, listen, policy)).collect()
}

fn service(name: &str, listen: Vec<Listen>, policy: Policy) -> ServiceSpec {
    let backend = |number: u8| BackendSpec {
        identity: format!("be{number}").into(),
        address: IpAddr::V4(Ipv4Addr::new(10, 0, 0, number)),
        weight: 1,
        admin: Admin::Active,
        tunnel: TunnelSpec {
            kind: Tunnel::Ipip,
            source: IpAddr::V4(Ipv4Addr::new(10, 0, 0, 254)),
            source_entropy_bits: 0,
            gue_port: guideway_wire::gue::PORT,
            mtu: 1_600,
            next_hop: NextHop { interface: 1, neighbour: [2; 6], own_mac: [4; 6], link_mtu: None },
        },
        quic_id: policy.quic().map(|_| u64::from(number)),
    };
    ServiceSpec {
        name: name.to_owned(),
        listen,
        table: TableSpec { rule: TableRule::Maglev, size: TableSizeSpec::Slots(65_537), seed: 1 },
        policy,
        tcp_idle_seconds: 900,
        udp_idle_seconds: 30,
        all_down: AllDown::LastResort,
        backends: (1..=BACKENDS).map(backend).collect(),
    }
}

/// A change of seed leaves no slot settled: every packet looks into the flow table.
fn unsettle(controller: &mut Controller<Arc<Memory>>) {
    for name in ["web", "dns", "quic"] {
        controller.resize(name, TableSizeSpec::Slots(65_537), 2).expect("there is room for both tables");
    }
}

fn worker(unsettled: bool) -> (Controller<Arc<Memory>>, Worker) {
    let limits = Limits { services: 3, backends: 128, slots: 500_000, flows: 1 << 18, ..Limits::default() };
    let mut controller = Controller::new(Arc::new(Memory::new(limits, [5, 6])));
    controller.add_services(services(), Health::Unchecked).expect("the services are valid");
    if unsettled {
        unsettle(&mut controller);
    }
    let worker = controller.engine().worker().expect("the first thread");
    (controller, worker)
}

/// The frames in one buffer after another, with head room.
fn each_frame<T>(capture: &Capture, buffer: &mut [u8], mut work: impl FnMut(SliceFrame<'_>) -> T) {
    for frame in capture.frames() {
        buffer[HEAD_ROOM..HEAD_ROOM + frame.len()].copy_from_slice(frame);
        let frame =
            SliceFrame::new(buffer, HEAD_ROOM, frame.len()).expect("the buffer holds the longest frame");
        black_box(work(frame));
    }
}

fn case(name: &'static str, capture: &Capture, rounds: usize, unsettled: bool) -> Case {
    let buffer = || vec![0; HEAD_ROOM + 2_048];
    let (_controller, forwarder) = worker(unsettled);
    let mut forwards = Vec::with_capacity(capture.len());
    each_frame(capture, &mut buffer(), |mut frame| {
        forwards.push(matches!(forwarder.process(&mut frame), Verdict::Forward(_)));
    });
    let forwarded = forwards.iter().filter(|&&forward| forward).count();
    let mut replay = Replay::new(services(), 1 << 18, Vec::new()).expect("the services are valid");
    if unsettled {
        unsettle(replay.controller_mut());
    }
    let spec = EncapSpec {
        tunnel: Tunnel::Ipip,
        outer: Outer::V4 { source: [10, 0, 0, 254], destination: [10, 0, 0, 1] },
        source_entropy_bits: 0,
        gue_port: guideway_wire::gue::PORT,
        source_mac: MacAddr([4; 6]),
        destination_mac: MacAddr([2; 6]),
    };
    let [mut first, mut second, mut third, mut fourth] = std::array::from_fn(|_| buffer());
    let mut candidates = [
        Candidate::new(PARTS[0], || each_frame(capture, &mut first, |frame| black_box(frame.bytes()).len())),
        Candidate::new(PARTS[1], || each_frame(capture, &mut second, |frame| parse(&frame))),
        Candidate::new(PARTS[2], || {
            let mut forwards = forwards.iter();
            each_frame(capture, &mut third, |mut frame| {
                let parsed = black_box(parse(&frame));
                match (parsed, forwards.next()) {
                    (Ok(parsed), Some(true)) => encapsulate(&mut frame, &parsed, &spec, 1).is_ok(),
                    _ => false,
                }
            });
        }),
        Candidate::new(PARTS[3], || {
            each_frame(capture, &mut fourth, |mut frame| forwarder.process(&mut frame));
        }),
        Candidate::new(PARTS[4], || {
            for frame in capture.frames() {
                black_box(replay.frame(Duration::from_secs(1), frame).expect("no change is scripted"));
            }
        }),
    ];
    let medians = medians(rounds, &mut candidates);
    let mut before = 0.0;
    let parts = std::array::from_fn(|part| {
        let ns = medians[part].1.as_secs_f64() * 1e9 / capture.len() as f64;
        let own = ns - before;
        before = ns;
        own
    });
    Case { name, forwarded, parts }
}

impl Report {
    pub(crate) fn to_text(&self) -> String {
        let mut text = format!("{}\n\n", self.machine);
        // Writing to a string doesn't fail.
        let _ = writeln!(
            text,
            "{} packets in memory, 65,536 flows, three services of {BACKENDS} backends, one core\n",
            self.frames
        );
        let _ = write!(text, "  {:<28}{:>14}{:>9}{:>11}", "", "M packets/s", "ns", "forwarded");
        for part in PARTS {
            let _ = write!(text, "{part:>13}");
        }
        for case in &self.cases {
            let share = 100.0 * case.forwarded as f64 / self.frames as f64;
            let _ = write!(
                text,
                "\n  {:<28}{:>14.2}{:>9.1}{:>9.0} %",
                case.name,
                case.per_second() / 1e6,
                case.ns(),
                share
            );
            for part in case.parts {
                let _ = write!(text, "{:>11.0} %", 100.0 * part / case.ns());
            }
        }
        let mixed = self.cases.first().map_or(0.0, Case::per_second);
        let _ =
            writeln!(text, "\n\nmixed: {:.2} times the goal of 5 million a second", mixed / GOAL_PER_SECOND);
        text
    }

    pub(crate) fn to_json(&self) -> Value {
        let case = |case: &Case| {
            let parts: serde_json::Map<String, Value> =
                PARTS.iter().zip(case.parts).map(|(part, ns)| ((*part).to_owned(), json!(ns))).collect();
            json!({
                "name": case.name,
                "packets_per_second": case.per_second(),
                "forwarded": case.forwarded,
                "ns_a_packet": parts,
            })
        };
        json!({
            "machine": self.machine,
            "packets": self.frames,
            "cases": self.cases.iter().map(case).collect::<Vec<_>>(),
        })
    }
}
