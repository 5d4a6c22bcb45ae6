//! `guideway check` and `guideway schema` as a user meets them.

mod binary;

use binary::{guideway, guideway_with_input, in_repository, json, refused, written};

const GOOD: &str = r#"[underlay]
source_v4 = "10.0.0.254"

[[service]]
name = "web"
vip = "192.0.2.10"
port = 80
protocol = "tcp"
table_size = 509
backend = [
  { name = "be1", address = "10.0.0.1" },
  { name = "be2", address = "10.0.0.2", weight = 2 },
]
"#;

/// The mistakes of a hasty evening, and the line of each.
const BAD: &str = r#"[underlay]
source_v4 = "10.0.0.254"

[[service]]
name = "web"
vip = "192.0.2.10"
port = 80
protocol = "tcp"
table_size = 65536
backend = [
  { name = "be1", address = "10.0.0.1", wieght = 3 },
  { name = "be2", address = "10.0.0.2", weight = -1 },
  { name = "be3", address = "10.0.0.3", port = 8080 },
]

[[service]]
name = "again"
vip = "192.0.2.10"
port = 80
protocol = "tcp"
backend = [{ name = "be1", address = "10.0.0.1" }]
"#;

#[test]
fn a_good_file_is_counted_up() {
    let file = written("good.toml", GOOD);
    let run = guideway(&format!("check {file}"));
    assert_eq!(run.code, 0);
    assert!(
        run.err.starts_with("note: service web: no health check") && run.err.lines().count() == 1,
        "{}",
        run.err
    );
    assert_eq!(run.out, format!("{file}: ok: 1 service, 2 backends\n"));
    let example = in_repository("docs/guideway.example.toml");
    assert_eq!(guideway(&format!("check {example}")).code, 0);
    assert_eq!(json(&format!("check --json {file}"))["ok"], true);
}

#[test]
fn a_service_where_one_backend_more_changes_the_size_of_auto_is_noted() {
    let edge = written("edge.toml", GOOD.replace("table_size = 509\n", ""));
    let run = guideway(&format!("check {edge}"));
    assert_eq!(run.code, 0);
    let told = "note: service web: the table of \"auto\" has 251 slots with 2 backends and 509 with 3";
    assert!(run.err.starts_with(told), "{}", run.err);
    let report = json(&format!("check --json {edge}"));
    assert_eq!((&report["ok"], &report["notes"][0]["service"]), (&true.into(), &"web".into()), "{report:#}");
}

#[test]
fn a_service_that_nobody_serves_is_noted() {
    let (before, _) = GOOD.split_once("backend = [").unwrap();
    for (name, backends, told) in [
        ("empty", "", "it has no backends; its clients get what `no_backend = \"reject\"` says"),
        (
            "idle",
            "{ name = \"be1\", address = \"10.0.0.1\", weight = 0 }",
            "none of its backends may take new flows",
        ),
    ] {
        let file = written(&format!("{name}.toml"), format!("{before}backend = [{backends}]\n"));
        let run = guideway(&format!("check {file}"));
        assert_eq!(run.code, 0);
        assert!(run.err.contains(&format!("note: service web: {told}")), "{}", run.err);
    }
}

#[test]
fn all_mistakes_are_shown_at_once_with_place_and_remedy() {
    let file = written("bad.toml", BAD);
    let run = guideway(&format!("check {file}"));
    assert_eq!((run.code, run.out.as_str()), (1, ""));
    for part in [
        format!("{file}:9:14"),
        "a table cannot have 65536 slots".into(),
        "use `65521` or `65537`, or `\"auto\"`".into(),
        format!("{file}:11:41"),
        "did you mean `weight`?".into(),
        format!("{file}:12:50"),
        "-1 is out of range".into(),
        format!("{file}:13:48"),
        "a backend cannot listen on port 8080 of its own".into(),
        format!("{file}:18:7"),
        "belongs to `web` already".into(),
        format!("{file}: 5 problems"),
    ] {
        assert!(run.err.contains(&part), "no {part:?} in\n{}", run.err);
    }
}

#[test]
fn mistakes_as_json_name_file_line_and_column() {
    let file = written("bad-json.toml", BAD);
    let run = guideway(&format!("check --json {file}"));
    assert_eq!((run.code, run.err.as_str()), (1, ""));
    let report: serde_json::Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(report["ok"], false);
    let problems = report["problems"].as_array().unwrap();
    let lines: Vec<_> = problems.iter().map(|problem| problem["line"].as_u64().unwrap()).collect();
    assert_eq!(lines, [9, 11, 12, 13, 18]);
    let typo = &problems[1];
    assert_eq!((typo["file"].as_str(), typo["column"].as_u64()), (Some(file.as_str()), Some(41)));
    assert_eq!(
        (typo["value"].as_str(), typo["help"].as_str()),
        (Some("wieght"), Some("did you mean `weight`?"))
    );
}

/// Such a limit is below what a file could be read with.
#[test]
fn a_daemon_that_may_open_next_to_no_files_says_which_limit_to_raise() {
    for limit in ["8:8", "16:16", "100:100"] {
        let run =
            [&format!("--nofile={limit}"), env!("CARGO_BIN_EXE_guideway"), "run", "--socket", "/nowhere"];
        let output = std::process::Command::new("prlimit").args(run).output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{limit}: {told}");
        assert!(told.contains("LimitNOFILE=") && told.contains("128 at least"), "{limit}: {told}");
    }
}

