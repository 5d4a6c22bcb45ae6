//! Backends that were removed and still have flows are checked on: when one fails, what lives on it ends.
//!
//! They are asked what those of their service are asked now, after a restart too. On the board each has a name of its
//! own, of its name and address, since another backend may have taken its name.

use std::collections::{BTreeMap, HashSet};
use std::net::IpAddr;
use std::time::Instant;

use crate::config::Renames;
use crate::controller::spec::{Admin, Health};
use crate::controller::{Controller, Remaining};
use crate::engine::Engine;
use crate::health::{Board, ServiceCheck, Verdict, Wanted, Who};

/// Those backends.
#[derive(Debug, Default)]
pub(super) struct Leaving {
    /// By their names on the board.
    backends: BTreeMap<Who, Left>,
    /// How those of each service are checked.
    checks: BTreeMap<String, ServiceCheck>,
}

#[derive(Debug)]
struct Left {
    /// Its name before.
    name: String,
    address: IpAddr,
    /// What the controller was told.
    failed: bool,
    /// Whether the controller has said that it drains.
    seen: bool,
}

impl Leaving {
    /// Notes how backends are checked from now on, and who is checked no longer and passed the checks until now; who is
    /// back is none of them.
    pub(super) fn note<'a>(
        &mut self,
        checks: impl Iterator<Item = ServiceCheck>,
        before: impl Iterator<Item = &'a Wanted>,
        after: &[(Wanted, Admin)],
        board: &Board,
    ) {
        self.checks = checks.map(|check| (check.service().to_owned(), check)).collect();
        let after: HashSet<(&Who, IpAddr)> =
            after.iter().map(|(wanted, _)| (&wanted.who, wanted.check.address)).collect();
        self.backends.retain(|who, left| {
            let as_before = Who { service: who.service.clone(), backend: left.name.clone() };
            !after.contains(&(&as_before, left.address))
        });
        for Wanted { who, check, .. } in before {
            let gone = !after.contains(&(who, check.address));
            if gone && board.verdict(who) == Some(Verdict::Up) {
                self.add(&who.service, &who.backend, check.address);
            }
        }
    }

    /// Notes those that the controller shows and that nobody told of: an earlier process removed them, or nothing checked
    /// them. Whether there are any.
    pub(super) fn find(&mut self, remaining: &[Remaining]) -> bool {
        let many = self.backends.len();
        for one in remaining.iter().filter(|one| one.removed) {
            self.add(&one.service, &one.backend, one.address);
        }
        self.backends.len() != many
    }

    /// Some services are called otherwise from now on.
    pub(super) fn rename(&mut self, names: &Renames) {
        let backends = std::mem::take(&mut self.backends).into_iter();
        self.backends = backends.map(|(who, left)| (who.renamed(names), left)).collect();
        let checks = std::mem::take(&mut self.checks).into_values();
        let renamed = checks.map(|check| check.renamed(names));
        self.checks = renamed.map(|check| (check.service().to_owned(), check)).collect();
    }

    fn add(&mut self, service: &str, name: &str, address: IpAddr) {
        let who = Who { service: service.to_owned(), backend: format!("{name}@{address}") };
        let left = Left { name: name.to_owned(), address, failed: false, seen: false };
        self.backends.entry(who).or_insert(left);
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

    pub(super) fn wanted(&self) -> impl Iterator<Item = Wanted> {
        let checked = |(who, left): (&Who, &Left)| {
            Some(self.checks.get(&who.service)?.wanted(&who.backend, left.address))
        };
        self.backends.iter().filter_map(checked)
    }

    pub(super) fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.backends.values().map(|left| left.address)
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
            let fails = board.verdict(who) == Some(Verdict::Down);
            if fails != left.failed {
                let health = if fails { Health::Down } else { Health::Up };
                // Where there is no such backend any more, nothing is to be ended.
                let told = controller.set_removed_health(&who.service, &left.name, left.address, health);
                left.failed = told.is_ok() && fails;
            }
            let drains = drains.contains(&(who.service.as_str(), left.name.as_str(), left.address));
            // It is removed by the commit after this configuration; and one that fails drains no more.
            let stays = drains || !left.seen;
            left.seen |= drains;
            stays
        });
        self.backends.len() != many
    }
}
