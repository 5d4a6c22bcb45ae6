//! Services and backends at a glance: what can be said of thousands of them at once, in little time. Counters, each of
//! which the kernel has to be asked for, are read later, by whoever has the forwarder.

use guideway_forward::record::ServiceId;
use guideway_soft::Count;
use std::sync::Arc;

use super::Controller;
use super::by_id::ById;
use super::service::{Churn, Held};
use super::tick::for_each_flow;
use crate::engine::Engine;

/// A service at a glance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outline {
    /// Its name.
    pub name: String,
    /// The forwarder's number of it.
    pub id: ServiceId,
    /// The committed table.
    pub generation: u32,
    /// Slots on which older flows may still be elsewhere.
    pub unsettled: u32,
    /// Whether backends are in use although every check fails.
    pub last_resort: bool,
    /// Whether a new size or seed waits for its turn.
    pub resize_waits: bool,
    /// What changes have moved.
    pub churn: Churn,
    /// Its backends, those that drain after their removal included.
    pub backends: Vec<BackendOutline>,
}

/// A backend at a glance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackendOutline {
    /// What tables know it by.
    pub identity: Arc<str>,
    /// Whether it has left the desired state.
    pub removed: bool,
    /// Slots that give it new flows.
    pub slots: u32,
    /// Where its packets are counted.
    pub counter: Counter,
}

/// Where a backend's packets are counted, and what was counted before it came there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counter {
    global: u32,
    baseline: Count,
    carried: Count,
}

impl Outline {
    /// Backends that take new flows.
    pub fn eligible(&self) -> u64 {
        self.backends.iter().filter(|backend| backend.slots > 0).count() as u64
    }
}

impl Counter {
    /// Packets forwarded to the backend since it joined.
    pub fn read(&self, engine: &impl Engine) -> Count {
        let mut count = engine.backend_count(self.global).since(self.baseline);
        count += self.carried;
        count
    }
}

impl<E: Engine> Controller<E> {
    /// Every service at a glance.
    pub fn outlines(&self) -> Vec<Outline> {
        self.services.values().map(Held::outline).collect()
    }
}

/// How many flows are remembered of those services. Reads the whole flow table.
pub fn remembered_flows(engine: &impl Engine, services: impl IntoIterator<Item = ServiceId>) -> u64 {
    let known: ById<()> = services.into_iter().map(|id| (id, ())).collect();
    let mut many = 0;
    for_each_flow(engine, |flow| many += u64::from(flow.remembered && known.has(flow.service)));
    many
}

impl Held {
    fn outline(&self) -> Outline {
        let members = self.members.iter().enumerate().filter_map(|(local, member)| {
            let member = member.as_ref()?;
            Some(BackendOutline {
                identity: member.spec.identity.clone(),
                removed: member.removed.is_some(),
                slots: self.owned().get(local).copied().unwrap_or(0),
                counter: Counter {
                    global: self.places.offset + local as u32,
                    baseline: member.baseline,
                    carried: member.carried,
                },
            })
        });
        Outline {
            name: self.spec.name.clone(),
            id: self.id,
            generation: self.generation,
            unsettled: self.unsettled.len(),
            last_resort: self.last_resort,
            resize_waits: self.resize_waits,
            churn: self.churn,
            backends: members.collect(),
        }
    }
}
