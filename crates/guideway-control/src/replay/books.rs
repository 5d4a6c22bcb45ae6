//! The books of a replay, in a form that prints and serialises.

use std::collections::BTreeMap;
use std::time::Duration;

use guideway_forward::outcome::Kind;
use guideway_soft::Totals;
use serde::Serialize;

use crate::controller::{ServiceChange, ServiceStatus};

/// What became of every packet. Received = forwarded + answered + passed + dropped.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Books {
    /// All packets.
    pub received: u64,
    /// Sent to a backend.
    pub forwarded: u64,
    /// Answered to the client.
    pub answered: u64,
    /// Left to the host.
    pub passed: u64,
    /// Dropped, each for one reason.
    pub dropped: u64,
    /// Packets of each outcome that occurred, by name.
    pub outcomes: BTreeMap<&'static str, u64>,
    /// Events that occurred, by name.
    pub events: BTreeMap<&'static str, u64>,
    /// Each service.
    pub services: Vec<ServiceBooks>,
    /// What each change moved.
    pub changes: Vec<ChangeBooks>,
}

/// One service's share.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ServiceBooks {
    /// Its name.
    pub name: String,
    /// Packets forwarded.
    pub packets: u64,
    /// Their bytes, as received.
    pub bytes_total: u64,
    /// The committed table's number.
    pub generation: u32,
    /// Fingerprint of what takes new flows.
    pub digest: String,
    /// Slots of the table.
    pub slots: u32,
    /// Slots that have not settled.
    pub unsettled_slots: u32,
    /// Each backend.
    pub backends: Vec<BackendBooks>,
}

/// One backend's share.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BackendBooks {
    /// Its name.
    pub name: String,
    /// Its state.
    pub state: &'static str,
    /// Slots that give it new flows.
    pub slots: u32,
    /// Packets forwarded.
    pub packets: u64,
    /// Their bytes, as received.
    pub bytes_total: u64,
}

/// What one change moved.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ChangeBooks {
    /// Seconds after the first frame.
    pub at_seconds: f64,
    /// The service.
    pub service: String,
    /// The generation that it committed.
    pub generation: u32,
    /// Slots of the table.
    pub slots: u32,
    /// Slots that changed owner.
    pub moved: u32,
    /// Those for which nothing asked (see [`ServiceChange::needless`]).
    pub needless: u32,
    /// Remembered live flows on backends that it took down.
    pub voided_flows: u32,
}

pub(super) fn compose(
    totals: Totals,
    services: &[ServiceStatus],
    changes: &[(Duration, ServiceChange)],
) -> Books {
    let outcomes = totals
        .outcomes()
        .filter(|(_, count)| count.packets > 0)
        .map(|(outcome, count)| (outcome.as_str(), count.packets));
    let events =
        totals.events().filter(|&(_, count)| count > 0).map(|(event, count)| (event.as_str(), count));
    Books {
        received: totals.received.packets,
        forwarded: totals.kind(Kind::Forwarded).packets,
        answered: totals.kind(Kind::Answered).packets,
        passed: totals.kind(Kind::Passed).packets,
        dropped: totals.kind(Kind::Dropped).packets,
        outcomes: outcomes.collect(),
        events: events.collect(),
        services: services.iter().map(service).collect(),
        changes: changes.iter().map(|(at, change)| change_books(*at, change)).collect(),
    }
}

fn service(status: &ServiceStatus) -> ServiceBooks {
    let backends = status.backends.iter().map(|backend| BackendBooks {
        name: backend.identity.to_string(),
        state: backend.state.as_str(),
        slots: backend.slots,
        packets: backend.count.packets,
        bytes_total: backend.count.bytes,
    });
    ServiceBooks {
        name: status.name.clone(),
        packets: status.count.packets,
        bytes_total: status.count.bytes,
        generation: status.generation,
        digest: status.digest.clone(),
        slots: status.slots,
        unsettled_slots: status.unsettled,
        backends: backends.collect(),
    }
}

fn change_books(at: Duration, change: &ServiceChange) -> ChangeBooks {
    ChangeBooks {
        at_seconds: at.as_secs_f64(),
        service: change.service.clone(),
        generation: change.generation,
        slots: change.slots,
        moved: change.moved,
        needless: change.needless,
        voided_flows: change.voided_flows,
    }
}
