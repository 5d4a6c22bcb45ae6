//! The laboratory's commands as a user meets them.

mod binary;

use binary::{guideway, json, refused, scratch};

const SMALL: &str =
    "lab persistence --flows 60 --minutes 3 --changes 5 --backends 6 --slots 251 --tcp-idle 30 --udp-idle 10";

#[test]
fn persistence_tells_one_row_a_strategy_and_exits_well_when_the_promise_holds() {
    let report = json(&format!("{SMALL} --json"));
    let rows = report["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 6);
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

const CHURN: &str = "lab churn --runs 3 --slots 31,251 --flows 500";

#[test]
fn churn_tells_that_rendezvous_moves_nothing_needlessly() {
    let report = json(&format!("{CHURN} --json"));
    let rows = report["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 2 + 2 + 4);
    let of = |policy: &str| rows.iter().filter(|row| row["policy"] == policy).collect::<Vec<_>>();
    for row in of("rendezvous").into_iter().chain(of("rendezvous-table")) {
        assert_eq!(row["flows"]["needless_in_all"], 0);
        assert!(row["flows"]["moved"]["mean"].as_f64().unwrap() > 0.1);
    }
    assert!(of("modulo")[0]["flows"]["needless"]["mean"].as_f64().unwrap() > 0.4);
    let text = guideway(CHURN);
    assert!(text.code == 0 && text.out.contains("drain 1 of 4"), "{}", text.out);
}

#[test]
fn the_same_experiment_gives_the_same_bytes_with_any_number_of_threads() {
    for form in ["--json", "--csv", "--markdown"] {
        for experiment in [CHURN, "lab balance --runs 3 --slots 251,509 --backends 10,20"] {
            let one = guideway(&format!("{experiment} {form} --threads 1"));
            assert_eq!(one.code, 0, "{}", one.err);
            assert_eq!(one.out, guideway(&format!("{experiment} {form} --threads 3")).out);
        }
    }
}

#[test]
fn csv_has_one_case_a_line_under_its_headings() {
    let csv = guideway(&format!("{CHURN} --csv")).out;
    let lines: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    // Flows for every case, slots for the four with a table.
    assert_eq!(lines.len(), 1 + 8 + 4);
    assert!(lines.iter().all(|line| line.len() == lines[0].len()));
    let needless = lines[0].iter().position(|heading| *heading == "needless_in_all_runs").unwrap();
    let rendezvous = lines.iter().find(|line| line[4] == "rendezvous").unwrap();
    assert_eq!(rendezvous[needless], "0");
}

#[test]
fn pictures_are_written_whole_as_svg_and_png() {
    for (ending, magic) in [("svg", &b"<svg "[..]), ("png", b"\x89PNG")] {
        let path = scratch(&format!("churn.{ending}"));
        let run = guideway(&format!("{CHURN} --plot {}", path.display()));
        assert_eq!(run.code, 0, "{}", run.err);
        assert!(std::fs::read(&path).unwrap().starts_with(magic));
    }
    refused(&format!("{CHURN} --plot churn.pdf"), 2, &[".svg or .png"]);
    refused(&format!("{CHURN} --plot /no/such/place.svg"), 1, &["/no/such/place.svg"]);
}

#[test]
fn experiments_that_make_no_sense_are_refused_with_a_remedy() {
    refused("lab churn --backends 4 --drain 4", 2, &["leaves none", "drain fewer"]);
    refused("lab churn --slots 65536", 2, &["65521 and 65537"]);
    refused("lab churn --policies maglve", 2, &["maglev"]);
    refused("lab churn --reweight 2", 2, &["--to"]);
    refused("lab churn --backends 300 --slots 251", 2, &["300", "251"]);
    refused("lab balance --weights 1:0", 2, &["above 0"]);
    refused("lab balance --runs 0", 2, &["runs"]);
    refused("lab balance --backends 1x", 2, &["1x"]);
}

#[test]
fn balance_tells_that_maglev_is_even_to_one_slot() {
    let report = json("lab balance --backends 10 --slots 1021 --runs 2 --json");
    for row in report["rows"].as_array().unwrap() {
        let most = row["over_provisioning"]["most"].as_f64().unwrap();
        assert_eq!(most < 0.01, row["policy"] == "maglev", "{row}");
    }
}
