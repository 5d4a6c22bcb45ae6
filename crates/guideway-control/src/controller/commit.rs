//! One change of one service: build aside, allocate, then write.

use std::collections::{BTreeMap, HashSet};

use guideway_forward::record::{Active, BackendState, NO_BACKEND, Service, ServiceId, Slot};

use super::member::Member;
use super::region::{Full, Region};
use super::service::{Held, Prior, write};
use super::shares::Shares;
use super::spec::{AllDown, BackendSpec, Health, ServiceSpec};
use super::{ChangeError, Controller, Removal, Retired, ServiceChange, table};
use crate::engine::Engine;

/// What a change has worked out before it writes anything.
struct Plan {
    members: Vec<Option<Member>>,
    eligible: Vec<u16>,
    last_resort: bool,
    owners: Vec<u16>,
    size: u32,
    seed: u64,
    resize_waits: bool,
}

impl<E: Engine> Controller<E> {
    /// Makes `spec` what the forwarder holds, and tells it where the service listens.
    pub(super) fn commit(
        &mut self,
        spec: ServiceSpec,
        health_of_new: impl Fn(&BackendSpec) -> Health,
        removal: Removal,
    ) -> Result<ServiceChange, ChangeError> {
        let change = self.write(spec, health_of_new, removal)?;
        self.publish();
        Ok(change)
    }

    /// Writes records and slots; [`Controller::publish`] has to follow.
    pub(super) fn write(
        &mut self,
        spec: ServiceSpec,
        health_of_new: impl Fn(&BackendSpec) -> Health,
        removal: Removal,
    ) -> Result<ServiceChange, ChangeError> {
        self.check(&spec)?;
        let plan = self.plan(&spec, &health_of_new, removal)?;
        let (name, listen) = (spec.name.clone(), spec.listen.clone());
        let before = self.services.get(&name).map(|held| held.spec.listen.clone());
        let change = match before {
            Some(_) => self.update(spec, plan)?,
            None => self.create(spec, plan)?,
        };
        for left in before.into_iter().flatten() {
            self.listening.remove(&left);
        }
        self.listening.extend(listen.into_iter().map(|listen| (listen, name.clone())));
        Ok(change)
    }

    fn check(&self, spec: &ServiceSpec) -> Result<(), ChangeError> {
        let mut identities = HashSet::new();
        if let Some(twice) = spec.backends.iter().find(|backend| !identities.insert(&backend.identity)) {
            return Err(ChangeError::DuplicateBackend {
                service: spec.name.clone(),
                backend: twice.identity.clone(),
            });
        }
        for listen in &spec.listen {
            if let Some(other) = self.listening.get(listen).filter(|other| **other != spec.name) {
                return Err(ChangeError::ListensTwice {
                    service: spec.name.clone(),
                    listen: listen.to_string(),
                    other: other.clone(),
                });
            }
        }
        Ok(())
    }

