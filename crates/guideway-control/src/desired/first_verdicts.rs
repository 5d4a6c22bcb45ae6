//! The first verdicts on the backends of a service that is new to the forwarder.
//!
//! They come one by one. Were each committed as it comes, the first backend would own all slots for a moment, and as its
//! flows may live there, packets of flows that the slots don't know would go to it for an idle time. Of a single balancer these
//! are its own; of one that joins a fleet they are flows of the other balancers, which belong to the owners of now. So the
//! first verdicts on all backends are committed together, and until then the service takes nothing.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::time::{Duration, Instant};

use crate::health::{Board, Wanted};

/// The services that have to wait.
#[derive(Debug, Default)]
pub(super) struct FirstVerdicts {
    /// Until when at most.
    until: BTreeMap<String, Instant>,
    /// Those that have waited, or need not: no service waits twice.
    known: BTreeSet<String>,
    due: Option<Instant>,
}

/// From one look to the next.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// No service waits for longer, however seldom it is checked.
const LONGEST: Duration = Duration::from_secs(60);

impl FirstVerdicts {
    /// Marks a service that is to be committed, unless it waits: then it is when it has waited.
    pub(super) fn mark(&self, marked: &mut BTreeSet<String>, service: &str) {
        if !self.until.contains_key(service) {
            marked.insert(service.to_owned());
        }
    }

    /// Has a service wait until each of its backends passed as often as it has to, or failed twice.
    pub(super) fn await_those_of<'a>(
        &mut self,
        service: &str,
        checks: impl Iterator<Item = &'a Wanted>,
        now: Instant,
    ) {
        // The first check comes within an interval, as does each further one.
        let takes = |Wanted { check, thresholds, .. }: &Wanted| {
            check.times.interval * u32::from(thresholds.rise.max(2)) + check.times.timeout
        };
        let longest = checks.map(takes).max();
        if let (true, Some(longest)) = (self.known.insert(service.to_owned()), longest) {
            self.until.insert(service.to_owned(), now + longest.min(LONGEST));
            self.due.get_or_insert(now + LOOK_EVERY);
        }
    }

    /// A service that is no more.
    pub(super) fn forget(&mut self, service: &str) {
        self.known.remove(service);
        self.until.remove(service);
    }

    /// The service `from` is called `to` from now on.
    pub(super) fn rename(&mut self, from: &str, to: &str) {
        if let Some(until) = self.until.remove(from) {
            self.until.insert(to.to_owned(), until);
        }
        if self.known.remove(from) {
            self.known.insert(to.to_owned());
        }
    }

    /// When to look next, while any waits.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Those that need not wait any longer.
    pub(super) fn take_decided(&mut self, board: &Board, now: Instant) -> Vec<String> {
        let undecided: HashSet<&str> = board.undecided().collect();
        let is_decided =
            |(service, until): &(&String, &Instant)| **until <= now || !undecided.contains(service.as_str());
        let decided: Vec<String> =
            self.until.iter().filter(is_decided).map(|(service, _)| service.clone()).collect();
        for service in &decided {
            self.until.remove(service);
        }
        self.due = (!self.until.is_empty()).then(|| now + LOOK_EVERY);
        decided
    }
}
