//! What the forwarder should hold, put together: the configuration, what operators changed since, what the checks say,
//! and where frames go.
//!
//! Changes mark their service; [`Desired::commit`] brings the marked services to the controller, one transaction each,
//! however many changes there were. So a caller that commits at a steady pace coalesces whatever flaps in between.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::time::Instant;

use guideway_forward::record::backend::NextHop;

use crate::config::{Config, Renames};
use crate::controller::spec::{Admin, BackendSpec, Health, ServiceSpec};
use crate::controller::{ChangeError, Controller, Remaining, ServiceChange, from_config};
use crate::engine::Engine;
use crate::health::{self, Advanced, Board, Change, RAMP_STEPS, ServiceCheck, Verdict, Wanted, Who};
use crate::overrides::{Override, Overrides};

mod first_verdicts;
mod leaving;

use first_verdicts::FirstVerdicts;
use leaving::Leaving;

/// The parts of desired state.
#[derive(Debug, Default)]
pub struct Desired {
    /// As the configuration says.
    services: BTreeMap<String, ServiceSpec>,
    /// With what the configuration says of the backend's state; by backend, in order.
    checks: Vec<(Wanted, Admin)>,
    leaving: Leaving,
    overrides: Overrides,
    next_hops: HashMap<IpAddr, NextHop>,
    /// Services that differ from what the controller was told last.
    marked: BTreeSet<String>,
    removed: BTreeSet<String>,
    first_verdicts: FirstVerdicts,
}

/// What became of one marked service.
#[derive(Debug)]
pub struct Committed {
    /// The service.
    pub service: String,
    /// What changed. A refused service stays as it was, and marked.
    pub result: Result<Outcome, ChangeError>,
}

/// What a commit did to a service.
#[derive(Debug)]
pub enum Outcome {
    /// It came, or changed.
    Changed(ServiceChange),
    /// It is gone.
    Removed {
        /// Remembered live flows that ended with it.
        flows_ended: u32,
    },
}

impl Desired {
    /// Nothing is wanted but what these overrides will say.
    pub fn new(overrides: Overrides) -> Self {
        Self { overrides, ..Self::default() }
    }

    /// Wants what a configuration says, and has its checks made. Services that are as before are not touched.
    pub fn configure(&mut self, config: &Config, board: &mut Board, now: Instant) {
        let services: BTreeMap<_, _> =
            from_config::services(config).into_iter().map(|spec| (spec.name.clone(), spec)).collect();
        for (name, spec) in &services {
            if self.services.get(name) != Some(spec) {
                self.first_verdicts.mark(&mut self.marked, name);
            }
            self.removed.remove(name);
        }
        for name in self.services.keys().filter(|name| !services.contains_key(*name)) {
            self.marked.remove(name);
            self.first_verdicts.forget(name);
            self.removed.insert(name.clone());
        }
        let unchecked = self.unchecked();
        let checks_before = std::mem::take(&mut self.checks);
        self.services = services;
        let admins: HashMap<Who, Admin> = self
            .services
            .iter()
            .flat_map(|(name, spec)| spec.backends.iter().map(|backend| (who(name, backend), backend.admin)))
            .collect();
        self.checks = health::wanted(config)
            .into_iter()
            .map(|wanted| {
                let admin = admins.get(&wanted.who).copied().unwrap_or_default();
                (wanted, admin)
            })
            .collect();
        self.checks.sort_by(|(one, _), (other, _)| one.who.cmp(&other.who));
        for (these, those) in [(&self.checks, &checks_before), (&checks_before, &self.checks)] {
            for who in these.iter().map(|(wanted, _)| &wanted.who).filter(|who| !is_among(those, who)) {
                if self.services.contains_key(&who.service) {
                    self.first_verdicts.mark(&mut self.marked, &who.service);
                }
            }
        }
        // With a service goes everything that it had.
        let of_present = |wanted: &&Wanted| self.services.contains_key(&wanted.who.service);
        let before = checks_before.iter().map(|(wanted, _)| wanted).filter(of_present);
        let checks = config.services.iter().filter_map(ServiceCheck::of);
        self.leaving.note(checks, before, &self.checks, board);
        self.follow_checks(board, now);
        self.leaving.presume(board, now);
        for (Wanted { who, check, .. }, _) in &self.checks {
            if unchecked.get(who) == Some(&check.address) {
                board.presume_up(who, now);
            }
        }
    }

