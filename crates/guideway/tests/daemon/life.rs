//! Beginning, dying, coming back.

use std::fs;

use guideway_testbed::backend::HTTP_PORT;
use guideway_testbed::client::{HttpLoad, http};
use guideway_testbed::{privilege, vips, wait};
use nix::sys::signal::Signal;

use crate::bed::{Bed, Engine, LONG, backends, config, end, said, signal, times_said};

#[test]
fn a_daemon_serves_and_avoids_a_backend_that_fails_and_takes_it_back() {
    if !privilege::granted() {
        return;
    }
    let mut bed = Bed::new("serves", Engine::Soft);
    bed.configure(&config("200ms", &backends(3, |_| "")));
    let daemon = bed.run();
    bed.serves();
    wait::until_true(LONG, "three backends", || bed.answers(10).len() == 3).unwrap();
    let two = "2 backends take new flows";
    let before = times_said(&daemon, two);
    bed.own[1] = None;
    said(&daemon, "up to down: direct probe failed");
    let status = bed.command("status");
    assert_eq!(status.status.code(), Some(1), "{}", status.stdout);
    assert!(
        status.stdout.contains("! web: checks fail of be2 (down, direct probe failed"),
        "{}",
        status.stdout
    );
    // What an operator switches off is no cause for alarm.
    assert!(bed.command("maintenance web be2").status.success());
    let status = bed.command("status");
    assert_eq!(status.status.code(), Some(0), "{}", status.stdout);
    assert!(bed.command("reset web be2").status.success());
    wait::until_true(LONG, "a table without be2", || times_said(&daemon, two) > before).unwrap();
    assert!(!bed.answers(100).contains_key("be2"));
    bed.own[1] = Some(bed.own_server(1));
    wait::until_true(LONG, "be2 to be back", || bed.answers(10).contains_key("be2")).unwrap();
    let output = end(daemon);
    assert!(output.status.success(), "{}", output.stderr);
    assert!(output.stderr.contains("asked to end by SIGTERM"), "{}", output.stderr);
}

#[test]
fn after_a_kill_verdicts_and_the_last_good_configuration_hold() {
    if !privilege::granted() {
        return;
    }
    let mut bed = Bed::new("kill", Engine::Soft);
    bed.configure(&config("200ms", &backends(3, |_| "")));
    let daemon = bed.run();
    said(&daemon, "3 backends take new flows");
    bed.own[2] = None;
    said(&daemon, "up to down");
    let health = || fs::read_to_string(bed.path("state/health.json")).unwrap_or_default();
    wait::until_true(LONG, "verdicts on disk", || health().contains("down")).unwrap();
    daemon.kill().unwrap();
    // Nobody is asked before the test is over, so whatever is known is remembered.
    bed.configure(&config("1h", &backends(3, |_| "")));
    bed.own = vec![None, None, None];
    let daemon = bed.run();
    let answers = bed.answers(60);
    assert!(answers.len() == 2 && !answers.contains_key("be3"), "{answers:?}");
    let since = || -> serde_json::Value {
        let status = bed.command("status --json");
        let status: serde_json::Value = serde_json::from_str(&status.stdout).unwrap();
        status["config"]["taken_at"].clone()
    };
    let taken_at = since();
    assert!(taken_at.is_string(), "{taken_at}");
    daemon.kill().unwrap();
    bed.configure("[[service]]\nname = \"web\"\nwieght = 3\n");
    let daemon = bed.run();
    assert_eq!(times_said(&daemon, "the configuration that was taken last is used"), 1);
    assert!(times_said(&daemon, "wieght") > 0);
    assert_eq!(since(), taken_at, "it is still the configuration of then");
    assert!(!bed.answers(60).is_empty());
    signal(&daemon, Signal::SIGINT);
    assert!(daemon.finish(LONG).unwrap().status.success());
}

#[test]
fn what_keeps_a_daemon_from_starting_is_told() {
    if !privilege::granted() {
        return;
    }
    let bed = Bed::new("refusals", Engine::Soft);
    bed.configure("[[service]]\nname = \"web\"\nwieght = 3\n");
    let refused = bed.start().finish(LONG).unwrap();
    assert_eq!(refused.status.code(), Some(1));
    assert!(refused.stderr.contains("guideway.toml:3:1"), "{}", refused.stderr);
    bed.configure(&config("1s", &backends(3, |_| "")));
    // What is no socket is somebody's.
    fs::write(bed.path("api.sock"), "precious").unwrap();
    let refused = bed.start().finish(LONG).unwrap();
    assert!(refused.stderr.contains("is there and is no socket"), "{}", refused.stderr);
    assert_eq!(fs::read_to_string(bed.path("api.sock")).unwrap(), "precious");
    fs::remove_file(bed.path("api.sock")).unwrap();
    let daemon = bed.run();
    let second = bed.start().finish(LONG).unwrap();
    assert_eq!(second.status.code(), Some(1));
    assert!(second.stderr.contains("another guideway uses"), "{}", second.stderr);
    end(daemon);
}

