//! `guideway table`: hash tables without a daemon.

pub(crate) mod backends;
mod build;
mod diff;
mod draft;
mod lookup;
mod profiles;
mod recipe;
mod show;
mod verify;

use clap::Subcommand;

use crate::failure::{Failure, Outcome};
use crate::screen::Screen;

/// Build, explain, compare and verify hash tables; needs no privileges and no daemon
///
/// A table has M slots. Each slot belongs to one backend, and a flow goes to the owner of slot `hash mod M`. The same
/// backends, size and seed give the same table on every machine.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  guideway table build --backends a,b,c=2            three backends, c with twice the weight
  guideway table draft --backends a,b,c --size 7     watch how the slots are given out
  guideway table lookup user-42 --backends a,b,c     hash, slot, backend
  guideway table diff --backends a,b,c --remove b    what a change would move

Exit codes:
  0  ok
  1  failed, or what was compared or verified differs
  2  the command line is wrong
  3  the daemon cannot be reached";

// No words here: a command is described where its arguments are, and what is said here would hide that.
#[derive(Debug, Subcommand)]
enum Command {
    Build(build::Args),
    Draft(draft::Args),
    Diff(diff::Args),
    Lookup(lookup::Args),
    Verify(verify::Args),
    Profiles(profiles::Args),
    Show(show::Args),
}

pub(crate) fn run(args: &Args, screen: &mut Screen) -> Result<Outcome, Failure> {
    match &args.command {
        Command::Build(args) => build::run(args, screen),
        Command::Draft(args) => draft::run(args, screen),
        Command::Diff(args) => diff::run(args, screen),
        Command::Lookup(args) => lookup::run(args, screen),
        Command::Verify(args) => verify::run(args, screen),
        Command::Profiles(args) => profiles::run(args, screen),
        Command::Show(args) => show::run(args, screen),
    }
}

#[cfg(test)]
mod tests {
    use super::EXAMPLES;
    use crate::cli::EXIT_CODES;

    #[test]
    fn the_codes_of_this_page_are_the_first_of_the_commands() {
        let (_, codes) = EXAMPLES.split_once("Exit codes:").unwrap();
        let (_, all) = EXIT_CODES.split_once("Exit codes:").unwrap();
        assert!(all.starts_with(codes), "{codes}");
    }
}
