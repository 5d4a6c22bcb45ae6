//! Changes of services: plan each aside, prepare it, tell the forwarder where services listen, then finish all or none.

use std::collections::HashMap;
use std::sync::Arc;

use guideway_forward::record::{BackendState, NO_BACKEND};

use super::handover::GivenUp;
use super::living::Living;
use super::member::Member;
use super::names::{self, Names};
use super::prepared::Prepared;
use super::service::Held;
use super::spec::{AllDown, BackendSpec, Health, ServiceSpec};
use super::{ChangeError, Controller, Removal, ServiceChange, table};
use crate::engine::Engine;

/// What a change has worked out before it writes anything.
pub(super) struct Plan {
    pub(super) members: Vec<Option<Member>>,
    pub(super) eligible: Vec<u16>,
    pub(super) last_resort: bool,
    pub(super) owners: Vec<u16>,
    pub(super) size: u32,
    pub(super) seed: u64,
    pub(super) resize_waits: bool,
}

/// What a change ends.
#[derive(Default)]
pub(super) struct Cut {
    pub(super) backends: u32,
    pub(super) remembered_flows: u32,
}

/// Backends that a change wants, and which of them have not been found among the members yet.
struct Wanted<'a> {
    names: Names<'a>,
    found: Vec<bool>,
}

impl<'a> Wanted<'a> {
    fn of(spec: &'a ServiceSpec) -> Self {
        Self { names: Names::of(&spec.backends), found: vec![false; spec.backends.len()] }
    }

    /// Those that are left.
    fn left(&self) -> impl Iterator<Item = &'a BackendSpec> {
        self.names
            .backends()
            .iter()
            .zip(&self.found)
            .filter(|(_, found)| !**found)
            .map(|(backend, _)| backend)
    }

    /// The one that is the same server.
    fn take(&mut self, Member { spec, .. }: &Member) -> Option<&'a BackendSpec> {
        let place = self.names.find(&spec.identity)?;
        let same = !self.found[place] && self.names.backends()[place].address == spec.address;
        self.found[place] |= same;
        same.then(|| &self.names.backends()[place])
    }

    /// The one at the address of a member whose name was lost.
    fn take_nameless(&mut self, member: &Member) -> Option<&'a BackendSpec> {
        if !member.is_nameless() {
            return None;
        }
        let left = |place: &usize| !self.found[*place];
        let at = |place: &usize| self.names.backends()[*place].address == member.spec.address;
        let place = (0..self.found.len()).find(|place| left(place) && at(place))?;
        self.found[place] = true;
        Some(&self.names.backends()[place])
    }
}

/// What changes that are made together have in common.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) living: Living,
    pub(super) given_up: GivenUp,
}

impl<E: Engine> Controller<E> {
    /// Makes `spec` what the forwarder holds, and tells it where the service listens.
    pub(super) fn commit(
        &mut self,
        spec: ServiceSpec,
        health_of_new: impl Fn(&BackendSpec) -> Health,
        removal: Removal,
    ) -> Result<ServiceChange, ChangeError> {
        self.commit_with(spec, health_of_new, removal, HashMap::new())
    }

    /// The same, of a service whose backends had another health before; they have it again if the change is refused.
    pub(super) fn commit_with(
        &mut self,
        spec: ServiceSpec,
        health_of_new: impl Fn(&BackendSpec) -> Health,
        removal: Removal,
        health_before: HashMap<Arc<str>, Health>,
    ) -> Result<ServiceChange, ChangeError> {
        let prepared = self.prepare(spec, health_of_new, removal, health_before, &Batch::default())?;
        match self.publish() {
            Ok(()) => Ok(self.finish(prepared)),
            Err(source) => Err(self.abandon(prepared, source)),
        }
    }

    /// Tells the forwarder where services listen, and finishes all that is prepared; or, if it refuses, none of it.
    pub(super) fn conclude(
        &mut self,
        prepared: Vec<Result<Prepared, ChangeError>>,
    ) -> Vec<Result<ServiceChange, ChangeError>> {
        let told = self.publish();
        prepared
            .into_iter()
            .map(|step| match &told {
                Ok(()) => step.map(|prepared| self.finish(prepared)),
                Err(source) => step.and_then(|prepared| Err(self.abandon(prepared, source.clone()))),
            })
            .collect()
    }

    /// Plans a change, takes the memory for it and writes what no packet is led to yet.
    pub(super) fn prepare(
        &mut self,
        spec: ServiceSpec,
        health_of_new: impl Fn(&BackendSpec) -> Health,
        removal: Removal,
        health_before: HashMap<Arc<str>, Health>,
        batch: &Batch,
    ) -> Result<Prepared, ChangeError> {
        let name = spec.name.clone();
        let attempt = self.check(&spec, &batch.given_up).and_then(|()| {
            let plan = self.plan(&spec, &health_of_new, removal)?;
            match self.services.contains_key(&spec.name) {
                true => self.prepare_update(spec, plan, &health_before, &batch.living),
                false => self.prepare_new(spec, plan),
            }
        });
        match attempt {
            Ok(mut prepared) => {
                prepared.health_before = health_before;
                Ok(prepared)
            }
            Err(error) => {
                self.exchange_health(&name, |identity| health_before.get(identity).copied());
                Err(error)
            }
        }
    }

