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

// No words here: a command is described where its arguments are, and what is said here would hide that.
#[derive(Debug, Subcommand)]
enum Command {
    Churn(Box<churn::Args>),
    Balance(Box<balance::Args>),
    Migrate(Box<migrate::Args>),
    Cost(Box<cost::Args>),
    Size(Box<size::Args>),
    Page(page::Args),
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
