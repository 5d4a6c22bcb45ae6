//! `guideway table verify`.

use std::io::Write;
use std::path::{Path, PathBuf};

use guideway_hash::vectors::{self, Record};
use serde::Serialize;

use super::backends::{located, read_text};
use crate::failure::{Failure, Outcome};
use crate::screen::{Screen, Style};

/// Rebuild the tables of golden records and compare
///
/// A file is an array of records. A record says what a table is made of (`profile`, `table_size`, `params`, `backends`) and
/// what comes of it (`sha256_le_u32`, `first32`, `counts_by_input_index`, and for some `flow_slots`). All of it is rebuilt and
/// compared.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  guideway table verify golden/*.json
  guideway table verify --quiet golden/envoy.json && echo holds

Exit codes:
  0  every record holds
  1  a record differs, or a file can't be read
  2  the command line is wrong")]
pub(crate) struct Args {
    /// Files of records; `-` is standard input
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,

    /// Print only the records that differ, and the total
    #[arg(short, long)]
    quiet: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    passed: usize,
    failed: usize,
    records: Vec<Verdict>,
}

#[derive(Serialize)]
struct Verdict {
    file: String,
    /// Place in the file, from 0.
    record: usize,
    profile: String,
    case: String,
    pass: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

pub(crate) fn run(args: &Args, screen: &mut Screen) -> Result<Outcome, Failure> {
    let mut report = Report { passed: 0, failed: 0, records: Vec::new() };
    let mut unreadable = 0;
    for path in &args.files {
        // One broken file does not hide what the others say.
        let (file, records) = match read(path) {
            Ok(read) => read,
            Err(failure) => {
                unreadable += 1;
                crate::screen::report("error", failure);
                continue;
            }
        };
        for (number, record) in records.iter().enumerate() {
            let reason = vectors::verify(record).err().map(|mismatch| mismatch.to_string());
            let verdict = Verdict {
                file: file.clone(),
                record: number,
                profile: record.profile.clone(),
                case: record.case.clone(),
                pass: reason.is_none(),
                reason,
            };
            *if verdict.pass { &mut report.passed } else { &mut report.failed } += 1;
            report.records.push(verdict);
        }
    }
    let outcome = if report.failed + unreadable > 0 { Outcome::Differs } else { Outcome::Ok };
    if args.json {
        return outcome.told(screen.json(&report));
    }
    outcome.told(text(&report, unreadable, args.quiet, screen))
}

fn text(report: &Report, unreadable: usize, quiet: bool, screen: &mut Screen) -> Result<(), Failure> {
    for verdict in report.records.iter().filter(|verdict| !verdict.pass || !quiet) {
        say(verdict, screen)?;
    }
    let Report { passed, failed, .. } = report;
    let files = if unreadable == 1 { "file" } else { "files" };
    let (style, text) = match (failed, unreadable) {
        (0, 0) => (Style::Good, format!("{passed} of {passed} records hold")),
        (0, _) => (Style::Bad, format!("{passed} records hold; {unreadable} {files} could not be read")),
        _ => (Style::Bad, format!("{failed} of {} records differ", passed + failed)),
    };
    let total = screen.paint(style, text);
    writeln!(screen, "{total}")?;
    Ok(())
}

fn say(verdict: &Verdict, screen: &mut Screen) -> Result<(), Failure> {
    let mark = match verdict.pass {
        true => screen.paint(Style::Good, "pass"),
        false => screen.paint(Style::Bad, "FAIL"),
    };
    writeln!(screen, "{mark}  {}  {}", verdict.profile, verdict.case)?;
    if let Some(reason) = &verdict.reason {
        writeln!(screen, "      {} record {}: {reason}", verdict.file, verdict.record)?;
    }
    Ok(())
}

/// The records of a file, and what to call it.
fn read(path: &Path) -> Result<(String, Vec<Record>), Failure> {
    let (file, text) = read_text(path)?;
    let records: Vec<Record> = serde_json::from_str(&text).map_err(|error| {
        let (place, message) = located(&error);
        Failure::failed(format!(
            "{file}:{place}: {message}; the file must be a JSON array of records with profile, table_size, backends and \
             sha256_le_u32"
        ))
    })?;
    if records.is_empty() {
        return Err(Failure::failed(format!(
            "{file} has no record, so it proves nothing; give an array of records"
        )));
    }
    Ok((file, records))
}
