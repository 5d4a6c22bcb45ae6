//! `guideway lab`: experiments whose figures the documents quote.

mod persistence;

use clap::Subcommand;

use crate::failure::{Failure, Outcome};
use crate::screen::Screen;

/// Experiments on the real controller and forwarding core; need no privileges and no network
#[derive(Debug, clap::Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Count the connections that changes of the backends break, beside plain Maglev and LRU tables
    Persistence(persistence::Args),
}

pub(crate) fn run(args: &Args, screen: &mut Screen) -> Result<Outcome, Failure> {
    match &args.command {
        Command::Persistence(args) => persistence::run(args, screen),
    }
}
