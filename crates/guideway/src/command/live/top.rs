//! `guideway top`: what passes now, by service and backend.

use std::io::Write;
use std::time::{Duration, Instant};

use guideway_daemon::model::{Backend, Service, Status};
use serde_json::{Value, json};

use super::again;
use super::rates::{Rate, Reading, short};
use crate::columns::{Align, Columns};
use crate::daemon_client::{DaemonArgs, segment};
use crate::failure::{Failure, Outcome};
use crate::screen::{Screen, Style};
use crate::times;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Rates are differences of two readings, one --interval apart. Backends with the most packets come first. Where the output is no terminal, one
table follows the other.

Examples:
  guideway top
  guideway top web --interval 5s
  guideway top --once --json")]
pub(crate) struct Args {
    /// Only this service
    #[arg(value_name = "SERVICE")]
    service: Option<String>,
    /// The time from one reading to the next, 100ms to an hour
    #[arg(
        long,
        value_name = "TIME",
        default_value = "1s",
        value_parser = times::between(again::SHORTEST, again::LONGEST)
    )]
    interval: humantime::Duration,
    /// Show one table and end
    #[arg(long)]
    once: bool,
    /// So many backends of each service at most
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: usize,
    #[command(flatten)]
    daemon: DaemonArgs,
    /// Print JSON, one object a line
    #[arg(long)]
    json: bool,
}

/// What was read at once.
struct Look {
    status: Status,
    services: Vec<Service>,
    at: Instant,
    reading: Reading,
}

impl Look {
    fn take(args: &Args) -> Result<Self, Failure> {
        let services = match &args.service {
            Some(name) => vec![args.daemon.get(&format!("/v1/services/{}", segment(name)))?.value()?],
            None => args.daemon.get("/v1/services")?.value::<Vec<Service>>()?,
        };
        let at = Instant::now();
        let reading = Reading::new(&services, at);
        Ok(Self { status: args.daemon.get("/v1/status")?.value()?, services, at, reading })
    }
}

pub(crate) fn run(args: &Args, screen: &mut Screen) -> Result<Outcome, Failure> {
    let every = Duration::from(args.interval);
    let mut before = Look::take(args)?;
    std::thread::sleep(every);
    let mut show = |screen: &mut Screen| {
        let now = Look::take(args)?;
        if args.json {
            let line = serde_json::to_string(&as_json(&now, &before)).map_err(Failure::failed)?;
            writeln!(screen, "{line}")?;
        } else {
            table(args, &now, &before, screen)?;
        }
        before = now;
        Ok(Outcome::Ok)
    };
    match (args.once, args.json) {
        (true, _) => show(screen),
        (false, true) => loop {
            show(screen)?;
            screen.finish()?;
            std::thread::sleep(every);
        },
        (false, false) => again::forever(every, screen, show),
    }
}

