//! `guideway plan`, `apply`, `confirm` and `rollback`: other configurations for a daemon at work.

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use guideway_control::config::{self, Source};
use guideway_control::counted;
use guideway_daemon::model::{Applied, Plan};
use serde_json::Value;

use crate::command::notes::told_once;
use crate::daemon_client::{Answer, DaemonArgs};
use crate::failure::{Failure, Outcome};
use crate::screen::{Screen, Style};
use crate::times;

/// The longest that a configuration can be on trial.
const LONGEST_TRIAL: Duration = Duration::from_secs(86_400);

#[derive(Debug, clap::Args)]
#[command(after_help = "\
`+` is a backend that joins, `-` one that leaves and drains, `~` one that changes; `old -> new` is what holds now and what would.
Slots moved needlessly are those for which nothing in the change asks. A service that takes the place of one that is gone by name
is that one (`name: web -> site`): it keeps its flows.

Exit codes:
  0  nothing would change
  1  something would change, or would be refused, which a line that begins with `refused` tells (`refused` with --json); or the
     file has problems, which standard error tells; or the daemon did not answer as it should
  2  the command line is wrong
  3  the daemon cannot be reached

Examples:
  guideway plan new.toml
  guideway plan new.toml --json | jq '.refused, [.services[].slots_moved]'")]
