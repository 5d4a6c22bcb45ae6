//! `guideway man`.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::cli;
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
    let mut command = cli::command().disable_help_subcommand(true);
    command.build();
    write_pages(&command, &args.directory).map_err(failed)?;
    writeln!(
        screen,
        "wrote the manual pages into {directory}; read them with `man -l {directory}/guideway.1`"
    )?;
    Ok(Outcome::Ok)
}

fn write_pages(command: &clap::Command, directory: &Path) -> io::Result<()> {
    for command in command.get_subcommands().filter(|command| !command.is_hide_set()) {
        write_pages(command, directory)?;
    }
    let page = clap_mangen::Man::new(command.clone()).source(concat!("guideway ", env!("CARGO_PKG_VERSION")));
    let mut text = Vec::new();
    page.render(&mut text)?;
    fs::write(directory.join(page.get_filename()), with_sections(&String::from_utf8_lossy(&text)))
}

/// Gives what follows the options the sections of man-pages(7): the generator puts all of it into one.
fn with_sections(page: &str) -> String {
    let Some((before, extra)) = page.split_once(EXTRA) else { return page.to_owned() };
    let mut text = before.to_owned();
    let mut under_heading = false;
    let mut lines = extra.lines();
    for line in lines.by_ref() {
        if line.starts_with(".SH") {
            text += &format!("{line}\n");
            break;
        }
        let heading = line.strip_suffix(':').filter(|heading| !heading.starts_with([' ', '.']));
        match heading {
            Some("Example" | "Examples") => text += ".SH EXAMPLES\n",
            Some(heading) if heading.starts_with("Exit codes") => {
                text += ".SH \"EXIT STATUS\"\n";
                if let Some(when) = heading.strip_prefix("Exit codes ") {
                    text += &format!("Those {when}:\n");
                }
            }
            Some(heading) => text += &format!(".SH \"{}\"\n", heading.to_uppercase()),
            None if under_heading || line.is_empty() => text += &format!("{line}\n"),
            None => text += &format!(".SH NOTES\n{line}\n"),
        }
        under_heading |= !line.is_empty();
    }
    lines.for_each(|line| text += &format!("{line}\n"));
    text
}

/// How the generator begins that section.
const EXTRA: &str = ".SH EXTRA\n";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_and_examples_have_their_own_sections() {
        let page = ".SH OPTIONS\nx\n.SH EXTRA\nSome words:\n\nA word.\n\nExit codes with \\-\\-wait:\n  0  ok\n\nExample:\n  guideway\n.SH VERSION\nv1\n";
        let sections = with_sections(page);
        let headings: Vec<&str> = sections.lines().filter(|line| line.starts_with(".SH")).collect();
        assert_eq!(
            headings,
            [".SH OPTIONS", ".SH \"SOME WORDS\"", ".SH \"EXIT STATUS\"", ".SH EXAMPLES", ".SH VERSION"]
        );
        assert!(sections.contains("Those with \\-\\-wait:\n  0  ok"), "{sections}");
        assert!(
            with_sections(".SH EXTRA\nA word.\nExample:\n").starts_with(".SH NOTES\nA word.\n.SH EXAMPLES")
        );
    }
}
