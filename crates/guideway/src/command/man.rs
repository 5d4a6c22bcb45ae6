//! `guideway man`.

use std::fs;
use std::io::Write;
use std::path::PathBuf;

use clap::CommandFactory;

use crate::cli::Cli;
use crate::failure::{Failure, Outcome};
use crate::screen::Screen;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  guideway man target/man && man -l target/man/guideway-table-build.1")]
pub(crate) struct Args {
    /// The directory; it is made if need be
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

pub(crate) fn run(args: &Args, screen: &mut Screen) -> Result<Outcome, Failure> {
    let directory = args.directory.display();
    let failed = |error| Failure::failed(format!("can't write manual pages into {directory}: {error}"));
    fs::create_dir_all(&args.directory).map_err(failed)?;
    clap_mangen::generate_to(Cli::command(), &args.directory).map_err(failed)?;
    writeln!(
        screen,
        "wrote the manual pages into {directory}; read them with `man -l {directory}/guideway.1`"
    )?;
    Ok(Outcome::Ok)
}