    /// Has services be called otherwise, here, in the forwarder and on the board. The next [`configure`](Self::configure) has to
    /// come with the new names. Flows, verdicts, overrides and drains stay; what operators said of earlier services of these names
    /// does not hold for them.
    pub fn rename(
        &mut self,
        names: &Renames,
        controller: &mut Controller<impl Engine>,
        board: &mut Board,
        now: Instant,
    ) {
        board.rename(names, now);
        let taken = names.new_names();
        self.overrides.retain(|who| !taken.contains(who.service.as_str()));
        self.overrides.rename(names);
        self.leaving.rename(names);
        for (from, to) in names.iter() {
            controller.rename_service(from, to);
            self.first_verdicts.rename(from, to);
            for marked in [&mut self.marked, &mut self.removed] {
                if marked.remove(from) {
                    marked.insert(to.to_owned());
                }
            }
            if let Some(mut spec) = self.services.remove(from) {
                spec.name = to.to_owned();
                self.services.insert(to.to_owned(), spec);
            }
        }
        let checks = std::mem::take(&mut self.checks).into_iter();
        let renamed = |wanted: Wanted| Wanted { who: wanted.who.renamed(names), ..wanted };
        self.checks = checks.map(|(wanted, admin)| (renamed(wanted), admin)).collect();
        self.checks.sort_by(|(one, _), (other, _)| one.who.cmp(&other.who));
    }

    /// The backends that may have flows and that nothing checks: a check that comes later has to fail before they lose them.
    fn unchecked(&self) -> HashMap<Who, IpAddr> {
        let all = self
            .services
            .iter()
            .flat_map(|(name, spec)| spec.backends.iter().map(move |backend| (who(name, backend), backend)));
        all.filter(|(who, backend)| {
            let admin = self.overrides.of(who).admin.map_or(backend.admin, Admin::from);
            !self.is_checked(who) && admin != Admin::Disabled
        })
        .map(|(who, backend)| (who, backend.address))
        .collect()
    }

    /// Changes what operators said, and has those backends checked that may take flows now.
    pub fn with_overrides<T>(
        &mut self,
        board: &mut Board,
        now: Instant,
        change: impl FnOnce(&mut Overrides) -> T,
    ) -> T {
        let before = self.overrides.clone();
        let result = change(&mut self.overrides);
        let known = before.iter().chain(self.overrides.iter()).map(|(who, _)| who);
        let differs = known.filter(|who| before.of(who) != self.overrides.of(who));
        let differs: BTreeSet<Who> =
            differs.filter(|who| self.services.contains_key(&who.service)).cloned().collect();
        // Who is checked follows from who may take flows, and to look at all of them takes time by their number.
        let may_differ = differs
            .iter()
            .any(|who| self.may_take(before.of(who), who) != self.may_take(self.overrides.of(who), who));
        for who in differs {
            self.first_verdicts.mark(&mut self.marked, &who.service);
        }
        if may_differ {
            self.follow_checks(board, now);
        }
        result
    }

    /// Changes what operators said of one backend, as [`with_overrides`](Self::with_overrides) does of any.
    pub fn override_one(
        &mut self,
        who: &Who,
        board: &mut Board,
        now: Instant,
        change: impl FnOnce(&mut Overrides),
    ) {
        let before = self.overrides.of(who);
        change(&mut self.overrides);
        let after = self.overrides.of(who);
        if before == after || !self.services.contains_key(&who.service) {
            return;
        }
        self.first_verdicts.mark(&mut self.marked, &who.service);
        if self.may_take(before, who) != self.may_take(after, who) {
            self.follow_checks(board, now);
        }
    }

    /// What operators said.
    pub fn overrides(&self) -> &Overrides {
        &self.overrides
    }

    /// Whether there is such a backend.
    pub fn has(&self, who: &Who) -> bool {
        let service = self.services.get(&who.service);
        service.is_some_and(|spec| spec.backends.iter().any(|backend| *backend.identity == *who.backend))
    }

