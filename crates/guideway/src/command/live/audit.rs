//! `guideway audit`: who changed what.

use std::io::Write;

use guideway_daemon::model::AuditEntry;

use crate::daemon_client::DaemonArgs;
use crate::failure::{Failure, Outcome};
use crate::screen::{Screen, Style, printable};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
A line has the time, who asked (at a Unix socket the uid and pid, by TCP whose token, else a signal or the file), what for, and what was said.
Health checks ask for nothing: what they change is among `guideway events`, as `check`.

The daemon keeps the last thousand entries at hand. All of them, as JSON lines, are in audit.jsonl and audit.jsonl.1 to .4 in its directory for state, a \
mebibyte each, and in its log.")]
pub(crate) struct Args {
    /// Only so many of the newest
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
    #[command(flatten)]
    daemon: DaemonArgs,
    /// Print JSON, one entry a line
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, screen: &mut Screen) -> Result<Outcome, Failure> {
    let entries: Vec<AuditEntry> = args.daemon.get(&format!("/v1/audit?limit={}", args.limit))?.value()?;
    for entry in &entries {
        if args.json {
            writeln!(screen, "{}", serde_json::to_string(entry).map_err(Failure::failed)?)?;
            continue;
        }
        let said = entry.said.as_deref().map(|said| format!(" {said}")).unwrap_or_default();
        let text = format!("{}  {:<20}  {}{said}", entry.at, entry.who, entry.what);
        match &entry.refused {
            None => writeln!(screen, "{}", printable(&text))?,
            Some(why) => {
                let mark = screen.paint(Style::Bad, "refused:");
                writeln!(screen, "{}  {mark} {}", printable(&text), printable(why))?;
            }
        }
    }
    Ok(Outcome::Ok)
}
