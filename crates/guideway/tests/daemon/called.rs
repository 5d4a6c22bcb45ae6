//! Somebody gives a service another name.

use std::fs;
use std::time::Instant;

use guideway_testbed::backend::{ECHO_PORT, HTTP_PORT};
use serde_json::Value;

use crate::api::{command, get};
use crate::bed::{Bed, Engine, backends, end};
use crate::pool::{config, exchange, flows, granted, run, told};

/// A service is called otherwise: on trial, over a kill that ends the trial, for good, and by a file that changed while no daemon
/// was at work. Its flows stay, and so do its table, its verdicts and the drain that an operator began.
#[test]
fn a_renamed_service_keeps_its_flows_verdicts_and_drains_over_trials_and_kills() {
    if !granted(Engine::Xdp) {
        return;
    }
    let bed = Bed::new("called", Engine::Xdp);
    let file = config("", HTTP_PORT, 1, &backends(3, |_| ""));
    let called = |name: &str| file.replace("name = \"echo\"", &format!("name = \"{name}\""));
    bed.configure(&file);
    let daemon = run(&bed);
    let mut flows = flows(&bed, 30);
    told(&bed, "drain echo be3");
    let began = Instant::now();
    let generation = |name: &str| get(&bed, &format!("/v1/services/{name}"))["generation"].clone();
    let before = generation("echo");
    let mut is_as_before = |name: &str, generation: Option<&Value>| {
        exchange(&mut flows);
        let service = get(&bed, &format!("/v1/services/{name}"));
        let drained = &service["backends"][2];
        assert_eq!((&service["eligible"], &drained["admin"]), (&2.into(), &"drain".into()), "{service:#}");
        // What a restart reads is rounded to a second.
        let least = Some(began.elapsed().as_secs_f64() - 1.1);
        let is_up = |backend: &Value| {
            backend["health"]["verdict"] == "up" && backend["health"]["age_seconds"].as_f64() > least
        };
        assert!(service["backends"].as_array().unwrap().iter().all(is_up), "{service:#}");
        assert!(drained["drain"]["age_seconds"].as_f64() > least, "{service:#}");
        assert!(generation.is_none_or(|generation| service["generation"] == *generation), "{service:#}");
    };
    let other = bed.path("other.toml");
    fs::write(&other, called("repeat")).unwrap();
    let plan = command(&bed, &format!("plan {}", other.display()));
    assert!(
        plan.stdout.contains("name: echo -> repeat") && plan.stdout.contains("0 remembered flows end"),
        "{}",
        plan.stdout
    );
    told(&bed, &format!("apply --confirm-within 1h {}", other.display()));
    is_as_before("repeat", Some(&before));
    daemon.kill().unwrap();
    let daemon = bed.run();
    is_as_before("echo", None);
    told(&bed, &format!("apply {}", other.display()));
    is_as_before("repeat", None);
    daemon.kill().unwrap();
    bed.configure(&called("again"));
    let daemon = bed.run();
    is_as_before("again", None);
    told(&bed, "rollback");
    is_as_before("echo", None);
    assert!(end(daemon).status.success());
}

/// What was said of a service is not said of one that gets its first name later, kills or not.
#[test]
fn a_service_that_gets_the_name_of_another_of_before_inherits_nothing() {
    if !granted(Engine::Soft) {
        return;
    }
    let bed = Bed::new("heirs", Engine::Soft);
    let file = config("", HTTP_PORT, 1, &backends(3, |_| ""));
    bed.configure(&file);
    let daemon = run(&bed);
    told(&bed, "drain echo be1");
    let other = bed.path("other.toml");
    let apply = |text: String| {
        fs::write(&other, text).unwrap();
        told(&bed, &format!("apply {}", other.display()));
    };
    apply(file.replace("name = \"echo\"", "name = \"again\""));
    let admin = |name: &str| get(&bed, &format!("/v1/services/{name}/backends/be1"))["admin"].clone();
    assert_eq!(admin("again"), "drain");
    let port = |number: u16| format!("port = {number}\n");
    apply(file.replace(&port(ECHO_PORT), &port(ECHO_PORT + 1)));
    assert_eq!(admin("echo"), "ready");
    daemon.kill().unwrap();
    let daemon = bed.run();
    assert_eq!(admin("echo"), "ready");
    assert!(end(daemon).status.success());
}
