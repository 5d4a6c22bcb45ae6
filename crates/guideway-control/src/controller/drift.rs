//! Comparing what the forwarder holds with what it should hold, and putting it right: somebody with a debugger, another
//! program, or a fault may write where only the controller should.
//!
//! Records are compared word for word with those that the controller would store now: of what packets read, some words
//! follow from others (checksums, keys of hashes). What should be there is the controller's own state and never read back. So what a round finds is drift and not a
//! change under way: both are the work of one thread, and each is whole when the other begins.

use std::sync::atomic::Ordering::Relaxed;

use guideway_forward::record::{Backend, BackendState, Service, Slot};
use guideway_forward::word::alike;

use super::Controller;
use super::records::{store_whole, wanted_record, wanted_service};
use super::region::Region;
use super::service::{Held, write};
use crate::engine::{Engine, EngineError, Repaired};

/// What a round compares at most, in slots: some milliseconds.
const SLOTS_A_ROUND: usize = 1 << 22;

/// What comparing a record takes, in slots.
const SLOTS_A_RECORD: usize = 32;

/// What was not as it should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DriftKind {
    /// Where services listen, and QUIC server ids.
    Directory,
    /// A service's record: its tables, its policy, its idle times.
    Service,
    /// A backend's record.
    Backend,
    /// Slots of a table.
    Slot,
    /// What holds for the whole machine: own addresses, look-ups, the flow table's key, limits.
    Settings,
}

impl DriftKind {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Directory, Self::Service, Self::Backend, Self::Slot, Self::Settings];

    /// A stable name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Directory => "directory",
            Self::Service => "service",
            Self::Backend => "backend",
            Self::Slot => "slot",
            Self::Settings => "settings",
        }
    }
}

/// What was put right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drifted {
    /// What it was.
    pub kind: DriftKind,
    /// Of which service, if it is one's.
    pub service: Option<String>,
    /// How many entries, records or slots.
    pub count: u32,
}

/// How far rounds have come, and what they compare with that is no service's.
#[derive(Debug)]
pub(super) struct Watch {
    pub(super) flow_key: [u64; 2],
    /// The service that is compared next.
    next: Option<String>,
}

impl Watch {
    pub(super) fn new(engine: &impl Engine) -> Self {
        Self { flow_key: engine.settings().flow_key(), next: None }
    }
}

impl<E: Engine> Controller<E> {
    /// Compares what the forwarder holds with what it should hold, and puts right what differs: as many services as some
    /// milliseconds allow, the others by the next calls. The second value tells why the directory could not be compared
    /// or repaired.
    pub fn repair(&mut self) -> (Vec<Drifted>, Option<EngineError>) {
        let mut found = Vec::new();
        let mut note = |kind, service: Option<&str>, count| {
            if count > 0 {
                found.push(Drifted { kind, service: service.map(str::to_owned), count });
            }
        };
        let mut left = SLOTS_A_ROUND;
        let from = self.watch.next.take().unwrap_or_default();
        let turn = self.services.range(from.clone()..).chain(self.services.range(..from));
        for (name, held) in turn {
            if left == 0 {
                self.watch.next = Some(name.clone());
                break;
            }
            // In the order in which a change writes, so that no slot names a backend that is not there.
            note(DriftKind::Backend, Some(name), repair_backends(&self.engine, held));
            note(DriftKind::Service, Some(name), u32::from(repair_service(&self.engine, held)));
            note(DriftKind::Slot, Some(name), repair_slots(&self.engine, held));
            left = left.saturating_sub(effort(held));
        }
        let settings = u32::from(!self.repair_settings());
        let (Repaired { directory, limits }, error) = match self.engine.repair() {
            Ok(repaired) => (repaired, None),
            Err(error) => (Repaired::default(), Some(error)),
        };
        note(DriftKind::Settings, None, settings + limits);
        note(DriftKind::Directory, None, directory);
        (found, error)
    }
}

/// What comparing a service takes, in slots.
fn effort(held: &Held) -> usize {
    let prior = held.prior.as_ref().map_or(0, |prior| prior.words.len());
    held.words.len() + prior + SLOTS_A_RECORD * (1 + held.places.len as usize)
}

/// Puts the slots of a service right; how many were wrong.
fn repair_slots(engine: &impl Engine, held: &Held) -> u32 {
    let prior = held.prior.as_ref().map_or(0, |prior| slots(engine, prior.region, &prior.words));
    slots(engine, held.table, &held.words) + prior
}

/// Puts slots right; how many were wrong.
fn slots(engine: &impl Engine, table: Region, words: &[Slot]) -> u32 {
    let from = table.offset as usize;
    let Some(held) = engine.slots().get(from..from + words.len()) else { return 0 };
    let mut wrong = 0;
    for (index, (held, wanted)) in held.iter().zip(words).enumerate() {
        if held.load(Relaxed) != wanted.0 {
            write(engine, table, index as u32, *wanted);
            wrong += 1;
        }
    }
    wrong
}

/// Puts the records of a service's backends right; how many were wrong.
fn repair_backends(engine: &impl Engine, held: &Held) -> u32 {
    let mut wrong = 0;
    for local in 0..held.places.len {
        let Some(record) = engine.backend(held.places.offset + local) else { continue };
        match wanted_record(held, local) {
            Some(wanted) => {
                if !alike(record.words(), Backend::new(&wanted).words()) {
                    record.store(&wanted);
                    wrong += 1;
                }
            }
            // Of a free record nothing else is read.
            None if record.state() == BackendState::Free => {}
            None => {
                record.set_state(BackendState::Free);
                wrong += 1;
            }
        }
    }
    wrong
}

/// Puts a service's record right; whether it was wrong.
fn repair_service(engine: &impl Engine, held: &Held) -> bool {
    let Some(record) = engine.service(held.id) else { return false };
    if is_right(record, held) {
        return false;
    }
    store_whole(record, held);
    true
}

fn is_right(record: &Service, held: &Held) -> bool {
    let (wanted, active) = (wanted_service(held), held.active());
    let prior = |record: &Service, wanted: &Service| {
        alike(record.other_table(active).words(), wanted.other_table(active).words())
    };
    alike(record.words(), wanted.words())
        && alike(record.table(active).words(), wanted.table(active).words())
        && (held.prior.is_none() || prior(record, &wanted))
}

#[cfg(test)]
mod tests;