    fn plan(
        &self,
        spec: &ServiceSpec,
        health_of_new: &impl Fn(&BackendSpec) -> Health,
        removal: Removal,
    ) -> Result<Plan, ChangeError> {
        let held = self.services.get(&spec.name);
        let mut members = held.map(|held| held.members.clone()).unwrap_or_default();
        // A backend is the same one while identity and address are; another address is another server.
        for member in members.iter_mut().flatten().filter(|member| member.removed.is_none()) {
            let wanted = spec.backends.iter().find(|backend| {
                backend.identity == member.spec.identity && backend.address == member.spec.address
            });
            match wanted {
                Some(backend) => member.spec = backend.clone(),
                None => member.removed = Some(removal),
            }
        }
        for backend in &spec.backends {
            let known = members
                .iter()
                .flatten()
                .any(|member| member.removed.is_none() && member.spec.identity == backend.identity);
            if known {
                continue;
            }
            // One that left and has not been forgotten takes its index again: what names it still means this server.
            let returning = members.iter_mut().flatten().find(|member| {
                member.spec.identity == backend.identity && member.spec.address == backend.address
            });
            if let Some(member) = returning {
                member.spec = backend.clone();
                member.health = health_of_new(backend);
                member.removed = None;
                continue;
            }
            let member = Some(Member::new(backend.clone(), health_of_new(backend)));
            match members.iter().position(Option::is_none) {
                Some(free) => members[free] = member,
                None => members.push(member),
            }
        }
        if members.len() >= usize::from(NO_BACKEND) {
            return Err(ChangeError::Full {
                service: spec.name.clone(),
                what: "backends of one service",
                asked: members.len() as u32,
                free: 0,
                capacity: u32::from(NO_BACKEND),
            });
        }
        let those = |which: fn(&Member) -> bool| -> Vec<u16> {
            let which = |(_, member): &(usize, &Option<Member>)| member.as_ref().is_some_and(which);
            members.iter().enumerate().filter(which).map(|(local, _)| local as u16).collect()
        };
        let mut eligible = those(Member::is_eligible);
        let mut last_resort = false;
        if eligible.is_empty() && spec.all_down == AllDown::LastResort {
            eligible = those(Member::is_last_resort);
            last_resort = !eligible.is_empty();
        }
        let failed = |source| ChangeError::Table { service: spec.name.clone(), source };
        let mut size = table::size(&spec.table, spec.backends.len()).map_err(failed)?;
        let mut seed = spec.table.seed;
        let mut resize_waits = false;
        let waits = |held: &&Held| held.prior.is_some() || held.waits_for(&spec.table);
        if let Some(held) = held.filter(waits)
            && (held.table.len != size.get() || held.seed != seed)
        {
            size = guideway_hash::TableSize::new(held.table.len).map_err(|error| failed(error.into()))?;
            seed = held.seed;
            resize_waits = true;
        }
        let owners = if eligible.is_empty() {
            vec![NO_BACKEND; size.get() as usize]
        } else {
            let candidates: Vec<_> = eligible
                .iter()
                .filter_map(|&local| members[usize::from(local)].as_ref())
                .map(|member| (member.spec.identity.as_str(), member.spec.weight))
                .collect();
            let owners = table::owners(spec.table.rule, seed, size, &candidates).map_err(failed)?;
            owners.into_iter().map(|place| eligible[place as usize]).collect()
        };
        Ok(Plan { members, eligible, last_resort, owners, size: size.get(), seed, resize_waits })
    }

    fn create(&mut self, spec: ServiceSpec, plan: Plan) -> Result<ServiceChange, ChangeError> {
        let Some(&id) = self.free_ids.first() else {
            let capacity = u32::from(self.engine.capacity().services);
            return Err(full(&spec.name, "services", Full { asked: 1, longest: 0, free: 0, capacity }));
        };
        let table = self.slots.take(plan.size).map_err(|short| full(&spec.name, "slots", short))?;
        let places = match self.places.take(room(plan.members.len())) {
            Ok(places) => places,
            Err(short) => {
                self.slots.give_back(table);
                return Err(full(&spec.name, "places for backends", short));
            }
        };
        self.free_ids.remove(&id);
        let mut held = Held {
            id: ServiceId(id),
            spec,
            members: plan.members,
            places,
            table,
            seed: plan.seed,
            second: false,
            prior: None,
            unsettled: BTreeMap::new(),
            generation: 1,
            last_resort: plan.last_resort,
            resize_waits: false,
            resize_refused: None,
        };
        for (slot, &owner) in plan.owners.iter().enumerate() {
            write(&self.engine, table, slot as u32, Slot::settled_on(owner));
        }
        for local in 0..held.members.len() {
            let global = places.offset + local as u32;
            if let Some(member) = &mut held.members[local] {
                member.baseline = self.engine.backend_count(global);
            }
        }
        store_records(&self.engine, &held);
        if let Some(record) = self.engine.service(held.id) {
            record.set_active(Active::new(false, false, 0));
            record.table(record.active()).set(table.offset, table.len, plan.seed);
            store_service(record, &held);
            record.set_active(Active::new(false, false, 1));
        }
        let change = ServiceChange {
            service: held.spec.name.clone(),
            generation: 1,
            slots: table.len,
            moved: 0,
            needless: 0,
            voided_flows: 0,
            eligible: plan.eligible.len() as u32,
            last_resort: plan.last_resort,
            resize_waits: false,
        };
        self.services.insert(held.spec.name.clone(), held);
        Ok(change)
    }

