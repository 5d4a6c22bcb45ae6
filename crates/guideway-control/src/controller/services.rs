//! The services by name, and which of them time can bring something to.
//!
//! Of thousands of services nearly all have settled and rest, so that a second must cost nothing for them. Whoever gets one to
//! change wakes it: that is the only way to one, so none can have something due and be passed over. It sleeps again when a
//! tick has looked at it and found nothing that needs a look every second, until the second in which something is due, if any is.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;

use super::service::Held;

/// All services. To read them is free; to change one wakes it.
#[derive(Debug, Default)]
pub(super) struct Services {
    held: BTreeMap<String, Held>,
    /// Those that every tick looks at.
    awake: BTreeSet<String>,
    /// When others are to be woken. One that was woken earlier is woken once more, for nothing.
    wakes: BTreeSet<(u32, String)>,
}

impl Deref for Services {
    type Target = BTreeMap<String, Held>;

    fn deref(&self) -> &Self::Target {
        &self.held
    }
}

impl Services {
    pub(super) fn get_mut(&mut self, name: &str) -> Option<&mut Held> {
        let held = self.held.get_mut(name)?;
        if !self.awake.contains(name) {
            self.awake.insert(name.to_owned());
        }
        Some(held)
    }

    pub(super) fn insert(&mut self, name: String, held: Held) {
        self.awake.insert(name.clone());
        self.held.insert(name, held);
    }

    pub(super) fn remove(&mut self, name: &str) -> Option<Held> {
        self.awake.remove(name);
        self.held.remove(name)
    }

    /// Wakes those of which something is due.
    pub(super) fn wake(&mut self, now: u32) {
        while let Some((_, name)) = self.wakes.first().filter(|(at, _)| *at <= now).cloned() {
            self.wakes.pop_first();
            if self.held.contains_key(&name) {
                self.awake.insert(name);
            }
        }
    }

    /// Those that are awake: all that have a backend which drains or was removed, a prior table or a resize that waits.
    pub(super) fn awake(&self) -> impl Iterator<Item = &Held> {
        self.awake.iter().filter_map(|name| self.held.get(name))
    }

    pub(super) fn for_each_awake(&mut self, mut what: impl FnMut(&mut Held)) {
        for name in &self.awake {
            if let Some(held) = self.held.get_mut(name) {
                what(held);
            }
        }
    }

    /// Has those sleep that a tick has looked at and that need no look at the next.
    pub(super) fn rest(&mut self) {
        let Self { held, awake, wakes } = self;
        awake.retain(|name| {
            let Some(held) = held.get(name) else { return false };
            let stays = held.is_restless();
            if let Some(at) = held.due().filter(|_| !stays) {
                wakes.insert((at, name.clone()));
            }
            stays
        });
    }
}
