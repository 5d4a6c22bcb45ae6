//! Health checks: which keys go with which kind.

use std::path::PathBuf;
use std::time::Duration;

use super::model::{Health, Ports, Probe};
use super::problem::{Problem, one_of};
use super::raw_health::RawHealth;
use super::reader::At;
use super::source::Span;
use super::words::{HealthKind, HealthVia};

const DEFAULT_INTERVAL: Duration = Duration::from_secs(5);
const DEFAULT_RECHECK: Duration = Duration::from_secs(1);
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(1);
const DEFAULT_RISE: u64 = 2;
const DEFAULT_FALL: u64 = 3;

/// The check of a service. `own` says whether the block is the service's, which decides where a problem is shown.
pub(super) fn build(
    raw: &At<RawHealth>,
    own: bool,
    ports: Option<&Ports>,
    service: &Span,
    problems: &mut Vec<Problem>,
) -> Option<Health> {
    if own {
        check(raw, problems);
    }
    let health = &raw.value;
    let kind = health.kind.as_ref()?.value;
    let written = health.port.as_ref().and_then(|port| u16::try_from(port.value.0).ok());
    let port = written.or(match ports {
        Some(Ports::List(list)) => match list.as_slice() {
            [one] => Some(*one),
            _ => None,
        },
        Some(Ports::Any) | None => None,
    });
    let is_known = ports.is_some() && !health.port.is_unreadable();
    if port.is_none() && is_known && kind != HealthKind::Exec {
        let place = if own { &raw.span } else { service };
        problems.push(
            Problem::new(place.clone(), "a check of a service with many ports must say which one it asks")
                .label("no `port`")
                .help("add `port = 443` to the service's `[service.health]`"),
        );
    }
    let probe = match kind {
        HealthKind::Tcp => Probe::Tcp,
        HealthKind::Http | HealthKind::Https => Probe::Http {
            tls: kind == HealthKind::Https,
            host: health.host.as_ref().map(|at| at.value.clone()),
            path: health.path.as_ref().map_or("/".to_owned(), |at| at.value.clone()),
            status: health.status.as_ref().map_or(vec![200], |status| {
                status.value.0.iter().filter_map(|at| u16::try_from(at.value.0).ok()).collect()
            }),
            body: health.body.as_ref().map(|at| at.value.clone()),
        },
        HealthKind::Udp => Probe::Udp {
            send: health.send.as_ref().map(|at| at.value.clone()).unwrap_or_default(),
            expect: health.expect.as_ref().map(|at| at.value.clone()),
        },
        HealthKind::Exec => {
            Probe::Exec { command: health.command.as_ref().map(|at| at.value.clone()).unwrap_or_default() }
        }
    };
    let default_via = if kind == HealthKind::Exec { HealthVia::Direct } else { HealthVia::Tunnel };
    let count = |count: u64| u8::try_from(count).unwrap_or(u8::MAX);
    Some(Health {
        probe,
        via: health.via.as_ref().map_or(default_via, |at| at.value),
        interval: interval(health),
        recheck: health.recheck.as_ref().map_or(DEFAULT_RECHECK.min(interval(health)), |at| at.value.0),
        timeout: health.timeout.as_ref().map_or(DEFAULT_TIMEOUT.min(interval(health)), |at| at.value.0),
        rise: count(health.rise.as_ref().map_or(DEFAULT_RISE, |at| at.value.0)),
        fall: count(health.fall.as_ref().map_or(DEFAULT_FALL, |at| at.value.0)),
        port,
        slow_start: health.slow_start.as_ref().map_or(Duration::ZERO, |at| at.value.0),
        ca_file: health.ca_file.as_ref().map(|at| PathBuf::from(&at.value)),
    })
}

fn interval(health: &RawHealth) -> Duration {
    health.interval.as_ref().map_or(DEFAULT_INTERVAL, |at| at.value.0)
}

/// Checks what does not depend on the service.
pub(super) fn check(raw: &At<RawHealth>, problems: &mut Vec<Problem>) {
    let health = &raw.value;
    let timeout = health.timeout.as_ref().map(|at| (at.value.0, &at.span));
    let recheck = health.recheck.as_ref().map(|at| (at.value.0, &at.span));
    for (time, what, help) in [
        (
            timeout,
            "a check may not take longer than the interval",
            "shorten the timeout, or check less often",
        ),
        (
            recheck,
            "checks may not come more seldom while results contradict the verdict",
            "shorten `recheck`",
        ),
    ] {
        let Some((_, span)) = time.filter(|(time, _)| *time > interval(health)) else { continue };
        if health.interval.is_unreadable() {
            continue;
        }
        let mut problem = Problem::new(span.clone(), what).label("longer than the interval").help(help);
        if let Some(interval) = health.interval.as_ref() {
            problem = problem.related(interval.span.clone(), "the interval");
        }
        problems.push(problem);
    }
    let Some(kind) = &health.kind else { return };
    let http = &[HealthKind::Http, HealthKind::Https][..];
    let keys: [(&str, Option<&Span>, &[HealthKind]); 8] = [
        ("host", health.host.as_ref().map(|at| &at.span), http),
        ("path", health.path.as_ref().map(|at| &at.span), http),
        ("status", health.status.as_ref().map(|at| &at.span), http),
        ("body", health.body.as_ref().map(|at| &at.span), http),
        ("ca_file", health.ca_file.as_ref().map(|at| &at.span), &[HealthKind::Https]),
        ("send", health.send.as_ref().map(|at| &at.span), &[HealthKind::Udp]),
        ("expect", health.expect.as_ref().map(|at| &at.span), &[HealthKind::Udp]),
        ("command", health.command.as_ref().map(|at| &at.span), &[HealthKind::Exec]),
    ];
    for (key, span, kinds) in keys {
        let Some(span) = span else { continue };
        if !kinds.contains(&kind.value) {
            problems.push(
                Problem::new(span.clone(), format!("`{key}` means nothing for a `{}` check", kind.value))
                    .label("cannot be honoured")
                    .related(kind.span.clone(), "the kind")
                    .help(format!("it goes with {}", one_of(kinds.iter().map(|kind| kind.word())))),
            );
        }
    }
    match kind.value {
        HealthKind::Exec => {
            if !health.command.is_unreadable()
                && health
                    .command
                    .as_ref()
                    .is_none_or(|command| command.value.first().is_none_or(String::is_empty))
            {
                problems.push(
                    Problem::new(kind.span.clone(), "an `exec` check needs a program")
                        .label("which program?")
                        .help("add `command = [\"/usr/local/bin/check\", \"argument\"]`"),
                );
            }
            if let Some(via) = &health.via
                && via.value != HealthVia::Direct
            {
                problems.push(
                    Problem::new(via.span.clone(), "a program cannot be sent through the tunnel")
                        .label("cannot be honoured")
                        .help("write `via = \"direct\"`, or leave it out"),
                );
            }
        }
        HealthKind::Http | HealthKind::Https => {
            if let Some(path) = &health.path
                && !path.value.starts_with('/')
            {
                problems.push(
                    Problem::new(path.span.clone(), format!("`{}` is no path", path.value))
                        .label("must begin with `/`")
                        .help(format!("write `\"/{}\"`", path.value)),
                );
            }
            if let Some(host) = &health.host
                && (host.value.is_empty()
                    || host.value.chars().any(|c| c.is_whitespace() || c.is_control() || c == '/'))
            {
                problems.push(
                    Problem::new(host.span.clone(), "this is no host name")
                        .label("a name, with a port at most"),
                );
            }
        }
        HealthKind::Tcp | HealthKind::Udp => {}
    }
}
