//! The configuration as people write it, right and wrong.

use std::collections::BTreeSet;

use guideway_control::config::{self, BackendState, Config, Encapsulation, Ports, Problems, Source};
use proptest::prelude::*;

const EXAMPLE: &str = include_str!("../../../docs/guideway.example.toml");

fn parse(text: &str) -> Result<Config, Problems> {
    config::parse(&Source::new("guideway.toml", text))
}

/// A file with one service, to which lines and backends can be added.
fn file(service: &str, backend: &str) -> String {
    format!(
        "[underlay]\nsource_v4 = \"10.0.0.254\"\n\n[[service]]\nname = \"web\"\nvip = \"192.0.2.10\"\nport = 80\n\
         protocol = \"tcp\"\n{service}\n[[service.backend]]\nname = \"be1\"\naddress = \"10.0.0.1\"\n{backend}\n"
    )
}

/// Line, message and help of each problem.
fn problems(text: &str) -> Vec<(usize, String, String)> {
    let problems = parse(text).expect_err("a mistake that is not found");
    problems
        .records()
        .iter()
        .map(|record| (record.line, record.message.to_owned(), record.help.unwrap_or_default().to_owned()))
        .collect()
}

fn only_problem(text: &str) -> (usize, String, String) {
    let mut found = problems(text);
    assert_eq!(found.len(), 1, "{}", parse(text).unwrap_err());
    found.remove(0)
}

#[test]
fn the_example_in_the_docs_is_valid() {
    let config = parse(EXAMPLE).unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!(config.seed, 0x5f0c_9d2a_e81b_7634);
    let [web, quic, rest] = config.services.as_slice() else { panic!("three services") };
    assert_eq!(web.ports, Ports::List(vec![80, 443]));
    assert_eq!(web.backends[2].state, BackendState::Draining);
    assert_eq!(quic.backends[1].server_id, Some(2));
    assert_eq!((rest.encapsulation, rest.table_size.get()), (Encapsulation::Gue, 65_537));
    assert_eq!(rest.ports, Ports::Any);
    serde_json::to_string(&config).unwrap();
}

#[test]
fn defaults_are_inherited_and_overridden() {
    let text = format!("[defaults]\nencapsulation = \"gre\"\nudp = \"track\"\n{}", file("", ""));
    assert_eq!(parse(&text).unwrap().services[0].encapsulation, Encapsulation::Gre);
    let text = format!("[defaults]\nencapsulation = \"gre\"\n{}", file("encapsulation = \"ipip\"", ""));
    assert_eq!(parse(&text).unwrap().services[0].encapsulation, Encapsulation::Ipip);
}

#[test]
fn names_that_urls_resolve_are_refused_where_they_stand() {
    for name in [".", ".."] {
        let backend = only_problem(&file("", "").replace("\"be1\"", &format!("\"{name}\"")));
        assert_eq!((backend.0, backend.1), (11, format!("`{name}` cannot be a name")));
        let service = only_problem(&file("", "").replace("\"web\"", &format!("\"{name}\"")));
        assert_eq!((service.0, service.1), (5, format!("`{name}` cannot be a name")));
        assert!(service.2.contains("the API names services"), "{}", service.2);
    }
    parse(&file("", "").replace("\"be1\"", "\"...\"")).unwrap();
}

#[test]
fn all_mistakes_of_a_file_are_named_at_once() {
    let text =
        file("encapsulation = \"ipip6\"\ntable_size = 65536\nidle_tcp = 30", "wieght = 3\nstate = \"drain\"");
    let found = problems(&text);
    let messages: Vec<&str> = found.iter().map(|(_, message, _)| message.as_str()).collect();
    assert_eq!(
        messages,
        [
            "unknown encapsulation `ipip6`",
            "a table cannot have 65536 slots",
            "expected a time with its unit, found an integer",
            "unknown key `wieght` in [[service.backend]]",
            "unknown backend state `drain`",
        ]
    );
    let helps: Vec<&str> = found.iter().map(|(_, _, help)| help.as_str()).collect();
    assert_eq!(
        helps[..4],
        [
            "did you mean `ipip`?",
            "use `65521` or `65537`, or `\"auto\"`",
            "for seconds write `\"30s\"`",
            "did you mean `weight`?"
        ]
    );
}

