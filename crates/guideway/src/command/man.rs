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
    let usage = command.clone().render_usage().to_string();
    let page = clap_mangen::Man::new(command.clone()).source(concat!("guideway ", env!("CARGO_PKG_VERSION")));
    let mut text = Vec::new();
    page.render(&mut text)?;
    let text = with_usage(&String::from_utf8_lossy(&text), usage.trim_start_matches("Usage: "));
    fs::write(directory.join(page.get_filename()), with_sections(&text))
}

/// Has the synopsis be the usage line that people know from `--help`: the generator's leaves out what values options take.
fn with_usage(page: &str, usage: &str) -> String {
    let mut text = String::new();
    let mut in_synopsis = false;
    for line in page.lines() {
        if line.starts_with(".SH") {
            in_synopsis = line == ".SH SYNOPSIS";
            text += &format!("{line}\n");
            if in_synopsis {
                text += &format!("{}\n", usage.replace('-', "\\-"));
            }
        } else if !in_synopsis {
            text += &format!("{line}\n");
        }
    }
    text
}

/// Gives what follows the options the sections of man-pages(7): the generator puts all of it into one.
fn with_sections(page: &str) -> String {
    let Some((before, extra)) = page.split_once(EXTRA) else { return page.to_owned() };
    let mut text = before.to_owned();
    let (extra, after) = match extra.split_once("\n.SH") {
        Some((extra, after)) => (extra, format!(".SH{after}")),
        None => (extra, String::new()),
    };
    let mut in_notes = false;
    for paragraph in extra.split("\n\n") {
        let (first, list) = paragraph.split_once('\n').unwrap_or((paragraph, ""));
        match first.strip_suffix(':').filter(|heading| !heading.starts_with([' ', '.'])) {
            Some("Example" | "Examples") => text += &format!(".SH EXAMPLES\n.nf\n{}\n.fi\n", list.trim_end()),
            Some(heading) => {
                text += &match heading.strip_prefix("Exit codes") {
                    Some("") => ".SH \"EXIT STATUS\"\n".to_owned(),
                    Some(when) => format!(".SH \"EXIT STATUS\"\nThose{when}:\n"),
                    None => format!(".SH \"{}\"\n", heading.to_uppercase()),
                };
                text += &tagged(list);
            }
            None if in_notes => {
                text += &format!(".PP\n{}\n", paragraph.trim_end());
                continue;
            }
            None => {
                text += &format!(".SH NOTES\n{}\n", paragraph.trim_end());
                in_notes = true;
                continue;
            }
        }
        in_notes = false;
    }
    text + &after
}

/// The terms of a list and what they stand for, as a tagged list that is filled to the width of the reader.
fn tagged(list: &str) -> String {
    let mut text = String::new();
    let indent = |line: &str| line.len() - line.trim_start().len();
    let first = list.lines().map(indent).find(|&indent| indent > 0).unwrap_or(0);
    for line in list.lines() {
        if indent(line) > first {
            text += &format!("{}\n", line.trim());
            continue;
        }
        let (term, meaning) = line.trim().split_once("  ").unwrap_or((line.trim(), ""));
        text += &format!(".TP\n\\fB{term}\\fR\n");
        if !meaning.is_empty() {
            text += &format!("{}\n", meaning.trim());
        }
    }
    text
}

/// How the generator begins that section.
const EXTRA: &str = ".SH EXTRA\n";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_follows_the_options_has_sections_of_its_own() {
        let page = [
            ".SH OPTIONS\nx",
            ".SH EXTRA\nSome words.\n\nA word.",
            "Exit codes with \\-\\-wait:\n  0  it is\n     so\n  1  it is not",
            "Signals:\n  SIGHUP, SIGUSR2\n      ends",
            "Example:\n  guideway\n.SH VERSION\nv1\n",
        ];
        let expected = [
            ".SH OPTIONS\nx\n.SH NOTES\nSome words.\n.PP\nA word.",
            ".SH \"EXIT STATUS\"\nThose with \\-\\-wait:",
            ".TP\n\\fB0\\fR\nit is\nso\n.TP\n\\fB1\\fR\nit is not",
            ".SH \"SIGNALS\"\n.TP\n\\fBSIGHUP, SIGUSR2\\fR\nends",
            ".SH EXAMPLES\n.nf\n  guideway\n.fi\n.SH VERSION\nv1\n",
        ];
        let page = page.join("\n\n").replacen("x\n\n.SH", "x\n.SH", 1);
        assert_eq!(with_sections(&page), expected.join("\n"));
    }

    #[test]
    fn the_synopsis_is_the_usage_line() {
        let page = ".SH NAME\nx\n.SH SYNOPSIS\n\\fBx\\fR [\\fB\\-\\-a\\fR]\n.SH DESCRIPTION\n";
        let expected = ".SH NAME\nx\n.SH SYNOPSIS\nx [\\-\\-a <FILE>]\n.SH DESCRIPTION\n";
        assert_eq!(with_usage(page, "x [--a <FILE>]"), expected);
    }
}
