//! Taking charge of a forwarder that an earlier controller left at work.
//!
//! What packets read is the truth: where services listen, their tables, and the records of their backends. Only names
//! are not there. They come from what was configured, old and new: a service is the one that listens where the forwarder
//! says, a backend the one at its address. So a controller may have been killed between any two stores; what it left is
//! taken as it is, and the next change completes or replaces what it had begun.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::{IpAddr, Ipv6Addr};
use std::num::NonZeroU16;

use guideway_forward::record::backend::NextHop;
use guideway_forward::record::{Backend, BackendState, ServiceId, Slot, UdpRule};
use guideway_soft::{Binding, QuicBinding};
use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use super::member::Member;
use super::region::Region;
use super::service::{Churn, Counted, Held, Prior, read};
use super::spec::{
    Admin, AllDown, BackendSpec, Health, Listen, Protocol, ServiceSpec, TableRule, TableSizeSpec, TableSpec,
    TunnelSpec,
};
use super::tick::forget_services;
use super::unsettled::Unsettled;
use super::{Controller, Removal};
use crate::drain::Snapshot;
use crate::engine::Engine;

/// What a forwarder holds makes no sense: another program, or a fault, has written there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the forwarder at work holds what no controller writes: service {service}: {what}. \
     Take it away (`guideway detach`) and start anew; its flows are spread again then"
)]
pub struct AdoptError {
    /// The forwarder's number of the service.
    pub service: u16,
    /// What is wrong.
    pub what: &'static str,
}

impl<E: Engine> Controller<E> {
    /// Takes charge of a forwarder as an earlier controller left it. `known` are services as they are or were
    /// configured, the newest first; what is not among them gets a name by its number or address.
    ///
    /// Backends that no known service names drain, or are down, as they were.
    ///
    /// # Errors
    /// [`AdoptError`].
    pub fn adopt(engine: E, known: &[ServiceSpec]) -> Result<Self, AdoptError> {
        Self::adopt_with(engine, known, &Snapshot::default())
    }

    /// The same, where the names of backends that were removed have been kept.
    ///
    /// # Errors
    /// [`AdoptError`].
    pub fn adopt_with(engine: E, known: &[ServiceSpec], kept: &Snapshot) -> Result<Self, AdoptError> {
        let (bindings, quic) = engine.published();
        let mut listens: BTreeMap<u16, Vec<Listen>> = BTreeMap::new();
        for binding in &bindings {
            listens.entry(binding.service.0).or_default().extend(listen(binding));
        }
        let mut controller = Self::new(engine);
        let known = Known::new(known);
        let mut names = HashSet::new();
        for (id, listen) in listens {
            let spec = known.at(&listen, &names);
            let held = controller.adopt_service(ServiceId(id), listen, spec, &known, &quic, kept)?;
            names.insert(held.spec.name.clone());
            controller.free_ids.remove(&id);
            for place in &held.spec.listen {
                controller.listening.insert(*place, held.spec.name.clone());
            }
            controller.services.insert(held.spec.name.clone(), held);
        }
        controller.clean();
        // What else the forwarder is told may be another now.
        controller.unpublished = true;
        Ok(controller)
    }

