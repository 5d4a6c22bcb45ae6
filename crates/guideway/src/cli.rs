//! The command line as a whole. Each command's arguments live with the command.

use clap::builder::Styles;
use clap::builder::styling::AnsiColor;
use clap::{CommandFactory, Parser, Subcommand};

use crate::command::live::{audit, change, events, explain, flows, operate, service, status, top, trace};
use crate::command::{
    backend, bench, check, completions, demo, detach, doctor, lab, man, replay, run, schema, service_unit,
    table,
};
use crate::help_text::laid_out;

/// The exit codes that there are.
pub(crate) const EXIT_CODES: &str = "\
Exit codes:
  0  ok
  1  failed, or what was compared or verified differs
  2  the command line is wrong
  3  the daemon cannot be reached
  4  what was waited for did not come in time";

/// What the help of a command tells that has no exit codes of its own.
const PLAIN_CODES: &str = "\
Exit codes:
  0  ok
  1  failed
  2  the command line is wrong";

/// Those of a command that asks the daemon have this one as well.
const UNREACHABLE_CODE: &str = "  3  the daemon cannot be reached";

/// Every variable of the environment that is read, or set for a program that is run.
const ENVIRONMENT: &str = "\
Environment:
  GUIDEWAY_SOCKET   the daemon's socket, for the commands that ask it; --socket wins
  GUIDEWAY_OPTIONS  options of `guideway run`, where the systemd unit starts it
  GUIDEWAY_ADDRESS, GUIDEWAY_PORT
                    set for the program of an `exec` check: its backend
  NO_COLOR          anything: no colours; nor are there any where TERM is `dumb`
  COLUMNS           how wide help texts are, where no terminal tells";

/// The command line, every command with its exit codes.
pub(crate) fn command() -> clap::Command {
    with_exit_codes(Cli::command().after_help([EXIT_CODES, ENVIRONMENT].join("\n\n")))
}

fn with_exit_codes(command: clap::Command) -> clap::Command {
    let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let help = laid_out(&help);
    let command = if help.contains("Exit codes") {
        command.after_help(help)
    } else {
        let (before, examples) = help.split_at(help.find("Example").unwrap_or(help.len()));
        let asks = command.get_arguments().any(|argument| argument.get_id() == "socket");
        let codes = if asks { format!("{PLAIN_CODES}\n{UNREACHABLE_CODE}") } else { PLAIN_CODES.to_owned() };
        let parts = [before.trim_end(), &codes, examples];
        let parts = parts.into_iter().filter(|part| !part.is_empty());
        command.after_help(parts.collect::<Vec<_>>().join("\n\n"))
    };
    command.mut_subcommands(with_exit_codes)
}

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default().bold())
    .placeholder(AnsiColor::Cyan.on_default());

/// A layer-4 load balancer: Maglev hashing, connections that survive change, direct server return.
#[derive(Debug, Parser)]
#[command(name = "guideway", version, styles = STYLES, max_term_width = 110)]
#[command(propagate_version = true, subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct Cli {
    /// Print tables of rows without their headings
    #[arg(long, global = true)]
    pub(crate) no_headers: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// See it at work: a network of its own, with clients, balancer and backends, while things go wrong
    Demo(demo::Args),
    /// Run the balancer: load the configuration, forward, check backends, follow changes
    Run(Box<run::Args>),
    /// Take away what a daemon that is gone left in the kernel
    Detach(detach::Args),
    /// The daemon and its forwarder as a whole; exit code 1 when somebody should look
    Status(status::Args),
    /// Services and their backends, or one of them with all that is known of it
    Service(service::Args),
    /// Drain a backend: it keeps its flows and takes no new ones
    Drain(operate::DrainArgs),
    /// Let a backend take flows while its checks pass
    Ready(operate::Args),
    /// Switch a backend off: its flows end at once
    #[command(visible_alias = "maint")]
    Maintenance(operate::Args),
    /// Give a backend another weight
    Weight(operate::WeightArgs),
    /// Take back what operators said of a backend: the configuration holds again
    Reset(operate::Args),
    /// What passes now, by service and backend, again and again
    Top(top::Args),
    /// Remembered flows
    Flows(flows::Args),
    /// What happened lately
    Events(events::Args),
    /// Who changed what
    Audit(audit::Args),
    /// What another configuration would change: services, backends, slots, flows; exit code 1 when anything
    Plan(change::PlanArgs),
    /// Take another configuration, all of it or nothing; on trial with --confirm-within
    Apply(change::ApplyArgs),
    /// Keep the configuration on trial
    Confirm(change::Args),
    /// Go back to the configuration before this one
    Rollback(change::RollbackArgs),
    /// What the forwarder does with a flow now, step by step, with the loaded program as referee
    Explain(explain::Args),
    /// Real packets as they come in, each with what becomes of it
    Trace(trace::Args),
    /// Have the daemon read its configuration file again
    Reload(status::ReloadArgs),
    /// What is measured, in Prometheus' text format
    Metrics(status::MetricsArgs),
    Table(Box<table::Args>),
    /// Check a configuration file: every problem with its line and a remedy
    Check(check::Args),
    /// Put a capture through the balancer and write what would leave; needs no privileges
    Replay(replay::Args),
    Doctor(doctor::Args),
    /// Measure the kernel's packet path on this machine
    Bench(bench::Args),
    Lab(lab::Args),
    Backend(backend::Args),
    /// Print a systemd unit that runs the daemon
    ServiceUnit(service_unit::Args),
    /// Print the JSON schema of the configuration file
    Schema(schema::Args),
    /// Print the completion script of a shell
    Completions(completions::Args),
    /// Write the manual pages into a directory
    Man(man::Args),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::help_text::WIDTH;

    #[test]
    fn every_command_tells_its_exit_codes() {
        fn look(command: &clap::Command) {
            let told = |help: Option<&clap::builder::StyledStr>| {
                help.is_some_and(|help| help.to_string().contains("Exit codes"))
            };
            assert!(told(command.get_after_help()), "{}", command.get_name());
            // Who has a socket to ask by can fail to reach it.
            let asks = command.get_arguments().any(|argument| argument.get_id() == "socket");
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            if asks && command.get_name() != "run" {
                assert!(help.contains("  3  the daemon"), "{}: {help}", command.get_name());
            }
            assert!(command.get_after_long_help().is_none(), "{}", command.get_name());
            command.get_subcommands().for_each(look);
        }
        look(&command());
    }

    #[test]
    fn lists_and_examples_fit_an_ordinary_terminal() {
        fn look(command: &clap::Command) {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            for line in help.lines().filter(|line| line.starts_with(' ')) {
                assert!(line.chars().count() <= WIDTH, "{}: {line}", command.get_name());
            }
            command.get_subcommands().for_each(look);
        }
        look(&command());
    }
}
