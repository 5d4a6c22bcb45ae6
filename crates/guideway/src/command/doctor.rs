//! `guideway doctor`: what is wrong with a balancer's host.

use std::io::Write;
use std::path::PathBuf;

use clap::ValueEnum;
use guideway_xdp::attach::{Mode, Wish};
use guideway_xdp::pins::DEFAULT_ROOT;
use guideway_xdp::preflight::{self, Finding, Grade, Subject};
use serde::Serialize;

use crate::failure::{Failure, Outcome};
use crate::screen::{Screen, Style};

/// Say whether this host can run the balancer, and in which mode each interface would
///
/// Looks at the kernel, this process's capabilities, and at each interface's driver, MTU, queues, offloads and programs;
/// nothing is changed. Each finding is a line, ok, warn or fail, and has its remedy below it, as a command where there is
/// one.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Exit codes:
  0  nothing failed
  1  something failed
  2  the command line is wrong

Examples:
  guideway doctor
  guideway doctor eth0 eth1
  guideway doctor eth0 --mode native --json")]
pub(crate) struct Args {
    /// The interfaces that the balancer is to run on
    #[arg(value_name = "INTERFACE")]
    interfaces: Vec<String>,
    /// The mode in which it is to run there: `auto` is native if the driver can, else generic
    #[arg(long, value_enum, default_value_t = Asked::Auto)]
    mode: Asked,
    /// Where programs are pinned
    #[arg(long, value_name = "DIRECTORY", default_value = DEFAULT_ROOT)]
    pins: PathBuf,
    /// Print the findings as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Asked {
    Auto,
    Native,
    Generic,
}

#[derive(Debug, Serialize)]
struct Report {
    ok: bool,
    findings: Vec<Row>,
    interfaces: Vec<Interface>,
}

#[derive(Debug, Serialize)]
struct Row {
    grade: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    interface: Option<String>,
    cause: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<String>,
}

#[derive(Debug, Serialize)]
struct Interface {
    name: String,
    /// `null` if the program can run there in no mode that was asked for.
    mode: Option<&'static str>,
}

pub(crate) fn run(args: &Args, screen: &mut Screen) -> Result<Outcome, Failure> {
    let wish = match args.mode {
        Asked::Auto => Wish::Auto,
        Asked::Native => Wish::Exactly(Mode::Native),
        Asked::Generic => Wish::Exactly(Mode::Generic),
    };
    let mut findings = preflight::host(&args.pins);
    let mut interfaces = Vec::new();
    for name in &args.interfaces {
        let report = preflight::interface(name, wish, &args.pins);
        interfaces.push(Interface { name: report.interface, mode: report.mode.map(Mode::as_str) });
        findings.extend(report.findings);
    }
    let ok = findings.iter().all(|finding| finding.grade != Grade::Fail);
    if args.json {
        screen.json(&Report { ok, findings: findings.into_iter().map(Row::from).collect(), interfaces })?;
    } else {
        show(&findings, screen)?;
    }
    Ok(if ok { Outcome::Ok } else { Outcome::Differs })
}

fn show(findings: &[Finding], screen: &mut Screen) -> Result<(), Failure> {
    for finding in findings {
        let style = match finding.grade {
            Grade::Ok => Style::Good,
            Grade::Warn => Style::Heading,
            Grade::Fail => Style::Bad,
        };
        let word = screen.paint(style, format!("{:<4}", finding.grade.as_str()));
        match &finding.subject {
            Subject::Host => writeln!(screen, "{word}  {}", finding.cause)?,
            Subject::Interface(name) => writeln!(screen, "{word}  {name}: {}", finding.cause)?,
        }
        if let Some(remedy) = &finding.remedy {
            writeln!(screen, "      {remedy}")?;
        }
    }
    Ok(())
}

impl From<Finding> for Row {
    fn from(finding: Finding) -> Row {
        let interface = match finding.subject {
            Subject::Host => None,
            Subject::Interface(name) => Some(name),
        };
        Row { grade: finding.grade.as_str(), interface, cause: finding.cause, remedy: finding.remedy }
    }
}