    fn update(&mut self, spec: ServiceSpec, plan: Plan) -> Result<ServiceChange, ChangeError> {
        let now = self.engine.now_seconds();
        let name = spec.name.clone();
        let unknown = || ChangeError::UnknownService { service: name.clone() };
        let (old_table, old_seed, old_places) = {
            let held = self.services.get(&name).ok_or_else(unknown)?;
            (held.table, held.seed, held.places)
        };
        let resized = plan.size != old_table.len || plan.seed != old_seed;
        let new_table = if resized {
            Some(self.slots.take(plan.size).map_err(|short| full(&name, "slots", short))?)
        } else {
            None
        };
        let new_places = if plan.members.len() > old_places.len as usize {
            match self.places.take(room(plan.members.len())) {
                Ok(places) => Some(places),
                Err(short) => {
                    new_table.into_iter().for_each(|table| self.slots.give_back(table));
                    return Err(full(&name, "places for backends", short));
                }
            }
        } else {
            None
        };
        // Nothing below can fail.
        let voided_flows = self.flows_to_be_voided(&name, &plan);
        let engine = &self.engine;
        let held = self.services.get_mut(&name).ok_or_else(unknown)?;
        if !held.waits_for(&spec.table) {
            held.resize_refused = None;
        }
        held.spec = spec;
        let shares = Shares::new((&held.members, held.last_resort), (&plan.members, plan.last_resort));
        let mut members = plan.members;
        carry_counts(engine, held, &mut members, new_places);
        held.members = members;
        held.last_resort = plan.last_resort;
        held.resize_waits = plan.resize_waits;
        if let Some(places) = new_places {
            held.places = places;
        }
        let epoch = engine.begin_grace();
        // Those that join or return first, so that no slot names one that takes nothing.
        raise_records(engine, held, new_places.is_some());
        if let Some(record) = engine.service(held.id) {
            store_service(record, held);
        }
        let mut change = ServiceChange {
            service: name.clone(),
            generation: held.generation,
            slots: plan.size,
            moved: 0,
            needless: 0,
            voided_flows,
            eligible: plan.eligible.len() as u32,
            last_resort: plan.last_resort,
            resize_waits: plan.resize_waits,
        };
        if let Some(table) = new_table {
            change.moved = flip(engine, held, table, plan.seed, &plan.owners, now);
        } else {
            for (slot, &owner) in plan.owners.iter().enumerate() {
                let slot = slot as u32;
                let before = held.slot(engine, slot);
                if before.current() == owner {
                    continue;
                }
                change.moved += 1;
                change.needless += u32::from(shares.is_needless(before.current(), owner));
                let settled_on_nobody = before.is_settled() && before.current() == NO_BACKEND;
                if settled_on_nobody && held.prior.is_none() {
                    // No flow can be on a backend of a slot that had none.
                    held.set_slot(engine, slot, Slot::settled_on(owner));
                } else {
                    held.set_slot(engine, slot, before.change_owner(owner));
                    held.unsettled.insert(slot, now);
                }
            }
            if change.moved > 0 {
                held.generation = held.generation.wrapping_add(1);
                if let Some(record) = engine.service(held.id) {
                    record.set_active(held.active());
                }
            }
        }
        change.generation = held.generation;
        // Those that leave last.
        store_records(engine, held);
        if new_places.is_some() {
            self.retired.push(Retired { epoch, slots: None, places: Some(old_places), id: None });
        }
        Ok(change)
    }