/// What a daemon left half, and a newer one wrote, keeps no daemon from starting, and nothing of it is lost.
#[test]
fn damaged_state_is_set_aside_and_named_and_the_daemon_starts() {
    if !privilege::granted() {
        return;
    }
    let bed = Bed::new("damaged", Engine::Soft);
    bed.configure(&config("200ms", &backends(3, |_| "")));
    let daemon = bed.run();
    assert!(bed.command("weight web be2 7").status.success());
    // Not waited for: the next one waits until this one is gone.
    signal(&daemon, Signal::SIGKILL);
    let damaged = [
        ("config.json", "{\"version\": 1, \"name\": \"gui"),
        ("overrides.json", "{\"version\": 99}"),
        ("health.json", ""),
        ("drains.json", "{"),
        ("history.json", "[]"),
        ("names.json", "{\"version\": 1}"),
        ("trial.json", "none"),
    ];
    for (file, content) in damaged {
        fs::write(bed.path("state").join(file), content).unwrap();
    }
    let next = bed.run();
    for (file, _) in damaged {
        said(&next, &format!("state/{file}.damaged-1"));
        assert!(bed.path(&format!("state/{file}.damaged-1")).exists());
        // The others are written once there is something to write.
        let at_once = ["config.json", "overrides.json", "health.json"].contains(&file);
        let is_there = || !at_once || bed.path("state").join(file).exists();
        wait::until_true(LONG, "a new file", is_there).unwrap();
    }
    let kept = fs::read_to_string(bed.path("state/config.json.damaged-1")).unwrap();
    assert_eq!(kept, "{\"version\": 1, \"name\": \"gui");
    // Their verdicts are lost, so nobody is in use until checks pass.
    bed.serves();
    wait::until_true(LONG, "three backends", || bed.answers(20).len() == 3).unwrap();
    let status = bed.command("status");
    assert_eq!(status.status.code(), Some(1), "{}", status.stdout);
    assert!(status.stdout.contains("overrides.json has version 99"), "{}", status.stdout);
    let back = bed.command("rollback");
    assert!(back.stderr.contains("there is no earlier configuration"), "{}", back.stderr);
    assert!(end(next).status.success());
    drop(daemon);
}

/// A directory that nothing can be written into stops no start; it is told, and the files are there once they can be.
#[test]
fn a_configuration_that_cannot_be_kept_stops_no_start_and_is_kept_later() {
    if !privilege::granted() {
        return;
    }
    let bed = Bed::new("full", Engine::Soft);
    bed.configure(&config("200ms", &backends(3, |_| "")));
    // What stops root as well as a disk that is full.
    fs::create_dir_all(bed.path("state/config.json.new")).unwrap();
    let daemon = bed.run();
    wait::until_true(LONG, "three backends", || bed.answers(20).len() == 3).unwrap();
    let status = bed.command("status");
    assert_eq!(status.status.code(), Some(1), "{}", status.stdout);
    assert!(status.stdout.contains("config.json"), "{}", status.stdout);
    fs::remove_dir(bed.path("state/config.json.new")).unwrap();
    wait::until_true(LONG, "no fault", || bed.command("status").status.success()).unwrap();
    assert!(bed.path("state/config.json").is_file());
    assert!(end(daemon).status.success());
}

#[test]
fn a_killed_daemon_loses_no_request_and_the_next_takes_its_forwarder_over() {
    if !privilege::granted() {
        return;
    }
    let bed = Bed::new("over", Engine::Xdp);
    bed.configure(&config("200ms", &backends(3, |_| "")));
    let daemon = bed.run();
    wait::until_true(LONG, "three backends", || {
        let log = daemon.printed()[1].clone();
        log.contains("3 backends take new flows")
    })
    .unwrap();
    bed.serves();
    let load = HttpLoad::start(&bed.network.client.namespace, &vips(HTTP_PORT)).unwrap();
    let answered = |more: u64| {
        let before = load.report().total();
        wait::until_true(LONG, "answers", || load.report().total() >= before + more).unwrap();
    };
    answered(100);
    daemon.kill().unwrap();
    answered(100);
    // A backend leaves while nobody is there to see it, and another daemon comes.
    bed.configure(&config("200ms", &backends(2, |_| "")));
    let daemon = bed.run();
    said(&daemon, "took over the forwarder of an earlier daemon");
    answered(100);
    assert!(!bed.answers(60).contains_key("be3"));
    // Handing over does no harm either.
    signal(&daemon, Signal::SIGUSR2);
    assert!(daemon.finish(LONG).unwrap().status.success());
    answered(100);
    let daemon = bed.run();
    assert_eq!(times_said(&daemon, "slots moved"), times_said(&daemon, "; 0 of 251 slots moved"));
    answered(100);
    assert_eq!(load.report().failed, []);
    drop(load);
    assert!(end(daemon).status.success());
    assert!(http::get(&bed.network.client.namespace, vips(HTTP_PORT)[0], "/").is_err());
}
