//! Side-by-side benchmarks: every candidate in one process, in turns, so that a noisy machine is noisy for all.
//!
//! `cargo run --release -p guideway-bench -- hash|replay [--json] [--quick]`

mod hash;
mod measure;
mod replay;
mod traffic;

use std::process::ExitCode;

const USAGE: &str = "usage: guideway-bench hash|replay [--json] [--quick]

  hash     table builds, look-ups and memory, against the textbook loop, poise-core and maglev
  replay   packets a second through the forwarding core in user space, and what a packet's time goes into
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
            "hash" if suite.is_none() => suite = Some(Suite::Hash),
            "replay" if suite.is_none() => suite = Some(Suite::Replay),
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
    let (text, document) = match suite {
        None => {
            eprint!("{USAGE}");
            return ExitCode::from(2);
        }
        Some(Suite::Hash) => {
            let report = hash::run(quick);
            (report.to_text(), report.to_json())
        }
        Some(Suite::Replay) => {
            let report = replay::run(quick);
            (report.to_text(), report.to_json())
        }
    };
    if json {
        println!("{document:#}");
    } else {
        print!("{text}");
    }
    ExitCode::SUCCESS
}

/// What is measured.
enum Suite {
    Hash,
    Replay,
}
