//! `guideway events`: what happened lately.

use std::io::Write;
use std::time::Duration;

use guideway_daemon::model::Event;

use crate::daemon_client::DaemonArgs;
use crate::failure::{Failure, Outcome};
use crate::screen::{Screen, Style, printable};

/// The pause between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(500);

#[derive(Debug, clap::Args)]
#[command(after_help = "\
A line has the time, the grade (info, warning, error), what it is about (daemon, config, health, commit, drain, next-hop, operator, state,
drift), and the service and backend. In brackets stands who caused it, as `guideway audit` names them; `check` is a health check. A
commit without brackets follows from verdicts, which the lines before it tell, or from time, as a slow start: several are gathered into one.
`old -> new` is what held before and what holds now.")]
pub(crate) struct Args {
    /// Go on showing what happens
    #[arg(long, short)]
    follow: bool,
    /// Only those after this number
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    after: u64,
    /// Only so many of the newest
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
    #[command(flatten)]
    daemon: DaemonArgs,
    /// Print JSON, one event a line
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, screen: &mut Screen) -> Result<Outcome, Failure> {
    let mut after = args.after;
    loop {
        let path = format!("/v1/events?after={after}&limit={}", args.limit);
        for event in args.daemon.get(&path)?.value::<Vec<Event>>()? {
            after = after.max(event.number);
            show(&event, args.json, screen)?;
        }
        if !args.follow {
            return Ok(Outcome::Ok);
        }
        screen.finish()?;
        std::thread::sleep(LOOK_EVERY);
    }
}

fn show(event: &Event, json: bool, screen: &mut Screen) -> Result<(), Failure> {
    if json {
        let line = serde_json::to_string(event).map_err(Failure::failed)?;
        writeln!(screen, "{line}")?;
        return Ok(());
    }
    let style = match event.grade.as_str() {
        "info" => Style::Faint,
        _ => Style::Bad,
    };
    let grade = screen.paint(style, format!("{:<7}", event.grade));
    let about = match (&event.service, &event.backend) {
        (Some(service), Some(backend)) => format!("{service}/{backend}: "),
        (Some(service), None) => format!("{service}: "),
        _ => String::new(),
    };
    let mut lines = event.text.lines();
    let first = lines.next().unwrap_or_default();
    let by = event.by.as_ref().map_or(String::new(), |by| format!("  [{}]", printable(by)));
    let by = screen.paint(Style::Faint, by);
    writeln!(
        screen,
        "{}  {grade}  {:<8}  {}{}{by}",
        event.at,
        event.kind,
        printable(&about),
        printable(first)
    )?;
    for line in lines {
        writeln!(screen, "    {}", printable(line))?;
    }
    Ok(())
}
