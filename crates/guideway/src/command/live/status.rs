//! `guideway status`, `guideway reload` and `guideway metrics`.

use std::io::Write;

use guideway_control::counted;
use guideway_daemon::model::{Drift, Overridden, Overrides, Status};
use serde_json::Value;

use super::again::Again;
use crate::daemon_client::DaemonArgs;
use crate::failure::{Failure, Outcome};
use crate::screen::{Screen, Style};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Exit codes:
  0  all is well
  1  something is wrong, and a line that begins with ! names it: backends whose checks fail, a service that has nobody for
     new flows, an interface without the program, files that were damaged, …; or the last reload failed. With --json, see
     `faults` and `config.last_reload_error`
  2  the command line is wrong
  3  the daemon cannot be reached

What operators switched off or let drain is no cause for 1, whatever its checks say.

`set to drain` counts backends, whether or not flows are left on them; `drains` counts those where flows are waited for, and backends that \
were removed from the configuration among them.")]
pub(crate) struct Args {
    #[command(flatten)]
    again: Again,
    #[command(flatten)]
    daemon: DaemonArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Shows the daemon and its forwarder as a whole. What an operator has to look at is an exit code of 1.
pub(crate) fn run(args: &Args, screen: &mut Screen) -> Result<Outcome, Failure> {
    args.again.show(screen, |screen| show(args, screen))
}

fn show(args: &Args, screen: &mut Screen) -> Result<Outcome, Failure> {
    let answer = args.daemon.get("/v1/status")?;
    let status: Status = answer.value()?;
    let outcome = if status.config.last_reload_successful && status.faults.is_empty() {
        Outcome::Ok
    } else {
        Outcome::Differs
    };
    if args.json {
        screen.json(&answer.value::<Value>()?)?;
        return Ok(outcome);
    }
    let interfaces: Vec<String> =
        status.interfaces.iter().map(|port| format!("{} ({})", port.name, port.mode)).collect();
    let b = &status.backends;
    let p = &status.packets;
    for (what, text) in [
        ("guideway", format!("{} since {}", status.version, status.started_at)),
        ("forwards by", format!("{} at {}", status.engine, interfaces.join(", "))),
        ("digest", status.digest.clone()),
        ("configuration", format!("{} since {}", status.config.source, status.config.taken_at)),
        ("services", status.services.to_string()),
        (
            "backends",
            format!(
                "{}: {} take new flows, {} set to drain, {} in maintenance, {} failing",
                b.total, b.eligible, b.draining, b.maintenance, b.failing
            ),
        ),
        (
            "packets",
            format!(
                "{} received = {} forwarded + {} answered + {} passed + {} dropped",
                p.received_total, p.forwarded_total, p.answered_total, p.passed_total, p.dropped_total
            ),
        ),
        ("flow table", format!("{} of {}", status.flow_table.entries, status.flow_table.capacity)),
        ("drains", drains(&status)),
        ("compared", compared(&status.drift)),
    ] {
        writeln!(screen, "{what:>14}  {text}")?;
    }
    if let Some(text) = overridden(&status.overrides) {
        writeln!(screen, "{:>14}  {text}", "overrides")?;
    }
    for (what, page) in [("console", &status.console), ("laboratory", &status.page)] {
        if let Some(page) = page {
            writeln!(screen, "{what:>14}  {page}")?;
        }
    }
    if let Some(until) = &status.config.confirm_by {
        writeln!(screen, "{:>14}  by {until}, or the configuration goes back", "confirm")?;
    }
    if let Some(error) = &status.config.last_reload_error {
        let text = screen.paint(Style::Bad, "the last reload failed:");
        writeln!(screen, "\n{text}\n{error}")?;
    }
    for note in &status.notes {
        let mark = if status.faults.contains(note) {
            screen.paint(Style::Bad, "!")
        } else {
            screen.paint(Style::Faint, "-")
        };
        writeln!(screen, "{mark} {note}")?;
    }
    Ok(outcome)
}

/// So many backends that are not as the configuration says are named.
const NAMED: usize = 5;

/// What operators said that is not what the configuration says, and how it is taken back.
fn overridden(overrides: &Overrides) -> Option<String> {
    let said = |one: &Overridden| {
        let Overridden { service, backend, admin, configured_admin, weight, configured_weight } = one;
        let admin = admin.as_ref().zip(configured_admin.as_ref());
        let admin = admin.map(|(said, configured)| format!("{said}, not {configured}"));
        let weight = weight.zip(*configured_weight);
        let weight = weight.map(|(said, configured)| format!("weight {said}, not {configured}"));
        let said: Vec<String> = admin.into_iter().chain(weight).collect();
        format!("{service}/{backend}: {}", said.join(", "))
    };
    let named: Vec<String> = overrides.backends.iter().take(NAMED).map(said).collect();
    let more = overrides.total.saturating_sub(named.len() as u64);
    let more = if more > 0 { format!("; and {more} more") } else { String::new() };
    (overrides.total > 0).then(|| {
        format!(
            "{}{more} (`guideway reset SERVICE BACKEND` gives one back to the configuration)",
            named.join("; ")
        )
    })
}

/// The drains that flows are waited for in. Backends that were removed drain too, and are not counted among the backends.
fn drains(status: &Status) -> String {
    let text = format!("{} under way", status.drains);
    match status.drains_of_removed {
        0 => text,
        removed => format!(
            "{text}, {} from the configuration",
            counted(removed, "of a backend removed", "of backends removed")
        ),
    }
}

/// What comparing the forwarder with what it should hold has found.
fn compared(drift: &Drift) -> String {
    let rounds = counted(drift.rounds_total, "time", "times");
    let repairs = drift.repairs_total.iter().filter(|(_, number)| **number > 0);
    let repairs: Vec<String> = repairs.map(|(what, number)| format!("{number} {what}")).collect();
    match repairs.as_slice() {
        [] => format!("{rounds} with what it should hold, nothing to put right"),
        some => format!("{rounds} with what it should hold, put right: {}", some.join(", ")),
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct ReloadArgs {
    #[command(flatten)]
    daemon: DaemonArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Has the daemon read its configuration file again.
pub(crate) fn reload(args: &ReloadArgs, screen: &mut Screen) -> Result<Outcome, Failure> {
    let answer: Value = args.daemon.change("POST", "/v1/reload", None)?.value()?;
    if args.json {
        screen.json(&answer)?;
        return Ok(Outcome::Ok);
    }
    let changed = answer["changed"] == Value::Bool(true);
    writeln!(screen, "{}", if changed { "the configuration is in force" } else { "nothing has changed" })?;
    Ok(Outcome::Ok)
}

#[derive(Debug, clap::Args)]
pub(crate) struct MetricsArgs {
    /// Print OpenMetrics; without this the classic text, which `promtool check metrics` takes
    #[arg(long)]
    openmetrics: bool,
    #[command(flatten)]
    daemon: DaemonArgs,
}

/// Prints the metrics.
pub(crate) fn metrics(args: &MetricsArgs, screen: &mut Screen) -> Result<Outcome, Failure> {
    let media_type = if args.openmetrics { "application/openmetrics-text" } else { "text/plain" };
    write!(screen, "{}", args.daemon.get_as("/metrics", media_type)?.text())?;
    Ok(Outcome::Ok)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_operators_said_is_told_with_what_the_configuration_says() {
        let weight = |backend: &str| Overridden {
            service: "web".to_owned(),
            backend: backend.to_owned(),
            weight: Some(5),
            configured_weight: Some(1),
            ..Overridden::default()
        };
        let both = Overridden {
            admin: Some("drain".to_owned()),
            configured_admin: Some("ready".to_owned()),
            ..weight("be1")
        };
        let told = |total, backends| overridden(&Overrides { total, backends });
        assert_eq!(told(0, Vec::new()), None);
        let text = told(1, vec![both]).unwrap();
        assert!(text.starts_with("web/be1: drain, not ready, weight 5, not 1 (`guideway reset"), "{text}");
        let many: Vec<Overridden> = (0..100).map(|number| weight(&number.to_string())).collect();
        assert!(told(140, many).unwrap().contains("web/4: weight 5, not 1; and 135 more ("));
    }
}