#[test]
fn a_problem_is_drawn_with_file_line_column_and_help() {
    let drawn = parse(&file("", "wieght = 3")).unwrap_err().to_string();
    for part in [
        "error: unknown key `wieght`",
        "guideway.toml:13:1",
        "wieght = 3",
        "help: did you mean `weight`?",
        "1 problem",
    ] {
        assert!(drawn.contains(part), "no {part:?} in\n{drawn}");
    }
}

#[test]
fn weights_are_within_their_range() {
    let (line, message, _) = only_problem(&file("", "weight = -1"));
    assert_eq!((line, message.as_str()), (13, "-1 is out of range"));
    only_problem(&file("", "weight = 65536"));
    only_problem(&file("", "weight = 1.5"));
    assert_eq!(parse(&file("", "weight = 0")).unwrap().services[0].backends[0].weight, 0);
}

#[test]
fn a_backend_cannot_have_a_port_of_its_own() {
    let (_, message, help) = only_problem(&file("", "port = 8080"));
    assert_eq!(message, "a backend cannot listen on port 8080 of its own");
    assert!(help.contains("nothing rewrites ports"));
    parse(&file("", "port = 80")).unwrap();
}

#[test]
fn the_range_of_varying_outer_sources_is_the_balancers_alone() {
    let (line, message, _) = only_problem(&file("outer_source = \"entropy\"", ""));
    assert_eq!(
        (line, message.as_str()),
        (12, "`10.0.0.1` lies in `10.0.0.0/16`, where the outer sources vary")
    );
    let range = |service: &str, vip: &str| {
        file(&format!("outer_source = \"entropy\"\n{service}"), "")
            .replace("10.0.0.254", "172.16.0.1")
            .replace("192.0.2.10", vip)
    };
    let (_, message, _) = only_problem(&range("", "172.16.3.4"));
    assert_eq!(message, "`172.16.3.4/32` meets `172.16.0.0/16`, where the outer sources vary");
    for (tunnel, bits) in [("ipip", 16), ("gre", 16), ("gue", 0), ("gue-header", 0)] {
        let config = parse(&range(&format!("encapsulation = \"{tunnel}\""), "192.0.2.10")).unwrap();
        let service = &config.services[0];
        assert_eq!(service.source_entropy_bits(service.backends[0].address), bits, "{tunnel}");
        assert_eq!(service.source_entropy_bits("2001:db8::1".parse().unwrap()), 2 * bits, "{tunnel}");
    }
    // In GUE the port varies, so the address need not.
    parse(&file("outer_source = \"entropy\"\nencapsulation = \"gue\"", "")).unwrap();
}

#[test]
fn virtual_addresses_that_no_client_can_reach_or_that_are_the_tunnels_own_are_refused() {
    let vip = |vip: &str| file("", "").replace("192.0.2.10", vip);
    for (written, shown) in [
        ("127.0.0.1", "127.0.0.1"),
        ("255.255.255.255", "255.255.255.255"),
        ("fe80::10", "fe80::10"),
        ("fe80::/64", "fe80::/64"),
        ("169.254.3.4", "169.254.3.4"),
        ("169.254.0.0/16", "169.254.0.0/16"),
    ] {
        let (line, message, help) = only_problem(&vip(written));
        assert_eq!((line, message), (6, format!("`{shown}` cannot be a virtual address")));
        assert!(help.starts_with("give a "), "{help}");
    }
    assert_eq!(only_problem(&vip("::ffff:192.0.2.10")).2, "write `192.0.2.10`");
    let (line, message, help) = only_problem(&vip("10.0.0.254"));
    let own = "`10.0.0.254` is the tunnels' own source, and cannot be a virtual address as well";
    assert_eq!((line, message.as_str()), (6, own));
    assert!(help.contains("set `source_v4` of `[underlay]`"), "{help}");
    let (_, message, _) = only_problem(&vip("10.0.0.128/25"));
    assert!(message.starts_with("`10.0.0.128/25` holds `10.0.0.254`, the tunnels' own source"), "{message}");
    // Where sources vary, one problem is enough.
    let text = vip("10.0.0.254").replace("10.0.0.1", "10.9.0.1");
    assert_eq!(only_problem(&text.replace("protocol", "outer_source = \"entropy\"\nprotocol")).1, own);
    // What could not be read is none.
    let unread = problems(&vip("0.0.0.0/9").replace("10.0.0.254", "10.0.0"));
    assert_eq!(unread.iter().map(|(line, ..)| *line).collect::<Vec<_>>(), [2, 6]);
}

