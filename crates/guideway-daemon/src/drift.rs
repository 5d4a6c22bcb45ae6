//! What somebody else changed in the forwarder, and was put right: found by comparing every few seconds.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use guideway_control::controller::{DriftKind, Drifted};

use crate::core::Core;
use crate::forwarder::{Forwarder, How, Strayed};
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

/// The names of programs that were taken off interfaces, of pins that were removed, and of what could not be asked.
const LINK: &str = "link";
const PIN: &str = "pin";
const UNKNOWN: &str = "unknown";

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

    /// Everything that can fail in comparing and putting right, and whether it did at the last try.
    pub(crate) fn failing(&self) -> impl Iterator<Item = (&'static str, bool)> {
        let kinds = [DriftKind::Directory.as_str(), LINK, PIN, UNKNOWN];
        kinds.into_iter().map(|kind| (kind, self.failing.contains_key(kind)))
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

/// Counts and tells how many maps were not pinned any more, and are again.
pub(crate) fn note_repinned(core: &mut Core, count: u32) {
    let text = match count {
        0 => return,
        1 => "the pin of a map had been removed; it was made again".to_owned(),
        _ => format!("{count} pins of maps had been removed; they were made again"),
    };
    put_right(core, PIN, count, Grade::Warning, text);
}

/// Tells of maps whose pins had been removed while no daemon was at work, and which the kernel did not give out again.
pub(crate) fn note_removed(core: &mut Core, maps: &[&str]) {
    if maps.is_empty() {
        return;
    }
    let text = format!(
        "somebody had removed the pins of maps ({}): the forwarder at work could not be taken over, and another takes its \
         place; which backends its remembered flows were on is forgotten",
        maps.join(", ")
    );
    core.journal.note(Grade::Error, Kind::Drift, text);
}

fn round(core: &mut Core, forwarder: &mut Forwarder) {
    core.drift.rounds += 1;
    let (found, error) = core.controller.repair();
    for Drifted { kind, service, count } in found {
        note(core, kind, service.as_deref(), count);
    }
    let error = error.map(|error| error.to_string());
    tell_once(core, DriftKind::Directory.as_str(), error);
    let (mut lost, mut unpinned, mut unknown) = (None, None, None);
    for Strayed { interface, how } in forwarder.look_after() {
        match how {
            How::Gone(Ok(mode)) => {
                let text = format!(
                    "the program was not at {interface} any more: somebody took it off, or the interface was made anew; it was \
                     put back in {mode} mode"
                );
                put_right(core, LINK, 1, Grade::Error, text);
            }
            How::Deaf(Ok(())) => {
                let text = format!(
                    "the packet socket had lost {interface}: the interface was made anew, or was in another network namespace; \
                     it reads there again"
                );
                put_right(core, LINK, 1, Grade::Error, text);
            }
            How::Deaf(Err(error)) => {
                let text = format!(
                    "the packet socket has lost {interface} and cannot be bound there again: {error}"
                );
                lost.get_or_insert(text);
            }
            How::Unpinned(Ok(())) => {
                let text = format!(
                    "somebody had removed the pin of the program's link at {interface}; it was made again, and packets were \
                     forwarded all the while"
                );
                put_right(core, PIN, 1, Grade::Warning, text);
            }
            How::Gone(Err(error)) => {
                let text = format!("the program is not at {interface} and cannot be put back: {error}");
                lost.get_or_insert(text);
            }
            How::Unpinned(Err(error)) => {
                let text = format!(
                    "somebody removed the pin of the program's link at {interface}, and it cannot be made again: {error}; \
                     packets are forwarded as long as this daemon lives, and no longer"
                );
                unpinned.get_or_insert(text);
            }
            How::Unknown(error) => {
                let text = format!(
                    "whether the program is at {interface} cannot be told, and it is left alone: {error}"
                );
                unknown.get_or_insert(text);
            }
        }
    }
    core.about.interfaces = forwarder.ports().to_vec();
    if unknown.is_none() {
        core.note_refusing(forwarder.refusing(core.ways.egress()));
    } else {
        // What was known is no better now.
        let known = |what| core.drift.failing.get(what).cloned();
        lost = lost.or_else(|| known(LINK));
        unpinned = unpinned.or_else(|| known(PIN));
    }
    tell_once(core, LINK, lost);
    tell_once(core, UNKNOWN, unknown);
    match forwarder.repin() {
        Ok(count) => note_repinned(core, count),
        Err(error) => {
            let text = format!(
                "pins of maps cannot be made again: {error}; packets are forwarded, and the next daemon finds no flows"
            );
            unpinned.get_or_insert(text);
        }
    }
    tell_once(core, PIN, unpinned);
}

fn put_right(core: &mut Core, what: &'static str, count: u32, grade: Grade, text: String) {
    *core.drift.repairs.entry(what).or_default() += u64::from(count);
    core.journal.note(grade, Kind::Drift, text);
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
            core.journal.note(Grade::Info, Kind::Drift, mended(what));
        }
        _ => {}
    }
}

/// What there is to say when something fails no more.
fn mended(what: &'static str) -> String {
    match what {
        LINK => "packets are forwarded at all interfaces again".to_owned(),
        PIN => "everything is pinned again".to_owned(),
        UNKNOWN => "whether the program is at its interfaces can be told again".to_owned(),
        _ => format!("{what}: it can be compared and repaired again"),
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
