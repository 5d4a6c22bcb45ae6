//! `guideway lab`: experiments whose figures the documents quote.

mod balance;
mod churn;
mod output;
mod persistence;
mod sweep;

use clap::Subcommand;

use crate::failure::{Failure, Outcome};
use crate::screen::Screen;

/// Experiments on the real hashing, controller and forwarding core; need no privileges and no network
#[derive(Debug, clap::Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Measure what a change of the backends moves, and how much of it needlessly
    Churn(Box<churn::Args>),
    /// Measure how even shares are, by policy, number of backends, table size and weights
    Balance(Box<balance::Args>),
    /// Count the connections that changes of the backends break, beside plain Maglev and LRU tables
    Persistence(persistence::Args),
}

pub(crate) fn run(args: &Args, screen: &mut Screen) -> Result<Outcome, Failure> {
    match &args.command {
        Command::Churn(args) => churn::run(args, screen),
        Command::Balance(args) => balance::run(args, screen),
        Command::Persistence(args) => persistence::run(args, screen),
    }
}
