//! `guideway replay` as a user meets it: a capture in, books and a capture out.

mod binary;

use std::collections::BTreeMap;

use binary::{Run, guideway, in_repository, json, refused, scratch, written};
use etherparse::{NetSlice, SlicedPacket};
use guideway_soft::capture::{Capture, Frame};
use serde_json::Value;

const CONFIG: &str = r#"[underlay]
source_v4 = "10.0.0.254"
mtu = 1600

[[service]]
name = "web"
vip = ["192.0.2.10", "2001:db8::10"]
port = [80, 443]
protocol = "tcp"
idle_tcp = "2s"
backend = [
  { name = "be1", address = "10.0.0.1" },
  { name = "be2", address = "10.0.0.2" },
  { name = "be3", address = "10.0.0.3" },
]

[[service]]
name = "dns"
vip = "192.0.2.53"
port = 53
protocol = "udp"
backend = [{ name = "be1", address = "10.0.0.1" }]
"#;

fn sample() -> String {
    in_repository("docs/sample.pcap")
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("no number: {value}"))
}

/// The frames of a capture with their times.
fn frames(path: &str) -> Vec<(u64, Vec<u8>)> {
    let mut capture = Capture::open(path.as_ref()).unwrap();
    let mut frames = Vec::new();
    while let Some(record) = capture.next() {
        let record = record.unwrap();
        let Frame::Ethernet(frame) = record.frame else { panic!("packet {} is no frame", record.number) };
        frames.push((record.timestamp_ns, frame.to_vec()));
    }
    frames
}

#[test]
fn the_books_of_the_sample_balance_in_every_column() {
    let report = json(&format!("replay --auto --in {} --json", sample()));
    let books = &report["books"];
    assert_eq!(number(&report["capture"]["packets"]), frames(&sample()).len() as u64);
    let terms = ["forwarded", "answered", "passed", "dropped"].map(|term| number(&books[term]));
    assert!(terms.iter().all(|&packets| packets > 0), "the sample shows all four: {terms:?}");
    assert_eq!(terms.iter().sum::<u64>(), number(&books["received"]));
    let outcomes = books["outcomes"].as_object().unwrap();
    for (term, packets) in ["forwarded", "answered", "passed", "dropped"].iter().zip(terms) {
        let sum: u64 =
            outcomes.iter().filter(|(name, _)| name.starts_with(term)).map(|(_, count)| number(count)).sum();
        assert_eq!(sum, packets, "{term}");
    }
    let services = books["services"].as_array().unwrap();
    assert_eq!(services.iter().map(|service| number(&service["packets"])).sum::<u64>(), terms[0]);
    for service in services {
        let backends = service["backends"].as_array().unwrap();
        for (sum, whole) in [("packets", "packets"), ("bytes_total", "bytes_total"), ("slots", "slots")] {
            let sum: u64 = backends.iter().map(|backend| number(&backend[sum])).sum();
            assert_eq!(sum, number(&service[whole]), "{}", service["name"]);
        }
    }
}

#[test]
fn every_kind_of_unusual_packet_of_the_sample_has_its_outcome() {
    let report = json(&format!("replay --auto --in {} --json", sample()));
    let outcomes = report["books"]["outcomes"].as_object().unwrap();
    for name in [
        "answered_too_big",
        "answered_echo",
        "passed_not_ip",
        "passed_not_vip",
        "passed_tunnel",
        "passed_icmp",
        "dropped_truncated",
        "dropped_malformed",
        "dropped_ttl",
        "dropped_bad_source",
        "dropped_tiny_fragment",
        "dropped_unknown_fragment",
        "dropped_short_icmp_quote",
    ] {
        assert!(outcomes.contains_key(name), "no {name} in {outcomes:?}");
    }
}

#[test]
fn the_printed_books_explain_themselves() {
    let run = guideway(&format!("replay --auto --in {}", sample()));
    assert_eq!((run.code, run.err.as_str()), (0, ""));
    let report = json(&format!("replay --auto --in {} --json", sample()));
    for (outcome, packets) in report["books"]["outcomes"].as_object().unwrap() {
        let line = run.out.lines().find(|line| line.trim_start().starts_with(outcome.as_str()));
        let words: Vec<_> = line.expect(outcome).split_whitespace().collect();
        assert_eq!(words[1], packets.to_string());
        assert!(words.len() > 4, "{outcome} is not explained: {words:?}");
    }
    assert!(
        run.out.contains("192.0.2.10:443/udp") && run.out.contains("[2001:db8::10]:443/tcp"),
        "{}",
        run.out
    );
}

