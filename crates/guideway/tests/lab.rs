//! The laboratory's commands as a user meets them.

mod binary;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use binary::{guideway, json, refused, scratch};

const SMALL: &str =
    "lab persistence --flows 60 --minutes 3 --changes 5 --backends 6 --slots 251 --tcp-idle 30 --udp-idle 10";

#[test]
fn what_there_is_one_of_is_told_in_the_singular() {
    let run = guideway("lab persistence --minutes 1 --changes 1");
    assert!(run.out.contains(" and 1 change in 1 minute; "), "{}", run.out);
}

#[test]
fn a_side_that_there_is_not_is_told_with_the_nearest() {
    for (given, near) in [("katran", "katran-v2"), ("magle", "maglev")] {
        let run = guideway(&format!("lab migrate --from {given} --to maglev --made-up 4"));
        assert_eq!(run.code, 2);
        assert!(run.err.contains("'--from <NAME>'"), "{}", run.err);
        assert!(run.err.contains(&format!("did you mean \"{near}\"?")), "{}", run.err);
    }
}

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
fn persistence_is_told_as_csv_and_as_a_picture_too() {
    let path = scratch("persistence.svg");
    let run = guideway(&format!("{SMALL} --csv --plot {}", path.display()));
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(run.out.starts_with("strategy,broken,") && run.out.lines().count() == 7, "{}", run.out);
    assert!(std::fs::read_to_string(path).unwrap().contains(">Guideway<"));
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
fn a_picture_that_can_not_be_written_is_told_before_any_work_is_done() {
    // The file of backends is not there either, but nobody has looked yet.
    let plot = scratch("no-such-folder").join("x.svg");
    let run =
        guideway(&format!("lab migrate --from maglev --to maglev --file /nowhere --plot {}", plot.display()));
    assert_eq!(run.code, 1);
    assert!(run.err.contains("cannot write") && run.err.contains("x.svg"), "{}", run.err);
}

#[test]
fn a_picture_that_fails_takes_nothing_from_the_figures() {
    let full = scratch("full.svg");
    std::os::unix::fs::symlink("/dev/full", &full).unwrap();
    let run = guideway(&format!("{CHURN} --plot {}", full.display()));
    std::fs::remove_file(&full).unwrap();
    assert_eq!(run.code, 1);
    assert!(
        run.out.contains("rendezvous-table") && run.err.contains("cannot write"),
        "{} {}",
        run.out,
        run.err
    );
}

#[test]
fn without_sizes_those_of_the_usual_ones_are_taken_that_have_room() {
    let slots = |command: &str| {
        let report = json(&format!("{command} --runs 1 --policies maglev --json"));
        report["rows"].as_array().unwrap().iter().map(|row| row["slots"].as_u64().unwrap()).min()
    };
    assert_eq!(slots("lab churn --backends 1000 --flows 10"), Some(1_021));
    assert_eq!(slots("lab churn --backends 250 --add 2 --flows 10"), Some(1_021));
    assert_eq!(slots("lab balance --backends 10,5000"), Some(16_381));
}

#[test]
fn help_explains_what_is_measured() {
    for (command, explained) in [
        ("lab churn", "because its old owner departed"),
        ("lab persistence", "lost when its backend died"),
        ("lab size", "upper end of the 95 % confidence interval"),
        ("table diff", "because its old owner departed"),
    ] {
        // As one line, for the width of the terminal decides where lines end.
        let help =
            guideway(&format!("{command} --help")).out.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(help.contains(explained), "{help}");
    }
}

#[test]
fn balance_tells_that_maglev_is_even_to_one_slot() {
    let report = json("lab balance --backends 10 --slots 1021 --runs 2 --json");
    for row in report["rows"].as_array().unwrap() {
        let most = row["over_provisioning"]["most"].as_f64().unwrap();
        assert_eq!(most < 0.01, row["policy"] == "maglev", "{row}");
    }
}

#[test]
fn migrate_tells_what_moves_by_backend_and_what_to_check() {
    let some = "lab migrate --from katran-v2 --to maglev --backends 10.0.0.1:443,10.0.0.2:443=2,10.0.0.3:443 --clients 500";
    let report = json(&format!("{some} --json"));
    let sum = |key: &str| {
        report["backends"].as_array().unwrap().iter().map(|row| row[key].as_u64().unwrap()).sum::<u64>()
    };
    assert_eq!((sum("before"), sum("after")), (2000, 2000));
    assert_eq!(sum("lost"), report["moved"].as_u64().unwrap());
    assert!(report["checks"].as_array().unwrap().iter().any(|check| check == "client-state"));
    let text = guideway(some);
    assert!(text.out.contains("What to check before the change"), "{}", text.out);
    assert_eq!(guideway(&format!("{some} --csv")).out.lines().count(), 4);
}

#[test]
fn migrations_that_make_no_sense_are_refused_with_a_remedy() {
    refused("lab migrate --from maglve --to maglev --made-up 3", 2, &["did you mean \"maglev\""]);
    refused("lab migrate --from cilium --to maglev --backends web-1,web-2", 1, &["web-1", "10.0.0.1:443"]);
    refused(
        "lab migrate --from envoy --to maglev --from-by-source --made-up 3",
        2,
        &["flow hash of its own"],
    );
    refused("lab migrate --from maglev --to maglev --to-slots 100 --made-up 3", 2, &["97 and 101"]);
    refused("lab migrate --from maglev --to maglev --from-param sed=1 --made-up 3", 2, &["seed"]);
    refused("lab migrate --from ring --to maglev --from-slots 251 --made-up 3", 2, &["ring has no table"]);
    refused("lab migrate --from maglev --to maglev --backends a,b,a", 1, &["backend 0 (\"a\")", "backend 2"]);
    let huge = "--clients 10000000 --flows-per-client 1000";
    refused(
        &format!("lab migrate --from maglev --to maglev --made-up 3 {huge}"),
        2,
        &["10000000000", "20000000"],
    );
}

#[test]
fn cost_measures_every_case() {
    let report = json("lab cost --backends 5 --slots 251 --rounds 1 --look-ups 50 --json");
    let rows = report["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 6);
    assert!(
        rows.iter().all(|row| row["build"].as_f64().unwrap() > 0.0 && row["bytes"].as_u64().unwrap() > 0)
    );
    refused("lab cost --backends 1", 2, &["2"]);
}

#[test]
fn size_finds_a_table_within_the_limits_or_says_which_limit_is_missed() {
    let found = "lab size --backends 10 --max-imbalance 1% --max-needless 2% --runs 2";
    let report = json(&format!("{found} --json"));
    let smallest = report["smallest"].as_u64().unwrap();
    assert!(smallest >= 500 && report["listed"].as_u64().unwrap() >= smallest, "{report}");
    assert!(guideway(found).out.contains("the smallest"));
    let missed = guideway(&format!("{found} --max-memory 1KiB"));
    assert_eq!(missed.code, 1);
    assert!(
        missed.out.contains("No size meets the limits") && missed.out.contains("allow more memory"),
        "{}",
        missed.out
    );
    // What nothing but a looser limit helps is not to be met by a policy whose shares are worse.
    let even = guideway("lab size --backends 30 --max-imbalance 0.000001% --runs 1");
    assert!(even.code == 1 && !even.out.contains("rendezvous-table"), "{}", even.out);
    refused("lab size --backends 10", 2, &["limit"]);
    refused("lab size --backends 10 --max-imbalance 1", 2, &["0.5%"]);
    refused("lab size --backends 10 --max-imbalance 1% --policy ring", 2, &["rendezvous-table"]);
}

#[test]
fn the_page_is_served_from_the_command_alone() {
    let mut server = Command::new(env!("CARGO_BIN_EXE_guideway"))
        .args(["lab", "page", "--listen", "127.0.0.1:0"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.split("http://").nth(1).and_then(|rest| rest.split('/').next()).unwrap().to_owned();
    let mut stream = TcpStream::connect(&address).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: lab\r\n\r\n").unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    assert!(response.starts_with("HTTP/1.1 200 OK\r\n"), "{response}");
    assert!(response.contains("'wasm-unsafe-eval'") && response.contains("<title>Guideway"), "{response}");
    // The port is taken now.
    refused(&format!("lab page --listen {address}"), 1, &[&address, "another port"]);
    server.kill().unwrap();
    server.wait().unwrap();
}
