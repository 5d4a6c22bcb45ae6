//! The API over its real sockets, and the commands that ask it.

use std::os::unix::net::UnixStream;
use std::path::Path;

use guideway_testbed::process::Output;
use guideway_testbed::{privilege, wait};
use serde_json::{Value, json};

use crate::bed::{Bed, Engine, LONG, backends, config, end, said};
use crate::request::ask;

pub(crate) fn get(bed: &Bed, path: &str) -> Value {
    let reply = ask(&bed.path("api.sock"), "GET", path, &[], "");
    assert_eq!(reply.status, 200, "{path}: {}", reply.body);
    reply.body
}

/// Runs a command that asks the daemon.
pub(crate) fn command(bed: &Bed, line: &str) -> Output {
    bed.command(line)
}

fn ready(bed: &Bed) {
    bed.serves();
    wait::until_true(LONG, "three backends", || get(bed, "/v1/status")["backends"]["eligible"] == 3).unwrap();
}

#[test]
fn status_tells_what_a_person_and_a_program_want_to_know() {
    if !privilege::granted() {
        return;
    }
    let bed = Bed::new("status", Engine::Soft);
    bed.configure(&config("200ms", &backends(3, |n| if n == 2 { ", weight = 2" } else { "" })));
    let daemon = bed.run();
    ready(&bed);
    bed.answers(20);
    let status = get(&bed, "/v1/status");
    let packets = &status["packets"];
    let sum: u64 = ["forwarded_total", "answered_total", "passed_total", "dropped_total"]
        .iter()
        .map(|term| packets[term].as_u64().unwrap())
        .sum();
    assert!(packets["forwarded_total"].as_u64().unwrap() > 60, "{packets}");
    assert!(sum.abs_diff(packets["received_total"].as_u64().unwrap()) < 100);
    let web = get(&bed, "/v1/services/web");
    assert_eq!(web["listen"], json!(["192.0.2.10:80/tcp", "[2001:db8::10]:80/tcp"]));
    let be2 = get(&bed, "/v1/services/web/backends/be2");
    assert_eq!((&be2["weight"], &be2["admin"]), (&json!(2), &json!("ready")));
    assert_eq!(be2["health"]["last"]["reason"], "direct probe ok");
    assert!((be2["share"].as_f64().unwrap() - 0.5).abs() < 0.02, "{be2}");
    assert_eq!(get(&bed, "/v1/services/web/table?limit=7")["slots"].as_array().unwrap().len(), 7);
    let table = command(&bed, "service");
    for part in ["web", "192.0.2.10:80/tcp", "be2", "up"] {
        assert!(table.stdout.contains(part), "no {part:?} in\n{}{}", table.stdout, table.stderr);
    }
    let events = command(&bed, "events --json");
    assert!(events.stdout.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()));
    assert!(events.stdout.contains("never-passed to up"), "{}", events.stdout);
    let metrics = command(&bed, "metrics").stdout;
    assert!(!metrics.contains("# EOF"));
    for line in [
        "guideway_backend_health{service=\"web\",backend=\"be1\"} 1",
        "guideway_config_last_reload_successful 1",
        "# TYPE guideway_drops_total counter",
    ] {
        assert!(metrics.contains(line), "no {line:?} in\n{metrics}");
    }
    let document = get(&bed, "/openapi.json");
    assert!(document["paths"]["/v1/status"]["get"].is_object());
    assert!(end(daemon).status.success());
    let gone = command(&bed, "status");
    assert_eq!(gone.status.code(), Some(3), "{}", gone.stderr);
}

