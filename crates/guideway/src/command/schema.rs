//! `guideway schema`.

use guideway_control::config::{self, events};

use crate::failure::{Failure, Outcome};
use crate::screen::Screen;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  guideway schema > guideway.schema.json
  guideway schema --events > events.schema.json")]
pub(crate) struct Args {
    /// The schema of a file of scripted events, in place of the configuration's
    #[arg(long)]
    events: bool,
}

pub(crate) fn run(args: &Args, screen: &mut Screen) -> Result<Outcome, Failure> {
    let schema = if args.events { events::schema() } else { config::schema() };
    screen.json(&schema)?;
    Ok(Outcome::Ok)
}
