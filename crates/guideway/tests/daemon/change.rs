//! Plans, trials, going back, and explanations, of a daemon at work.

use std::fs;

use guideway_testbed::backend::{ECHO_PORT, HTTP_PORT};
use guideway_testbed::process::Process;
use guideway_testbed::{privilege, wait};
use serde_json::Value;

use crate::api::{command, get};
use crate::bed::{Bed, Engine, LONG, backends, config, end, said, times_said};
use crate::pool;

#[test]
fn a_configuration_is_planned_tried_taken_back_and_applied() {
    if !privilege::granted() {
        return;
    }
    let bed = Bed::new("change", Engine::Soft);
    let (three, two) = (config("200ms", &backends(3, |_| "")), config("200ms", &backends(2, |_| "")));
    bed.configure(&three);
    let daemon = bed.run();
    bed.serves();
    wait::until_true(LONG, "three backends", || bed.answers(20).len() == 3).unwrap();
    let (same, other) = (bed.path("three.toml"), bed.path("two.toml"));
    fs::write(&same, &three).unwrap();
    fs::write(&other, &two).unwrap();
    let run = |line: &str| command(&bed, line);
    assert_eq!(run(&format!("plan {}", same.display())).status.code(), Some(0));
    let plan = run(&format!("plan --json {}", other.display()));
    assert_eq!(plan.status.code(), Some(1), "{}", plan.stderr);
    let plan: Value = serde_json::from_str(&plan.stdout).unwrap();
    let web = &plan["services"][0];
    assert_eq!((&web["action"], &web["backends_removed"][0]), (&"change".into(), &"be3".into()), "{plan}");
    assert!(web["slots_moved"].as_u64().unwrap() > 0, "{plan}");
    let larger = bed.path("larger.toml");
    fs::write(&larger, format!("{three}\n[flow_table]\nentries = 128\n")).unwrap();
    let plan = run(&format!("plan {}", larger.display()));
    assert_eq!(plan.status.code(), Some(1), "{}", plan.stderr);
    assert!(plan.stdout.starts_with("refused: ") && plan.stdout.lines().count() == 1, "{}", plan.stdout);
    // Nothing has changed by planning.
    assert_eq!(bed.answers(60).len(), 3);
    let trial = run(&format!("apply --confirm-within 1s {}", other.display()));
    assert!(trial.status.success() && trial.stdout.contains("on trial"), "{}{}", trial.stdout, trial.stderr);
    assert_eq!(bed.answers(60).len(), 2);
    said(&daemon, "nobody confirmed the configuration on trial");
    wait::until_true(LONG, "three backends again", || bed.answers(20).len() == 3).unwrap();
    assert_eq!(fs::read_to_string(bed.path("guideway.toml")).unwrap(), three);
    let trial = run(&format!("apply --confirm-within 1h {}", other.display()));
    assert!(trial.status.success());
    // Neither a file that is touched nor a configuration that is refused ends a trial.
    fs::write(bed.path("guideway.toml"), &three).unwrap();
    said(&daemon, "the file was written: ");
    assert_eq!(run(&format!("apply {}", larger.display())).status.code(), Some(1));
    assert_eq!(bed.answers(60).len(), 2);
    let again = run(&format!("apply --confirm-within 1h {}", other.display()));
    assert!(again.stdout.contains("was not confirmed: another `apply` took its place"), "{}", again.stdout);
    said(&daemon, "another `apply` took its place");
    assert!(run("audit").stdout.contains("another `apply` took its place"));
    assert!(run("confirm").status.success());
    assert_eq!(fs::read_to_string(bed.path("guideway.toml")).unwrap(), two);
    assert_eq!(run("confirm").status.code(), Some(1));
    assert_eq!(bed.answers(60).len(), 2);
    let (revision, dry) = (run("status --json").stdout, run("rollback --dry-run --json"));
    assert_eq!(dry.status.code(), Some(1), "{}", dry.stderr);
    let would: Value = serde_json::from_str(&dry.stdout).unwrap();
    assert_eq!(would["services"][0]["backends_added"][0], "be3", "{would}");
    let of = |status: &str| serde_json::from_str::<Value>(status).unwrap()["revision"].clone();
    assert_eq!(of(&run("status --json").stdout), of(&revision));
    let back = run("rollback");
    assert!(back.status.success(), "{}", back.stderr);
    assert_eq!(fs::read_to_string(bed.path("guideway.toml")).unwrap(), three);
    wait::until_true(LONG, "three backends once more", || bed.answers(20).len() == 3).unwrap();
    assert!(end(daemon).status.success());
}

#[test]
fn who_takes_the_last_backend_out_is_told_so() {
    if !privilege::granted() {
        return;
    }
    let bed = Bed::new("the-last", Engine::Soft);
    bed.configure(&config("200ms", &backends(2, |_| "")));
    let daemon = bed.run();
    said(&daemon, "2 backends take new flows");
    let last = "warning: no backend of web takes new flows now";
    for (line, is_told) in [
        ("drain web be1", false),
        ("drain web be2", true),
        ("ready web be1", false),
        ("weight web be1 0", true),
        ("weight web be1 1", false),
        ("maintenance web be1", true),
    ] {
        let done = command(&bed, line);
        assert!(done.status.success(), "{line}: {}", done.stderr);
        assert_eq!(done.stderr.contains(last), is_told, "{line}: {}", done.stderr);
    }
    assert!(end(daemon).status.success());
}

