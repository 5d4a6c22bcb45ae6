//! `guideway completions`.

use std::io::Write;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::cli::Cli;
use crate::failure::{Failure, Outcome};
use crate::screen::Screen;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  guideway completions bash > /etc/bash_completion.d/guideway
  guideway completions zsh  > \"${fpath[1]}/_guideway\"
  guideway completions fish > ~/.config/fish/completions/guideway.fish")]
pub(crate) struct Args {
    /// The shell
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

pub(crate) fn run(args: &Args, screen: &mut Screen) -> Result<Outcome, Failure> {
    // Into memory first: the generator panics when its reader goes away.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "guideway", &mut script);
    screen.write_all(&script)?;
    Ok(Outcome::Ok)
}