#[test]
fn the_port_of_gue_is_refused_only_where_the_tunnel_is_gue() {
    let on_port = |port: &str, service: &str| {
        file(service, "").replace("port = 80", &format!("port = {port}")).replace("\"tcp\"", "\"udp\"")
    };
    let gue = "encapsulation = \"gue\"";
    let (line, message, _) = only_problem(&on_port("[80, 6080]", gue));
    assert_eq!((line, message.contains("port 6080 is that of the tunnels")), (7, true), "{message}");
    parse(&on_port("[80, 6080]", "")).unwrap();
    parse(&on_port("\"any\"", gue)).unwrap();
    parse(&file(gue, "").replace("port = 80", "port = 6080")).unwrap();
}

#[test]
fn duplicates_are_refused_and_both_places_shown() {
    let again =
        "\n[[service]]\nname = \"other\"\nvip = \"192.0.2.10\"\nport = [8080, 80]\nprotocol = \"tcp\"\n";
    let (line, message, _) = only_problem(&file("", again));
    assert_eq!((line, message.as_str()), (16, "tcp `192.0.2.10` port 80 belongs to `web` already"));
    let udp = again.replace("tcp", "udp");
    parse(&file("", &udp)).unwrap();

    let same_name = "[[service.backend]]\nname = \"be1\"\naddress = \"10.0.0.2\"";
    assert_eq!(only_problem(&file("", same_name)).1, "two backends are named `be1`");
    let same_address = "[[service.backend]]\nname = \"be2\"\naddress = \"10.0.0.1\"";
    assert_eq!(only_problem(&file("", same_address)).1, "two backends have the address `10.0.0.1`");
}

#[test]
fn more_backends_than_slots_are_refused() {
    let more = "[[service.backend]]\nname = \"be2\"\naddress = \"10.0.0.2\"\n[[service.backend]]\nname = \"be3\"\naddress = \"10.0.0.3\"";
    assert_eq!(only_problem(&file("table_size = 2", more)).1, "3 backends cannot share 2 slots");
}

#[test]
fn more_backends_than_a_slot_can_name_are_refused() {
    let many: String = (0..32_768)
        .map(|n| format!("[[service.backend]]\nname = \"x{n}\"\naddress = \"10.1.{}.{}\"\n", n >> 8, n & 255))
        .collect();
    assert_eq!(only_problem(&file("", &many)).1, "32769 backends are too many for one service");
}

#[test]
fn addresses_that_no_tunnel_can_join_are_refused() {
    let (_, _, help) =
        only_problem(&file("", "[[service.backend]]\nname = \"be2\"\naddress = \"2001:db8::2\""));
    assert!(help.contains("source_v6"));
    let narrow =
        file("", "").replace("[underlay]", "[underlay]\nmtu = 1287").replace("192.0.2.10", "2001:db8::10");
    assert_eq!(only_problem(&narrow).2, "`[underlay] mtu` must be 1300 at least");
    only_problem(&file("", "").replace("192.0.2.10", "10.0.0.0/24"));
    only_problem(&file("", "").replace("192.0.2.10", "192.0.2.10/24"));
    only_problem(&file("", "").replace("10.0.0.1\"", "127.0.0.1\""));
    let sixth = |address: &str| {
        let both = file("", "").replace("[underlay]", "[underlay]\nsource_v6 = \"2001:db8::1\"");
        only_problem(&both.replace("10.0.0.1\"", &format!("{address}\"")))
    };
    assert_eq!(sixth("::ffff:10.0.0.1").2, "write `10.0.0.1`");
    assert!(sixth("fe80::1").1.contains("one link"));
    let source = |source: &str| {
        only_problem(&file("", "").replace("[underlay]", &format!("[underlay]\nsource_v6 = \"{source}\"")))
    };
    assert_eq!(source("fe80::1").1, "`fe80::1` cannot be the source of a tunnel");
}

#[test]
fn quic_ids_have_one_length_and_end_within_a_connection_id() {
    let quic =
        |table: &str, id: &str| file(&format!("[service.quic]\n{table}"), id).replace("\"tcp\"", "\"udp\"");
    let text = quic("server_id_length = 2", "server_id = 0x0003");
    assert_eq!(parse(&text).unwrap().services[0].backends[0].server_id, Some(3));
    only_problem(&quic("server_id_length = 2", "server_id = \"000003\""));
    only_problem(&quic("server_id_length = 2", "server_id = 65536"));
    only_problem(&quic("server_id_length = 9", ""));
    only_problem(&quic("server_id_length = 8\nserver_id_offset = 13", ""));
    only_problem(&file("", "server_id = \"0003\""));
    only_problem(&file("[service.quic]\nserver_id_length = 2", ""));
}