#[test]
fn what_would_leave_is_a_capture_of_the_packets_in_their_tunnels() {
    let sent = scratch("sent.pcap").to_str().unwrap().to_owned();
    let report = json(&format!("replay --auto --in {} --out {sent} --json", sample()));
    let (input, output) = (frames(&sample()), frames(&sent));
    let books = &report["books"];
    assert_eq!(output.len() as u64, number(&report["capture"]["frames_written"]));
    assert_eq!(output.len() as u64, number(&books["forwarded"]) + number(&books["answered"]));
    let inputs: BTreeMap<u64, Vec<&Vec<u8>>> = input.iter().fold(BTreeMap::new(), |mut map, (at, frame)| {
        map.entry(*at).or_insert_with(Vec::new).push(frame);
        map
    });
    let mut tunnelled = 0;
    for (at, frame) in &output {
        let sliced = SlicedPacket::from_ethernet(frame).unwrap();
        let tags = 4 * sliced.vlan_ids().len();
        let Some(NetSlice::Ipv4(outer)) = sliced.net else { continue };
        if outer.header().source() != [198, 19, 0, 1] {
            continue;
        }
        tunnelled += 1;
        assert_eq!(outer.header().header_checksum(), outer.header().to_header().calc_header_checksum());
        assert_eq!(&outer.header().destination()[..3], [198, 18, 0]);
        // Inside is one of the packets of that moment, whole.
        let inner = outer.payload().payload;
        assert!(inputs[at].iter().any(|original| original[14 + tags..].starts_with(inner)), "at {at}");
    }
    assert_eq!(tunnelled, number(&books["forwarded"]));
    assert_eq!(guideway(&format!("replay --auto --in {sent}")).code, 0);
}

#[test]
fn a_replay_gives_the_same_each_time() {
    let [first, second] = ["once.pcap", "twice.pcap"].map(|name| {
        let out = scratch(name).to_str().unwrap().to_owned();
        let run = guideway(&format!("replay --auto --in {} --out {out} --json", sample()));
        (run.out, std::fs::read(out).unwrap())
    });
    assert!(first == second);
}

#[test]
fn a_script_drains_adds_weighs_and_takes_down() {
    let config = written("replay.toml", CONFIG);
    let event = |at: &str, what: &str, backend: &str, rest: &str| {
        format!(
            "[[event]]\nat = \"{at}\"\ndo = \"{what}\"\nservice = \"web\"\nbackend = \"{backend}\"\n{rest}\n"
        )
    };
    let script = written(
        "replay-events.toml",
        event("4s", "down", "be3", "")
            + &event("1s", "drain", "be1", "")
            + &event("2s", "add", "be4", "address = \"10.0.0.4\"")
            + &event("3s", "weight", "be4", "weight = 3")
            + &event("4500ms", "up", "be1", ""),
    );
    let report = json(&format!("replay -c {config} --in {} --events {script} --json", sample()));
    let changes = report["books"]["changes"].as_array().unwrap();
    let told: Vec<_> = changes
        .iter()
        .map(|change| (change["at_seconds"].as_f64().unwrap(), number(&change["generation"])))
        .collect();
    assert_eq!(told, [(1.0, 2), (2.0, 3), (3.0, 4), (4.0, 5), (4.5, 6)]);
    assert!(changes.iter().all(|change| number(&change["moved"]) > 0));
    // A drain and a weight that rises voids nothing.
    assert!(changes[..3].iter().all(|change| number(&change["voided_flows"]) == 0));
    let web = &report["books"]["services"][1];
    assert_eq!(web["name"], "web");
    let states: BTreeMap<_, _> = web["backends"]
        .as_array()
        .unwrap()
        .iter()
        .map(|backend| (backend["name"].as_str().unwrap(), backend["state"].as_str().unwrap()))
        .collect();
    assert_eq!(states, [("be1", "active"), ("be2", "active"), ("be3", "down"), ("be4", "active")].into());
    let text = guideway(&format!("replay -c {config} --in {} --events {script}", sample()));
    assert!(
        text.out.contains("What each scripted change moved") && text.out.contains("4.500 s"),
        "{}",
        text.out
    );
}