/// What the whole forwarder does in a second: received, forwarded, answered, passed, dropped.
fn totals(now: &Look, before: &Look) -> [(&'static str, f64); 5] {
    let time = now.at.saturating_duration_since(before.at).max(Duration::from_millis(1)).as_secs_f64();
    let (n, b) = (&now.status.packets, &before.status.packets);
    let rate = |now: u64, before: u64| now.saturating_sub(before) as f64 / time;
    [
        ("received", rate(n.received_total, b.received_total)),
        ("forwarded", rate(n.forwarded_total, b.forwarded_total)),
        ("answered", rate(n.answered_total, b.answered_total)),
        ("passed", rate(n.passed_total, b.passed_total)),
        ("dropped", rate(n.dropped_total, b.dropped_total)),
    ]
}

fn table(args: &Args, now: &Look, before: &Look, screen: &mut Screen) -> Result<(), Failure> {
    let totals = totals(now, before).map(|(what, rate)| format!("{} {what}", short(rate)));
    let head = screen.paint(Style::Heading, format!("packets/s: {}", totals.join(", ")));
    writeln!(screen, "{head}")?;
    for note in &now.status.faults {
        let mark = screen.paint(Style::Bad, "!");
        writeln!(screen, "{mark} {note}")?;
    }
    let rate = |rate: Option<Rate>| match rate {
        Some(rate) => [short(rate.packets), short(rate.bits)],
        None => ["-".to_owned(), "-".to_owned()],
    };
    let mut columns = Columns::new([
        ("service", Align::Left),
        ("backend", Align::Left),
        ("state", Align::Left),
        ("health", Align::Left),
        ("share", Align::Right),
        ("packets/s", Align::Right),
        ("bits/s", Align::Right),
        ("packets", Align::Right),
    ]);
    for service in &now.services {
        let [packets, bits] = rate(now.reading.service(service, &before.reading));
        let state = if service.last_resort {
            "last resort".to_owned()
        } else {
            format!("{} of {}", service.eligible, service.backends.len())
        };
        let total = service.packets_total.to_string();
        columns.row([
            service.name.clone(),
            String::new(),
            state,
            String::new(),
            String::new(),
            packets,
            bits,
            total,
        ]);
        for (backend, of) in busiest(service, now, before).into_iter().take(args.limit) {
            let [packets, bits] = rate(of);
            columns.row([
                String::new(),
                backend.name.clone(),
                if backend.removed { "removed".to_owned() } else { backend.state.clone() },
                backend.health.as_ref().map_or("-".to_owned(), |health| health.verdict.clone()),
                format!("{:.1} %", backend.share * 100.0),
                packets,
                bits,
                backend.packets_total.to_string(),
            ]);
        }
        let more = service.backends.len().saturating_sub(args.limit);
        if more > 0 {
            columns.row(["".to_owned(), format!("{more} more")]);
        }
    }
    columns.write(screen)?;
    Ok(())
}

/// A service's backends with their rates, the busiest first.
fn busiest<'a>(service: &'a Service, now: &Look, before: &Look) -> Vec<(&'a Backend, Option<Rate>)> {
    let rate = |backend| (backend, now.reading.backend(backend, &before.reading));
    let mut backends: Vec<_> = service.backends.iter().map(rate).collect();
    let packets = |rate: &Option<Rate>| rate.map_or(0.0, |rate| rate.packets);
    backends.sort_by(|(_, a), (_, b)| packets(b).total_cmp(&packets(a)));
    backends
}

fn as_json(now: &Look, before: &Look) -> Value {
    let rate = |rate: Option<Rate>| {
        let rate = rate.unwrap_or_default();
        (rate.packets, rate.bits)
    };
    let backend = |backend: &Backend| {
        let (packets, bits) = rate(now.reading.backend(backend, &before.reading));
        json!({
            "name": backend.name,
            "address": backend.address,
            "state": backend.state,
            "removed": backend.removed,
            "health": backend.health.as_ref().map(|health| &health.verdict),
            "share": backend.share,
            "packets_per_second": packets,
            "bits_per_second": bits,
            "packets_total": backend.packets_total,
            "bytes_total": backend.bytes_total,
        })
    };
    let service = |service: &Service| {
        let (packets, bits) = rate(now.reading.service(service, &before.reading));
        json!({
            "name": service.name,
            "eligible": service.eligible,
            "last_resort": service.last_resort,
            "packets_per_second": packets,
            "bits_per_second": bits,
            "packets_total": service.packets_total,
            "bytes_total": service.bytes_total,
            "backends": service.backends.iter().map(backend).collect::<Vec<_>>(),
        })
    };
    let totals = totals(now, before).map(|(what, rate)| (format!("{what}_per_second"), rate));
    json!({
        "faults": now.status.faults,
        "seconds": now.at.saturating_duration_since(before.at).as_secs_f64(),
        "packets": totals.into_iter().collect::<std::collections::BTreeMap<_, _>>(),
        "services": now.services.iter().map(service).collect::<Vec<_>>(),
    })
}
