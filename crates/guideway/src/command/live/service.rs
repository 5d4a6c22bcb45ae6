//! `guideway service`: services and their backends.

use std::io::Write;

use guideway_control::counted;
use guideway_daemon::model::{Backend, Drain, Service, Table};
use serde_json::Value;

use super::again::Again;
use super::{age, legend};
use crate::columns::{Align, Columns};
use crate::daemon_client::{DaemonArgs, segment};
use crate::failure::{Failure, Outcome};
use crate::screen::{Screen, Style};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only this service, with all that is known of it
    #[arg(value_name = "SERVICE")]
    service: Option<String>,
    /// Show who owns which slot
    #[arg(long, requires = "service")]
    slots: bool,
    /// With --slots: the first slot
    #[arg(long, value_name = "SLOT", default_value_t = 0, requires = "slots")]
    from: u32,
    /// With --slots: how many
    #[arg(long, value_name = "N", default_value_t = 100, requires = "slots")]
    limit: u32,
    #[command(flatten)]
    again: Again,
    #[command(flatten)]
    daemon: DaemonArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, screen: &mut Screen) -> Result<Outcome, Failure> {
    let path = match &args.service {
        Some(service) if args.slots => {
            format!("/v1/services/{}/table?from={}&limit={}", segment(service), args.from, args.limit)
        }
        Some(service) => format!("/v1/services/{}", segment(service)),
        None => "/v1/services".to_owned(),
    };
    args.again.show(screen, |screen| {
        let answer = args.daemon.get(&path)?;
        if args.json {
            screen.json(&answer.value::<Value>()?)?;
        } else if args.slots {
            slots(&answer.value()?, screen)?;
        } else if args.service.is_some() {
            details(&answer.value()?, screen)?;
        } else {
            list(&answer.value::<Vec<Service>>()?, screen)?;
        }
        Ok(Outcome::Ok)
    })
}

/// Service lines with their backends below.
fn list(services: &[Service], screen: &mut Screen) -> Result<(), Failure> {
    if services.is_empty() {
        writeln!(screen, "no service")?;
    }
    for service in services {
        head(service, screen)?;
        backends(&service.backends, screen)?;
        writeln!(screen)?;
    }
    legend::of_services(services, screen)
}

fn head(service: &Service, screen: &mut Screen) -> Result<(), Failure> {
    let name = screen.paint(Style::Heading, &service.name);
    writeln!(screen, "{name}  {}", service.listen.join("  "))?;
    let unsettled = match service.settles_in_seconds {
        Some(seconds) if service.unsettled_slots > 0 => {
            format!("{} unsettled for {} yet", service.unsettled_slots, age(f64::from(seconds)))
        }
        _ => format!("{} unsettled", service.unsettled_slots),
    };
    let mut facts = vec![
        format!("generation {}", service.generation),
        counted(service.slots, "slot", "slots"),
        unsettled,
        counted(service.packets_total, "packet", "packets"),
    ];
    if service.last_resort {
        facts.push("LAST RESORT: every check fails".to_owned());
    } else if service.eligible == 0 {
        facts.push("NO BACKEND takes new flows".to_owned());
    }
    if let Some(why) = &service.resize_refused {
        facts.push(format!("not resized: {why}"));
    } else if service.resize_waits {
        facts.push(match service.settles_in_seconds {
            Some(seconds) => format!("another table size or seed waits, for {} yet", age(f64::from(seconds))),
            None => "another table size or seed waits until it has settled".to_owned(),
        });
    }
    writeln!(screen, "  {}", facts.join(", "))?;
    Ok(())
}

fn details(service: &Service, screen: &mut Screen) -> Result<(), Failure> {
    head(service, screen)?;
    writeln!(screen, "  digest {}", service.digest)?;
    backends(&service.backends, screen)?;
    for backend in &service.backends {
        if let Some(text) = health(backend) {
            writeln!(screen, "  {}: {text}", backend.name)?;
        }
    }
    legend::of_services(std::slice::from_ref(service), screen)
}