    /// Whether a backend that is wanted is checked, unless it may take nothing.
    pub fn is_checked(&self, who: &Who) -> bool {
        is_among(&self.checks, who)
    }

    /// Notes that the checks changed their mind.
    pub fn note_changes(&mut self, changes: &[Change]) {
        for change in changes.iter().filter(|change| !self.leaving.has(&change.who)) {
            self.first_verdicts.mark(&mut self.marked, &change.who.service);
        }
    }

    /// Notes backends that an earlier process removed and that still drain, before the first
    /// [`configure`](Self::configure): they are checked on, and their verdicts hold.
    pub fn take_leaving(&mut self, remaining: &[Remaining]) {
        self.leaving.find(remaining);
    }

    /// Tells the controller what the checks say of backends that were removed and drain: the flows of one that fails
    /// end. Those that do not drain any more are checked no longer.
    pub fn follow_leaving(
        &mut self,
        controller: &mut Controller<impl Engine>,
        remaining: &[Remaining],
        board: &mut Board,
        now: Instant,
    ) {
        let (found, gone) = (self.leaving.find(remaining), self.leaving.follow(controller, remaining, board));
        if found || gone {
            self.follow_checks(board, now);
            self.leaving.presume(board, now);
        }
    }

    /// The addresses of backends that were removed and still drain.
    pub fn leaving(&self) -> impl Iterator<Item = IpAddr> {
        self.leaving.addresses()
    }

    /// Notes what time brought to the checks.
    pub fn note_advanced(&mut self, advanced: &Advanced) {
        self.note_changes(&advanced.changes);
        for service in &advanced.ramped {
            self.first_verdicts.mark(&mut self.marked, service);
        }
    }

    /// Sends the frames to backends another way, in the forwarder at once and in what is committed later.
    pub fn set_next_hops(&mut self, controller: &mut Controller<impl Engine>, changes: &[(IpAddr, NextHop)]) {
        self.next_hops.extend(changes.iter().copied());
        controller.set_next_hops(&changes.iter().copied().collect());
    }

    /// Sends the frames to a backend this way until [`set_next_hops`](Self::set_next_hops) says otherwise, if nothing was
    /// said yet.
    pub fn assume_next_hop(&mut self, backend: IpAddr, next_hop: NextHop) {
        self.next_hops.entry(backend).or_insert(next_hop);
    }

    /// Where the frames to a backend go, if that was said.
    pub fn next_hop(&self, backend: IpAddr) -> Option<NextHop> {
        self.next_hops.get(&backend).copied()
    }

    /// What another configuration would want of its services, with what operators said and where frames go.
    pub fn specs_under(&self, config: &Config, board: &Board, now: Instant) -> Vec<ServiceSpec> {
        let services = from_config::services(config).into_iter().map(|spec| (spec.name.clone(), spec));
        let under = Self {
            services: services.collect(),
            overrides: self.overrides.clone(),
            next_hops: self.next_hops.clone(),
            ..Self::default()
        };
        under.services.keys().filter_map(|service| under.spec(service, board, now)).collect()
    }

    /// When it is to be looked which new services have their first verdicts; `None` while none is without.
    pub fn first_verdicts_due(&self) -> Option<Instant> {
        self.first_verdicts.due()
    }

    /// Marks the new services that have their first verdicts by now, or have waited for them long enough.
    pub fn note_first_verdicts(&mut self, board: &Board, now: Instant) {
        self.marked.extend(self.first_verdicts.take_decided(board, now));
    }

    /// Whether anything waits to be committed.
    pub fn is_marked(&self) -> bool {
        !self.marked.is_empty() || !self.removed.is_empty()
    }

