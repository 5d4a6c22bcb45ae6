//! From desired state to what a forwarder holds, one transaction a change.
//!
//! A change builds its table aside, allocates what it needs, and only then writes, in an order in which every packet in
//! between is answered right: new backends first, then slots, then the states of those that left. In a table that
//! keeps size and seed each slot is one store, which leaves the slot's `settled` owner alone; another size or seed is a
//! new table beside the old, flipped by one store, and the old one is consulted until the service has settled.
//!
//! [`Controller::tick`] ends graces, settles slots, gives up prior tables and frees indices, once a second.

mod adopt;
mod apply;
mod by_id;
mod change;
mod commit;
mod drift;
pub mod from_config;
mod handover;
mod inspect;
mod living;
mod member;
mod names;
mod next_hop;
mod outline;
mod prepared;
mod preview;
mod publish;
mod records;
mod region;
mod remaining;
mod service;
mod services;
mod shares;
pub mod spec;
mod table;
mod tick;
mod unsettled;

#[cfg(test)]
mod refusals;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap};

use guideway_forward::record::ServiceId;
use guideway_hash::hash::{self, NativeHasher, StableHasher};
use guideway_soft::Count;

pub use adopt::AdoptError;
pub use change::{ChangeError, ServiceChange};
pub use drift::{DriftKind, Drifted};
pub use inspect::{FlowView, SlotView, TableView};
pub use outline::{BackendOutline, Counter, Outline, remembered_flows};
pub use remaining::Remaining;
pub use service::{BackendStatus, Churn, ServiceStatus};
pub use table::TableError;
pub use tick::Ticked;

use crate::engine::Engine;
use commit::Batch;
use region::{Region, Regions};
use service::Held;
use services::Services;
use spec::{Admin, BackendSpec, Health, Listen, ServiceSpec, TableSizeSpec};

/// Decides what a forwarder holds; the only writer of its state.
#[derive(Debug)]
pub struct Controller<E> {
    engine: E,
    services: Services,
    /// Which service listens where.
    listening: HashMap<Listen, String>,
    slots: Regions,
    places: Regions,
    free_ids: BTreeSet<u16>,
    retired: Vec<Retired>,
    /// The grace period after which look-ups that no service needs any more can be switched off.
    narrowing: Option<u64>,
    /// Whether the forwarder may hold something else than was told last of where services listen and of server ids.
    unpublished: bool,
    /// How far [`Controller::repair`] has come.
    watch: drift::Watch,
}

/// Memory that is reused only after a grace period.
#[derive(Debug)]
struct Retired {
    epoch: u64,
    slots: Option<Region>,
    places: Option<Region>,
    /// Flows of this service are swept before the number is used again.
    id: Option<ServiceId>,
}

/// How a backend leaves a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Removal {
    /// Its flows stay until they end.
    #[default]
    Drain,
    /// Its flows end at once.
    AtOnce,
}

impl<E: Engine> Controller<E> {
    /// Takes charge of an empty forwarder.
    pub fn new(engine: E) -> Self {
        let capacity = engine.capacity();
        Self {
            services: Services::default(),
            listening: HashMap::new(),
            slots: Regions::new(capacity.slots),
            places: Regions::new(capacity.backends),
            free_ids: (0..capacity.services).collect(),
            retired: Vec::new(),
            narrowing: None,
            unpublished: false,
            watch: drift::Watch::new(&engine),
            engine,
        }
    }

    /// The forwarder.
    pub fn engine(&self) -> &E {
        &self.engine
    }

    /// Adds a service. Its backends start with `health`.
    ///
    /// # Errors
    /// [`ChangeError`]; nothing has changed then.
    pub fn add_service(&mut self, spec: ServiceSpec, health: Health) -> Result<ServiceChange, ChangeError> {
        self.add_service_with(spec, |_| health)
    }

    /// Adds a service whose backends' health is known, as after a restart: its table is right, and settled, at once.
    ///
    /// # Errors
    /// [`ChangeError`]; nothing has changed then.
    pub fn add_service_with(
        &mut self,
        spec: ServiceSpec,
        health: impl Fn(&BackendSpec) -> Health,
    ) -> Result<ServiceChange, ChangeError> {
        if self.services.contains_key(&spec.name) {
            return Err(ChangeError::DuplicateService { service: spec.name });
        }
        self.commit(spec, health, Removal::Drain)
    }