/// What the checks of a backend say, in words; `None` where nothing checks it.
pub(crate) fn health(backend: &Backend) -> Option<String> {
    let health = backend.health.as_ref()?;
    let mut text = format!("{} for {}", health.verdict, age(health.age_seconds));
    if health.contradicting > 0 {
        text += &format!(", {} of {} contradict it", health.contradicting, health.needed);
    }
    if let Some(step) = health.slow_start_step {
        text += &format!(", in step {step} of 10 of its slow start");
    }
    if let Some(reason) = &health.reason {
        text += &format!("; because: {reason}");
    }
    if let Some(last) = &health.last {
        text += &format!("; last: {}", last.reason);
        if let Some(took) = last.took_seconds {
            text += &format!(" in {:.1} ms", took * 1e3);
        }
        if !last.detail.is_empty() {
            text += &format!(" ({})", last.detail.join("; "));
        }
    }
    Some(text)
}

/// Backends as a table.
pub(crate) fn backends(backends: &[Backend], screen: &mut Screen) -> Result<(), Failure> {
    rows(None, backends, screen)
}

/// Backends of several services as a table.
pub(crate) fn backends_of_all(backends: &[Backend], screen: &mut Screen) -> Result<(), Failure> {
    rows(Some(("service", |backend| backend.service.clone())), backends, screen)?;
    legend::of_backends(backends.iter(), screen)
}

/// A column before all others: its heading, and what it says of a backend.
type First = (&'static str, fn(&Backend) -> String);

fn rows(first: Option<First>, backends: &[Backend], screen: &mut Screen) -> Result<(), Failure> {
    let ours = [
        ("backend", Align::Left),
        ("address", Align::Left),
        ("state", Align::Left),
        ("admin", Align::Left),
        ("health", Align::Left),
        ("weight", Align::Right),
        ("share", Align::Right),
        ("packets", Align::Right),
        ("drain", Align::Left),
    ];
    let mut columns = Columns::new(first.map(|(heading, _)| (heading, Align::Left)).into_iter().chain(ours));
    for backend in backends {
        let health = backend.health.as_ref().map_or("-".to_owned(), |health| match health.contradicting {
            0 => health.verdict.clone(),
            row => format!("{} {row}/{}", health.verdict, health.needed),
        });
        let admin = if backend.removed { "removed" } else { &backend.admin };
        let star = |what: &str| if backend.overrides.iter().any(|said| said == what) { "*" } else { "" };
        let ours = [
            backend.name.clone(),
            backend.address.to_string(),
            backend.state.clone(),
            format!("{admin}{}", star("admin")),
            health,
            format!("{}{}", backend.weight, star("weight")),
            format!("{:.1} %", backend.share * 100.0),
            backend.packets_total.to_string(),
            backend.drain.as_ref().map_or(String::new(), drain),
        ];
        columns.row(first.map(|(_, of)| of(backend)).into_iter().chain(ours));
    }
    columns.write(screen)?;
    Ok(())
}

/// How far a drain is.
fn drain(drain: &Drain) -> String {
    let mut text = match drain.phase.as_str() {
        "busy" => counted(drain.live_flows, "live flow", "live flows"),
        "quiet" => format!("quiet, {} unsettled", counted(drain.unsettled_slots, "slot", "slots")),
        phase => phase.to_owned(),
    };
    if let Some(seconds) = drain.cut_in_seconds {
        text += &format!(", cut in {}", age(seconds));
    }
    text
}

/// Who owns which slot.
pub(crate) fn slots(table: &Table, screen: &mut Screen) -> Result<(), Failure> {
    writeln!(
        screen,
        "{}  generation {}, {} slots, {}",
        table.service, table.generation, table.size, table.digest
    )?;
    let mut columns =
        Columns::new([("slot", Align::Right), ("owner", Align::Left), ("older flows", Align::Left)]);
    for slot in &table.slots {
        let older = match &slot.settled {
            Some(settled) => settled.clone(),
            None if slot.is_settled => "settled".to_owned(),
            None => "nobody".to_owned(),
        };
        columns.row([
            slot.slot.to_string(),
            slot.current.clone().unwrap_or_else(|| "nobody".to_owned()),
            older,
        ]);
    }
    columns.write(screen)?;
    let shown = table.slots.len();
    if (shown as u64) < u64::from(table.size) {
        writeln!(screen, "{shown} of {} slots; --from and --limit show others", table.size)?;
    }
    Ok(())
}
