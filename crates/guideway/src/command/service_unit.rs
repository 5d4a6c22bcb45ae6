//! `guideway service-unit`.

use std::io::Write;
use std::path::{Path, PathBuf};

use crate::failure::{Failure, Outcome};
use crate::screen::Screen;

/// The unit as packages install it.
const UNIT: &str = include_str!("../../../../packaging/systemd/guideway.service");

/// What it runs.
const PACKAGED: &str = "/usr/bin/guideway run --on-exit keep $GUIDEWAY_OPTIONS";

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  guideway service-unit --interface eth0 > /etc/systemd/system/guideway.service
  systemctl daemon-reload && systemctl enable --now guideway

It holds the forwarder through restarts; `systemctl stop guideway && guideway detach` ends both. A program below /root,
/home, /run/user, /tmp or /var/tmp is hidden from the unit, and refused.")]
pub(crate) struct Args {
    /// An interface that packets of clients come by; may be given more than once
    #[arg(long = "interface", short, value_name = "IF", required = true)]
    interfaces: Vec<String>,
    /// The program; this one unless another is named
    #[arg(long, value_name = "PATH")]
    program: Option<PathBuf>,
    /// More options of `guideway run`, after --
    #[arg(last = true, value_name = "OPTION")]
    more: Vec<String>,
}

/// Prints a systemd unit for these interfaces.
pub(crate) fn run(args: &Args, screen: &mut Screen) -> Result<Outcome, Failure> {
    let program = match &args.program {
        Some(program) => program.clone(),
        None => std::env::current_exe().map_err(|error| {
            Failure::failed(format!("this program's path is not known ({error}); name it with --program"))
        })?,
    };
    if !program.is_absolute() {
        return Err(Failure::usage("--program needs a whole path, as /usr/local/bin/guideway"));
    }
    if let Some(directory) = hidden(&program) {
        return Err(Failure::usage(format!(
            "{} lies in {directory}, which the unit hides from what it runs: install it elsewhere (`install guideway \
             /usr/local/bin`), and name that with --program",
            program.display()
        )));
    }
    let given = args.interfaces.iter().chain(&args.more).map(String::as_str);
    if let Some(broken) = garbled(given.chain(program.to_str())) {
        return Err(Failure::usage(format!(
            "{broken:?} has a character that ends or garbles a line of the unit; leave it out"
        )));
    }
    let mut words = vec![word(&program.to_string_lossy()), "run".into(), "--on-exit".into(), "keep".into()];
    for interface in &args.interfaces {
        words.extend(["--interface".into(), word(interface)]);
    }
    words.extend(args.more.iter().map(|option| word(option)));
    for line in UNIT.lines() {
        match line.strip_prefix("ExecStart=") {
            Some(PACKAGED) => writeln!(screen, "ExecStart={}", words.join(" "))?,
            // Their place is the line above.
            _ if line.starts_with("EnvironmentFile=") || line.starts_with("# GUIDEWAY_OPTIONS") => {}
            _ => writeln!(screen, "{line}")?,
        }
    }
    Ok(Outcome::Ok)
}

/// Directories that the unit hides from what it runs: `ProtectHome=`, `PrivateTmp=`.
const HIDDEN: [&str; 5] = ["/root", "/home", "/run/user", "/tmp", "/var/tmp"];

/// The one that the program lies in, or a link to it leads to.
fn hidden(program: &Path) -> Option<&'static str> {
    let itself = program.canonicalize().unwrap_or_else(|_| program.to_owned());
    HIDDEN.into_iter().find(|directory| program.starts_with(directory) || itself.starts_with(directory))
}

/// The first that holds what a line of a unit cannot: a new line would begin a setting of its own.
fn garbled<'a>(mut texts: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    texts.find(|text| text.contains(char::is_control))
}

/// A word of a command line of systemd: quoted, with what it would expand written twice.
fn word(text: &str) -> String {
    let escaped = text.replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%").replace('$', "$$");
    if text.is_empty()
        || escaped != text
        || text.contains(|c: char| c.is_whitespace() || c == '\'' || c == ';')
    {
        format!("\"{escaped}\"")
    } else {
        escaped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unit_runs_what_is_replaced() {
        assert_eq!(UNIT.lines().filter(|line| line.strip_prefix("ExecStart=") == Some(PACKAGED)).count(), 1);
    }

    #[test]
    fn a_program_that_the_unit_would_hide_is_found() {
        assert!(UNIT.contains("\nProtectHome=yes\n") && UNIT.contains("\nPrivateTmp=yes\n"));
        assert_eq!(hidden(Path::new("/root/guideway")), Some("/root"));
        assert_eq!(hidden(Path::new("/home/me/guideway/target/release/guideway")), Some("/home"));
        assert_eq!(hidden(Path::new("/usr/local/bin/no-such-guideway")), None);
        assert_eq!(hidden(Path::new("/homework/guideway")), None);
    }

    #[test]
    fn what_would_be_a_line_of_its_own_is_found() {
        for bad in ["eth0\nExecStart=/bin/sh", "a\rb", "\u{1b}[1m"] {
            assert_eq!(garbled(["eth0", bad].into_iter()), Some(bad));
        }
        assert_eq!(garbled(["eth0", "/a b\"c", "wörter"].into_iter()), None);
    }

    #[test]
    fn words_are_what_systemd_reads_as_one() {
        assert_eq!(word("eth0"), "eth0");
        assert_eq!(word("a b"), "\"a b\"");
        assert_eq!(word("100%$x"), "\"100%%$$x\"");
        assert_eq!(word(""), "\"\"");
    }
}
