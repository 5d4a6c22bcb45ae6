//! Backends whose health is followed, by name and by number: thousands of rounds a second look them up by number.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::check::Who;
use super::machine::{Machine, Thresholds, Verdict};
use super::pace::Stand;
use super::ramp::Ramp;
use super::slab::Slab;
use super::stream::StreamId;

/// After so many rounds it is known which backends answer at all: the first may have come before its frames' way was known.
pub(super) const FIRST_ROUNDS: u8 = 2;

/// A backend of a service.
#[derive(Debug)]
pub(super) struct Subject {
    pub(super) who: Arc<Who>,
    pub(super) stream: StreamId,
    pub(super) address: IpAddr,
    pub(super) thresholds: Thresholds,
    pub(super) slow_start: Duration,
    pub(super) machine: Machine,
    pub(super) since: Instant,
    pub(super) ramp: Option<(Ramp, Instant)>,
    /// Rounds that it has been through, up to [`FIRST_ROUNDS`].
    pub(super) heard: u8,
    /// What decided the present verdict.
    pub(super) because: Option<String>,
}

impl Subject {
    /// Whether it has never passed and may do so by its first checks: it has not been asked twice, or has answered well of late.
    pub(super) fn is_undecided(&self) -> bool {
        self.machine.verdict() == Verdict::NeverPassed
            && (self.machine.row() > 0 || self.heard < FIRST_ROUNDS)
    }

    /// How the verdict on it stands.
    pub(super) fn stand(&self) -> Stand {
        match self.machine.row() {
            _ if self.is_undecided() => Stand::Awaited,
            0 => Stand::Confirmed,
            _ => Stand::Contradicted(self.machine.needed(self.thresholds)),
        }
    }
}

/// The number of a subject, as long as it is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct SubjectId(u32);

/// All subjects.
#[derive(Debug, Default)]
pub(super) struct Subjects {
    by_who: BTreeMap<Arc<Who>, SubjectId>,
    all: Slab<Subject>,
}

impl Subjects {
    pub(super) fn id(&self, who: &Who) -> Option<SubjectId> {
        self.by_who.get(who).copied()
    }

    pub(super) fn of(&self, id: SubjectId) -> Option<&Subject> {
        self.all.get(id.0)
    }

    pub(super) fn of_mut(&mut self, id: SubjectId) -> Option<&mut Subject> {
        self.all.get_mut(id.0)
    }

    pub(super) fn named(&self, who: &Who) -> Option<&Subject> {
        self.of(self.id(who)?)
    }

    /// Adds one that is not there yet.
    pub(super) fn insert(&mut self, subject: Subject) -> SubjectId {
        let who = Arc::clone(&subject.who);
        let id = SubjectId(self.all.insert(subject));
        self.by_who.insert(who, id);
        id
    }

    pub(super) fn remove(&mut self, id: SubjectId) -> Option<Subject> {
        let subject = self.all.remove(id.0)?;
        self.by_who.remove(&subject.who);
        Some(subject)
    }

    /// In the order of their names.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Subject> {
        self.by_who.values().filter_map(|&id| self.of(id))
    }

    /// Numbers, in the order of the names.
    pub(super) fn ids(&self) -> impl Iterator<Item = SubjectId> {
        self.by_who.values().copied()
    }

    /// Where one with this name is, or belongs, among some that are in the order of their names.
    pub(super) fn place(&self, among: &[SubjectId], who: &Who) -> Result<usize, usize> {
        among.binary_search_by(|&other| self.of(other).map(|other| &*other.who).cmp(&Some(who)))
    }
}