    /// Live remembered flows on backends that the plan takes down.
    fn flows_to_be_voided(&self, name: &str, plan: &Plan) -> u32 {
        let Some(held) = self.services.get(name) else { return 0 };
        let state = |members: &[Option<Member>], last_resort: bool, local: u16| {
            members
                .get(usize::from(local))
                .and_then(Option::as_ref)
                .map_or(BackendState::Free, |member| member.state(last_resort && member.is_last_resort()))
        };
        let voided: HashSet<u16> = (0..held.members.len() as u16)
            .filter(|&local| {
                self.engine
                    .backend(held.places.offset + u32::from(local))
                    .is_some_and(|record| record.state().keeps_flows())
                    && !state(&plan.members, plan.last_resort, local).keeps_flows()
            })
            .collect();
        if voided.is_empty() {
            return 0;
        }
        let mut flows = 0;
        super::tick::for_each_flow(&self.engine, |flow| {
            flows += u32::from(flow.service == held.id && flow.live && voided.contains(&flow.backend));
        });
        flows
    }
}

/// Writes a whole new table beside the present one and flips to it; returns how many slots of the hash space moved,
/// counted over the new table's slots by the owner that the old table gives the same hash.
fn flip(engine: &impl Engine, held: &mut Held, table: Region, seed: u64, owners: &[u16], now: u32) -> u32 {
    for (slot, &owner) in owners.iter().enumerate() {
        write(engine, table, slot as u32, Slot::settled_on(owner));
    }
    let same_seed = held.seed == seed;
    let moved = owners
        .iter()
        .enumerate()
        .filter(|&(slot, &owner)| {
            !same_seed || held.slot(engine, slot as u32 % held.table.len).current() != owner
        })
        .count() as u32;
    held.prior = Some(Prior { region: held.table, since: now, in_grace: true });
    held.table = table;
    held.seed = seed;
    held.second = !held.second;
    held.unsettled.clear();
    held.generation = held.generation.wrapping_add(1);
    if let Some(record) = engine.service(held.id) {
        record.other_table(record.active()).set(table.offset, table.len, seed);
        record.set_active(held.active());
    }
    moved
}

fn store_service(record: &Service, held: &Held) {
    record.set_backends(held.places.offset, held.places.len);
    record.set_policy(held.spec.policy);
    record.set_idle_seconds(held.spec.tcp_idle_seconds, held.spec.udp_idle_seconds);
}

/// Counts follow a backend to another place, and a place that is used again starts from what it had counted.
fn carry_counts(
    engine: &impl Engine,
    held: &Held,
    members: &mut [Option<Member>],
    new_places: Option<Region>,
) {
    let places = new_places.unwrap_or(held.places);
    for (local, member) in members.iter_mut().enumerate() {
        let Some(member) = member else { continue };
        let was_here = held.members.get(local).is_some_and(|before| {
            before.as_ref().is_some_and(|before| before.spec.identity == member.spec.identity)
        });
        if was_here && new_places.is_none() {
            continue;
        }
        if was_here {
            member.carried = held.count(engine, local as u16);
        }
        member.baseline = engine.backend_count(places.offset + local as u32);
    }
}

/// Stores the records of members that take flows, and leaves the state of the others for [`store_records`]. In a new
/// place every record is stored, with the state it had or better.
fn raise_records(engine: &impl Engine, held: &Held, moved: bool) {
    for (local, member) in held.members.iter().enumerate() {
        let (Some(member), Some(record)) = (member, engine.backend(held.places.offset + local as u32)) else {
            continue;
        };
        let state = member.state(held.last_resort && member.is_last_resort());
        if moved || state == BackendState::Active {
            record.store(&member.record(state));
        }
    }
}

/// Stores every record as it is wanted.
pub(super) fn store_records(engine: &impl Engine, held: &Held) {
    for (local, member) in held.members.iter().enumerate() {
        let (Some(member), Some(record)) = (member, engine.backend(held.places.offset + local as u32)) else {
            continue;
        };
        record.store(&member.record(member.state(held.last_resort && member.is_last_resort())));
    }
}

/// Places to take for so many backends: a quarter more, so that a service seldom moves.
fn room(members: usize) -> u32 {
    ((members + members / 4 + 4) as u32).next_multiple_of(4)
}

fn full(service: &str, what: &'static str, short: Full) -> ChangeError {
    ChangeError::Full {
        service: service.to_owned(),
        what,
        asked: short.asked,
        free: short.longest,
        capacity: short.capacity,
    }
}
