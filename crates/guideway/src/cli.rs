//! The command line as a whole. Each command's arguments live with the command.

use clap::builder::Styles;
use clap::builder::styling::AnsiColor;
use clap::{Parser, Subcommand};

use crate::command::{backend, bench, check, completions, doctor, lab, man, replay, run, schema, table};

/// What every help page ends with.
pub(crate) const EXIT_CODES: &str = "\
Exit codes:
  0  ok
  1  failed, or what was compared or verified differs
  2  the command line is wrong";

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default().bold())
    .placeholder(AnsiColor::Cyan.on_default());

/// A layer-4 load balancer: Maglev hashing, connections that survive change, direct server return.
#[derive(Debug, Parser)]
#[command(name = "guideway", version, styles = STYLES, after_help = EXIT_CODES, max_term_width = 110)]
#[command(propagate_version = true, subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the balancer: load the configuration, forward, check backends, follow changes
    Run(Box<run::Args>),
    /// Build, explain, compare and verify hash tables; needs no privileges and no daemon
    Table(Box<table::Args>),
    /// Check a configuration file: every problem with its line and a remedy
    Check(check::Args),
    /// Put a capture through the balancer and write what would leave; needs no privileges
    Replay(replay::Args),
    Doctor(doctor::Args),
    /// Measure the kernel's packet path on this machine
    Bench(bench::Args),
    /// Experiments: what the documents quote, computed again
    Lab(lab::Args),
    /// Set up the host of a backend, take that away again, examine it
    Backend(backend::Args),
    /// Print the JSON schema of the configuration file
    Schema(schema::Args),
    /// Print the completion script of a shell
    Completions(completions::Args),
    /// Write the manual pages into a directory
    Man(man::Args),
}
