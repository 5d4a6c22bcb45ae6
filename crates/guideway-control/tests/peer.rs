//! The packets of a peer's own tests, through Guideway's core as the controller sets it up: the same action and the same
//! frame, but for the differences that `peer/cases.toml` names and `docs/peer-packet-cases.md` explains.

use std::collections::BTreeSet;
use std::sync::Arc;

use guideway_control::Controller;
use guideway_control::config::{self, Source};
use guideway_control::controller::from_config;
use guideway_control::controller::spec::Health;
use guideway_forward::Verdict;
use guideway_soft::{Limits, Memory};
use guideway_wire::SliceFrame;
use serde::Deserialize;

const CASES: &str = include_str!("peer/cases.toml");
const EXPLAINED: &str = include_str!("../../../docs/peer-packet-cases.md");
const HEAD_ROOM: usize = 128;
/// The port of GUE that the peer's tests use.
const PEER_GUE_PORT: u16 = 9_886;

#[derive(Deserialize)]
struct Cases {
    suite: Vec<Suite>,
}

#[derive(Deserialize)]
struct Suite {
    name: String,
    config: String,
    case: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    name: String,
    peer: String,
    ours: String,
    #[serde(default)]
    differs: BTreeSet<String>,
    r#in: String,
    out: Option<String>,
}

fn bytes(hex: &str) -> Vec<u8> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16).unwrap() as u8;
    hex.as_bytes().chunks_exact(2).map(|pair| digit(&pair[0]) << 4 | digit(&pair[1])).collect()
}

fn memory(config: &str) -> Arc<Memory> {
    let text = match config {
        "ipip" => include_str!("peer/ipip.toml"),
        "gue" => include_str!("peer/gue.toml"),
        other => panic!("no configuration {other}"),
    };
    let config = config::parse(&Source::new(config, text)).unwrap();
    let mut services = from_config::services(&config);
    for backend in services.iter_mut().flat_map(|service| &mut service.backends) {
        backend.tunnel.gue_port = PEER_GUE_PORT;
    }
    let mut controller = Controller::new(Arc::new(Memory::new(Limits::default(), [1, 2])));
    controller.add_services(services, Health::Unchecked).unwrap();
    Arc::clone(controller.engine())
}

fn action(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Forward(_) | Verdict::Answer(_) => "transmit",
        Verdict::Pass(_) => "pass",
        Verdict::Drop(_) => "drop",
    }
}