#[test]
fn settings_that_mean_nothing_where_they_stand_are_refused() {
    assert_eq!(only_problem(&file("udp = \"track\"", "")).1, "`udp` means nothing for a tcp service");
    only_problem(&file("[service.health]\nkind = \"tcp\"\npath = \"/\"", ""));
    only_problem(&file("[service.health]\nkind = \"tcp\"\ninterval = \"1s\"\ntimeout = \"2s\"", ""));
    only_problem(&file("[service.health]\nkind = \"exec\"", ""));
    only_problem(file("pool = \"nowhere\"", "").split("[[service.backend]]").next().unwrap());
}

#[test]
fn what_must_be_there_is_asked_for() {
    let found = problems("[[service]]\nname = \"web\"\n");
    let messages: Vec<&str> = found.iter().map(|(_, message, _)| message.as_str()).collect();
    assert_eq!(
        messages,
        ["[[service]] has no `vip`", "[[service]] has no `port`", "[[service]] has no `protocol`"]
    );
    assert!(found.iter().all(|(line, ..)| *line == 1));
}

#[test]
fn broken_syntax_is_told_with_its_line() {
    let found = problems("[underlay]\nmtu = \nsource_v4 = \"10.0.0.1\n[fleet");
    assert!(found.len() >= 2, "{found:?}");
    assert_eq!(found[0].0, 2);
    assert!(problems("a = 1\na = 2").iter().any(|(line, ..)| *line == 2));
}

#[test]
fn tables_of_the_wrong_kind_are_told_how_to_be_written() {
    assert!(only_problem("service = 3").2.contains("[[service]]"));
    assert!(only_problem("underlay = 3").2.contains("[underlay]"));
    assert!(problems("[service]\nname = \"web\"\n").iter().any(|(_, _, help)| help.contains("[[service]]")));
    only_problem("service = [3]");
    assert_eq!(only_problem("[[backend]]\nname = \"be1\"").2, "write `[[service.backend]]`");
}

/// The example, one line at a time in another form; what the form makes of a line must be its only problem.
fn each_line_of_the_example(slip: impl Fn(&str) -> Option<String>) {
    let mut tried = 0;
    for (index, line) in EXAMPLE.lines().enumerate() {
        let Some(wrong) = slip(line) else { continue };
        let mut lines: Vec<&str> = EXAMPLE.lines().collect();
        lines[index] = &wrong;
        let text = lines.join("\n");
        let problems = parse(&text).expect_err(&wrong);
        let places: Vec<usize> = problems.records().iter().map(|record| record.line).collect();
        assert_eq!(places, [index + 1], "{problems}");
        tried += 1;
    }
    assert!(tried > 0);
}

/// Key and value of a line that has them.
fn setting(line: &str) -> Option<(&str, &str)> {
    line.split_once(" = ").filter(|(key, _)| !key.starts_with(['#', ' ']))
}

/// A word with a slip of the fingers: its two letters in the middle change places.
fn slipped(word: &str) -> String {
    let mut letters: Vec<char> = word.chars().collect();
    let middle = (1..letters.len() - 1).find(|&at| letters[at] != letters[at + 1]).unwrap_or(0);
    letters.swap(middle, middle + 1);
    letters.into_iter().collect()
}

#[test]
fn a_wrong_key_is_one_problem_and_not_its_consequences() {
    each_line_of_the_example(|line| {
        let (key, value) = setting(line)?;
        Some(format!("{} = {value}", slipped(key)))
    });
}

#[test]
fn a_wrong_value_is_one_problem_and_not_its_consequences() {
    each_line_of_the_example(|line| {
        let (key, value) = setting(line)?;
        (value != "[").then(|| format!("{key} = 1979-05-27"))
    });
}

#[test]
fn a_wrong_heading_is_one_problem_and_not_its_consequences() {
    each_line_of_the_example(|line| {
        let name = line.strip_prefix('[')?.trim_matches(['[', ']']);
        let last = name.rsplit('.').next()?;
        Some(line.replace(last, &slipped(last)))
    });
    assert_eq!(
        only_problem(&EXAMPLE.replace("[underlay]", "[[underlay]]")).2,
        "write one `[underlay]`, with one pair of brackets"
    );
}