    /// These services have been configured as they are for so many seconds: where UDP flows are all remembered, as the
    /// forwarder has it too, they have been since then, and a drain need not be lenient for an idle time again.
    pub fn note_configured_for<'a>(
        &mut self,
        services: impl IntoIterator<Item = &'a ServiceSpec>,
        seconds: u32,
    ) {
        let since = self.engine.now_seconds().saturating_sub(seconds);
        let tracked = services.into_iter().filter(|spec| spec.policy.udp() == UdpRule::Track);
        for spec in tracked {
            let held = self.services.get_mut(&spec.name);
            if let Some(known) = held.and_then(|held| held.udp_tracked_since.as_mut()) {
                *known = since.min(*known);
            }
        }
    }

    /// Where the frames to each backend go now.
    pub fn next_hops(&self) -> impl Iterator<Item = (IpAddr, NextHop)> {
        let members = self.services.values().flat_map(|held| held.members.iter().flatten());
        members.map(|member| (member.spec.address, member.spec.tunnel.next_hop))
    }

    /// The names of all services.
    pub fn service_names(&self) -> impl Iterator<Item = &str> {
        self.services.keys().map(String::as_str)
    }

    fn adopt_service(
        &mut self,
        id: ServiceId,
        listen: Vec<Listen>,
        spec: Option<&ServiceSpec>,
        known: &Known<'_>,
        quic: &[QuicBinding],
        kept: &Snapshot,
    ) -> Result<Held, AdoptError> {
        let wrong = |what| AdoptError { service: id.0, what };
        let record = self.engine.service(id).ok_or(wrong("there is no such record"))?;
        let active = record.active();
        let table = record.table(active);
        let seed = table.seed();
        let region = |(offset, len)| Region { offset, len };
        let (table, places) = (region(table.place()), region(record.backends()));
        let (policy, idle) = (record.policy(), (record.tcp_idle_seconds(), record.udp_idle_seconds()));
        let before = active.prior().then(|| region(record.other_table(active).place()));
        if table.len == 0 || !self.slots.take_at(table) {
            return Err(wrong("its table lies outside the slots, or in those of another service"));
        }
        if !self.places.take_at(places) {
            return Err(wrong("its backends lie outside the records, or in those of another service"));
        }
        let tables = [Some(table), before].into_iter().flatten();
        // Of one that lies outside the rest is told below.
        let end = tables.map(|table| table.offset.saturating_add(table.len)).max().unwrap_or(0);
        self.engine.reach_slots(end).map_err(|_| wrong("its slots cannot be mapped"))?;
        let now = self.engine.now_seconds();
        let prior = match before {
            Some(before) if !self.slots.take_at(before) => {
                return Err(wrong("the table before its present one lies where another does"));
            }
            Some(region) => {
                let words = words(&self.engine, region);
                let seed = record.other_table(active).seed();
                Some(Prior { region, words, seed, since: now, in_grace: active.in_grace() })
            }
            None => None,
        };
        let name = spec.map_or_else(|| format!("service-{}", id.0), |spec| spec.name.clone());
        let configured = known.backends_of(&name);
        let wanted = spec.map_or(&[][..], |spec| &spec.backends);
        let server_ids: HashMap<u16, u64> = quic
            .iter()
            .filter(|binding| binding.service == id)
            .map(|binding| (binding.backend, binding.server_id))
            .collect();
        let members = (0..places.len).map(|local| {
            let record = self.engine.backend(places.offset + local)?;
            let mut member = member(record, &configured)?;
            member.spec.quic_id = server_ids.get(&(local as u16)).copied();
            Some(member)
        });
        let mut members: Vec<Option<Member>> = members.collect();
        while members.last().is_some_and(Option::is_none) {
            members.pop();
        }
        choose_present(&mut members, wanted, |local, address| kept.name_of(&name, local, address));
        let mut unsettled = Unsettled::default();
        let mut owners = HashSet::new();
        let words = words(&self.engine, table);
        for (slot, word) in (0..).zip(&words) {
            owners.insert(word.current());
            if !word.is_settled() {
                unsettled.insert(slot, table.len, now);
            }
        }
        let last_resort = members.iter().enumerate().any(|(local, member)| {
            let fails = member.as_ref().is_some_and(|member| member.health == Health::Down);
            fails && owners.contains(&(local as u16))
        });
        let present = members.iter().flatten().filter(|member| member.removed.is_none());
        let spec = ServiceSpec {
            name,
            listen,
            table: TableSpec {
                rule: spec.map_or(TableRule::default(), |spec| spec.table.rule),
                size: TableSizeSpec::Slots(table.len),
                seed,
            },
            policy,
            tcp_idle_seconds: idle.0,
            udp_idle_seconds: idle.1,
            all_down: spec.map_or(AllDown::default(), |spec| spec.all_down),
            backends: present.map(|member| member.spec.clone()).collect(),
        };
        let mut held = Held {
            id,
            spec,
            members,
            places,
            table,
            words,
            seed,
            second: active.second(),
            prior,
            unsettled,
            udp_tracked_since: None,
            generation: active.generation(),
            last_resort,
            resize_waits: false,
            resize_refused: None,
            churn: Churn::default(),
            counted: Counted::default(),
        };
        // Who asked for it before, and when, is not known.
        held.note_udp_rule(now);
        Ok(held)
    }

    /// Frees what a controller that was killed had taken or given up and not used or freed.
    fn clean(&mut self) {
        let held: BTreeSet<u16> = self.services.values().map(|held| held.id.0).collect();
        forget_services(&self.engine, |id| !held.contains(&id.0));
        let places = self.services.values().map(|held| held.places);
        let taken: HashSet<u32> = places.flat_map(|at| at.offset..at.offset + at.len).collect();
        for global in (0..self.engine.capacity().backends).filter(|global| !taken.contains(global)) {
            if let Some(record) = self.engine.backend(global)
                && record.state() != BackendState::Free
            {
                record.set_state(BackendState::Free);
            }
        }
    }
}

/// The slots of a table as they are.
fn words(engine: &impl Engine, table: Region) -> Vec<Slot> {
    (0..table.len).map(|slot| read(engine, table, slot)).collect()
}

/// What services are known, the newest first, by name and by where they listen.
struct Known<'a> {
    specs: &'a [ServiceSpec],
    by_name: HashMap<&'a str, Vec<usize>>,
    by_place: HashMap<Listen, Vec<usize>>,
}

