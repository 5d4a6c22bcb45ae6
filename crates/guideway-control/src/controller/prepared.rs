//! A change between its two halves: what it needs is taken and its records are written, but no slot leads there yet. The
//! forwarder is told where services listen in between, and if it refuses, everything goes back.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use guideway_forward::record::{Active, BackendState, NO_BACKEND, ServiceId, Slot};

use super::commit::Plan;
use super::living::Living;
use super::member::Member;
use super::publish::told;
use super::records::{carry_counts, flip, raise_records, store_records, store_service};
use super::region::{Full, Region};
use super::service::{Churn, Counted, Held, write};
use super::shares::Shares;
use super::spec::{Health, Listen, ServiceSpec};
use super::unsettled::Unsettled;
use super::{ChangeError, Controller, Retired, ServiceChange};
use crate::engine::{Engine, EngineError};

/// A change that is prepared.
pub(super) struct Prepared {
    change: ServiceChange,
    /// What the health of backends was, of those whose health has changed already.
    pub(super) health_before: HashMap<Arc<str>, Health>,
    kind: Kind,
}

impl Prepared {
    /// The service's name.
    pub(super) fn service(&self) -> &str {
        &self.change.service
    }
}

enum Kind {
    /// A service that no packet can find yet; its table is filled.
    New,
    Update(Box<Update>),
}

/// What is left to do of an update, and what there was before it.
struct Update {
    owners: Vec<u16>,
    seed: u64,
    shares: Shares,
    new_table: Option<Region>,
    new_places: bool,
    before: Before,
}

/// What a service held that an update replaces before it is sure.
struct Before {
    spec: ServiceSpec,
    members: Vec<Option<Member>>,
    places: Region,
    last_resort: bool,
    resize_waits: bool,
    resize_refused: Option<ChangeError>,
}

