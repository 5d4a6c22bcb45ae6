//! What somebody else changed in the forwarder, and was put right: found by comparing every few seconds.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use guideway_control::controller::{DriftKind, Drifted};

use crate::core::Core;
use crate::forwarder::{Forwarder, Reattached};
use crate::journal::{Grade, Kind};

/// What comparing has come to so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct Drift {
    due: Option<Instant>,
    /// Rounds so far.
    pub(crate) rounds: u64,
    /// What was put right, by a stable name of what it was.
    pub(crate) repairs: BTreeMap<&'static str, u64>,
    /// What could not be compared or put right when that was tried last, each thing with its reason.
    pub(crate) failing: BTreeMap<&'static str, String>,
}

/// The name of programs that were taken away from interfaces, and of pins.
pub(crate) const LINK: &str = "link";
pub(crate) const PIN: &str = "pin";

impl Drift {
    /// When the next round is; `None` where there is none.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Everything that can drift, with how often it was put right.
    pub(crate) fn repairs(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let kinds = DriftKind::ALL.map(DriftKind::as_str).into_iter().chain([LINK, PIN]);
        kinds.map(|kind| (kind, self.repairs.get(kind).copied().unwrap_or(0)))
    }
}

/// Has a round whenever it is due, `every` so often; never where that is nothing. Whether there was one.
pub(crate) fn watch(core: &mut Core, forwarder: &mut Forwarder, every: Duration, now: Instant) -> bool {
    if every.is_zero() {
        core.drift.due = None;
        return false;
    }
    let due = *core.drift.due.get_or_insert(now + every);
    let is_due = due.min(now + every) <= now;
    if is_due {
        core.drift.due = Some(now + every);
        round(core, forwarder);
    }
    is_due
}

/// Counts and tells what was put right.
pub(crate) fn note(core: &mut Core, kind: DriftKind, service: Option<&str>, count: u32) {
    let (what, many) = words(kind);
    let text = match count {
        0 => return,
        1 => format!("somebody else had changed {what}; it was put right"),
        _ => format!("somebody else had changed {count} {many}; they were put right"),
    };
    *core.drift.repairs.entry(kind.as_str()).or_default() += u64::from(count);
    core.journal.note_of(Grade::Warning, Kind::Drift, service, None, text);
}

fn round(core: &mut Core, forwarder: &mut Forwarder) {
    core.drift.rounds += 1;
    let (found, error) = core.controller.repair();
    for Drifted { kind, service, count } in found {
        note(core, kind, service.as_deref(), count);
    }
    let error = error.map(|error| error.to_string());
    tell_once(core, DriftKind::Directory.as_str(), error);
    let mut lost = None;
    for Reattached { interface, result } in forwarder.reattach() {
        match result {
            Ok(mode) => {
                *core.drift.repairs.entry(LINK).or_default() += 1;
                let text =
                    format!("the program was not at {interface} any more; it was put back in {mode} mode");
                core.journal.note(Grade::Error, Kind::Drift, text);
            }
            Err(error) => {
                let text = format!("the program is not at {interface} and cannot be put back: {error}");
                lost.get_or_insert(text);
            }
        }
    }
    core.about.interfaces = forwarder.ports().to_vec();
    core.note_refusing(forwarder.refusing(core.ways.egress()));
    tell_once(core, LINK, lost);
    let pins = match forwarder.repin() {
        Ok(0) => None,
        Ok(count) => {
            *core.drift.repairs.entry(PIN).or_default() += u64::from(count);
            let text = format!("{count} pins of maps had been removed; they were made again");
            core.journal.note(Grade::Warning, Kind::Drift, text);
            None
        }
        Err(error) => Some(error.to_string()),
    };
    tell_once(core, PIN, pins);
}

/// Notes what fails when it begins to fail or fails otherwise, and when it ends.
fn tell_once(core: &mut Core, what: &'static str, error: Option<String>) {
    let before = core.drift.failing.get(what);
    match (before, error) {
        (before, Some(error)) if before != Some(&error) => {
            core.journal.note(Grade::Error, Kind::Drift, error.clone());
            core.drift.failing.insert(what, error);
        }
        (Some(_), None) => {
            core.drift.failing.remove(what);
            core.journal.note(
                Grade::Info,
                Kind::Drift,
                format!("{what}: it can be compared and repaired again"),
            );
        }
        _ => {}
    }
}

const fn words(kind: DriftKind) -> (&'static str, &'static str) {
    match kind {
        DriftKind::Directory => (
            "an entry of the maps that services are found by",
            "entries of the maps that services are found by",
        ),
        DriftKind::Service => ("the service's record", "records of services"),
        DriftKind::Backend => ("a backend's record", "backends' records"),
        DriftKind::Slot => ("a slot of the table", "slots of the table"),
        DriftKind::Settings => ("a setting of the forwarder", "settings of the forwarder"),
    }
}