#[test]
fn the_peers_packets_fare_as_with_the_peer_but_for_the_differences_that_are_explained() {
    let cases: Cases = toml::from_str(CASES).unwrap();
    let (mut packets, mut same_action, mut wrong) = (0, 0, Vec::new());
    for suite in &cases.suite {
        let memory = memory(&suite.config);
        let mut worker = memory.worker().unwrap();
        worker.refresh();
        for case in &suite.case {
            packets += 1;
            let input = bytes(&case.r#in);
            let mut buffer = vec![0xa5; HEAD_ROOM];
            buffer.extend(&input);
            let mut frame = SliceFrame::new(&mut buffer, HEAD_ROOM, input.len()).unwrap();
            let verdict = worker.process(&mut frame);
            let outcome = verdict.outcome().as_str();
            same_action += usize::from(action(&verdict) == case.peer);
            let differs = match (&verdict, &case.out) {
                (Verdict::Forward(_), Some(out)) => forwarded(&input, &bytes(out), frame.bytes()),
                (Verdict::Answer(_), Some(out)) => answered(&bytes(out), frame.bytes()),
                _ => BTreeSet::new(),
            };
            if outcome != case.ours || differs != case.differs {
                wrong.push(format!("{}: {}: {outcome} {differs:?}", suite.name, case.name));
            }
            if !matches!(verdict, Verdict::Forward(_) | Verdict::Answer(_)) {
                assert_eq!(frame.bytes(), input, "{} is left as it was", case.name);
            }
        }
        memory.totals().balance().unwrap();
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!((packets, same_action), (47, 44));
}

#[test]
fn every_difference_is_explained() {
    let cases: Cases = toml::from_str(CASES).unwrap();
    for case in cases.suite.iter().flat_map(|suite| &suite.case) {
        for difference in &case.differs {
            assert!(EXPLAINED.contains(&format!("`{difference}`")), "{difference}, in {:?}", case.name);
        }
        let (peer, ours) = (case.peer.as_str(), case.ours.as_str());
        let agree = match peer {
            "transmit" => ours.starts_with("forwarded") || ours.starts_with("answered"),
            "pass" => ours.starts_with("passed"),
            "drop" => ours.starts_with("dropped"),
            other => panic!("{other}"),
        };
        assert!(agree || EXPLAINED.contains(&format!("| {} |", case.name)), "{:?}", case.name);
    }
}

/// A field of a header: its name and its bytes, with a mask for those that begin or end inside a byte.
type Field = (&'static str, std::ops::Range<usize>, &'static [u8]);

/// Of a frame with an IPv4 header. The header checksum follows from the others and is checked by itself.
const IPV4: [Field; 9] = [
    ("ethernet", 0..14, &[]),
    ("ip version", 14..15, &[]),
    ("traffic class", 15..16, &[]),
    ("length", 16..18, &[]),
    ("identification", 18..20, &[]),
    ("df", 20..22, &[]),
    ("ttl", 22..23, &[]),
    ("protocol", 23..24, &[]),
    ("source", 26..30, &[]),
];

/// Of a frame with an IPv6 header.
const IPV6: [Field; 7] = [
    ("ethernet", 0..14, &[]),
    ("traffic class", 14..16, &[0xff, 0xf0]),
    ("flow label", 15..18, &[0x0f, 0xff, 0xff]),
    ("length", 18..20, &[]),
    ("protocol", 20..21, &[]),
    ("ttl", 21..22, &[]),
    ("source", 22..38, &[]),
];

/// Of the UDP header behind an outer IPv6 header.
const GUE: [Field; 4] = [
    ("gue source port", 54..56, &[]),
    ("gue destination port", 56..58, &[]),
    ("gue length", 58..60, &[]),
    ("gue checksum", 60..62, &[]),
];

fn unlike<'a>(
    fields: &'a [Field],
    left: &'a [u8],
    right: &'a [u8],
) -> impl Iterator<Item = &'static str> + 'a {
    let masked = |frame: &[u8], range: &std::ops::Range<usize>, mask: &[u8]| -> Vec<u8> {
        let mask = mask.iter().chain(std::iter::repeat(&0xff));
        frame[range.clone()].iter().zip(mask).map(|(byte, mask)| byte & mask).collect()
    };
    let differs = move |(_, range, mask): &&Field| masked(left, range, mask) != masked(right, range, mask);
    fields.iter().filter(differs).map(|(name, ..)| *name)
}

fn is_v4(frame: &[u8]) -> bool {
    frame[14] >> 4 == 4
}

fn assert_ipv4_checksum(frame: &[u8]) {
    let sum: u32 =
        frame[14..34].chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff);
}

/// What differs between two tunnelled frames of one input.
fn forwarded(input: &[u8], peer: &[u8], ours: &[u8]) -> BTreeSet<String> {
    let inner = &input[14..];
    assert!(peer.ends_with(inner), "the peer keeps the inner packet");
    let mut differs = BTreeSet::new();
    if !ours.ends_with(inner) {
        differs.insert("inner packet".to_owned());
    }
    if is_v4(ours) {
        assert_ipv4_checksum(ours);
    }
    if is_v4(peer) != is_v4(ours) {
        differs.insert("backend".to_owned());
        return differs;
    }
    let (fields, backend) = if is_v4(peer) { (&IPV4[..], 30..34) } else { (&IPV6[..], 38..54) };
    differs.extend(unlike(fields, peer, ours).map(str::to_owned));
    if peer[backend.clone()] != ours[backend] {
        differs.insert("backend".to_owned());
    }
    if !is_v4(peer) && peer[20] == 17 && ours[20] == 17 {
        differs.extend(unlike(&GUE, peer, ours).map(str::to_owned));
    }
    differs
}

/// What differs between two answers from the VIP.
fn answered(peer: &[u8], ours: &[u8]) -> BTreeSet<String> {
    let (fields, at) = if is_v4(peer) { (&IPV4[..], 34) } else { (&IPV6[..], 54) };
    let mut differs: BTreeSet<String> = unlike(fields, peer, ours).map(str::to_owned).collect();
    if is_v4(ours) {
        assert_ipv4_checksum(ours);
    }
    // Destination; type and code; then what is told and quoted.
    let destination = if is_v4(peer) { 30..34 } else { 38..54 };
    if peer[destination.clone()] != ours[destination] || peer[at..at + 2] != ours[at..at + 2] {
        differs.insert("answer".to_owned());
    }
    if peer[at + 4..at + 8] != ours[at + 4..at + 8] {
        differs.insert("told size".to_owned());
    }
    let (theirs, own) = (&peer[at + 8..], &ours[at + 8..]);
    if !theirs.starts_with(own) && !own.starts_with(theirs) {
        differs.insert("quoted bytes".to_owned());
    } else if theirs.len() != own.len() {
        differs.insert("quoted length".to_owned());
    } else if peer[at + 2..at + 4] != ours[at + 2..at + 4] {
        differs.insert("checksum".to_owned());
    }
    differs
}
