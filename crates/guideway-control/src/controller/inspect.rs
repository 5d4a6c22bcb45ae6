//! Looking into what the forwarder holds, for people: remembered flows, and who owns which slot.

use std::collections::{BTreeMap, HashMap};

use guideway_forward::record::flow::Class;
use guideway_forward::record::{NO_BACKEND, ServiceId};

use super::Controller;
use super::by_id::ById;
use super::service::Held;
use super::tick::for_each_flow;
use crate::engine::Engine;

/// A remembered flow. The forwarder knows it by a keyed fingerprint, not by its addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlowView {
    /// The service.
    pub service: String,
    /// The backend's identity.
    pub backend: String,
    /// Its slot.
    pub slot: u32,
    /// Its phase.
    pub class: Class,
    /// Seconds since it was seen last.
    pub silent_seconds: u32,
}

/// The table of a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableView {
    /// The number of the committed table.
    pub generation: u32,
    /// The fingerprint of what takes new flows.
    pub digest: String,
    /// Every slot.
    pub slots: Vec<SlotView>,
}

/// A slot, by the identities of backends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotView {
    /// Who takes new flows.
    pub current: Option<String>,
    /// To whom older flows belong.
    pub settled: Option<String>,
    /// Whether no flow can be on any backend but its owner.
    pub is_settled: bool,
}

impl<E: Engine> Controller<E> {
    /// Whether this service, or any, has a backend of that name, those included that left and may still have flows.
    pub fn has_backend(&self, service: Option<&str>, backend: &str) -> bool {
        let of = |held: &Held| held.members.iter().flatten().any(|member| *member.spec.identity == *backend);
        let mut services = self.services.values();
        services.any(|held| service.is_none_or(|service| held.spec.name == service) && of(held))
    }

    /// How many flows are remembered of this service and backend, or of all, those that open or close included, and the
    /// first `limit` of them. Reads the whole flow table.
    pub fn flows(&self, service: Option<&str>, backend: Option<&str>, limit: usize) -> (u64, Vec<FlowView>) {
        let by_id: HashMap<ServiceId, &Held> = self
            .services
            .values()
            .filter(|held| service.is_none_or(|service| held.spec.name == service))
            .map(|held| (held.id, held))
            .collect();
        let (mut total, mut flows) = (0, Vec::new());
        for_each_flow(&self.engine, |flow| {
            let Some(held) = by_id.get(&flow.service).filter(|_| flow.remembered) else { return };
            let identity = identity(held, flow.backend);
            if backend.is_some_and(|backend| identity != Some(backend)) {
                return;
            }
            total += 1;
            if flows.len() < limit {
                flows.push(FlowView {
                    service: held.spec.name.clone(),
                    backend: identity.unwrap_or_default().to_owned(),
                    slot: flow.slot,
                    class: flow.class,
                    silent_seconds: flow.silent_seconds,
                });
            }
        });
        (total, flows)
    }

    /// How many remembered flows of each of these services are live. Reads the whole flow table, if there is any of them.
    pub fn live_flows<'a>(&self, services: impl IntoIterator<Item = &'a str>) -> BTreeMap<&'a str, u32> {
        let known = services.into_iter().filter_map(|name| Some((self.services.get(name)?.id, (name, 0))));
        let mut flows: ById<(&str, u32)> = known.collect();
        if !flows.is_empty() {
            for_each_flow(&self.engine, |flow| {
                if let Some((_, live)) = flows.get_mut(flow.service).filter(|_| flow.is_live()) {
                    *live += 1;
                }
            });
        }
        flows.into_values().collect()
    }

    /// The service whose table, active or prior, begins at this slot.
    pub fn service_of_slot(&self, offset: u32) -> Option<(ServiceId, &str)> {
        let has = |held: &&Held| {
            held.table.offset == offset
                || held.prior.as_ref().is_some_and(|prior| prior.region.offset == offset)
        };
        self.services.values().find(has).map(|held| (held.id, held.spec.name.as_str()))
    }

    /// The backend of a service with this local index.
    pub fn identity(&self, service: ServiceId, local: u16) -> Option<&str> {
        identity(self.services.values().find(|held| held.id == service)?, local)
    }

    /// Who owns which slot of a service; `None` where there is no such service.
    pub fn table(&self, service: &str) -> Option<TableView> {
        let held = self.services.get(service)?;
        let name = |local| identity(held, local).map(str::to_owned);
        let slots = (0..held.table.len).map(|index| {
            let slot = held.slot(index);
            SlotView {
                current: name(slot.current()),
                settled: name(slot.settled()),
                is_settled: slot.is_settled(),
            }
        });
        Some(TableView {
            generation: held.generation,
            digest: held.digest().to_owned(),
            slots: slots.collect(),
        })
    }
}

fn identity(held: &Held, local: u16) -> Option<&str> {
    let member = held.members.get(usize::from(local)).filter(|_| local != NO_BACKEND)?;
    member.as_ref().map(|member| member.spec.identity.as_ref())
}
