//! The commands, one module each.

pub(crate) mod backend;
pub(crate) mod bench;
pub(crate) mod check;
pub(crate) mod completions;
pub(crate) mod demo;
pub(crate) mod detach;
pub(crate) mod doctor;
pub(crate) mod lab;
pub(crate) mod live;
pub(crate) mod man;
pub(crate) mod notes;
pub(crate) mod replay;
pub(crate) mod run;
pub(crate) mod schema;
pub(crate) mod service_unit;
pub(crate) mod table;

use crate::cli::Command;
use crate::failure::{Failure, Outcome};
use crate::screen::Screen;

/// Runs a command; what it has to show goes to `screen`.
pub(crate) fn run(command: Command, screen: &mut Screen) -> Result<Outcome, Failure> {
    match command {
        Command::Demo(args) => demo::run(&args, screen),
        Command::Run(args) => run::run(&args),
        Command::Detach(args) => detach::run(&args, screen),
        Command::Status(args) => live::status::run(&args, screen),
        Command::Service(args) => live::service::run(&args, screen),
        Command::Drain(args) => live::operate::drain(&args, screen),
        Command::Ready(args) => live::operate::ready(&args, screen),
        Command::Maintenance(args) => live::operate::maintenance(&args, screen),
        Command::Weight(args) => live::operate::weight(&args, screen),
        Command::Reset(args) => live::operate::reset(&args, screen),
        Command::Top(args) => live::top::run(&args, screen),
        Command::Flows(args) => live::flows::run(&args, screen),
        Command::Events(args) => live::events::run(&args, screen),
        Command::Audit(args) => live::audit::run(&args, screen),
        Command::Plan(args) => live::change::plan(&args, screen),
        Command::Apply(args) => live::change::apply(&args, screen),
        Command::Confirm(args) => live::change::confirm(&args, screen),
        Command::Rollback(args) => live::change::rollback(&args, screen),
        Command::Explain(args) => live::explain::run(&args, screen),
        Command::Trace(args) => live::trace::run(&args, screen),
        Command::Reload(args) => live::status::reload(&args, screen),
        Command::Metrics(args) => live::status::metrics(&args, screen),
        Command::Table(args) => table::run(&args, screen),
        Command::Backend(args) => backend::run(&args, screen),
        Command::Check(args) => check::run(&args, screen),
        Command::Replay(args) => replay::run(&args, screen),
        Command::Bench(args) => bench::run(&args, screen),
        Command::Doctor(args) => doctor::run(&args, screen),
        Command::Lab(args) => lab::run(&args, screen),
        Command::ServiceUnit(args) => service_unit::run(&args, screen),
        Command::Schema(args) => schema::run(&args, screen),
        Command::Completions(args) => completions::run(&args, screen),
        Command::Man(args) => man::run(&args, screen),
    }
}
