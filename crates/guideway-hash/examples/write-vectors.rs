//! Writes the golden records of this crate into the directory that is named on the command line, a file a profile.
//!
//! Run it only to add cases: what a released version has written must hold for ever, and the test `vectors` says so.

use std::{error::Error, fs, path::Path};

use guideway_hash::{
    profile::Profile,
    vectors::{Backend, FlowSlot, Record},
};

/// What a record is written from: case, size, parameters, backends.
type Case = (&'static str, u32, &'static [(&'static str, &'static str)], Vec<Backend>);

fn main() -> Result<(), Box<dyn Error>> {
    let directory = std::env::args().nth(1).ok_or("name the directory to write to")?;
    for profile in Profile::ALL {
        let mut lines = Vec::new();
        for (case, size, params, backends) in cases(profile) {
            let record = Record::write(profile, case, size, params, backends, flows(profile))
                .map_err(|why| format!("{profile}: {case}: {why}"))?;
            lines.push(serde_json::to_string(&record)?);
        }
        let path = Path::new(&directory).join(format!("{profile}.json"));
        fs::write(&path, format!("[\n{}\n]\n", lines.join(",\n")))?;
    }
    Ok(())
}

fn cases(profile: Profile) -> Vec<Case> {
    match profile {
        Profile::Native => vec![
            ("five equal", 7, &[], numbered("10.0.0.{}:443", 5, |_| 1)),
            ("weights 1 to 10", 65_537, &[], numbered("10.0.0.{}:443", 10, |i| i)),
            (
                "weights 1 to 10, another seed",
                65_537,
                &[("seed", "0x1234")],
                numbered("10.0.0.{}:443", 10, |i| i),
            ),
            ("hundred equal, one drained", 16_381, &[], drained(numbered("10.0.0.{}:443", 100, |_| 1), 41)),
            ("weights 0, 1 and 1000", 4_093, &[], numbered("node-{}", 3, |i| [0, 1, 1_000][i as usize - 1])),
            ("as many backends as slots", 13, &[], numbered("node-{}", 13, |i| i)),
        ],
        Profile::Reference => vec![
            ("three of seven", 7, &[], numbered("10.0.0.{}:443", 3, |_| 1)),
            ("four of 127", 127, &[], numbered("10.0.0.{}:443", 4, |_| 1)),
            ("a hundred", 65_537, &[], numbered("10.0.0.{}:443", 100, |_| 1)),
            ("a hundred less the last", 65_537, &[], numbered("10.0.0.{}:443", 99, |_| 1)),
            ("input order does not matter", 251, &[], reversed(numbered("b{}", 12, |_| 1))),
            ("as many backends as slots", 2, &[], numbered("b{}", 2, |_| 1)),
        ],
        Profile::Envoy => vec![
            ("six hosts, seven slots", 7, &[], numbered("127.0.0.1:9{}", 6, |_| 1)),
            ("more hosts than slots", 3, &[], reversed(numbered("127.0.0.1:9{}", 6, |_| 1))),
            ("two slots", 2, &[], numbered("127.0.0.1:9{}", 2, |_| 1)),
            ("weights 1 to 10", 65_537, &[], numbered("10.0.0.{}:8080", 10, |i| i)),
            (
                "one heavy, many light",
                16_381,
                &[],
                numbered("10.0.0.{}:8080", 99, |i| if i == 7 { 60_000 } else { 1 }),
            ),
            ("weights that round", 65_537, &[], numbered("10.0.0.{}:8080", 30, |i| 1_000_003 / i + 1)),
            (
                "largest weight sum",
                251,
                &[],
                numbered("10.0.0.{}:8080", 3, |i| if i == 1 { u32::MAX - 2 } else { 1 }),
            ),
            (
                "host names",
                251,
                &[("use_hostname_for_hashing", "true")],
                named(numbered("10.0.0.{}:8080", 5, |_| 1)),
            ),
            ("host names not asked for", 251, &[], named(numbered("10.0.0.{}:8080", 5, |_| 1))),
            (
                "metadata keys before names",
                251,
                &[("use_hostname_for_hashing", "true")],
                keyed(named(numbered("10.0.0.{}:8080", 5, |_| 1))),
            ),
            (
                "localities 50, 30, 20",
                65_537,
                &[("locality_weights", "[50,30,20]")],
                local(numbered("10.0.0.{}:8080", 9, |i| i)),
            ),
            (
                "a locality of weight 0",
                1_021,
                &[("locality_weights", "[3,0,1]")],
                local(numbered("10.0.0.{}:8080", 9, |i| i)),
            ),
            ("IPv6", 65_537, &[], numbered("[2001:db8::{}]:443", 9, |_| 1)),
            ("largest table", 5_000_011, &[], numbered("10.0.0.{}:8080", 40, |_| 1)),
        ],
        Profile::Cilium => vec![
            ("mean below 2", 251, &[], numbered("[10.0.0.{}:8080/TCP,State:active]", 3, |i| i.min(2))),
            ("default weights", 16_381, &[], numbered("[10.0.0.{}:8080/TCP,State:active]", 100, |_| 100)),
            ("weights 1 to 10", 4_093, &[], numbered("[10.0.0.{}:8080/TCP,State:active]", 10, |i| i)),
            (
                "a weight of 0 passed in",
                509,
                &[],
                numbered("[10.0.0.{}:8080/TCP,State:active]", 4, |i| 50 * (i - 1)),
            ),
            (
                "extreme weights",
                2_039,
                &[],
                numbered("[10.0.0.{}:8080/TCP,State:active]", 20, |i| if i == 3 { 65_535 } else { i }),
            ),
            (
                "IPv6, another seed",
                8_191,
                &[("hash_seed", "AAECAwQFBgcICQoL")],
                numbered("[[2001:db8::{}]:8080/UDP,State:active]", 9, |_| 100),
            ),
            (
                "more backends than slots",
                251,
                &[],
                numbered("[10.0.0.{}:8080/TCP,State:active]", 255, |_| 100),
            ),
            (
                "largest table",
                131_071,
                &[],
                reversed(numbered("[10.0.0.{}:8080/TCP,State:active]", 20, |i| 7 * i)),
            ),
        ],
        Profile::KatranV1 => vec![
            ("weights 1 to 10 have next to no effect", 65_537, &[], numbered("10.0.0.{}", 10, |i| i)),
            (
                "weights that add up to the ring",
                65_537,
                &[],
                numbered("10.0.0.{}", 2, |i| [16_384, 49_153][i as usize - 1]),
            ),
            ("weights beyond the ring", 251, &[], numbered("10.0.0.{}", 5, |_| 100)),
            ("weight 0", 251, &[], numbered("10.0.0.{}", 5, |i| i - 1)),
            ("addresses above 127", 65_537, &[], numbered("203.0.113.{}", 60, |_| 1)),
            ("IPv6", 65_537, &[], numbered("fc00::{}", 30, |i| 100 + i)),
            ("a ring whose walks wrap", 655_373, &[], numbered("10.0.0.{}", 30, |_| 1)),
        ],
        Profile::KatranV2 => vec![
            ("weights 1 to 10", 65_537, &[], numbered("10.0.0.{}", 10, |i| i)),
            (
                "one heavy, many light",
                65_537,
                &[],
                numbered("10.0.0.{}", 200, |i| if i == 9 { 40_000 } else { 3 }),
            ),
            ("weight 0", 251, &[], numbered("10.0.0.{}", 5, |i| i - 1)),
            ("mapped addresses", 251, &[], numbered("::ffff:10.0.0.{}", 5, |i| i)),
            ("IPv6", 65_537, &[], numbered("fc00::{}", 30, |i| 100 + i)),
            ("more reals than slots", 3, &[], numbered("10.0.0.{}", 5, |_| 1)),
            ("a ring whose walks wrap", 655_373, &[], numbered("10.0.0.{}", 30, |i| i)),
        ],
        Profile::IpvsMh => vec![
            ("list reversed", 4_093, &[], numbered("10.0.0.{}:8080", 20, |_| 1)),
            ("list as given", 4_093, &[("list_order", "input")], numbered("10.0.0.{}:8080", 20, |_| 1)),
            ("weights with a divisor", 1_021, &[("gcd", "100")], numbered("10.0.0.{}:8080", 3, |i| 100 * i)),
            (
                "weights shifted",
                1_021,
                &[("rshift", "7")],
                numbered("10.0.0.{}:8080", 3, |i| [1, 1_000, 3_001][i as usize - 1]),
            ),
            ("added with weight 0", 509, &[], numbered("10.0.0.{}:8080", 3, |i| 5 * (i - 1))),
            ("set to weight 0", 509, &[], last_weight(numbered("10.0.0.{}:8080", 3, |i| 5 * (i - 1)), 5)),
            (
                "address and port add up alike",
                251,
                &[],
                [numbered("10.0.0.1:808{}", 3, |_| 1), numbered("10.0.0.{}:8080", 3, |_| 1)].concat(),
            ),
            ("IPv6 and no port", 2_039, &[], numbered("2001:db8::{}", 9, |i| i)),
            ("32-bit director", 8_191, &[("kernel_bits", "32")], numbered("10.0.0.{}:8080", 9, |i| i)),
            ("as many destinations as slots", 251, &[], numbered("10.0.0.{}:8080", 251, |i| i)),
            ("largest table", 131_071, &[("tab_index", "17")], numbered("10.0.0.{}:8080", 30, |i| i * i)),
        ],
        Profile::Vpp => vec![
            ("default weight", 1_024, &[], numbered("10.0.0.{}", 10, |_| 100)),
            ("weight 1 everywhere", 1_024, &[], numbered("10.0.0.{}", 10, |_| 1)),
            ("weights 0 to 9", 256, &[], numbered("10.0.0.{}", 10, |i| i - 1)),
            (
                "weights beyond the table",
                1_024,
                &[],
                numbered("10.0.0.{}", 100, |i| if i == 1 { 50 } else { 100 }),
            ),
            (
                "IPv4 and IPv6",
                4_096,
                &[],
                [numbered("2001:db8::{}", 5, |i| i), numbered("10.0.0.{}", 5, |i| i)].concat(),
            ),
            ("one slot", 1, &[], numbered("10.0.0.{}", 3, |_| 100)),
            ("long table", 65_536, &[], numbered("10.0.0.{}", 100, |i| i)),
        ],
        Profile::Vpp2602 => vec![
            ("ten servers", 1_024, &[], numbered("10.0.0.{}", 10, |_| 100)),
            ("more servers than slots", 16, &[], numbered("10.0.0.{}", 20, |_| 100)),
            (
                "IPv4 and IPv6",
                4_096,
                &[],
                [numbered("2001:db8::{}", 5, |_| 1), numbered("10.0.0.{}", 5, |_| 1)].concat(),
            ),
            ("long table", 65_536, &[], reversed(numbered("10.0.0.{}", 100, |_| 100))),
        ],
        Profile::GoMaglev => vec![
            ("three of seven", 7, &[], numbered("backend-{}", 3, |_| 1)),
            ("dead", 251, &[("dead", "[0,3]")], numbered("backend-{}", 5, |_| 1)),
            ("a drained one is dead", 251, &[], drained(numbered("backend-{}", 5, |_| 1), 3)),
            ("a size that is not prime", 9, &[], numbered("backend-{}", 3, |_| 1)),
            (
                "two of one name",
                251,
                &[],
                [numbered("backend-{}", 2, |_| 1), numbered("backend-{}", 2, |_| 1)].concat(),
            ),
            ("large", 655_373, &[], numbered("backend-{}", 50, |_| 1)),
        ],
        Profile::Poise => vec![
            ("three of seven", 7, &[], numbered("backend-{}", 3, |_| 1)),
            ("weights are ignored", 251, &[], numbered("backend-{}", 20, |i| i)),
            ("a hundred", 65_537, &[], numbered("backend-{}", 100, |_| 1)),
            ("as many backends as slots", 2, &[], numbered("backend-{}", 2, |_| 1)),
        ],
        Profile::Glb => vec![
            (
                "five",
                65_536,
                &[("table_seed", "000102030405060708090a0b0c0d0e0f")],
                numbered("10.0.0.{}", 5, |_| 1),
            ),
            (
                "one drains",
                65_536,
                &[("table_seed", "000102030405060708090a0b0c0d0e0f")],
                drained(numbered("10.0.0.{}", 5, |_| 1), 2),
            ),
            ("IPv6", 65_536, &[], numbered("2001:db8::{}", 5, |_| 1)),
        ],
    }
}

