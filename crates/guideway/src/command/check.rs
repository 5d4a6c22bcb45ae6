//! `guideway check`.

use std::io::Write;
use std::path::PathBuf;

use guideway_control::config::{self, BackendState, events};
use guideway_control::counted;
use serde_json::json;

use super::notes::told_once;
use crate::failure::{Failure, Outcome};
use crate::output_file::one_standard_input;
use crate::screen::{Screen, printable};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Every problem is shown at once, with its line and a remedy, on standard error.

Exit codes:
  0  there is none
  1  there is one, or the file cannot be read
  2  the command line is wrong

Examples:
  guideway check
  guideway check new.toml
  generate-config | guideway check -
  guideway check guideway.toml --events events.toml")]
pub(crate) struct Args {
    /// The configuration, or - for standard input
    #[arg(value_name = "FILE", default_value = "/etc/guideway/guideway.toml")]
    file: PathBuf,
    /// Also check a file of scripted events against it
    #[arg(long, value_name = "FILE")]
    events: Option<PathBuf>,
    /// Print the problems as JSON, on standard output
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, screen: &mut Screen) -> Result<Outcome, Failure> {
    one_standard_input([Some(&args.file), args.events.as_ref()].into_iter().flatten().map(PathBuf::as_path))?;
    let unreadable = |error: &dyn std::fmt::Display, screen: &mut Screen| {
        if args.json {
            let problem = json!({ "file": args.file, "message": error.to_string() });
            Outcome::Differs.told(screen.json(&json!({ "ok": false, "problems": [problem] })))
        } else {
            Err(Failure::failed(error))
        }
    };
    let source = match config::load(&args.file) {
        Ok(source) => source,
        Err(error) => return unreadable(&error, screen),
    };
    let checked = config::parse(&source).and_then(|config| {
        let Some(path) = &args.events else { return Ok(Ok(config)) };
        match config::load(path) {
            Ok(source) => events::parse(&source, &config).map(|_| Ok(config)),
            Err(error) => Ok(Err(error)),
        }
    });
    match checked {
        Ok(config) => {
            let config = match config {
                Ok(config) => config,
                Err(error) => return unreadable(&error, screen),
            };
            let notes = config
                .services
                .iter()
                .flat_map(|service| remarks(service).into_iter().map(|remark| (&service.name, remark)));
            let empty = config.services.is_empty().then_some("no service: nothing would be forwarded");
            if args.json {
                let empty = empty.map(|message| json!({ "message": message }));
                let notes = notes.map(|(service, message)| json!({ "service": service, "message": message }));
                let notes: Vec<_> = empty.into_iter().chain(notes).collect();
                screen.json(&json!({ "ok": true, "problems": [], "notes": notes }))?;
            } else {
                if let Some(message) = empty {
                    crate::screen::report("warning", format!("{}: {message}", source.name()));
                }
                for note in told_once(notes.map(|(service, message)| (service.clone(), message))) {
                    crate::screen::report("note", note);
                }
                let backends: usize = config.services.iter().map(|service| service.backends.len()).sum();
                writeln!(
                    screen,
                    "{}: ok: {}, {}",
                    printable(source.name()),
                    counted(config.services.len(), "service", "services"),
                    counted(backends, "backend", "backends")
                )?;
            }
            Ok(Outcome::Ok)
        }
        Err(problems) => {
            if args.json {
                let report = json!({ "ok": false, "problems": problems.records() });
                return Outcome::Differs.told(screen.json(&report));
            }
            super::replay::show_problems(&problems);
            Ok(Outcome::Differs)
        }
    }
}

/// What is to be known of a service that has no mistake.
fn remarks(service: &config::Service) -> Vec<String> {
    let takes = |backend: &config::Backend| backend.state == BackendState::Active && backend.weight > 0;
    let idle = match service.backends.as_slice() {
        [] => Some("it has no backends"),
        some if !some.iter().any(takes) => {
            Some("none of its backends may take new flows: each has weight 0 or is not active")
        }
        _ => None,
    };
    let idle =
        idle.map(|why| format!("{why}; its clients get what `no_backend = \"{}\"` says", service.no_backend));
    let unchecked = (service.health.is_none() && !service.backends.is_empty()).then(|| UNCHECKED.to_owned());
    let border = service.size_border().map(|border| border.to_string());
    [idle, border, unchecked].into_iter().flatten().collect()
}

/// What is to be known of a service without `[service.health]` and `[defaults.health]`.
const UNCHECKED: &str =
    "no health check: backends count as well whatever becomes of them ([service.health] has them checked)";
