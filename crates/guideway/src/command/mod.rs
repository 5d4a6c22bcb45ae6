//! The commands, one module each.

pub(crate) mod backend;
pub(crate) mod bench;
pub(crate) mod check;
pub(crate) mod completions;
pub(crate) mod doctor;
pub(crate) mod lab;
pub(crate) mod man;
pub(crate) mod replay;
pub(crate) mod run;
pub(crate) mod schema;
pub(crate) mod table;

use crate::cli::Command;
use crate::failure::{Failure, Outcome};
use crate::screen::Screen;

/// Runs a command; what it has to show goes to `screen`.
pub(crate) fn run(command: Command, screen: &mut Screen) -> Result<Outcome, Failure> {
    match command {
        Command::Run(args) => run::run(&args),
        Command::Table(args) => table::run(&args, screen),
        Command::Backend(args) => backend::run(&args, screen),
        Command::Check(args) => check::run(&args, screen),
        Command::Replay(args) => replay::run(&args, screen),
        Command::Bench(args) => bench::run(&args, screen),
        Command::Doctor(args) => doctor::run(&args, screen),
        Command::Lab(args) => lab::run(&args, screen),
        Command::Schema(args) => schema::run(&args, screen),
        Command::Completions(args) => completions::run(&args, screen),
        Command::Man(args) => man::run(&args, screen),
    }
}
