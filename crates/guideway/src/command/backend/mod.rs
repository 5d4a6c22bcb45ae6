//! `guideway backend`: the host of a backend, where tunnels end.

mod change;
mod doctor;
mod down;
mod host;
mod netlink;
mod place;
mod record;
mod script;
mod setup;
mod show;
mod sysctl;
mod up;

use clap::Subcommand;

use crate::failure::{Failure, Outcome};
use crate::screen::Screen;

/// Set up the host of a backend, take that away again, examine it
///
/// A backend receives clients' packets in a tunnel from the balancer and answers the clients directly. For that it has
/// the virtual addresses on its loopback interface, does not tell the network so, takes the outer headers off what comes,
/// and announces segments small enough for the tunnel.
#[derive(Debug, clap::Args)]
#[command(subcommand_required = true, arg_required_else_help = true, after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Exit codes:
  0  ok
  1  failed, or the doctor found a fault
  2  the command line is wrong
  3  the daemon cannot be reached, which `list` and `show` ask

Examples:
  guideway backend up --vip 192.0.2.10 --vip 2001:db8::10 --listen-on eth0
  guideway backend doctor
  guideway backend down
  guideway backend list                                         what the balancer's daemon knows of all backends
  guideway backend script --vip 192.0.2.10 --listen-on eth0 --address 10.0.0.1 --encap ipip";

#[derive(Debug, Subcommand)]
enum Command {
    Up(up::Args),
    Down(down::Args),
    Script(script::Args),
    Doctor(doctor::Args),
    List(show::ListArgs),
    Show(show::ShowArgs),
}

pub(crate) fn run(args: &Args, screen: &mut Screen) -> Result<Outcome, Failure> {
    match &args.command {
        Command::Up(args) => up::run(args, screen),
        Command::Down(args) => down::run(args, screen),
        Command::Script(args) => script::run(args, screen),
        Command::Doctor(args) => doctor::run(args, screen),
        Command::List(args) => show::list(args, screen),
        Command::Show(args) => show::show(args, screen),
    }
}
