//! `guideway bench`: how long the kernel's packet path, its changes and the daemon take on this machine.

mod cases;
mod commit;
mod daemon;
mod frames;
mod memory;
mod reads;
mod rig;
mod show;
mod world;
mod xdp;

use clap::Subcommand;

use crate::failure::{Failure, Outcome};
use crate::screen::Screen;

/// Measure this machine: the program in the kernel, committing tables to it, its memory, and the daemon at scale
#[derive(Debug, clap::Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Time the program in the kernel, for every kind of packet, beside the goals; needs root
    Xdp(xdp::Args),
    /// Time the commit of tables to the kernel; needs root
    Commit(commit::Args),
    /// Time the daemon with ten thousand services or backends, beside the goals; in namespaces of its own
    Daemon(daemon::Args),
    /// Show what the kernel's maps take, by default and for other limits; needs no privileges
    Memory(memory::Args),
}

pub(crate) fn run(args: &Args, screen: &mut Screen) -> Result<Outcome, Failure> {
    match &args.command {
        Command::Xdp(args) => xdp::run(args, screen),
        Command::Commit(args) => commit::run(args, screen),
        Command::Daemon(args) => daemon::run(args, screen),
        Command::Memory(args) => memory::run(args, screen),
    }
}

/// A failure of the kernel's side, with the verifier's log below it where there is one.
fn failed(error: guideway_xdp::Error) -> Failure {
    match error {
        guideway_xdp::Error::Refused { ref log, .. } => Failure::failed(format_args!("{error}\n{log}")),
        error => Failure::failed(error),
    }
}
