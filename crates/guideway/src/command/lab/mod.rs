//! `guideway lab`: experiments whose figures the documents quote.

mod balance;
mod churn;
mod cost;
mod migrate;
mod output;
mod page;
mod persistence;
mod size;
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
    /// Count what resolves elsewhere after a migration, from one policy or system to another
    Migrate(Box<migrate::Args>),
    /// Measure, here and now, what policies cost: to build, to change, to look up, and in memory
    Cost(Box<cost::Args>),
    /// Find the smallest table that keeps imbalance, needless churn and memory within limits
    Size(Box<size::Args>),
    /// Serve the laboratory page: watch tables being drafted, look flows up, see what a change moves
    Page(page::Args),
    /// Count the connections that changes of the backends break, beside plain Maglev and LRU tables
    Persistence(persistence::Args),
}

pub(crate) fn run(args: &Args, screen: &mut Screen) -> Result<Outcome, Failure> {
    match &args.command {
        Command::Churn(args) => churn::run(args, screen),
        Command::Balance(args) => balance::run(args, screen),
        Command::Migrate(args) => migrate::run(args, screen),
        Command::Cost(args) => cost::run(args, screen),
        Command::Size(args) => size::run(args, screen),
        Command::Page(args) => page::run(args, screen),
        Command::Persistence(args) => persistence::run(args, screen),
    }
}
