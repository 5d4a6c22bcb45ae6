//! `guideway flows`: remembered flows.

use std::io::Write;

use guideway_control::counted;
use guideway_daemon::model::Flows;
use serde_json::Value;

use crate::columns::{Align, Columns};
use crate::daemon_client::{DaemonArgs, segment};
use crate::failure::{Failure, Outcome};
use crate::screen::Screen;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Only flows that the slot tables alone would send elsewhere are remembered, so in a settled service there are none.
The forwarder keeps a keyed fingerprint of each flow and not its addresses.")]
pub(crate) struct Args {
    /// Only those of this service
    #[arg(value_name = "SERVICE")]
    service: Option<String>,
    /// Only those on this backend
    #[arg(long, value_name = "BACKEND")]
    backend: Option<String>,
    /// How many are shown
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
    #[command(flatten)]
    daemon: DaemonArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, screen: &mut Screen) -> Result<Outcome, Failure> {
    let mut path = format!("/v1/flows?limit={}", args.limit);
    for (key, value) in [("service", &args.service), ("backend", &args.backend)] {
        if let Some(value) = value {
            path += &format!("&{key}={}", segment(value));
        }
    }
    let answer = args.daemon.get(&path)?;
    if args.json {
        screen.json(&answer.value::<Value>()?)?;
        return Ok(Outcome::Ok);
    }
    let Flows { total, flows } = answer.value()?;
    let mut columns = Columns::new([
        ("service", Align::Left),
        ("backend", Align::Left),
        ("slot", Align::Right),
        ("class", Align::Left),
        ("silent", Align::Right),
    ]);
    let shown = flows.len();
    for flow in flows {
        let silent = format!("{} s", flow.silent_seconds);
        columns.row([flow.service, flow.backend, flow.slot.to_string(), flow.class, silent]);
    }
    columns.write(screen)?;
    writeln!(screen, "{shown} of {}", counted(total, "flow", "flows"))?;
    Ok(Outcome::Ok)
}
