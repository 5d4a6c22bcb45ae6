//! Desired state and health of a whole service in one transaction.

use std::collections::HashMap;

use super::spec::{BackendSpec, Health, ServiceSpec};
use super::{ChangeError, Controller, Removal, ServiceChange};
use crate::engine::Engine;

impl<E: Engine> Controller<E> {
    /// Adds a service, or replaces what is wanted of it, and says what the checks found of each of its backends, in one
    /// change. Backends that it does not name any more drain.
    ///
    /// # Errors
    /// [`ChangeError`]; nothing has changed then.
    pub fn apply(
        &mut self,
        spec: ServiceSpec,
        health: impl Fn(&BackendSpec) -> Health,
    ) -> Result<ServiceChange, ChangeError> {
        let name = spec.name.clone();
        let before = self.exchange_health(&name, |identity| {
            spec.backends.iter().find(|backend| backend.identity == identity).map(&health)
        });
        self.commit(spec, health, Removal::Drain).inspect_err(|_| {
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