#[test]
fn an_empty_file_is_refused_and_one_with_a_comment_is_not() {
    for empty in ["", "\n \n"] {
        let (line, message, help) = only_problem(empty);
        assert_eq!((line, message.as_str()), (1, "the file is empty"));
        assert!(help.contains("write a comment into it"), "{help}");
    }
    assert!(parse("# no services yet").unwrap().services.is_empty());
}

#[test]
fn the_schema_knows_every_key_of_the_example() {
    let schema = config::schema().to_string();
    let keys = EXAMPLE.lines().filter_map(|line| line.split_once(" = ")).map(|(key, _)| key.trim());
    for key in keys.filter(|key| !key.starts_with(['#', '{'])) {
        assert!(schema.contains(&format!("\"{key}\"")), "{key} is not in the schema");
    }
}

/// Every property that the schema has anywhere.
fn properties(schema: &serde_json::Value, into: &mut BTreeSet<String>) {
    match schema {
        serde_json::Value::Object(object) => {
            for (key, value) in object {
                if let (true, Some(object)) = (key == "properties", value.as_object()) {
                    into.extend(object.keys().cloned());
                }
                properties(value, into);
            }
        }
        serde_json::Value::Array(array) => array.iter().for_each(|value| properties(value, into)),
        _ => {}
    }
}

/// Every key that a document has anywhere.
fn keys(value: &toml::Value, into: &mut BTreeSet<String>) {
    match value {
        toml::Value::Table(table) => {
            for (key, value) in table {
                into.insert(key.clone());
                keys(value, into);
            }
        }
        toml::Value::Array(array) => array.iter().for_each(|value| keys(value, into)),
        _ => {}
    }
}

#[test]
fn the_example_shows_every_key_of_the_schema() {
    let (mut known, mut shown) = (BTreeSet::new(), BTreeSet::new());
    properties(&config::schema(), &mut known);
    keys(&toml::Value::Table(EXAMPLE.parse().unwrap()), &mut shown);
    assert!(known.len() > 50, "{known:?}");
    let missing: Vec<_> = known.difference(&shown).collect();
    assert!(missing.is_empty(), "docs/guideway.example.toml does not show {missing:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn no_text_makes_it_panic(text in "[ -~\n\"=\\[\\]äö]{0,200}") {
        if let Err(problems) = parse(&text) {
            let _ = problems.to_string();
        }
    }

    #[test]
    fn no_damage_to_a_good_file_makes_it_panic(at in 0..EXAMPLE.len(), cut in 0..40_usize, put in "[ -~\n]{0,8}") {
        let end = (at + cut).min(EXAMPLE.len());
        let (Some(before), Some(after)) = (EXAMPLE.get(..at), EXAMPLE.get(end..)) else { return Ok(()) };
        if let Err(problems) = parse(&format!("{before}{put}{after}")) {
            let _ = problems.to_string();
            prop_assert!(problems.records().iter().all(|record| record.line >= 1));
        }
    }
}

#[test]
fn what_the_daemon_is_told_is_read_and_checked() {
    let with = |daemon: &str| format!("[daemon]\n{daemon}\n{}", file("", ""));
    let daemon = parse(&with("interfaces = [\"eth0\", \"eth1\"]\nshutdown_grace = \"2s\"")).unwrap().daemon;
    assert_eq!((daemon.interfaces.len(), daemon.shutdown_grace.as_secs()), (2, 2));
    assert_eq!((daemon.drift_interval.as_secs(), daemon.on_exit), (5, None));
    for (bad, label) in [
        ("interfaces = [\"eth0\", \"eth0\"]", "the second"),
        ("interfaces = \"an-interface-without-end\"", "1 to 15 bytes without spaces and `/`"),
        ("drift_interval = \"1ms\"", "must be 100ms or more, or 0s for never"),
    ] {
        let problems = parse(&with(bad)).unwrap_err();
        assert_eq!(problems.list()[0].label, label, "{bad}");
    }
}

#[test]
fn one_address_has_one_next_hop() {
    let second = file("", "next_hop_mac = \"02:00:00:00:00:04\"");
    let second =
        second[second.find("[[service]]").unwrap()..].replace("\"web\"", "\"other\"").replace("= 80", "= 81");
    let text = format!("{}{second}", file("", "next_hop_mac = \"02:00:00:00:00:03\""));
    let (_, message, _) = only_problem(&text);
    assert!(message.contains("has another next hop elsewhere"), "{message}");
    assert!(parse(&text.replace("00:04", "00:03")).is_ok());
}
