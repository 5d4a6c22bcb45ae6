//! Desired state and health of whole services, one transaction each.

use std::collections::HashMap;

use super::spec::{BackendSpec, Health, ServiceSpec};
use super::{ChangeError, Controller, Removal, ServiceChange};
use crate::engine::Engine;

impl<E: Engine> Controller<E> {
    /// Adds services, or replaces what is wanted of them, and says what the checks found of each backend (service name
    /// and backend): one change a service, and one word to the forwarder about where services listen. Backends that a
    /// service does not name any more drain. A refused service is as it was; the others change.
    pub fn apply(
        &mut self,
        specs: impl IntoIterator<Item = ServiceSpec>,
        health: impl Fn(&str, &BackendSpec) -> Health,
    ) -> Vec<Result<ServiceChange, ChangeError>> {
        let changes = specs.into_iter().map(|spec| self.apply_one(spec, &health)).collect();
        self.publish();
        changes
    }

    fn apply_one(
        &mut self,
        spec: ServiceSpec,
        health: impl Fn(&str, &BackendSpec) -> Health,
    ) -> Result<ServiceChange, ChangeError> {
        let name = spec.name.clone();
        let health = |backend: &BackendSpec| health(&name, backend);
        let before = self.exchange_health(&name, |identity| {
            spec.backends.iter().find(|backend| backend.identity == identity).map(health)
        });
        self.write(spec, health, Removal::Drain).inspect_err(|_| {
            self.exchange_health(&name, |identity| before.get(identity).copied());
        })
    }

    /// Sets the health of those wanted backends for which there is one; returns what it was.
    fn exchange_health(
        &mut self,
        service: &str,
        health: impl Fn(&str) -> Option<Health>,
    ) -> HashMap<String, Health> {
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
