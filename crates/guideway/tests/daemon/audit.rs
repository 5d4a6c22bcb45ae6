//! Who changed what.

use std::fs;
use std::os::unix::fs::symlink;

use guideway_testbed::{privilege, wait};
use nix::sys::signal::Signal;
use nix::unistd::Uid;
use serde_json::Value;

use crate::bed::{Bed, Engine, LONG, backends, config, end, said, signal, times_said};
use crate::request::ask;

#[test]
fn every_change_is_noted_with_who_asked_and_what_came_of_it() {
    if !privilege::granted() {
        return;
    }
    let bed = Bed::new("audit", Engine::Soft);
    bed.configure(&config("200ms", &backends(3, |_| "")));
    let daemon = bed.run();
    bed.serves();
    let entries = || -> Vec<Value> {
        let printed = bed.command("audit --json").stdout;
        printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    assert!(bed.command("weight web be2 7").status.success());
    let weight = "/v1/services/web/backends/be1/weight";
    let socket = bed.path("api.sock");
    assert_eq!(ask(&socket, "PUT", weight, &[("If-Match", "\"old\"")], "{\"weight\": 3}").status, 412);
    ask(&socket, "GET", "/v1/status", &[], "");
    signal(&daemon, Signal::SIGHUP);
    said(&daemon, "SIGHUP: ");
    wait::until_true(LONG, "three entries", || entries().len() == 3).unwrap();
    let noted = entries();
    let by = |kind: &str| -> Vec<String> {
        let events = bed.command("events --json --limit 1000").stdout;
        let events = events.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let those = events.filter(|event| event["kind"] == kind);
        those.map(|event| event["by"].as_str().unwrap_or("nobody").to_owned()).collect()
    };
    assert_eq!(by("operator"), [noted[0]["who"].as_str().unwrap()]);
    assert!(by("commit").contains(&by("operator")[0]), "the commit that followed from it");
    assert_eq!(by("config").last().unwrap(), "SIGHUP");
    assert!(by("health").iter().all(|who| who == "check"));
    assert!(by("daemon").iter().all(|who| who == "nobody"));
    let who = |entry: &Value| entry["who"].as_str().unwrap().to_owned();
    assert!(who(&noted[0]).starts_with(&format!("uid {}, pid ", Uid::current())), "{noted:?}");
    assert_eq!(noted[0]["what"], "PUT /v1/services/web/backends/be2/weight");
    assert_eq!((&noted[0]["said"], &noted[0]["done"]), (&"{\"weight\":7}".into(), &true.into()));
    assert_eq!(who(&noted[1]), format!("uid {}, pid {}", Uid::current(), std::process::id()));
    assert!(noted[1]["refused"].as_str().unwrap().contains("somebody changed something since"));
    assert_eq!((who(&noted[2]).as_str(), &noted[2]["what"]), ("SIGHUP", &"reload".into()));
    // It outlives a kill, and a bad file is somebody's doing as well.
    daemon.kill().unwrap();
    let daemon = bed.run();
    assert_eq!(entries()[..3], noted[..]);
    bed.configure("nonsense");
    wait::until_true(LONG, "a refusal", || entries().len() == 4).unwrap();
    assert_eq!((who(&entries()[3]).as_str(), &entries()[3]["done"]), ("file", &false.into()));
    assert!(end(daemon).status.success());
    // A disk that is full keeps no change from being made and answered; it is told once, and counted.
    bed.configure(&config("200ms", &backends(3, |_| "")));
    let daemon = bed.run();
    fs::remove_file(bed.path("state/audit.jsonl")).unwrap();
    symlink("/dev/full", bed.path("state/audit.jsonl")).unwrap();
    for weight in [3, 4] {
        assert!(bed.command(&format!("weight web be1 {weight}")).status.success());
    }
    assert_eq!(times_said(&daemon, "audit.jsonl, the log alone has what is asked"), 1);
    assert!(bed.command("metrics").stdout.contains("\nguideway_audit_lost_total 2\n"));
    let status = bed.command("status");
    assert!(status.stdout.contains("audit.jsonl") && status.status.code() == Some(1), "{}", status.stdout);
    fs::remove_file(bed.path("state/audit.jsonl")).unwrap();
    assert!(bed.command("weight web be1 5").status.success());
    assert_eq!(times_said(&daemon, "audit.jsonl is written again"), 1);
    assert!(end(daemon).status.success());
    let file = fs::read_to_string(bed.path("state/audit.jsonl")).unwrap();
    let last: Value = serde_json::from_str(file.lines().last().unwrap()).unwrap();
    assert_eq!((who(&last).as_str(), &last["what"]), ("SIGTERM", &"end".into()));
}
