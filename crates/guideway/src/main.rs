//! The `guideway` command: reads the command line, runs one command, exits with its code.

mod cli;
mod columns;
mod command;
mod daemon_client;
mod failure;
mod help_text;
mod nearest;
mod output_file;
mod sandbox;
mod screen;
mod times;

use std::process::ExitCode;

use clap::FromArgMatches;

use crate::cli::Cli;
use crate::screen::Screen;

fn main() -> ExitCode {
    let cli = Cli::from_arg_matches(&cli::command().get_matches()).unwrap_or_else(|error| error.exit());
    let mut screen = Screen::stdout(cli.no_headers);
    let outcome = command::run(cli.command, &mut screen).and_then(|outcome| outcome.told(screen.finish()));
    match outcome {
        Ok(outcome) => outcome.into(),
        Err(failure) => failure.report(),
    }
}
