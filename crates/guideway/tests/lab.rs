//! The laboratory's commands as a user meets them.

mod binary;

use binary::{guideway, json};

const SMALL: &str =
    "lab persistence --flows 60 --minutes 3 --changes 5 --backends 6 --slots 251 --tcp-idle 30 --udp-idle 10";

#[test]
fn persistence_tells_one_row_a_strategy_and_exits_well_when_the_promise_holds() {
    let report = json(&format!("{SMALL} --json"));
    let rows = report["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 4);
    assert_eq!((rows[0]["strategy"].as_str(), rows[0]["broken"].as_u64()), (Some("Guideway"), Some(0)));
    assert_eq!(report["changes"].as_array().unwrap().len(), 5);
    let run = guideway(SMALL);
    assert_eq!(run.code, 0);
    assert!(run.out.contains("The promise held"), "{}", run.out);
}

#[test]
fn persistence_prints_the_same_markdown_each_time() {
    let run = guideway(&format!("{SMALL} --balancers 3 --markdown"));
    assert_eq!(run.code, 0);
    assert!(run.out.contains("| Guideway | "), "{}", run.out);
    assert_eq!(run.out, guideway(&format!("{SMALL} --balancers 3 --markdown")).out);
}

#[test]
fn persistence_refuses_settings_that_make_no_sense() {
    let run = guideway("lab persistence --slots 4096");
    assert_eq!(run.code, 2);
    assert!(run.err.contains("4096"), "{}", run.err);
}