    /// Adds services together, as at start: where they listen is told to the forwarder once, at the end.
    ///
    /// # Errors
    /// [`ChangeError`] of the first that is refused; those before it have been added.
    pub fn add_services(
        &mut self,
        specs: impl IntoIterator<Item = ServiceSpec>,
        health: Health,
    ) -> Result<Vec<ServiceChange>, ChangeError> {
        let (mut prepared, batch) = (Vec::new(), Batch::default());
        for spec in specs {
            let step = match self.services.contains_key(&spec.name) {
                true => Err(ChangeError::DuplicateService { service: spec.name }),
                false => self.prepare(spec, |_| health, Removal::Drain, HashMap::new(), &batch),
            };
            let refused = step.is_err();
            prepared.push(step);
            if refused {
                break;
            }
        }
        self.conclude(prepared).into_iter().collect()
    }

    /// Replaces what is wanted of a service; backends that it does not name any more drain. Backends that are new
    /// start with `health`.
    ///
    /// # Errors
    /// [`ChangeError`]; nothing has changed then.
    pub fn replace_service(
        &mut self,
        spec: ServiceSpec,
        health: Health,
    ) -> Result<ServiceChange, ChangeError> {
        self.held(&spec.name)?;
        self.commit(spec, |_| health, Removal::Drain)
    }

    /// Removes a service at once: its packets belong to the host from now on.
    ///
    /// # Errors
    /// [`ChangeError::UnknownService`], [`ChangeError::Forwarder`]; nothing has changed then.
    pub fn remove_service(&mut self, service: &str) -> Result<(), ChangeError> {
        let Some(held) = self.services.remove(service) else {
            return Err(ChangeError::UnknownService { service: service.to_owned() });
        };
        self.unpublished = true;
        if let Err(source) = self.publish() {
            self.services.insert(service.to_owned(), held);
            self.tell_settings();
            return Err(ChangeError::Forwarder { service: service.to_owned(), source });
        }
        self.relisten(service, &held.spec.listen, &[]);
        self.retire(&held);
        Ok(())
    }

    /// Has a service be called otherwise from now on: packets know no names. Where there is no such service, or another has the
    /// new name, nothing changes.
    pub fn rename_service(&mut self, from: &str, to: &str) {
        if self.services.contains_key(to) {
            return;
        }
        let Some(mut held) = self.services.remove(from) else { return };
        held.spec.name = to.to_owned();
        self.relisten(to, &[], &held.spec.listen);
        self.services.insert(to.to_owned(), held);
    }

    /// Gives back what a service held that no packet finds any more, once none still uses it.
    fn retire(&mut self, held: &Held) {
        let epoch = self.engine.begin_grace();
        let (table, places, id) = (Some(held.table), Some(held.places), Some(held.id));
        self.retired.push(Retired { epoch, slots: table, places, id });
        let prior = held.prior.as_ref().map(|prior| prior.region);
        self.retired.push(Retired { epoch, slots: prior, places: None, id: None });
    }

    /// Adds a backend.
    ///
    /// # Errors
    /// [`ChangeError`]; nothing has changed then.
    pub fn add_backend(
        &mut self,
        service: &str,
        backend: BackendSpec,
        health: Health,
    ) -> Result<ServiceChange, ChangeError> {
        let mut spec = self.held(service)?.spec.clone();
        spec.backends.push(backend);
        self.commit(spec, |_| health, Removal::Drain)
    }

    /// Removes a backend.
    ///
    /// # Errors
    /// [`ChangeError`]; nothing has changed then.
    pub fn remove_backend(
        &mut self,
        service: &str,
        backend: &str,
        removal: Removal,
    ) -> Result<ServiceChange, ChangeError> {
        let mut spec = self.held(service)?.spec.clone();
        let place = position(&spec, backend)?;
        spec.backends.remove(place);
        self.commit(spec, |_| Health::Unchecked, removal)
    }

    /// Changes what the operator says of a backend.
    ///
    /// # Errors
    /// [`ChangeError`]; nothing has changed then.
    pub fn set_admin(
        &mut self,
        service: &str,
        backend: &str,
        admin: Admin,
    ) -> Result<ServiceChange, ChangeError> {
        self.edit_backend(service, backend, |spec| spec.admin = admin)
    }