#[test]
fn a_service_that_takes_the_place_of_two_is_planned_as_it_is_applied_and_waits_for_its_checks() {
    if !pool::granted(Engine::Soft) {
        return;
    }
    let bed = Bed::new("both", Engine::Soft);
    let file = pool::config("", HTTP_PORT, 1, &backends(3, |_| ""));
    bed.configure(&file);
    let daemon = pool::run(&bed);
    let other = bed.path("both.toml");
    // It is neither of them by another name.
    let (first, rest) = file.split_once("\n[[service]]").unwrap();
    let last = rest.rsplit_once("\n[[service]]").unwrap().1;
    let one = rest.split_once("\n[[service]]").unwrap().0.replace("name = \"web\"", "name = \"both\"");
    let port = format!("port = {HTTP_PORT}\nprotocol");
    let both = one.replacen(&port, &format!("port = [{HTTP_PORT}, {ECHO_PORT}]\nprotocol"), 1);
    fs::write(&other, [first, &both, last].join("\n[[service]]")).unwrap();
    let plan = command(&bed, &format!("plan {}", other.display()));
    assert_eq!(plan.status.code(), Some(1), "{}", plan.stderr);
    for line in [
        "remove echo",
        "remove web",
        "add both",
        "note: service both: backends that are new take flows once they have passed",
    ] {
        assert!(plan.stdout.lines().any(|told| told.starts_with(line)), "no {line:?}: {}", plan.stdout);
    }
    assert!(!plan.stdout.contains("refused"), "{}", plan.stdout);
    let applied = command(&bed, &format!("apply {}", other.display()));
    assert!(applied.status.success() && !applied.stdout.contains("refused"), "{}", applied.stdout);
    pool::eligible(&bed, 6);
    assert!(end(daemon).status.success());
}

#[test]
fn a_service_that_a_trial_removed_takes_flows_as_soon_as_it_comes_back() {
    if !pool::granted(Engine::Soft) {
        return;
    }
    let bed = Bed::new("trial-service", Engine::Soft);
    let file = pool::config("", HTTP_PORT, 1, &backends(3, |_| ""));
    bed.configure(&file);
    let daemon = pool::run(&bed);
    let stays = |service: &&str| !service.contains("name = \"echo\"");
    let without: Vec<&str> = file.split("[[service]]").filter(stays).collect();
    let other = bed.path("without-echo.toml");
    fs::write(&other, without.join("[[service]]")).unwrap();
    pool::told(&bed, &format!("apply --confirm-within 1h {}", other.display()));
    pool::told(&bed, "rollback");
    let events = get(&bed, "/v1/events");
    let mut of_echo = events.as_array().unwrap().iter().filter(|event| event["service"] == "echo");
    let last = of_echo.rfind(|event| event["kind"] == "commit").unwrap();
    let text = last["text"].as_str().unwrap();
    assert!(text.starts_with("generation 1: 3 backends take new flows"), "{text}");
    assert!(end(daemon).status.success());
}

#[test]
fn a_trial_that_ends_with_the_daemon_is_told_by_the_next() {
    if !privilege::granted() {
        return;
    }
    let bed = Bed::new("trial-ends", Engine::Soft);
    let (three, two) = (config("200ms", &backends(3, |_| "")), config("200ms", &backends(2, |_| "")));
    bed.configure(&three);
    let other = bed.path("two.toml");
    fs::write(&other, &two).unwrap();
    let tried = |daemon: Process| {
        let trial = command(&bed, &format!("apply --confirm-within 1h {}", other.display()));
        assert!(trial.status.success(), "{}", trial.stderr);
        daemon
    };
    let ended = "was not confirmed: the daemon was started anew";
    tried(bed.run()).kill().unwrap();
    let daemon = bed.run();
    said(&daemon, ended);
    assert!(command(&bed, "audit").stdout.contains(ended));
    assert!(command(&bed, "events").stdout.contains(ended));
    let confirm = command(&bed, "confirm");
    assert!(confirm.status.code() == Some(1) && confirm.stderr.contains(ended), "{}", confirm.stderr);
    let daemon = tried(daemon);
    let output = end(daemon);
    assert!(output.stderr.contains("ends with this daemon"), "{}", output.stderr);
    let daemon = bed.run();
    said(&daemon, ended);
    assert!(end(daemon).status.success());
    // It is told once.
    let daemon = bed.run();
    assert_eq!(times_said(&daemon, ended), 0);
    assert!(end(daemon).status.success());
}

#[test]
fn an_explanation_is_what_happens_and_the_loaded_program_agrees() {
    if !privilege::granted() {
        return;
    }
    let bed = Bed::new("explain", Engine::Xdp);
    bed.configure(&config("200ms", &backends(3, |_| "")));
    let daemon = bed.run();
    bed.serves();
    wait::until_true(LONG, "three backends", || bed.answers(20).len() == 3).unwrap();
    let mut owners = std::collections::BTreeSet::new();
    for port in 40_000..40_020 {
        for (source, vip) in [("198.51.100.7", "192.0.2.10:80"), ("[2001:db8:100::7]", "[2001:db8::10]:80")] {
            let told = command(&bed, &format!("explain {source}:{port} {vip} tcp --json"));
            assert_eq!(told.status.code(), Some(0), "{}{}", told.stdout, told.stderr);
            let told: Value = serde_json::from_str(&told.stdout).unwrap();
            for packet in told["packets"].as_array().unwrap() {
                assert_eq!(packet["outcome"], "forwarded", "{packet}");
                assert_ne!(packet["referee"]["agrees"], Value::Bool(false), "{packet}");
                owners.insert(packet["backend"].as_str().unwrap().to_owned());
            }
        }
    }
    assert_eq!(owners.len(), 3);
    let elsewhere = command(&bed, "explain 198.51.100.7:4000 192.0.2.10:81 tcp");
    assert!(elsewhere.stdout.contains("passed"), "{}{}", elsewhere.stdout, elsewhere.stderr);
    assert!(end(daemon).status.success());
}