#[test]
fn standard_input_is_a_file_too() {
    assert_eq!(guideway_with_input(&["check", "-"], GOOD).code, 0);
    let run = guideway_with_input(&["check", "-"], "[underlay]\nmtuu = 9\n");
    assert_eq!(run.code, 1);
    assert!(run.err.contains("<stdin>:2:1") && run.err.contains("did you mean `mtu`?"), "{}", run.err);
}

#[test]
fn what_cannot_be_read_is_told_with_its_name() {
    refused("check no-such-file.toml", 1, &["cannot read no-such-file.toml"]);
    let latin = written("latin1.toml", b"# caf\xe9\n");
    refused(&format!("check {latin}"), 1, &["latin1.toml:1", "not UTF-8"]);
    let broken = written("broken.toml", "[[service]\nname = 'web'\n");
    let run = guideway(&format!("check {broken}"));
    assert_eq!(run.code, 1);
    assert!(run.err.contains("not TOML") && run.err.contains("broken.toml:1:"), "{}", run.err);
}

#[test]
fn events_are_checked_against_their_configuration() {
    let file = written("good-events.toml", GOOD);
    let event = |what: &str, backend: &str| {
        format!("[[event]]\nat = \"1s\"\ndo = \"{what}\"\nservice = \"web\"\nbackend = \"{backend}\"\n")
    };
    let good = written("events-good.toml", event("drain", "be1"));
    assert_eq!(guideway(&format!("check {file} --events {good}")).code, 0);
    let bad = written("events-bad.toml", event("drian", "be1") + &event("drain", "be9"));
    let run = guideway(&format!("check {file} --events {bad}"));
    assert_eq!(run.code, 1);
    for part in [
        format!("{bad}:3:6"),
        "did you mean `drain`?".into(),
        format!("{bad}:10:11"),
        "there is no backend `be9`".into(),
    ] {
        assert!(run.err.contains(&part), "no {part:?} in\n{}", run.err);
    }
    refused(&format!("check {file} --events no-such-events.toml"), 1, &["no-such-events.toml"]);
}

/// Every key of `value`, in tables within tables, must be a property of `schema`.
fn known(schema: &serde_json::Value, root: &serde_json::Value, value: &toml::Value, path: &str) {
    let resolved = |schema: &serde_json::Value| -> serde_json::Value {
        match schema["$ref"].as_str().and_then(|reference| reference.strip_prefix('#')) {
            Some(pointer) => root.pointer(pointer).expect("a reference to what is there").clone(),
            None => schema.clone(),
        }
    };
    let mut schema = resolved(schema);
    // What may be left out is this or null.
    if let Some(one) =
        schema["anyOf"].as_array().and_then(|any| any.iter().find(|one| one.get("$ref").is_some()))
    {
        schema = resolved(one);
    }
    match value {
        toml::Value::Table(table) => {
            for (key, value) in table {
                let property = &schema["properties"][key];
                assert!(!property.is_null(), "{path}.{key} is not in the schema: {schema:#}");
                known(property, root, value, &format!("{path}.{key}"));
            }
        }
        toml::Value::Array(array) if schema.get("items").is_some() => {
            for value in array {
                known(&schema["items"], root, value, path);
            }
        }
        _ => {}
    }
}

#[test]
fn the_schema_knows_every_key_of_the_example() {
    let schema = json("schema");
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    assert_eq!(schema["additionalProperties"], false);
    let example = std::fs::read_to_string(in_repository("docs/guideway.example.toml")).unwrap();
    known(&schema, &schema, &toml::Value::Table(example.parse().unwrap()), "");
    let events = json("schema --events");
    assert!(events["properties"]["event"].is_object(), "{events:#}");
    refused("schema --evnets", 2, &["--events"]);
}

#[test]
fn names_from_files_and_command_lines_cannot_steer_the_terminal() {
    let strange = written("strange\u{1b}[31m.toml", "\u{1b}[2J = 1\n[underlay]\n\"m\\u001b[2Jtu\" = 1500\n");
    let config = written("strange-key.toml", "[underlay]\n\"m\\u001b[2Jtu\" = 1500\n");
    for args in [
        &["check", &strange][..],
        &["check", "--json", &strange],
        &["check", &config],
        &["check", "missing\u{1b}[31m.toml"],
        &["replay", "--auto", "--in", "missing\u{1b}[31m.pcap"],
        &["replay", "-c", &config, "--in", "missing\u{1b}[31m.pcap"],
    ] {
        let run = guideway_with_input(args, "");
        assert_eq!(run.code, 1, "{args:?}: {}", run.err);
        assert!(!run.out.contains('\u{1b}') && !run.err.contains('\u{1b}'), "{args:?}: {:?}", run.err);
    }
    let good = written("good\u{1b}[31m.toml", GOOD);
    let run = guideway_with_input(&["check", &good], "");
    assert!(run.code == 0 && run.out.contains("good\\u{1b}[31m.toml: ok"), "{:?}", run.out);
}
