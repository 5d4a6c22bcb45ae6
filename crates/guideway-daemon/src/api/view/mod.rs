//! What the core knows, in the API's words.

mod admin;
mod faults;
mod service;
mod status;

use std::time::SystemTime;

pub(crate) use admin::ready_addresses;
pub(super) use service::fits;
pub(crate) use service::{drains, services};
pub(crate) use status::{drains_under_way, status};

use super::model::{Event, Flow, Flows, Slot, Table};
use crate::core::Core;
use crate::journal;

/// A point in time as RFC 3339 in UTC, with milliseconds.
pub(crate) fn stamp(at: SystemTime) -> String {
    humantime::format_rfc3339_millis(at).to_string()
}

/// Events after a number, at most so many of the newest.
pub(crate) fn events(core: &Core, after: u64, limit: usize) -> Vec<Event> {
    let events: Vec<Event> = core.journal.since(after).map(event).collect();
    let from = events.len().saturating_sub(limit);
    events.into_iter().skip(from).collect()
}

fn event(event: &journal::Event) -> Event {
    Event {
        number: event.number,
        at: stamp(event.at),
        grade: event.grade.as_str().to_owned(),
        kind: event.kind.as_str().to_owned(),
        service: event.service.clone(),
        backend: event.backend.clone(),
        by: event.by.clone(),
        text: event.text.clone(),
    }
}

/// Remembered flows, the first so many of them.
pub(crate) fn flows(core: &Core, service: Option<&str>, backend: Option<&str>, limit: usize) -> Flows {
    let (total, flows) = core.controller.flows(service, backend, limit);
    let flow = |flow: guideway_control::controller::FlowView| Flow {
        service: flow.service,
        backend: flow.backend,
        slot: flow.slot,
        class: flow.class.as_str().to_owned(),
        silent_seconds: flow.silent_seconds,
    };
    Flows { total, flows: flows.into_iter().map(flow).collect() }
}

/// Slots of a service's table.
pub(crate) fn table(core: &Core, service: &str, from: usize, limit: usize) -> Option<Table> {
    let table = core.controller.table(service)?;
    let size = table.slots.len() as u32;
    let slots = table.slots.into_iter().enumerate().skip(from).take(limit).map(|(slot, view)| Slot {
        slot: slot as u32,
        settled: view.settled.filter(|_| !view.is_settled),
        current: view.current,
        is_settled: view.is_settled,
    });
    Some(Table {
        service: service.to_owned(),
        generation: table.generation,
        digest: table.digest,
        size,
        slots: slots.collect(),
    })
}
