//! What the daemon is told in the file, checked.

use std::collections::HashMap;
use std::time::Duration;

use super::model::Daemon;
use super::problem::Problem;
use super::raw_daemon::RawDaemon;

const DEFAULT_DRIFT_INTERVAL: Duration = Duration::from_secs(5);

/// More often would be work without end.
const LEAST_DRIFT_INTERVAL: Duration = Duration::from_millis(100);

/// The longest name of an interface, in bytes: `IFNAMSIZ` less the zero at its end.
const MAX_INTERFACE_NAME: usize = 15;

pub(super) fn build(raw: Option<&RawDaemon>, problems: &mut Vec<Problem>) -> Daemon {
    let mut interfaces = Vec::new();
    let mut seen = HashMap::new();
    for name in raw.and_then(|raw| raw.interfaces.as_ref()).iter().flat_map(|list| &list.value.0) {
        let is_name = |name: &str| {
            (1..=MAX_INTERFACE_NAME).contains(&name.len())
                && !name.contains(|c: char| c == '/' || c.is_whitespace() || c.is_control())
        };
        if !is_name(&name.value) {
            problems.push(
                Problem::new(name.span.clone(), "this cannot be the name of an interface")
                    .label(format!("1 to {MAX_INTERFACE_NAME} bytes without spaces and `/`"))
                    .help("`ip link` lists the interfaces that there are"),
            );
        }
        match seen.insert(name.value.as_str(), name.span.clone()) {
            None => interfaces.push(name.value.clone()),
            Some(first) => problems.push(
                Problem::new(name.span.clone(), format!("the interface `{}` is listed twice", name.value))
                    .label("the second")
                    .related(first, "the first"),
            ),
        }
    }
    let drift = raw.and_then(|raw| raw.drift_interval.as_ref());
    if let Some(drift) = drift.filter(|at| !at.value.0.is_zero() && at.value.0 < LEAST_DRIFT_INTERVAL) {
        problems.push(
            Problem::new(drift.span.clone(), "the interval is too short")
                .label("must be 100ms or more, or 0s for never")
                .help("leave it out for `\"5s\"`"),
        );
    }
    Daemon {
        interfaces,
        on_exit: raw.and_then(|raw| raw.on_exit.as_ref()).map(|at| at.value),
        shutdown_grace: raw
            .and_then(|raw| raw.shutdown_grace.as_ref())
            .map_or(Duration::ZERO, |at| at.value.0),
        drift_interval: drift.map_or(DEFAULT_DRIFT_INTERVAL, |at| at.value.0),
    }
}
