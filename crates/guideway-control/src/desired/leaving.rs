//! Backends that were removed and still have flows are checked on: when one fails, what lives on it ends.
//!
//! On the board each has a name of its own, of its name and address, since another backend may have taken its name.

use std::collections::{BTreeMap, HashSet};
use std::net::IpAddr;
use std::time::Instant;

use crate::controller::spec::{Admin, Health};
use crate::controller::{Controller, Remaining};
use crate::engine::Engine;
use crate::health::{Board, Verdict, Wanted, Who};

/// Those backends.
#[derive(Debug, Default)]
pub(super) struct Leaving {
    /// By their names on the board.
    backends: BTreeMap<Who, Left>,
}

#[derive(Debug)]
struct Left {
    /// Its name before.
    name: String,
    wanted: Wanted,
    /// What the controller was told.
    failed: bool,
    /// Whether the controller has said that it drains.
    seen: bool,
}

impl Leaving {
    /// Notes who is checked no longer, and passed the checks until now; who is back is none of them.
    pub(super) fn note<'a>(
        &mut self,
        before: impl Iterator<Item = &'a Wanted>,
        after: &[(Wanted, Admin)],
        board: &Board,
    ) {
        let after: HashSet<(&Who, IpAddr)> =
            after.iter().map(|(wanted, _)| (&wanted.who, wanted.check.address)).collect();
        self.backends.retain(|who, left| {
            let as_before = Who { service: who.service.clone(), backend: left.name.clone() };
            !after.contains(&(&as_before, left.wanted.check.address))
        });
        for wanted in before {
            let gone = !after.contains(&(&wanted.who, wanted.check.address));
            if gone && board.verdict(&wanted.who) == Some(Verdict::Up) {
                let name = wanted.who.backend.clone();
                let who = Who {
                    service: wanted.who.service.clone(),
                    backend: format!("{name}@{}", wanted.check.address),
                };
                let wanted = Wanted { who: who.clone(), ..wanted.clone() };
                self.backends.insert(who, Left { name, wanted, failed: false, seen: false });
            }
        }
    }

    /// They passed when they left.
    pub(super) fn presume(&self, board: &mut Board, now: Instant) {
        for (who, left) in &self.backends {
            if !left.failed {
                board.presume_up(who, now);
            }
        }
    }

    pub(super) fn has(&self, who: &Who) -> bool {
        self.backends.contains_key(who)
    }

    pub(super) fn wanted(&self) -> impl Iterator<Item = &Wanted> {
        self.backends.values().map(|left| &left.wanted)
    }

    pub(super) fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.wanted().map(|wanted| wanted.check.address)
    }

    /// Tells the controller of those that fail, and forgets those that are gone from `remaining`; whether any is.
    pub(super) fn follow(
        &mut self,
        controller: &mut Controller<impl Engine>,
        remaining: &[Remaining],
        board: &Board,
    ) -> bool {
        if self.backends.is_empty() {
            return false;
        }
        let drains: HashSet<(&str, &str, IpAddr)> = remaining
            .iter()
            .filter(|one| one.removed)
            .map(|one| (one.service.as_str(), one.backend.as_str(), one.address))
            .collect();
        let many = self.backends.len();
        self.backends.retain(|who, left| {
            let address = left.wanted.check.address;
            let fails = board.verdict(who) == Some(Verdict::Down);
            if fails != left.failed {
                let health = if fails { Health::Down } else { Health::Up };
                // Where there is no such backend any more, nothing is to be ended.
                left.failed =
                    controller.set_removed_health(&who.service, &left.name, address, health).is_ok() && fails;
            }
            let drains = drains.contains(&(who.service.as_str(), left.name.as_str(), address));
            // It is removed by the commit after this configuration; and one that fails drains no more.
            let stays = drains || !left.seen;
            left.seen |= drains;
            stays
        });
        self.backends.len() != many
    }
}
