//! Places to listen that services of one configuration hand to one another: two may even exchange theirs. Each is prepared as if the
//! other had given its place up; where that did not come about, who wanted it is as before.

use std::collections::HashMap;

use super::prepared::Prepared;
use super::spec::{Listen, ServiceSpec};
use super::{ChangeError, Controller};
use crate::engine::Engine;

/// The places that services give up together, and which does.
#[derive(Debug, Default)]
pub(super) struct GivenUp(HashMap<Listen, String>);

impl GivenUp {
    /// Whether this service gives it up.
    pub(super) fn has(&self, listen: &Listen, service: &str) -> bool {
        self.0.get(listen).is_some_and(|giver| giver == service)
    }
}

impl<E: Engine> Controller<E> {
    /// What the services of a configuration give up.
    pub(super) fn given_up(&self, specs: &[ServiceSpec]) -> GivenUp {
        let of = |spec: &ServiceSpec| -> Vec<(Listen, String)> {
            let now = self.services.get(&spec.name).map_or(&[][..], |held| &held.spec.listen);
            let left = now.iter().filter(|listen| !spec.listen.contains(listen));
            left.map(|listen| (*listen, spec.name.clone())).collect()
        };
        GivenUp(specs.iter().flat_map(of).collect())
    }

    /// Takes back what was prepared for places that their services have kept after all.
    pub(super) fn respect(
        &mut self,
        given_up: &GivenUp,
        mut prepared: Vec<Result<Prepared, ChangeError>>,
    ) -> Vec<Result<Prepared, ChangeError>> {
        let mut took_back = false;
        while let Some((place, refused)) = self.kept_after_all(given_up, &prepared) {
            if let Ok(step) = std::mem::replace(&mut prepared[place], Err(refused)) {
                self.take_back(step);
                took_back = true;
            }
        }
        if took_back {
            let listens = |(name, listen): (&String, &Vec<Listen>)| -> Vec<(Listen, String)> {
                listen.iter().map(|listen| (*listen, name.clone())).collect()
            };
            let all = self.services.values().map(|held| (&held.spec.name, &held.spec.listen));
            self.listening = all.flat_map(listens).collect();
        }
        prepared
    }

    /// The first that took a place which another service has as well, and why it must not.
    fn kept_after_all(
        &self,
        given_up: &GivenUp,
        prepared: &[Result<Prepared, ChangeError>],
    ) -> Option<(usize, ChangeError)> {
        prepared.iter().enumerate().find_map(|(place, step)| {
            let service = step.as_ref().ok()?.service();
            let listens = &self.services.get(service)?.spec.listen;
            let (listen, other) = listens.iter().find_map(|listen| {
                let giver = given_up.0.get(listen).filter(|giver| *giver != service)?;
                let keeps = self.services.get(giver)?.spec.listen.contains(listen);
                keeps.then_some((listen, giver))
            })?;
            let refused = ChangeError::ListensTwice {
                service: service.to_owned(),
                listen: listen.to_string(),
                other: other.clone(),
            };
            Some((place, refused))
        })
    }
}