    /// Brings what is marked to the controller. A new service whose checks have not said anything yet takes nothing, and is
    /// not marked before all its backends have been heard: see `desired/first_verdicts.rs`.
    pub fn commit(
        &mut self,
        controller: &mut Controller<impl Engine>,
        board: &Board,
        now: Instant,
    ) -> Vec<Committed> {
        let mut committed = Vec::new();
        // Removals first: another service may want the same place.
        let removed = std::mem::take(&mut self.removed);
        let flows = controller.live_flows(removed.iter().map(String::as_str));
        for service in &removed {
            let flows_ended = flows.get(service.as_str()).copied().unwrap_or(0);
            let result = controller.remove_service(service).map(|()| Outcome::Removed { flows_ended });
            let service = service.clone();
            committed.push(Committed { service, result });
        }
        let specs: Vec<ServiceSpec> = std::mem::take(&mut self.marked)
            .iter()
            .filter_map(|service| self.spec(service, board, now))
            .collect();
        let names: Vec<String> = specs.iter().map(|spec| spec.name.clone()).collect();
        let health = |service: &str, backend: &BackendSpec| self.health(service, backend, board);
        let changes = if specs.is_empty() { Vec::new() } else { controller.apply(specs, health) };
        for (service, change) in names.into_iter().zip(changes) {
            match &change {
                Err(_) => {
                    self.marked.insert(service.clone());
                }
                Ok(change) if change.generation == 1 && change.eligible == 0 => {
                    let first = self.checks.partition_point(|(wanted, _)| wanted.who.service < service);
                    let checks = self.checks[first..].iter().map(|(wanted, _)| wanted);
                    let checks = checks.take_while(|wanted| wanted.who.service == service);
                    self.first_verdicts.await_those_of(&service, checks, now);
                }
                Ok(_) => {}
            }
            committed.push(Committed { service, result: change.map(Outcome::Changed) });
        }
        committed
    }

    /// A service with everything that changed since it was configured; `None` where there is none.
    pub fn spec(&self, service: &str, board: &Board, now: Instant) -> Option<ServiceSpec> {
        let mut spec = self.services.get(service)?.clone();
        self.overrides.apply(&mut spec);
        for backend in &mut spec.backends {
            if let Some(next_hop) = self.next_hops.get(&backend.address) {
                backend.tunnel.next_hop = *next_hop;
            }
        }
        if !board.is_ramping() {
            return Some(spec);
        }
        let step = |backend: &BackendSpec| {
            let takes_flows = backend.admin == Admin::Active && backend.weight > 0;
            takes_flows.then(|| board.ramp_step(&who(service, backend), now)).flatten()
        };
        let steps: Vec<Option<u32>> = spec.backends.iter().map(step).collect();
        if steps.iter().any(Option::is_some) {
            // Weights are at most 65,535, so the products stay far below what a weight holds.
            for (backend, step) in spec.backends.iter_mut().zip(steps) {
                backend.weight *= step.unwrap_or(RAMP_STEPS);
            }
        }
        Some(spec)
    }

    fn health(&self, service: &str, backend: &BackendSpec, board: &Board) -> Health {
        let who = who(service, backend);
        match board.verdict(&who) {
            Some(Verdict::Up) => Health::Up,
            Some(Verdict::Down) => Health::Down,
            Some(Verdict::NeverPassed) => Health::NeverPassed,
            None if self.is_checked(&who) => Health::NeverPassed,
            None => Health::Unchecked,
        }
    }

    /// Whether a backend may take flows when operators say this of it.
    fn may_take(&self, said: Override, who: &Who) -> bool {
        let said = said.admin.map(Admin::from);
        let configured = || {
            let backends = &self.services.get(&who.service)?.backends;
            backends.iter().find(|backend| *backend.identity == *who.backend).map(|backend| backend.admin)
        };
        said.or_else(configured) != Some(Admin::Disabled)
    }

    /// Backends that may take nothing are not checked; when they may again, they have to pass first.
    fn follow_checks(&self, board: &mut Board, now: Instant) {
        let may_take = |(wanted, configured): &&(Wanted, Admin)| {
            let admin = self.overrides.of(&wanted.who).admin.map_or(*configured, Admin::from);
            admin != Admin::Disabled
        };
        let wanted = self.checks.iter().filter(may_take).map(|(wanted, _)| wanted.clone());
        board.follow(wanted.chain(self.leaving.wanted()), now);
    }
}

fn is_among(checks: &[(Wanted, Admin)], who: &Who) -> bool {
    checks.binary_search_by(|(wanted, _)| wanted.who.cmp(who)).is_ok()
}

fn who(service: &str, backend: &BackendSpec) -> Who {
    Who { service: service.to_owned(), backend: backend.identity.to_string() }
}

#[cfg(test)]
mod tests;
