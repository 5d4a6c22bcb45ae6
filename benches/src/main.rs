//! Side-by-side benchmarks: every candidate in one process, in turns, so that a noisy machine is noisy for all.
//!
//! `cargo run --release -p guideway-bench -- hash [--json] [--quick]`

mod hash;
mod measure;

use std::process::ExitCode;

const USAGE: &str = "usage: guideway-bench hash [--json] [--quick]

  hash     table builds, look-ups and memory, against the textbook loop, poise-core and maglev
  --json   print one JSON document instead of tables
  --quick  fewer rounds, no largest table, and no candidate that takes long
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut json = false;
    let mut quick = false;
    let mut suite = None;
    for argument in &arguments {
        match argument.as_str() {
            "--json" => json = true,
            "--quick" => quick = true,
            "hash" if suite.is_none() => suite = Some(()),
            "--help" | "-h" => {
                print!("{USAGE}");
                return ExitCode::SUCCESS;
            }
            other => {
                eprintln!("unknown argument `{other}`\n\n{USAGE}");
                return ExitCode::from(2);
            }
        }
    }
    if suite.is_none() {
        eprint!("{USAGE}");
        return ExitCode::from(2);
    }
    let report = hash::run(quick);
    if json {
        println!("{:#}", report.to_json());
    } else {
        print!("{}", report.to_text());
    }
    ExitCode::SUCCESS
}