pub(crate) struct PlanArgs {
    /// The configuration, or - for standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    daemon: DaemonArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
The daemon writes the configuration into its own file, so that it holds over restarts. On trial it does so only when it is
confirmed; without that, it goes back by itself, and so it does when the daemon is started anew.

Exit codes:
  0  it is in force, whether or not anything changed; a line tells where it could not be written
  1  it was refused, or the file has problems: all is as it was, and standard error says why
  2  the command line is wrong
  3  the daemon cannot be reached

Examples:
  guideway apply new.toml
  guideway apply new.toml --confirm-within 60s")]
pub(crate) struct ApplyArgs {
    /// The configuration, or - for standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Go back after this time, as 60s, unless `guideway confirm` is run; 1s to a day
    #[arg(long, value_name = "TIME", value_parser = times::between(Duration::from_secs(1), LONGEST_TRIAL))]
    confirm_within: Option<humantime::Duration>,
    #[command(flatten)]
    daemon: DaemonArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Exit codes:
  0  the configuration before is in force; with --dry-run: nothing would change
  1  failed, as where there is none before; with --dry-run also: something would change, or would be refused
  2  the command line is wrong
  3  the daemon cannot be reached")]
pub(crate) struct RollbackArgs {
    /// Only say what would change, as `guideway plan` does
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    args: Args,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    daemon: DaemonArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Shows what a configuration would change. The exit code is 1 when it would change anything, or be refused.
pub(crate) fn plan(args: &PlanArgs, screen: &mut Screen) -> Result<Outcome, Failure> {
    let Some(source) = checked(&args.file)? else { return Ok(Outcome::Differs) };
    let answer = args.daemon.post("/v1/plan", source.text().as_bytes())?;
    planned(&answer, args.json, screen)
}

fn planned(answer: &Answer, json: bool, screen: &mut Screen) -> Result<Outcome, Failure> {
    let plan: Plan = answer.value()?;
    if json {
        screen.json(&answer.value::<Value>()?)?;
    } else {
        show(&plan, screen)?;
    }
    let same = plan.services.is_empty() && plan.refused.is_empty();
    Ok(if same { Outcome::Ok } else { Outcome::Differs })
}

/// Has the daemon take a configuration.
pub(crate) fn apply(args: &ApplyArgs, screen: &mut Screen) -> Result<Outcome, Failure> {
    let Some(source) = checked(&args.file)? else { return Ok(Outcome::Differs) };
    let path = match args.confirm_within {
        Some(within) => format!("/v1/apply?confirm_within_seconds={}", times::seconds(within)),
        None => "/v1/apply".to_owned(),
    };
    let answer = args.daemon.post(&path, source.text().as_bytes())?;
    if args.json {
        screen.json(&answer.value::<Value>()?)?;
    } else {
        applied(&answer.value()?, screen)?;
    }
    Ok(Outcome::Ok)
}

/// Keeps what is on trial.
pub(crate) fn confirm(args: &Args, screen: &mut Screen) -> Result<Outcome, Failure> {
    let answer: Value = args.daemon.post("/v1/confirm", &[])?.value()?;
    if args.json {
        screen.json(&answer)?;
    } else {
        match (answer["written"].as_str(), answer["not_written"].as_str()) {
            (Some(path), _) => writeln!(screen, "confirmed, and written to {path}")?,
            (None, why) => writeln!(screen, "confirmed; {}", why.unwrap_or("it was not written"))?,
        }
        not_kept(answer["not_kept"].as_str(), screen)?;
    }
    Ok(Outcome::Ok)
}

/// Goes back.
pub(crate) fn rollback(args: &RollbackArgs, screen: &mut Screen) -> Result<Outcome, Failure> {
    let RollbackArgs { dry_run, args } = args;
    if *dry_run {
        return planned(&args.daemon.get("/v1/rollback")?, args.json, screen);
    }
    let answer = args.daemon.post("/v1/rollback", &[])?;
    if args.json {
        screen.json(&answer.value::<Value>()?)?;
    } else {
        applied(&answer.value()?, screen)?;
    }
    Ok(Outcome::Ok)
}

/// The file, if it is a configuration; its problems are shown otherwise.
fn checked(file: &std::path::Path) -> Result<Option<Source>, Failure> {
    let source = config::load(file).map_err(Failure::failed)?;
    match config::parse(&source) {
        Ok(_) => Ok(Some(source)),
        Err(problems) => {
            crate::command::replay::show_problems(&problems);
            Ok(None)
        }
    }
}

fn applied(applied: &Applied, screen: &mut Screen) -> Result<(), Failure> {
    show(&applied.plan, screen)?;
    if let Some(text) = &applied.trial_ended {
        writeln!(screen, "{} {text}", screen.paint(Style::Bad, "note:"))?;
    }
    match (&applied.confirm_by, &applied.written, &applied.not_written) {
        (Some(by), ..) => writeln!(screen, "in force on trial: `guideway confirm` by {by}, or it goes back")?,
        (None, Some(path), _) => writeln!(screen, "in force, and written to {path}")?,
        (None, None, Some(why)) => {
            let mark = screen.paint(Style::Bad, "in force, but");
            writeln!(screen, "{mark} {why}")?;
        }
        (None, None, None) => writeln!(screen, "in force")?,
    }
    not_kept(applied.not_kept.as_deref(), screen)?;
    Ok(())
}

/// Tells why a restart would not find a change.
pub(super) fn not_kept(why: Option<&str>, screen: &mut Screen) -> Result<(), Failure> {
    if let Some(why) = why {
        let mark = screen.paint(Style::Bad, "not kept yet:");
        writeln!(screen, "{mark} {why}")?;
    }
    Ok(())
}

fn show(plan: &Plan, screen: &mut Screen) -> Result<(), Failure> {
    for refusal in &plan.refused {
        let mark = screen.paint(Style::Bad, "refused:");
        writeln!(screen, "{mark} {refusal}")?;
    }
    for service in &plan.services {
        let name = screen.paint(Style::Heading, &service.service);
        writeln!(screen, "{} {name}", service.action)?;
        for setting in &service.settings {
            writeln!(screen, "    {setting}")?;
        }
        for (mark, backends) in [
            ("+", &service.backends_added),
            ("-", &service.backends_removed),
            ("~", &service.backends_changed),
        ] {
            for backend in backends {
                writeln!(screen, "  {mark} backend {backend}")?;
            }
        }
        let ended = counted(service.flows_ended, "remembered flow ends", "remembered flows end");
        if service.action == "remove" {
            // Those of slots that have settled are nowhere to be counted.
            writeln!(screen, "    every flow to it ends, remembered or not: {ended}")?;
        } else {
            writeln!(
                screen,
                "    {} of {} slots move, {} needlessly; {}; {ended}",
                service.slots_moved,
                service.slots,
                service.slots_moved_needlessly,
                counted(service.eligible, "backend takes new flows", "backends take new flows")
            )?;
        }
        if service.resize_waits {
            writeln!(screen, "    the new table size or seed waits until the service has settled")?;
        }
    }
    let notes = plan
        .services
        .iter()
        .flat_map(|service| service.notes.iter().map(|note| (service.service.clone(), note.clone())));
    for note in told_once(notes) {
        writeln!(screen, "note: {note}")?;
    }
    if plan.services.is_empty() {
        // What is refused asks for something, of which the refusal tells.
        if plan.refused.is_empty() {
            writeln!(screen, "nothing changes")?;
        }
    } else {
        writeln!(
            screen,
            "{}",
            counted(plan.unchanged, "service stays as it is", "services stay as they are")
        )?;
    }
    Ok(())
}