/// Flows whose slots are recorded, for profiles that hash packets.
fn flows(profile: Profile) -> Vec<FlowSlot> {
    if matches!(profile, Profile::Native | Profile::GoMaglev | Profile::Poise) {
        return Vec::new();
    }
    let flow = |src: &str, dst: &str, port, protocol| FlowSlot {
        // The addresses are the literals below.
        src: src.parse().expect("a literal address"),
        dst: Some(dst.parse().expect("a literal address")),
        port,
        dst_port: 443,
        protocol,
        slot: 0,
    };
    vec![
        flow("192.0.2.1", "198.51.100.10", 40_000, 6),
        flow("192.0.2.200", "198.51.100.10", 40_001, 17),
        flow("2001:db8:1::1", "2001:db8::10", 40_000, 6),
    ]
}

/// Backends 1 to `count`, their numbers in the key.
fn numbered(key: &str, count: u32, weight: impl Fn(u32) -> u32) -> Vec<Backend> {
    let backend = |i: u32| Backend {
        key: key.replace("{}", &i.to_string()),
        weight: Some(weight(i)),
        ..Backend::default()
    };
    (1..=count).map(backend).collect()
}

fn reversed(mut backends: Vec<Backend>) -> Vec<Backend> {
    backends.reverse();
    backends
}

fn drained(mut backends: Vec<Backend>, place: usize) -> Vec<Backend> {
    backends[place].state = Some("draining".to_owned());
    backends
}

fn named(mut backends: Vec<Backend>) -> Vec<Backend> {
    for (i, backend) in backends.iter_mut().enumerate() {
        backend.hostname = Some(format!("host-{i}.example"));
    }
    backends
}

fn keyed(mut backends: Vec<Backend>) -> Vec<Backend> {
    for (i, backend) in backends.iter_mut().step_by(2).enumerate() {
        backend.hash_key = Some(if i == 0 { String::new() } else { format!("key-{i}") });
    }
    backends
}

/// Three backends a locality.
fn local(mut backends: Vec<Backend>) -> Vec<Backend> {
    for (i, backend) in (0..).zip(&mut backends) {
        backend.locality = Some(i / 3);
    }
    backends
}

fn last_weight(mut backends: Vec<Backend>, weight: u32) -> Vec<Backend> {
    backends[0].last_weight = Some(weight);
    backends
}