#[test]
fn changes_need_a_condition_and_a_way_in_that_may_change() {
    if !privilege::granted() {
        return;
    }
    let bed = Bed::new("conditions", Engine::Soft);
    bed.configure(&config("200ms", &backends(3, |_| "")));
    let daemon = bed.run();
    ready(&bed);
    let (socket, readers) = (bed.path("api.sock"), bed.path("api-read.sock"));
    let weight = "/v1/services/web/backends/be1/weight";
    let put = |socket: &Path, tag: Option<&str>, path: &str, body: &str| {
        let headers: Vec<_> = tag.map(|tag| ("If-Match", tag)).into_iter().collect();
        ask(socket, "PUT", path, &headers, body)
    };
    let body = r#"{"weight": 3}"#;
    let read = ask(&socket, "GET", "/v1/status", &[], "");
    let tag = read.head.split("etag: ").nth(1).unwrap().lines().next().unwrap().to_owned();
    for (reply, status, kind) in [
        (put(&socket, None, weight, body), 428, "condition-required"),
        (put(&socket, Some("\"0-0\""), weight, body), 412, "changed-meanwhile"),
        (put(&readers, Some("*"), weight, body), 403, "read-only"),
        (put(&socket, Some("*"), weight, r#"{"wieght": 3}"#), 422, "bad-body"),
        (put(&socket, Some("*"), weight, r#"{"weight": 65536}"#), 400, "out-of-range"),
        (put(&socket, Some("*"), weight, "nonsense"), 422, "bad-body"),
        (put(&socket, Some("*"), "/v1/services/web/backends/be9/weight", body), 404, "not-found"),
        (put(&socket, Some("*"), "/v1/services/wbe/backends/be1/weight", body), 404, "not-found"),
        (ask(&socket, "POST", "/v1/status", &[], ""), 405, "method-not-allowed"),
        (ask(&socket, "GET", "/v1/reload", &[], ""), 405, "method-not-allowed"),
        (ask(&socket, "GET", "/v2/status", &[], ""), 404, "not-found"),
        (ask(&socket, "GET", "/v1/flows?limit=many", &[], ""), 400, "bad-request"),
        (ask(&socket, "GET", "/v1/flows?lmit=3", &[], ""), 400, "bad-request"),
        (ask(&socket, "GET", "/v1/flows?limit=10001", &[], ""), 400, "out-of-range"),
        (ask(&socket, "GET", "/v1/flows?backend=nobody", &[], ""), 404, "not-found"),
        (ask(&socket, "POST", "/v1/apply", &[("If-Match", "*")], "[[service]]\n"), 422, "bad-config"),
        (ask(&socket, "POST", "/v1/apply", &[("If-Match", "*")], ""), 422, "bad-body"),
        (ask(&socket, "POST", "/v1/plan", &[], "[[service]]\n"), 422, "bad-config"),
        (ask(&readers, "POST", "/v1/apply", &[("If-Match", "*")], ""), 403, "read-only"),
        (ask(&readers, "POST", "/v1/plan", &[], "[[service]]\n"), 403, "read-only"),
    ] {
        assert_eq!((reply.status, reply.body["type"].as_str()), (status, Some(kind)), "{}", reply.body);
        assert!(reply.head.contains("content-type: application/problem+json"), "{}", reply.head);
        assert!(reply.body["detail"].as_str().is_some_and(|detail| !detail.is_empty()));
    }
    // Nothing of all that has changed anything.
    let changed = put(&socket, Some(&tag), weight, body);
    assert_eq!((changed.status, &changed.body["weight"]), (200, &json!(3)), "{}", changed.body);
    assert!(!changed.head.contains(&tag));
    assert_eq!(put(&socket, Some(&tag), weight, body).status, 412);
    assert_eq!(ask(&readers, "GET", "/v1/services/web/backends/be1", &[], "").body["weight"], 3);
    assert!(end(daemon).status.success());
    assert!(!socket.exists() && !readers.exists());
}

#[test]
fn a_time_out_of_its_range_is_refused_with_the_field_and_the_range() {
    if !privilege::granted() {
        return;
    }
    let bed = Bed::new("ranges", Engine::Soft);
    let file = config("200ms", &backends(3, |_| ""));
    bed.configure(&file);
    let daemon = bed.run();
    let (socket, any) = (bed.path("api.sock"), [("If-Match", "*")]);
    let admin = "/v1/services/web/backends/be1/admin";
    for seconds in ["-1", "0", "86401", "18446744073709551616"] {
        let path = format!("/v1/apply?confirm_within_seconds={seconds}");
        let reply = ask(&socket, "POST", &path, &any, &file);
        assert_eq!((reply.status, &reply.body["type"]), (400, &json!("out-of-range")), "{}", reply.body);
        let detail = format!("confirm_within_seconds is {seconds}, and can be 1 to 86400");
        assert_eq!(reply.body["detail"], detail);
    }
    for seconds in [0, 604_801, u64::MAX] {
        let body = json!({ "state": "drain", "deadline_seconds": seconds }).to_string();
        let reply = ask(&socket, "PUT", admin, &any, &body);
        assert_eq!((reply.status, &reply.body["type"]), (400, &json!("out-of-range")), "{}", reply.body);
        let detail = format!("deadline_seconds is {seconds}, and can be 1 to 604800");
        assert_eq!(reply.body["detail"], detail);
    }
    for wrong in ["1.5", "\"5\""] {
        let body = format!("{{\"state\": \"drain\", \"deadline_seconds\": {wrong}}}");
        let reply = ask(&socket, "PUT", admin, &any, &body);
        assert_eq!((reply.status, &reply.body["type"]), (422, &json!("bad-body")), "{}", reply.body);
        let detail = reply.body["detail"].as_str().unwrap();
        assert!(detail.contains("deadline_seconds: invalid"), "{detail}");
    }
    let idle = ask(&socket, "PUT", admin, &any, r#"{"state": "ready", "deadline_seconds": 5}"#);
    assert_eq!((idle.status, &idle.body["type"]), (422, &json!("bad-body")), "{}", idle.body);
    assert_eq!(get(&bed, "/v1/services/web/backends/be1")["overridden"], false);
    for (line, range) in [
        ("drain web be1 --deadline 500ms", "1s to 7days"),
        ("drain web be1 --deadline 8days", "1s to 7days"),
        ("apply guideway.toml --confirm-within 0s", "1s to 1day"),
        ("apply guideway.toml --confirm-within 25h", "1s to 1day"),
        ("trace --count 0", "1..=1000"),
        ("trace --timeout 26s", "1s to 25s"),
    ] {
        let run = command(&bed, line);
        assert_eq!(run.status.code(), Some(2), "{line}: {}", run.stderr);
        assert!(run.stderr.contains(range), "{line}: {}", run.stderr);
    }
    assert!(end(daemon).status.success());
}

#[test]
fn who_opens_too_many_connections_is_turned_away_and_nobody_else() {
    if !privilege::granted() {
        return;
    }
    let bed = Bed::new("crowd", Engine::Soft);
    bed.configure(&config("200ms", &backends(3, |_| "")));
    let daemon = bed.run();
    let readers = bed.path("api-read.sock");
    let held: Vec<UnixStream> = (0..96).map(|_| UnixStream::connect(&readers).unwrap()).collect();
    let metrics = || bed.command("metrics").stdout;
    let open = "guideway_api_connections{door=\"readers\"} 96\n";
    wait::until_true(LONG, "all to have come in", || metrics().contains(open)).unwrap();
    let turned_away = ask(&readers, "GET", "/v1/status", &[], "");
    assert_eq!((turned_away.status, &turned_away.body["type"]), (503, &json!("crowded")));
    assert!(metrics().contains("guideway_api_connections_refused_total{door=\"readers\"} 1\n"));
    said(&daemon, "is turned away: 96 are open");
    let silent: Vec<UnixStream> = (0..20).map(|_| UnixStream::connect(&readers).unwrap()).collect();
    let told = bed.start_command_at("api-read.sock", "status").finish(LONG).unwrap();
    assert!(told.stderr.contains("too many connections are open, of all"), "{}", told.stderr);
    drop((held, silent));
    let answered = || ask(&readers, "GET", "/v1/status", &[], "").status == 200;
    wait::until_true(LONG, "a free place", answered).unwrap();
    assert!(end(daemon).status.success());
}

#[test]
fn what_operators_say_holds_over_a_kill_until_it_is_taken_back() {
    if !privilege::granted() {
        return;
    }
    let bed = Bed::new("operators", Engine::Soft);
    bed.configure(
        &config("200ms", &backends(3, |_| ""))
            .replace("[[service]]", "[defaults]\nidle_tcp = \"1s\"\n\n[[service]]"),
    );
    let daemon = bed.run();
    ready(&bed);
    let drained = command(&bed, "drain web be2 --wait --timeout 15s");
    assert!(drained.status.success(), "{}{}", drained.stdout, drained.stderr);
    assert!(drained.stdout.contains("draining"), "{}", drained.stdout);
    assert!(!bed.answers(60).contains_key("be2"));
    let waiting = bed.start_command("drain web be1 --wait --timeout 1h");
    // Nobody talks to it any more, so it may be quiet at the first look.
    let told = |phase: &str| waiting.printed()[0].contains(phase);
    wait::until_true(LONG, "the drain", || told("busy") || told("quiet")).unwrap();
    assert!(command(&bed, "ready web be1").status.success());
    let waited = waiting.finish(LONG).unwrap();
    assert_eq!(waited.status.code(), Some(1), "{}", waited.stdout);
    assert!(waited.stderr.contains("web/be1 no longer drains"), "{}", waited.stderr);
    let weighed = command(&bed, "weight web be3 0 --json");
    assert_eq!(serde_json::from_str::<Value>(&weighed.stdout).unwrap()["slots"], 0, "{}", weighed.stderr);
    let status = command(&bed, "status").stdout;
    assert!(
        status.contains("web/be2: drain, not ready; web/be3: weight 0, not 1 (`guideway reset "),
        "{status}"
    );
    daemon.kill().unwrap();
    let daemon = bed.run();
    let answers = bed.answers(60);
    assert_eq!(answers.keys().collect::<Vec<_>>(), ["be1"]);
    assert!(command(&bed, "ready web be2").status.success());
    assert!(command(&bed, "reset web be3").status.success());
    wait::until_true(LONG, "all three", || bed.answers(20).len() == 3).unwrap();
    let unknown = command(&bed, "maintenance web be7");
    assert_eq!(unknown.status.code(), Some(1));
    assert!(unknown.stderr.contains("has no backend \"be7\""), "{}", unknown.stderr);
    assert!(end(daemon).status.success());
}