    /// Changes a backend's weight.
    ///
    /// # Errors
    /// [`ChangeError`]; nothing has changed then.
    pub fn set_weight(
        &mut self,
        service: &str,
        backend: &str,
        weight: u32,
    ) -> Result<ServiceChange, ChangeError> {
        self.edit_backend(service, backend, |spec| spec.weight = weight)
    }

    /// Says what the checks found.
    ///
    /// # Errors
    /// [`ChangeError`]; nothing has changed then.
    pub fn set_health(
        &mut self,
        service: &str,
        backend: &str,
        health: Health,
    ) -> Result<ServiceChange, ChangeError> {
        let spec = self.held(service)?.spec.clone();
        position(&spec, backend)?;
        let before = self.exchange_health(service, |identity| (identity == backend).then_some(health));
        self.commit_with(spec, |_| health, Removal::Drain, before)
    }

    /// Changes table size and seed. While the table before the present one is still consulted, the change waits.
    ///
    /// # Errors
    /// [`ChangeError`]; nothing has changed then.
    pub fn resize(
        &mut self,
        service: &str,
        size: TableSizeSpec,
        seed: u64,
    ) -> Result<ServiceChange, ChangeError> {
        let mut spec = self.held(service)?.spec.clone();
        spec.table.size = size;
        spec.table.seed = seed;
        self.commit(spec, |_| Health::Unchecked, Removal::Drain)
    }

    /// The digest of what takes new flows: equal on every balancer that answers every new flow alike.
    pub fn digest(&self) -> String {
        let mut words = [0_u64; 2];
        for (name, held) in self.services.iter() {
            let mut places: Vec<_> = held.spec.listen.iter().map(Listen::to_string).collect();
            places.sort_unstable();
            let line = format!("{name} {} {}\n", places.join(" "), held.digest());
            for (seed, word) in words.iter_mut().enumerate() {
                *word = NativeHasher::new(*word ^ seed as u64).hash(hash::DIGEST, line.as_bytes());
            }
        }
        format!("gwf1-{:016x}{:016x}", words[0], words[1])
    }

    /// The state of each service.
    pub fn status(&self) -> Vec<ServiceStatus> {
        self.services.values().map(|held| held.status(&self.engine)).collect()
    }

    /// The state of one service; `None` where there is no such service.
    pub fn status_of(&self, service: &str) -> Option<ServiceStatus> {
        self.services.get(service).map(|held| held.status(&self.engine))
    }

    /// The service and the backend that a global index belongs to, for reading verdicts.
    pub fn backend_at(&self, global: u32) -> Option<(&str, &BackendSpec)> {
        self.services.values().find_map(|held| {
            let local = global.checked_sub(held.places.offset).filter(|&local| local < held.places.len)?;
            let member = held.members.get(local as usize)?.as_ref()?;
            Some((held.spec.name.as_str(), &member.spec))
        })
    }

    /// Packets and bytes forwarded to a backend since it joined.
    pub fn backend_count(&self, service: &str, backend: &str) -> Option<Count> {
        let held = self.services.get(service)?;
        let (local, _) = held.named(backend)?;
        Some(held.count(&self.engine, local))
    }

    /// The forwarder's number of a service.
    pub fn service_id(&self, service: &str) -> Option<ServiceId> {
        self.services.get(service).map(|held| held.id)
    }

    fn edit_backend(
        &mut self,
        service: &str,
        backend: &str,
        edit: impl FnOnce(&mut BackendSpec),
    ) -> Result<ServiceChange, ChangeError> {
        let mut spec = self.held(service)?.spec.clone();
        let place = position(&spec, backend)?;
        edit(&mut spec.backends[place]);
        self.commit(spec, |_| Health::Unchecked, Removal::Drain)
    }

    fn held(&self, service: &str) -> Result<&Held, ChangeError> {
        self.services.get(service).ok_or_else(|| ChangeError::UnknownService { service: service.to_owned() })
    }
}

fn position(spec: &ServiceSpec, backend: &str) -> Result<usize, ChangeError> {
    spec.backends
        .iter()
        .position(|other| *other.identity == *backend)
        .ok_or_else(|| unknown_backend(&spec.name, backend))
}

fn unknown_backend(service: &str, backend: &str) -> ChangeError {
    ChangeError::UnknownBackend { service: service.to_owned(), backend: backend.to_owned() }
}
