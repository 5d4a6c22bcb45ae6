//! The balancers, and the routers before them that choose one for each flow.

use guideway_control::controller::ChangeError;
use guideway_wire::FlowKey;

use super::balancer::{Balancer, View};
use super::history::{Change, Server, World};
use super::settings::Settings;
use super::traffic::Millis;

/// All balancers; one that is away has no place in the routers' choice.
#[derive(Debug)]
pub(crate) struct Fleet {
    balancers: Vec<Option<Balancer>>,
    started: u64,
}

impl Fleet {
    pub(crate) fn start(settings: &Settings, world: &World) -> Result<Self, ChangeError> {
        let mut fleet = Self { balancers: Vec::new(), started: 0 };
        for _ in 0..settings.balancers {
            let balancer = Balancer::start(settings, world, fleet.started, 0)?;
            fleet.started += 1;
            fleet.balancers.push(Some(balancer));
        }
        Ok(fleet)
    }

    /// The balancer that the routers choose: by the flow's salt, the next one while that is away.
    pub(crate) fn choose(&self, salt: u64) -> Option<usize> {
        let count = self.balancers.len();
        let first = (salt % count as u64) as usize;
        (first..first + count).map(|place| place % count).find(|&place| self.balancers[place].is_some())
    }

    pub(crate) fn get(&self, place: usize) -> Option<&Balancer> {
        self.balancers.get(place)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, place: usize) -> Option<&mut Balancer> {
        self.balancers.get_mut(place)?.as_mut()
    }

    /// The balancers that are there.
    pub(crate) fn present(&self) -> impl Iterator<Item = &Balancer> {
        self.balancers.iter().flatten()
    }

    /// Makes a change known everywhere, at once.
    pub(crate) fn apply(&mut self, change: Change, world: &World, now: Millis) -> Result<(), ChangeError> {
        self.balancers.iter_mut().flatten().try_for_each(|balancer| balancer.apply(change, world, now))
    }

    /// A balancer stops, and its memory is lost. The last one never does.
    pub(crate) fn stop(&mut self, place: usize) {
        if self.present().count() > 1
            && let Some(balancer) = self.balancers.get_mut(place)
        {
            *balancer = None;
        }
    }

    /// A balancer is back, with what is wanted now and no memory of what was.
    pub(crate) fn restart(
        &mut self,
        settings: &Settings,
        world: &World,
        place: usize,
        now: Millis,
    ) -> Result<(), ChangeError> {
        let balancer = Balancer::start(settings, world, self.started, now)?;
        self.started += 1;
        if let Some(at) = self.balancers.get_mut(place) {
            *at = Some(balancer);
        }
        Ok(())
    }

    /// What the present balancers hold of a flow's place.
    fn views(&self, key: &FlowKey) -> impl Iterator<Item = View> {
        self.present().filter_map(|balancer| balancer.view(key))
    }

    /// Whether the flow's slot is settled on all balancers, and its owner where all agree.
    pub(crate) fn place(&self, key: &FlowKey) -> (bool, Option<Server>) {
        let mut settled = true;
        let mut owners = Vec::new();
        for view in self.views(key) {
            settled &= view.is_settled();
            owners.push(view.current);
        }
        owners.dedup();
        match owners.as_slice() {
            [owner] => (settled, *owner),
            _ => (false, None),
        }
    }

    /// Whether new flows of this place go to anybody but `owner` on any balancer.
    pub(crate) fn has_changed(&self, key: &FlowKey, owner: Option<Server>) -> bool {
        self.views(key).any(|view| view.current != owner)
    }

    /// The sum of all generations: it rises when any table changes.
    pub(crate) fn generation(&self) -> u32 {
        self.present().fold(0, |sum, balancer| sum.wrapping_add(balancer.generation()))
    }
}
