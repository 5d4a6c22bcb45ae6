//! What a change would do, without doing it.

use super::living::Living;
use super::shares::Shares;
use super::spec::{BackendSpec, Health, ServiceSpec};
use super::{ChangeError, Controller, Removal, ServiceChange};
use crate::engine::Engine;

impl<E: Engine> Controller<E> {
    /// What [`apply`](Self::apply) would do with this service, all other services being as they are. Backends that are
    /// new have `health_of_new`; the others have the health that they have.
    ///
    /// # Errors
    /// [`ChangeError`], as the change itself would give it; of memory only what no change could ever have is told. Where it listens
    /// is not looked at: what another service has there now it may give up in the same configuration.
    pub fn preview(
        &self,
        spec: &ServiceSpec,
        health_of_new: impl Fn(&BackendSpec) -> Health,
    ) -> Result<ServiceChange, ChangeError> {
        self.check_backends(spec)?;
        let plan = self.plan(spec, &health_of_new, Removal::Drain)?;
        let cut = self.to_be_cut(&spec.name, &plan, &Living::default());
        let held = self.services.get(&spec.name);
        let mut change = ServiceChange {
            service: spec.name.clone(),
            generation: 1,
            slots: plan.size,
            moved: 0,
            needless: 0,
            voided_flows: cut.remembered_flows,
            cut_backends: cut.backends,
            eligible: plan.eligible.len() as u32,
            last_resort: plan.last_resort,
            last_resort_over: held.is_some_and(|held| held.last_resort) && !plan.last_resort,
            resize_waits: plan.resize_waits,
        };
        let Some(held) = held else { return Ok(change) };
        let shares = Shares::new((&held.members, held.last_resort), (&plan.members, plan.last_resort));
        let moves = shares.moves(held, &plan.owners, plan.seed);
        let replaced = held.is_replaced_by(plan.size, plan.seed);
        (change.moved, change.needless) = (moves.moved, moves.needless);
        change.generation = held.generation.wrapping_add(u32::from(replaced || moves.moved > 0));
        Ok(change)
    }
}
