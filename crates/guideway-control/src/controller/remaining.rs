//! What still lives on backends that drain, and the end of it.

use std::collections::HashMap;
use std::net::IpAddr;

use guideway_forward::record::{BackendState, ServiceId};

use super::member::Member;
use super::records::store_records;
use super::service::Held;
use super::spec::Health;
use super::tick::{MARGIN_SECONDS, for_each_flow};
use super::{ChangeError, Controller, Removal, unknown_backend};
use crate::drain::DrainKey;
use crate::engine::Engine;

/// What still lives on a backend that drains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remaining {
    /// The service.
    pub service: String,
    /// The backend's identity.
    pub backend: String,
    /// Its address: a backend that was removed and one that took its name are two.
    pub address: IpAddr,
    /// Whether it has left the desired state.
    pub removed: bool,
    /// Connections of it that the forwarder has seen since it began to drain and that are not silent for an idle time yet.
    pub live_flows: u32,
    /// Flows besides that were never answered, or that were closed and are still remembered.
    pub ending_flows: u32,
    /// Whether QUIC connections may live there. Their packets name the backend and nothing is remembered of them, so they
    /// can't be counted: only when it has got no packet for an idle time is it certain that there is none.
    pub may_have_quic: bool,
    /// Slots on which older flows of it may live that were silent since; they settle an idle time after the change.
    pub unsettled_slots: u32,
}

impl<E: Engine> Controller<E> {
    /// The drains of a service's backends, without a look at what lives there.
    pub fn draining(&self, service: &str) -> Vec<DrainKey> {
        let members = self.services.get(service).into_iter().flat_map(|held| held.members.iter().flatten());
        let draining = members.filter(|member| member.state(false) == BackendState::Draining);
        draining.map(|member| key(service, member)).collect()
    }

    /// The backends that were removed and whose index is not free yet, with that index: of a forwarder at work, nothing else tells their
    /// names.
    pub fn removed(&self) -> impl Iterator<Item = (DrainKey, u16)> {
        self.services.awake().flat_map(|held| {
            let members =
                (0_u16..).zip(&held.members).filter_map(|(local, member)| Some((local, member.as_ref()?)));
            let removed = members.filter(|(_, member)| member.removed.is_some());
            removed.map(|(local, member)| (key(&held.spec.name, member), local))
        })
    }

    /// What still lives on each backend that drains. Reads the whole flow table, unless none drains.
    pub fn remaining(&self) -> Vec<Remaining> {
        let mut list = Vec::new();
        for held in self.services.awake() {
            for (local, member) in held.members.iter().enumerate() {
                let Some(member) = member else { continue };
                if member.state(false) == BackendState::Draining {
                    list.push((held, local as u16, member));
                }
            }
        }
        if list.is_empty() {
            return Vec::new();
        }
        let mut flows: HashMap<(ServiceId, u16), (u32, u32)> = HashMap::new();
        for_each_flow(&self.engine, |flow| {
            if flow.remembered {
                let (live, ending) = flows.entry((flow.service, flow.backend)).or_default();
                *if flow.is_live() { live } else { ending } += 1;
            }
        });
        let mut unsettled: HashMap<ServiceId, HashMap<u16, u32>> = HashMap::new();
        let describe = |(held, local, member): (&Held, u16, &Member)| {
            let slots = unsettled.entry(held.id).or_insert_with(|| unsettled_slots(held));
            let (live_flows, ending_flows) = flows.get(&(held.id, local)).copied().unwrap_or_default();
            Remaining {
                service: held.spec.name.clone(),
                backend: member.spec.identity.to_string(),
                address: member.spec.address,
                removed: member.removed.is_some(),
                may_have_quic: self.may_have_quic(held, member),
                live_flows,
                ending_flows,
                unsettled_slots: slots.get(&local).copied().unwrap_or(0),
            }
        };
        list.into_iter().map(describe).collect()
    }

    fn may_have_quic(&self, held: &Held, member: &Member) -> bool {
        let quiet_for = held.spec.udp_idle_seconds.saturating_add(MARGIN_SECONDS);
        held.spec.policy.quic().is_some()
            && member.spec.quic_id.is_some()
            && !member.is_quiet_for(quiet_for, self.engine.now_seconds())
    }

    /// Says what the checks found of a backend that was removed and still drains: when it fails, the flows that it has
    /// end. `set_health` speaks of the backend that is wanted under that name, if there is one.
    ///
    /// # Errors
    /// [`ChangeError`] when the service has no removed backend of this name and address.
    pub fn set_removed_health(
        &mut self,
        service: &str,
        backend: &str,
        address: IpAddr,
        health: Health,
    ) -> Result<(), ChangeError> {
        self.edit_removed(service, backend, address, |member| member.health = health)
    }

    /// Ends the drain of a backend that was removed: the flows that it still has end.
    ///
    /// # Errors
    /// [`ChangeError`] when no such backend drains after its removal.
    pub fn end_removed(&mut self, service: &str, backend: &str, address: IpAddr) -> Result<(), ChangeError> {
        self.edit_removed(service, backend, address, |member| member.removed = Some(Removal::AtOnce))
    }

    fn edit_removed(
        &mut self,
        service: &str,
        backend: &str,
        address: IpAddr,
        edit: impl Fn(&mut Member),
    ) -> Result<(), ChangeError> {
        let engine = &self.engine;
        let held = self
            .services
            .get_mut(service)
            .ok_or_else(|| ChangeError::UnknownService { service: service.to_owned() })?;
        let mut found = false;
        for member in held.members.iter_mut().flatten().filter(|member| member.removed.is_some()) {
            if *member.spec.identity == *backend && member.spec.address == address {
                edit(member);
                found = true;
            }
        }
        if !found {
            return Err(unknown_backend(service, backend));
        }
        store_records(engine, held);
        Ok(())
    }
}

fn key(service: &str, member: &Member) -> DrainKey {
    DrainKey {
        service: service.to_owned(),
        backend: member.spec.identity.to_string(),
        address: member.spec.address,
        removed: member.removed.is_some(),
    }
}

/// How many slots may hold older flows of which backend.
fn unsettled_slots(held: &Held) -> HashMap<u16, u32> {
    let mut slots: HashMap<u16, u32> = HashMap::new();
    for (slot, _) in held.unsettled.iter() {
        *slots.entry(held.slot(slot).settled()).or_default() += 1;
    }
    if let Some(prior) = &held.prior {
        for slot in &prior.words {
            *slots.entry(slot.current()).or_default() += 1;
            if slot.settled() != slot.current() {
                *slots.entry(slot.settled()).or_default() += 1;
            }
        }
    }
    slots
}
