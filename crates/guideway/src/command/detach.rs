//! `guideway detach`.

use std::io::Write;
use std::path::PathBuf;

use guideway_xdp::pins::DEFAULT_ROOT;

use crate::failure::{Failure, Outcome};
use crate::screen::Screen;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Takes away what a daemon left in the kernel when it was killed, handed over, or run with --on-exit keep: its programs at
all interfaces, its maps, and every flow that they remember. Programs of others are not touched.
While a daemon is at work with these pins it is refused: stop that one first.")]
pub(crate) struct Args {
    /// The directory for pins, in a BPF file system
    #[arg(long, value_name = "DIR", default_value = DEFAULT_ROOT)]
    pins: PathBuf,
}

pub(crate) fn run(args: &Args, screen: &mut Screen) -> Result<Outcome, Failure> {
    let taken = guideway_daemon::detach(&args.pins).map_err(Failure::failed)?;
    let text = if taken { "the forwarder is taken away" } else { "there was no forwarder" };
    writeln!(screen, "{text}: {}", args.pins.display())?;
    Ok(Outcome::Ok)
}
