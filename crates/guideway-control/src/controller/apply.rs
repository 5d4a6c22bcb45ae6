//! Desired state and health of whole services, one transaction each.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::commit::Batch;
use super::living::Living;
use super::names::Names;
use super::prepared::Prepared;
use super::spec::{BackendSpec, Health, ServiceSpec};
use super::{ChangeError, Controller, Removal, ServiceChange};
use crate::engine::Engine;

impl<E: Engine> Controller<E> {
    /// Adds services, or replaces what is wanted of them, and says what the checks found of each backend (service name
    /// and backend): one change a service, and one word to the forwarder about where services listen. Backends that a
    /// service does not name any more drain. A refused service is as it was; the others change, unless the forwarder
    /// refuses where services listen: then nothing does.
    pub fn apply(
        &mut self,
        specs: impl IntoIterator<Item = ServiceSpec>,
        health: impl Fn(&str, &BackendSpec) -> Health,
    ) -> Vec<Result<ServiceChange, ChangeError>> {
        let specs: Vec<ServiceSpec> = specs.into_iter().collect();
        let mut batch = Batch { given_up: self.given_up(&specs), ..Batch::default() };
        let mut changes = Vec::new();
        let (mut prepared, mut names) = (Vec::new(), HashSet::new());
        for spec in specs {
            if !names.insert(spec.name.clone()) {
                // The same service again: its first change is to be done before the second is planned.
                let steps = self.respect(&batch.given_up, std::mem::take(&mut prepared));
                changes.extend(self.conclude(steps));
                names = HashSet::from([spec.name.clone()]);
                batch.living = Living::default();
            }
            prepared.push(self.prepare_one(spec, &health, &batch));
        }
        let steps = self.respect(&batch.given_up, prepared);
        changes.extend(self.conclude(steps));
        changes
    }

    fn prepare_one(
        &mut self,
        spec: ServiceSpec,
        health: impl Fn(&str, &BackendSpec) -> Health,
        batch: &Batch,
    ) -> Result<Prepared, ChangeError> {
        let name = spec.name.clone();
        let health = |backend: &BackendSpec| health(&name, backend);
        let names = Names::of(&spec.backends);
        let before = self.exchange_health(&name, |identity| {
            names.find(identity).map(|place| health(&spec.backends[place]))
        });
        self.prepare(spec, health, Removal::Drain, before, batch)
    }

    /// Sets the health of those wanted backends for which there is one; returns what it was.
    pub(super) fn exchange_health(
        &mut self,
        service: &str,
        health: impl Fn(&str) -> Option<Health>,
    ) -> HashMap<Arc<str>, Health> {
        let members = self.services.get_mut(service).map(|held| held.members.iter_mut().flatten());
        let wanted = members.into_iter().flatten().filter(|member| member.removed.is_none());
        wanted
            .filter_map(|member| {
                let new = health(&member.spec.identity)?;
                Some((member.spec.identity.clone(), std::mem::replace(&mut member.health, new)))
            })
            .collect()
    }
}
