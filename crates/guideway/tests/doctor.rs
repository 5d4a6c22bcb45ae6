//! `guideway doctor` and the unprivileged part of `guideway bench` as a user meets them.

mod binary;

use binary::{guideway, json};

#[test]
fn an_interface_that_is_not_there_fails_with_a_remedy_below_it() {
    let run = guideway("doctor no-such-link");
    assert_eq!(run.code, 1, "{}", run.err);
    let lines: Vec<&str> = run.out.lines().collect();
    let at = lines.iter().position(|line| line.contains("no-such-link: there is no such interface")).unwrap();
    assert!(lines[at].starts_with("fail") && lines[at + 1].trim() == "ip link", "{}", run.out);
    assert!(lines.iter().any(|line| line.contains("Linux ")), "{}", run.out);
}

#[test]
fn json_names_the_mode_of_each_interface_and_grades_each_finding() {
    let run = guideway("doctor lo --mode native --json");
    assert_eq!(run.code, 1, "the loopback interface has no native mode: {}", run.out);
    let report: serde_json::Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(report["ok"], false);
    assert_eq!(report["interfaces"][0]["name"], "lo");
    assert!(report["interfaces"][0]["mode"].is_null());
    for finding in report["findings"].as_array().unwrap() {
        let grade = finding["grade"].as_str().unwrap();
        assert!(["ok", "warn", "fail"].contains(&grade));
        assert_eq!(finding["remedy"].is_null(), grade == "ok", "{finding}");
    }
}

#[test]
fn memory_follows_the_limits_and_adds_up() {
    let report = json("bench memory --flows 1048576 --cpus 4 --json");
    assert_eq!(report["bytes_a_flow"].as_f64(), Some(16.0));
    assert_eq!(report["bytes_a_slot"].as_f64(), Some(4.0));
    let maps = report["maps"].as_array().unwrap();
    let sum: u64 = maps.iter().map(|map| map["bytes"].as_u64().unwrap()).sum();
    assert_eq!(report["total_bytes"].as_u64(), Some(sum));
    let flows = |report: &serde_json::Value| {
        let maps = report["maps"].as_array().unwrap();
        let map = maps.iter().find(|map| map["map"] == "FLOWS").unwrap();
        (map["entries"].as_u64().unwrap(), map["entry"].as_str().unwrap().to_owned())
    };
    assert_eq!(flows(&report), (262_144, "4 flows".to_owned()));
    assert_eq!(flows(&json("bench memory --json")), flows(&report), "the daemon's default");
}