#[test]
fn a_broken_configuration_is_shown_as_check_shows_it() {
    let config = written("replay-bad.toml", CONFIG.replace("idle_tcp", "idle_tpc"));
    let run = guideway(&format!("replay -c {config} --in {}", sample()));
    assert_eq!((run.code, run.out.as_str()), (1, ""));
    assert!(
        run.err.contains(&format!("{config}:10:1")) && run.err.contains("did you mean `idle_tcp`?"),
        "{}",
        run.err
    );
    let config = written("replay-good.toml", CONFIG);
    let events = written(
        "replay-bad-events.toml",
        "[[event]]\nat = \"1s\"\ndo = \"up\"\nservice = \"wbe\"\nbackend = \"be1\"\n",
    );
    let run = guideway(&format!("replay -c {config} --in {} --events {events}", sample()));
    assert_eq!(run.code, 1);
    assert!(
        run.err.contains(&format!("{events}:4:11")) && run.err.contains("did you mean `web`?"),
        "{}",
        run.err
    );
}

#[test]
fn a_cut_capture_is_replayed_as_far_as_it_goes() {
    let whole = std::fs::read(sample()).unwrap();
    let cut = written("cut.pcap", &whole[..whole.len() - 10]);
    let run = guideway(&format!("replay --auto --in {cut} --json"));
    assert_eq!(run.code, 1);
    let last = frames(&sample()).len();
    assert!(run.err.starts_with("error: ") && run.err.contains(&format!("packet {last}")), "{}", run.err);
    let report: Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(number(&report["books"]["received"]), last as u64 - 1);
    assert!(report["capture"]["read_error"].is_string());
}

#[test]
fn snapped_packets_and_foreign_links_are_counted_and_left() {
    // pcap of link type 105 (802.11), one packet; and Ethernet, one packet of which 20 of 60 bytes were kept.
    let capture = |link: u32, captured: u32, original: u32| {
        let mut bytes = 0xa1b2_c3d4_u32.to_le_bytes().to_vec();
        for word in [0x0004_0002, 0, 0, 65_535, link, 1, 0, captured, original] {
            bytes.extend(u32::to_le_bytes(word));
        }
        bytes.resize(bytes.len() + captured as usize, 0);
        bytes
    };
    for (name, bytes, counter) in [
        ("wlan.pcap", capture(105, 40, 40), "unsupported_link"),
        ("snapped.pcap", capture(1, 20, 60), "snapped"),
        ("short.pcap", capture(1, 9, 9), "too_short"),
    ] {
        let file = written(name, bytes);
        let report = json(&format!("replay --auto --in {file} --json"));
        assert_eq!(
            (number(&report["capture"][counter]), number(&report["books"]["received"])),
            (1, 0),
            "{name}"
        );
        let text = guideway(&format!("replay --auto --in {file}"));
        assert!(text.out.contains("1 packet read, 1 left out"), "{}", text.out);
    }
}

#[test]
fn what_makes_no_sense_is_refused_with_a_remedy() {
    refused("replay --auto --in no-such.pcap", 1, &["no-such.pcap"]);
    let text = written("not-a.pcap", "hello, world");
    refused(&format!("replay --auto --in {text}"), 1, &["not-a.pcap", "neither pcap nor pcapng"]);
    let same = written("same.pcap", std::fs::read(sample()).unwrap());
    refused(&format!("replay --auto --in {same} --out {same}"), 2, &["is the same file as"]);
    assert_eq!(std::fs::read(&same).unwrap(), std::fs::read(sample()).unwrap());
    refused(&format!("replay --in {same}"), 2, &["--auto", "-c FILE"]);
    refused(&format!("replay --auto --backends 0 --in {same}"), 2, &["1..=250"]);
    refused(&format!("replay -c x.toml --backends 3 --in {same}"), 2, &["--backends", "--config"]);
    refused(&format!("replay --auto --events x.toml --in {same}"), 2, &["--events"]);
    refused(&format!("replay --auto --in {same} --out no/such/directory/x.pcap"), 1, &["cannot write"]);
    let Run { code, .. } = guideway("replay --help");
    assert_eq!(code, 0);
}

#[test]
fn a_flow_table_that_the_system_does_not_give_is_refused_and_nothing_aborts() {
    let config = written("large.toml", format!("[flow_table]\nentries = 268_435_456\n{CONFIG}"));
    let command = format!("ulimit -v 2000000; exec \"$0\" replay -c {config} --in {}", sample());
    let run = std::process::Command::new("sh")
        .args(["-c", &command, env!("CARGO_BIN_EXE_guideway")])
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&run.stderr);
    assert_eq!(run.status.code(), Some(1), "{error}");
    assert!(error.contains("error: no memory for remembered flows: 4096 MiB"), "{error}");
}