    pub(super) fn check_backends(&self, spec: &ServiceSpec) -> Result<(), ChangeError> {
        let held = self.services.get(&spec.name);
        match names::twice(&spec.backends, held.map_or(&[], |held| &held.spec.backends)) {
            Some(twice) => Err(ChangeError::DuplicateBackend {
                service: spec.name.clone(),
                backend: twice.identity.to_string(),
            }),
            None => Ok(()),
        }
    }

    fn check(&self, spec: &ServiceSpec, given_up: &GivenUp) -> Result<(), ChangeError> {
        self.check_backends(spec)?;
        let held = self.services.get(&spec.name);
        for listen in &spec.listen {
            let is_taken = |other: &&String| **other != spec.name && !given_up.has(listen, other);
            if let Some(other) = self.listening.get(listen).filter(is_taken) {
                return Err(ChangeError::ListensTwice {
                    service: spec.name.clone(),
                    listen: listen.to_string(),
                    other: other.clone(),
                });
            }
        }
        let before = held.map_or(0, |held| held.spec.listen.len());
        let others = self.listening.len().saturating_sub(before) as u32;
        let capacity = self.engine.capacity().listens;
        if others.saturating_add(spec.listen.len() as u32) > capacity {
            return Err(ChangeError::Full {
                service: spec.name.clone(),
                what: "places to listen",
                asked: spec.listen.len() as u32,
                free: capacity.saturating_sub(others),
                capacity,
            });
        }
        Ok(())
    }

    pub(super) fn plan(
        &self,
        spec: &ServiceSpec,
        health_of_new: &impl Fn(&BackendSpec) -> Health,
        removal: Removal,
    ) -> Result<Plan, ChangeError> {
        let held = self.services.get(&spec.name);
        let mut members = held.map(|held| held.members.clone()).unwrap_or_default();
        // A backend is the same one while identity and address are; another address is another server.
        let mut wanted = Wanted::of(spec);
        for member in members.iter_mut().flatten().filter(|member| member.removed.is_none()) {
            match wanted.take(member) {
                Some(backend) if member.spec == *backend => {}
                Some(backend) => member.spec = backend.clone(),
                None => member.removed = Some(removal),
            }
        }
        // One that left and has not been forgotten takes its index again: what names it still means this server.
        // After a restart such a one may be known by its address alone; else each return would take another index.
        for take in [Wanted::take, Wanted::take_nameless] {
            for member in members.iter_mut().flatten().filter(|member| member.removed.is_some()) {
                if let Some(backend) = take(&mut wanted, member) {
                    member.spec = backend.clone();
                    member.health = health_of_new(backend);
                    member.removed = None;
                }
            }
        }
        let vacant: Vec<usize> = (0..members.len()).filter(|&local| members[local].is_none()).collect();
        let mut vacant = vacant.into_iter();
        for backend in wanted.left() {
            let member = Some(Member::new(backend.clone(), health_of_new(backend)));
            match vacant.next() {
                Some(local) => members[local] = member,
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
        // What no turn could ever bring is refused rather than waited for.
        let capacity = self.engine.capacity().slots;
        if size.get() > capacity {
            return Err(ChangeError::Full {
                service: spec.name.clone(),
                what: "slots",
                asked: size.get(),
                free: self.slots.longest(),
                capacity,
            });
        }
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
                .map(|member| (member.spec.identity.as_ref(), member.spec.weight))
                .collect();
            table::owners(spec.table.rule, seed, size, &candidates, &eligible).map_err(failed)?
        };
        Ok(Plan { members, eligible, last_resort, owners, size: size.get(), seed, resize_waits })
    }

    /// Of a service, the backends that the plan takes down.
    fn cut_by<'a>(&'a self, held: &'a Held, plan: &'a Plan) -> impl Iterator<Item = u16> {
        let state = |members: &[Option<Member>], last_resort: bool, local: u16| {
            members
                .get(usize::from(local))
                .and_then(Option::as_ref)
                .map_or(BackendState::Free, |member| member.state(last_resort && member.is_last_resort()))
        };
        (0..held.members.len() as u16).filter(move |&local| {
            self.engine
                .backend(held.places.offset + u32::from(local))
                .is_some_and(|record| record.state().keeps_flows())
                && !state(&plan.members, plan.last_resort, local).keeps_flows()
        })
    }

    /// What the plan ends: the number of backends that it takes down, and the live remembered flows on them.
    pub(super) fn to_be_cut(&self, name: &str, plan: &Plan, living: &Living) -> Cut {
        let Some(held) = self.services.get(name) else { return Cut::default() };
        self.cut_by(held, plan).fold(Cut::default(), |cut, local| Cut {
            backends: cut.backends + 1,
            remembered_flows: cut.remembered_flows + living.of(&self.engine, held.id, local),
        })
    }
}