impl<'a> Known<'a> {
    fn new(specs: &'a [ServiceSpec]) -> Self {
        let (mut by_name, mut by_place) = (HashMap::<_, Vec<_>>::new(), HashMap::<_, Vec<_>>::new());
        for (number, spec) in specs.iter().enumerate() {
            by_name.entry(spec.name.as_str()).or_default().push(number);
            for place in &spec.listen {
                by_place.entry(*place).or_default().push(number);
            }
        }
        Self { specs, by_name, by_place }
    }

    /// The service that shares the most of these places; of several that share as many the newest.
    fn at(&self, places: &[Listen], but: &HashSet<String>) -> Option<&'a ServiceSpec> {
        let mut shared: BTreeMap<usize, usize> = BTreeMap::new();
        for number in places.iter().filter_map(|place| self.by_place.get(place)).flatten() {
            *shared.entry(*number).or_default() += 1;
        }
        let is_free = |(number, _): &(&usize, &usize)| !but.contains(&self.specs[**number].name);
        // The last of several greatest counts: here that is the first of the list.
        let (number, _) = shared.iter().rev().filter(is_free).max_by_key(|(_, many)| **many)?;
        self.specs.get(*number)
    }

    /// The backends of a service by address. One that left the newest configuration has its name from the one before.
    fn backends_of(&self, service: &str) -> HashMap<IpAddr, &'a BackendSpec> {
        let mut backends = HashMap::new();
        let numbers = self.by_name.get(service).into_iter().flatten();
        for backend in numbers.flat_map(|&number| &self.specs[number].backends) {
            backends.entry(backend.address).or_insert(backend);
        }
        backends
    }
}

/// A backend as its record says; `None` for a free one.
fn member(record: &Backend, configured: &HashMap<IpAddr, &BackendSpec>) -> Option<Member> {
    let (state, address) = (record.state(), address(record.address()));
    if state == BackendState::Free {
        return None;
    }
    let known = configured.get(&address);
    let status = record.status();
    let spec = BackendSpec {
        identity: known.map_or_else(|| address.to_string().into(), |backend| backend.identity.clone()),
        address,
        weight: known.map_or(1, |backend| backend.weight),
        admin: match state {
            BackendState::Draining => Admin::Draining,
            _ => Admin::Active,
        },
        tunnel: TunnelSpec {
            kind: status.tunnel(),
            source: self::address(record.outer_source()),
            source_entropy_bits: status.source_entropy_bits(),
            gue_port: status.gue_port(),
            mtu: status.mtu(),
            next_hop: NextHop {
                interface: record.interface(),
                neighbour: record.neighbour().unwrap_or_default(),
                own_mac: record.own_mac(),
                // As it goes on until the kernel tells of the link.
                link_mtu: Some(status.mtu()),
            },
        },
        quic_id: None,
    };
    let health = if state == BackendState::Down { Health::Down } else { Health::Up };
    // For now it counts as removed; those that are wanted are chosen among all.
    let removed = Some(if state == BackendState::Down { Removal::AtOnce } else { Removal::Drain });
    Some(Member { removed, ..Member::new(spec, health) })
}

/// Of several records with the address of a wanted backend the one is present that takes new flows, or else one that was
/// not removed: the others are from before it left, or had another name. They get back the names that they were removed with.
fn choose_present<'a>(
    members: &mut [Option<Member>],
    wanted: &[BackendSpec],
    name_of: impl Fn(u16, IpAddr) -> Option<&'a str>,
) {
    let mut best: HashMap<IpAddr, (_, usize)> = HashMap::new();
    for (place, member) in members.iter_mut().enumerate() {
        let Some(member) = member else { continue };
        let (drains, fails) = (member.spec.admin != Admin::Active, member.health != Health::Up);
        let name = name_of(place as u16, member.spec.address);
        let lack = (drains || fails, name.is_some(), drains, fails);
        best.entry(member.spec.address)
            .and_modify(|best| *best = (*best).min((lack, place)))
            .or_insert((lack, place));
        if let Some(name) = name {
            member.spec.identity = name.into();
        }
    }
    for backend in wanted {
        if let Some((_, place)) = best.get(&backend.address)
            && let Some(member) = &mut members[*place]
        {
            (member.removed, member.spec.identity) = (None, backend.identity.clone());
        }
    }
}

fn listen(binding: &Binding) -> Option<Listen> {
    let network = match address(binding.address) {
        IpAddr::V4(v4) => Ipv4Net::new(v4, binding.prefix_bits.checked_sub(96)?).ok().map(IpNet::V4),
        IpAddr::V6(v6) => Ipv6Net::new(v6, binding.prefix_bits).ok().map(IpNet::V6),
    };
    let protocol = match binding.protocol {
        6 => Protocol::Tcp,
        17 => Protocol::Udp,
        _ => return None,
    };
    Some(Listen { network: network?, port: NonZeroU16::new(binding.port), protocol })
}

fn address(octets: [u8; 16]) -> IpAddr {
    Ipv6Addr::from(octets).to_canonical()
}

#[cfg(test)]
mod tests;
