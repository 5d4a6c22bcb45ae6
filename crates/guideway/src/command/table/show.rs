//! `guideway table show`: who owns which slot at a daemon at work.

use guideway_daemon::model::Table;
use serde_json::Value;

use crate::command::live::service;
use crate::daemon_client::{DaemonArgs, segment};
use crate::failure::{Failure, Outcome};
use crate::screen::Screen;

/// Show the table of a service of the daemon at work: who owns which slot
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The service
    #[arg(value_name = "SERVICE")]
    service: String,
    /// The first slot
    #[arg(long, value_name = "SLOT", default_value_t = 0)]
    from: u32,
    /// How many
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: u32,
    #[command(flatten)]
    daemon: DaemonArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args, screen: &mut Screen) -> Result<Outcome, Failure> {
    let path =
        format!("/v1/services/{}/table?from={}&limit={}", segment(&args.service), args.from, args.limit);
    let answer = args.daemon.get(&path)?;
    if args.json {
        screen.json(&answer.value::<Value>()?)?;
    } else {
        service::slots(&answer.value::<Table>()?, screen)?;
    }
    Ok(Outcome::Ok)
}
