//! The daemon and its forwarder as a whole.

use std::collections::HashMap;

use guideway_control::Engine;
use guideway_control::config;
use guideway_control::controller::{Outline, remembered_flows};
use guideway_control::drain::DrainKey;
use guideway_control::overrides::{AdminState, Override};
use guideway_forward::outcome::Kind;
use guideway_forward::record::flow::ENTRIES;
use guideway_page::{CONSOLE, LAB};

use super::super::model::{BackendCounts, Drift, FlowTable, Overridden, Overrides, PacketCounts, Status};
use super::super::page;
use super::admin::{admin, said_of};
use super::faults::{all_failing, asides, faults};
use super::stamp;
use crate::core::Core;

/// So many backends of which operators said something are told of one by one.
const OVERRIDES: usize = 100;

/// The daemon and its forwarder as a whole.
pub(crate) fn status(core: &Core) -> Status {
    let services = core.controller.outlines();
    let totals = core.controller.engine().totals();
    let of = |kind| totals.kind(kind).packets;
    let engine = core.controller.engine();
    let faults = faults(core, &services);
    let flow_table = FlowTable {
        capacity: (engine.flows().len() * ENTRIES) as u64,
        entries: remembered_flows(engine, services.iter().map(|service| service.id)),
    };
    Status {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        revision: core.revision(),
        started_at: stamp(core.about.started_at),
        engine: core.about.engine.to_owned(),
        interfaces: core.about.interfaces.clone(),
        digest: core.controller.digest(),
        config: core.about.config.clone(),
        services: services.len() as u64,
        backends: backend_counts(core, &services),
        overrides: overrides(core),
        drains: drains_under_way(core),
        drains_of_removed: under_way(core).filter(|key| key.removed).count() as u64,
        packets: PacketCounts {
            received_total: totals.received.packets,
            forwarded_total: of(Kind::Forwarded),
            answered_total: of(Kind::Answered),
            passed_total: of(Kind::Passed),
            dropped_total: of(Kind::Dropped),
        },
        flow_table,
        socket: core.about.socket.as_ref().map(|path| path.display().to_string()),
        page: core.about.address.map(|address| page::url(&LAB, address)),
        console: core.about.address.map(|address| page::url(&CONSOLE, address)),
        drift: drift(core),
        notes: asides(core, flow_table, &services).into_iter().chain(faults.iter().cloned()).collect(),
        faults,
    }
}

fn backend_counts(core: &Core, services: &[Outline]) -> BackendCounts {
    let mut counts = BackendCounts::default();
    for backend in services.iter().flat_map(|service| &service.backends).filter(|backend| !backend.removed) {
        counts.total += 1;
        counts.eligible += u64::from(backend.slots > 0);
    }
    let configured = core
        .config
        .services
        .iter()
        .flat_map(|service| service.backends.iter().map(|backend| (service.name.as_str(), backend)));
    for (service, backend) in configured {
        let admin = admin(&said_of(core, service, &backend.name), Some(backend));
        counts.draining += u64::from(admin == AdminState::Drain);
        counts.maintenance += u64::from(admin == AdminState::Maintenance);
    }
    counts.failing = all_failing(core).values().map(|failing| failing.len() as u64).sum();
    counts
}

/// What operators said that is not what the configuration says.
fn overrides(core: &Core) -> Overrides {
    let said = core.desired.overrides();
    if said.is_empty() {
        return Overrides::default();
    }
    let services = core.config.services.iter();
    let configured: HashMap<(&str, &str), &config::Backend> = services
        .flat_map(|service| {
            let backends = service.backends.iter();
            backends.map(|backend| ((service.name.as_str(), backend.name.as_str()), backend))
        })
        .collect();
    let mut overrides = Overrides::default();
    for (who, said) in said.iter() {
        let key = (who.service.as_str(), who.backend.as_str());
        let Some(&configured) = configured.get(&key) else { continue };
        let configured_admin = admin(&Override::default(), Some(configured));
        let state = said.admin.filter(|state| *state != configured_admin);
        let weight = said.weight.filter(|weight| *weight != configured.weight);
        if state.is_none() && weight.is_none() {
            continue;
        }
        overrides.total += 1;
        if overrides.backends.len() < OVERRIDES {
            let word = |state: AdminState| state.as_str().to_owned();
            overrides.backends.push(Overridden {
                service: who.service.clone(),
                backend: who.backend.clone(),
                admin: state.map(word),
                configured_admin: state.map(|_| word(configured_admin)),
                weight,
                configured_weight: weight.map(|_| configured.weight),
            });
        }
    }
    overrides
}

/// Drains that are not over, those of removed backends among them.
pub(crate) fn drains_under_way(core: &Core) -> u64 {
    under_way(core).count() as u64
}

fn under_way(core: &Core) -> impl Iterator<Item = &DrainKey> {
    core.drains.iter().filter(|(_, drain)| !drain.phase.is_over()).map(|(key, _)| key)
}

fn drift(core: &Core) -> Drift {
    let owned = |(what, why): (&&'static str, &String)| ((*what).to_owned(), why.clone());
    Drift {
        rounds_total: core.drift.rounds,
        repairs_total: core.drift.repairs().map(|(what, count)| (what.to_owned(), count)).collect(),
        failing: core.drift.failing.iter().map(owned).collect(),
    }
}