impl<E: Engine> Controller<E> {
    pub(super) fn prepare_new(&mut self, spec: ServiceSpec, plan: Plan) -> Result<Prepared, ChangeError> {
        let Some(&id) = self.free_ids.first() else {
            let capacity = u32::from(self.engine.capacity().services);
            return Err(full(&spec.name, "services", Full { asked: 1, longest: 0, free: 0, capacity }));
        };
        let table = self.take_slots(&spec.name, plan.size)?;
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
            words: plan.owners.iter().map(|&owner| Slot::settled_on(owner)).collect(),
            seed: plan.seed,
            second: false,
            prior: None,
            unsettled: Unsettled::default(),
            udp_tracked_since: None,
            generation: 1,
            last_resort: plan.last_resort,
            resize_waits: false,
            resize_refused: None,
            churn: Churn::default(),
            counted: Counted::default(),
        };
        held.note_udp_rule(self.engine.now_seconds());
        for (slot, &word) in held.words.iter().enumerate() {
            write(&self.engine, table, slot as u32, word);
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
            cut_backends: 0,
            eligible: plan.eligible.len() as u32,
            last_resort: plan.last_resort,
            last_resort_over: false,
            resize_waits: false,
        };
        self.unpublished = true;
        self.relisten(&held.spec.name, &[], &held.spec.listen);
        self.services.insert(held.spec.name.clone(), held);
        Ok(Prepared { change, health_before: HashMap::new(), kind: Kind::New })
    }

    /// Slots for a table, within reach.
    fn take_slots(&mut self, service: &str, size: u32) -> Result<Region, ChangeError> {
        let table = self.slots.take(size).map_err(|short| full(service, "slots", short))?;
        match self.engine.reach_slots(table.offset + table.len) {
            Ok(()) => Ok(table),
            Err(source) => {
                self.slots.give_back(table);
                Err(ChangeError::Forwarder { service: service.to_owned(), source })
            }
        }
    }

    pub(super) fn prepare_update(
        &mut self,
        spec: ServiceSpec,
        plan: Plan,
        health_before: &HashMap<Arc<str>, Health>,
        living: &Living,
    ) -> Result<Prepared, ChangeError> {
        let name = spec.name.clone();
        let unknown = || ChangeError::UnknownService { service: name.clone() };
        let (resized, old_places) = {
            let held = self.services.get(&name).ok_or_else(unknown)?;
            (held.is_replaced_by(plan.size, plan.seed), held.places)
        };
        let new_table = if resized { Some(self.take_slots(&name, plan.size)?) } else { None };
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
        let cut = self.to_be_cut(&name, &plan, living);
        let engine = &self.engine;
        let held = self.services.get_mut(&name).ok_or_else(unknown)?;
        // The checks' word may have changed with this very change; who took flows before went by the old one.
        let mut as_before = Cow::from(&held.members);
        if !health_before.is_empty() {
            let present = as_before.to_mut().iter_mut().flatten();
            for member in present.filter(|member| member.removed.is_none()) {
                if let Some(health) = health_before.get(&member.spec.identity) {
                    member.health = *health;
                }
            }
        }
        self.unpublished |= held.spec.listen != spec.listen || !told(&held.members).eq(told(&plan.members));
        let shares = Shares::new((&as_before, held.last_resort), (&plan.members, plan.last_resort));
        let mut members = plan.members;
        carry_counts(engine, held, &mut members, new_places);
        let listen = spec.listen.clone();
        let still_waits = held.waits_for(&spec.table);
        let before = Before {
            spec: std::mem::replace(&mut held.spec, spec),
            members: std::mem::replace(&mut held.members, members),
            places: std::mem::replace(&mut held.places, new_places.unwrap_or(old_places)),
            last_resort: std::mem::replace(&mut held.last_resort, plan.last_resort),
            resize_waits: std::mem::replace(&mut held.resize_waits, plan.resize_waits),
            resize_refused: held.resize_refused.clone(),
        };
        if !still_waits {
            held.resize_refused = None;
        }
        // Those that join or return first, so that no slot names one that takes nothing.
        raise_records(engine, held, new_places.is_some());
        if let Some(record) = engine.service(held.id) {
            store_service(record, held);
        }
        let change = ServiceChange {
            service: name.clone(),
            generation: held.generation,
            slots: plan.size,
            moved: 0,
            needless: 0,
            voided_flows: cut.remembered_flows,
            cut_backends: cut.backends,
            eligible: plan.eligible.len() as u32,
            last_resort: plan.last_resort,
            last_resort_over: before.last_resort && !plan.last_resort,
            resize_waits: plan.resize_waits,
        };
        self.relisten(&name, &before.spec.listen, &listen);
        let update = Update {
            owners: plan.owners,
            seed: plan.seed,
            shares,
            new_table,
            new_places: new_places.is_some(),
            before,
        };
        Ok(Prepared { change, health_before: HashMap::new(), kind: Kind::Update(Box::new(update)) })
    }

    /// The slots follow, and those that leave last. Nothing here can fail.
    pub(super) fn finish(&mut self, prepared: Prepared) -> ServiceChange {
        let mut change = prepared.change;
        let (Kind::Update(update), Some(held)) = (prepared.kind, self.services.get_mut(&change.service))
        else {
            return change;
        };
        let (engine, now) = (&self.engine, self.engine.now_seconds());
        let knows_udp_flows = held.knows_udp_flows(now);
        let moves;
        if let Some(table) = update.new_table {
            moves = update.shares.moves(held, &update.owners, update.seed);
            flip(engine, held, table, update.seed, &update.owners, now);
        } else {
            let changed: Vec<_> = held.changed(&update.owners).collect();
            moves = update.shares.count(changed.iter().copied());
            for (slot, before, owner) in changed {
                let settled_on_nobody = before.is_settled() && before.current() == NO_BACKEND;
                if settled_on_nobody && held.prior.is_none() {
                    // No flow can be on a backend of a slot that had none.
                    held.set_slot(engine, slot, Slot::settled_on(owner));
                } else {
                    let word = before.change_owner(owner);
                    held.set_slot(engine, slot, if knows_udp_flows { word.end_grace() } else { word });
                    held.unsettled.insert(slot, held.table.len, now);
                }
            }
            if moves.moved > 0 {
                held.generation = held.generation.wrapping_add(1);
                if let Some(record) = engine.service(held.id) {
                    record.set_active(held.active());
                }
            }
        }
        held.note_udp_rule(now);
        (change.moved, change.needless) = (moves.moved, moves.needless);
        held.churn.moved += u64::from(moves.moved);
        held.churn.needless += u64::from(moves.needless);
        change.generation = held.generation;
        held.counted = Counted::default();
        store_records(engine, held);
        if update.new_places {
            // The service has named its new places since it was prepared.
            let epoch = engine.begin_grace();
            let places = Some(update.before.places);
            self.retired.push(Retired { epoch, slots: None, places, id: None });
        }
        change
    }

    /// Everything as it was before the change was prepared; the error that says so.
    pub(super) fn abandon(&mut self, prepared: Prepared, source: EngineError) -> ChangeError {
        ChangeError::Forwarder { service: self.take_back(prepared), source }
    }

    /// Everything as it was before the change was prepared; whose it was.
    pub(super) fn take_back(&mut self, prepared: Prepared) -> String {
        let name = prepared.change.service;
        match prepared.kind {
            Kind::New => {
                if let Some(held) = self.services.remove(&name) {
                    self.relisten(&name, &held.spec.listen, &[]);
                    self.retire(&held);
                }
            }
            Kind::Update(mut update) => {
                let wanted = update.before.members.iter_mut().flatten().filter(|m| m.removed.is_none());
                for member in wanted {
                    if let Some(health) = prepared.health_before.get(&member.spec.identity) {
                        member.health = *health;
                    }
                }
                if let Some(held) = self.services.get_mut(&name) {
                    let engine = &self.engine;
                    let tried = std::mem::replace(&mut held.spec, update.before.spec);
                    let joined = update.before.members.len()..held.members.len();
                    let places = std::mem::replace(&mut held.places, update.before.places);
                    held.members = update.before.members;
                    held.last_resort = update.before.last_resort;
                    held.resize_waits = update.before.resize_waits;
                    held.resize_refused = update.before.resize_refused;
                    held.counted = Counted::default();
                    if let Some(record) = engine.service(held.id) {
                        store_service(record, held);
                    }
                    store_records(engine, held);
                    if !update.new_places {
                        let vacant = held.members.iter().enumerate().filter(|(_, member)| member.is_none());
                        for local in vacant.map(|(local, _)| local).chain(joined) {
                            if let Some(record) = engine.backend(places.offset + local as u32) {
                                record.set_state(BackendState::Free);
                            }
                        }
                    }
                    let listen = held.spec.listen.clone();
                    // A packet may have been led there.
                    let epoch = self.engine.begin_grace();
                    let places = update.new_places.then_some(places);
                    self.retired.push(Retired { epoch, slots: update.new_table, places, id: None });
                    self.relisten(&name, &tried.listen, &listen);
                }
            }
        }
        self.tell_settings();
        name
    }

    /// Takes note that a service listens elsewhere from now on.
    pub(super) fn relisten(&mut self, service: &str, before: &[Listen], after: &[Listen]) {
        for left in before {
            // Another may have it by now.
            if self.listening.get(left).is_some_and(|has| has == service) {
                self.listening.remove(left);
            }
        }
        self.listening.extend(after.iter().map(|listen| (*listen, service.to_owned())));
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
