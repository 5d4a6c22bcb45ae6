//! Drains: what is awaited before a backend may be switched off, and how long.
//!
//! ```text
//!            no live flow is seen                     no slot may hold
//!            any more                                 a silent one either
//!   Busy ───────────────────────────▶ Quiet ─────────────────────────────▶ Done
//!     ▲   ◀─────────────────────────    │
//!     │    a silent flow spoke again    │
//!     └──────────────┬──────────────────┘
//!                    │ deadline
//!                    ▼
//!                   Cut
//! ```
//! The forwarder counts the flows that it has seen since the drain began. Live are those of them that stand: not the ones
//! that never opened or are closed, which are remembered for some seconds and keep a drain from [`Phase::Done`] alone. A
//! flow that is silent is not among them until it speaks; only when an idle time has passed since the change, and the slots have settled, can there be none.
//! So [`Phase::Quiet`] is when a hasty operator goes on, [`Phase::Done`] when nobody can be hurt.

mod snapshot;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use crate::config::Renames;
use crate::controller::Remaining;

pub use snapshot::Snapshot;

/// How long a drain that has ended can still be asked about.
const KEPT: Duration = Duration::from_secs(600);

/// Names a drain.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DrainKey {
    /// The service.
    pub service: String,
    /// The backend's identity.
    pub backend: String,
    /// Its address: the same name with another address is another server.
    pub address: IpAddr,
    /// Whether it drains because it was removed.
    pub removed: bool,
}

impl DrainKey {
    fn of(remaining: &Remaining) -> Self {
        let Remaining { service, backend, address, removed, .. } = remaining;
        Self { service: service.clone(), backend: backend.clone(), address: *address, removed: *removed }
    }
}

/// How far a drain is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Live flows are seen, or QUIC connections may be there.
    Busy {
        /// How many flows are remembered; QUIC connections are not, so it can be 0.
        live_flows: u32,
        /// Flows besides that open or close.
        ending_flows: u32,
    },
    /// No live flow is seen; silent ones may be there.
    Quiet {
        /// Flows that open or close.
        ending_flows: u32,
        /// On how many slots.
        unsettled_slots: u32,
    },
    /// Nothing can live there any more.
    Done,
    /// The deadline passed while something could.
    Cut {
        /// How many flows are still seen.
        live_flows: u32,
    },
}

impl Phase {
    /// Whether it is over.
    pub fn is_over(self) -> bool {
        matches!(self, Self::Done | Self::Cut { .. })
    }
}

/// A drain, for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drain {
    /// How far it is.
    pub phase: Phase,
    /// When it began, by this process's clock.
    pub began: Instant,
    /// When it is cut short.
    pub deadline: Option<Instant>,
    ended: Option<Instant>,
    /// When it began by the wall clock, as an earlier process saved it.
    saved_unix_seconds: Option<u64>,
    /// Whether the controller has not shown it since it ended.
    is_gone: bool,
}

impl Drain {
    /// How many live flows were seen when it was looked at last.
    pub fn live_flows(&self) -> u32 {
        match self.phase {
            Phase::Busy { live_flows, .. } | Phase::Cut { live_flows } => live_flows,
            Phase::Quiet { .. } | Phase::Done => 0,
        }
    }
}

/// Something that operators, waiting commands and the controller want to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DrainEvent {
    /// Nothing lives there any more.
    Done {
        /// The drain.
        key: DrainKey,
        /// How long it took.
        took: Duration,
    },
    /// The deadline passed: the backend's flows are to be ended now.
    Cut {
        /// The drain.
        key: DrainKey,
        /// How many it has.
        live_flows: u32,
    },
}

/// All drains under way, and those that ended lately.
#[derive(Debug, Default)]
pub struct Drains {
    drains: BTreeMap<DrainKey, Drain>,
    /// Whether drains have begun or ended since that was asked last.
    is_unsaved: bool,
}

impl Drains {
    /// None.
    pub fn new() -> Self {
        Self::default()
    }

    /// Follows a drain that has been committed and is not known yet, until [`observe`](Self::observe) tells how far it is.
    pub fn note(&mut self, key: DrainKey, now: Instant) {
        if !self.drains.contains_key(&key) {
            self.begin(key, now, None);
        }
    }

    /// Follows a drain that has been committed. Of one under way it changes the deadline alone.
    pub fn begin(&mut self, key: DrainKey, now: Instant, deadline: Option<Instant>) {
        // Until somebody looks there may be any number.
        let phase = Phase::Busy { live_flows: 0, ending_flows: 0 };
        let fresh =
            Drain { phase, began: now, deadline, ended: None, saved_unix_seconds: None, is_gone: false };
        let is_removed = key.removed;
        let drain = self.drains.entry(key).or_insert_with(|| {
            self.is_unsaved = true;
            fresh
        });
        if drain.phase.is_over() {
            *drain = fresh;
            self.is_unsaved = true;
        }
        self.is_unsaved |= is_removed && drain.deadline != deadline;
        drain.deadline = deadline;
    }

    /// Forgets a drain: the backend is wanted again.
    pub fn cancel(&mut self, key: &DrainKey) -> Option<Drain> {
        let cancelled = self.drains.remove(key);
        self.is_unsaved |= cancelled.is_some_and(|drain| !drain.phase.is_over());
        cancelled
    }

    /// Some services are called otherwise from now on. What is known under such a new name was of a service that is no more.
    pub fn rename(&mut self, names: &Renames) {
        let taken = names.new_names();
        let known = std::mem::take(&mut self.drains).into_iter();
        let known = known.filter(|(key, _)| !taken.contains(key.service.as_str()));
        let renamed = |key: DrainKey| match names.of(&key.service) {
            Some(name) => DrainKey { service: name.to_owned(), ..key },
            None => key,
        };
        self.drains = known.map(|(key, drain)| (renamed(key), drain)).collect();
        self.is_unsaved = true;
    }

    /// Forgets the drains of removed backends that are wanted again and are not among what remains: the next removal of
    /// such a one begins another drain.
    pub fn forget_returned(&mut self, remaining: &[Remaining], is_wanted: impl Fn(&DrainKey) -> bool) {
        if !self.drains.keys().any(|key| key.removed) {
            return;
        }
        let present: BTreeSet<DrainKey> = remaining.iter().map(DrainKey::of).collect();
        let returned = |key: &&DrainKey| key.removed && !present.contains(*key) && is_wanted(key);
        let returned: Vec<DrainKey> = self.drains.keys().filter(returned).cloned().collect();
        for key in &returned {
            self.cancel(key);
        }
    }

    /// Takes what the controller says remains, and the time. What drains there and is not known here, as when
    /// a kill came before it was saved, is followed from now on. To be called after the change that began a drain is committed.
    pub fn observe(&mut self, remaining: &[Remaining], now: Instant) -> Vec<DrainEvent> {
        let mut present: BTreeMap<DrainKey, Left> = BTreeMap::new();
        for one in remaining {
            let key = DrainKey::of(one);
            self.note(key.clone(), now);
            // A name can leave with one address more than once.
            present.entry(key).or_default().add(one);
        }
        self.follow_removed(&present);
        let mut events = Vec::new();
        for (key, drain) in &mut self.drains {
            let is_shown = present.contains_key(key);
            let left = present.get(key).copied().unwrap_or_default();
            // While a backend fails nothing lives there; when it passes again, it drains on and its deadline stands.
            if drain.phase == Phase::Done && drain.is_gone && is_shown {
                (drain.ended, drain.is_gone) = (None, false);
                self.is_unsaved = true;
            } else if drain.phase.is_over() {
                drain.is_gone |= !is_shown;
                if let Phase::Cut { live_flows } = &mut drain.phase {
                    *live_flows = left.live_flows;
                }
                continue;
            }
            let late = drain.deadline.is_some_and(|deadline| now >= deadline);
            drain.phase = left.phase(late);
            if drain.phase.is_over() {
                (drain.ended, drain.is_gone) = (Some(now), !is_shown);
                self.is_unsaved = true;
            }
            match drain.phase {
                Phase::Done => {
                    let took = now.saturating_duration_since(drain.began);
                    events.push(DrainEvent::Done { key: key.clone(), took });
                }
                Phase::Cut { live_flows } => events.push(DrainEvent::Cut { key: key.clone(), live_flows }),
                Phase::Busy { .. } | Phase::Quiet { .. } => {}
            }
        }
        self.drains.retain(|key, drain| {
            // One that the controller still shows would be found anew.
            present.contains_key(key)
                || drain.ended.is_none_or(|ended| now.saturating_duration_since(ended) < KEPT)
        });
        events
    }

    /// Has drains whose backends were removed since go on as those of removed ones: from when they began, with the deadline
    /// that they had.
    fn follow_removed(&mut self, present: &BTreeMap<DrainKey, Left>) {
        let twin = |key: &DrainKey| DrainKey { removed: true, ..key.clone() };
        let is_removed = |(key, drain): &(&DrainKey, &Drain)| {
            let left = !key.removed && !drain.phase.is_over() && !present.contains_key(*key);
            left && present.contains_key(&twin(key))
        };
        let removed: Vec<DrainKey> =
            self.drains.iter().filter(is_removed).map(|(key, _)| key.clone()).collect();
        for key in removed {
            let Some(before) = self.cancel(&key) else { continue };
            if let Some(drain) = self.drains.get_mut(&twin(&key))
                && drain.began >= before.began
                && !drain.phase.is_over()
            {
                *drain = Drain { deadline: before.deadline.or(drain.deadline), ..before };
                self.is_unsaved = true;
            }
        }
    }

    /// How far a drain is; `None` when it is not known, or ended long ago.
    pub fn of(&self, key: &DrainKey) -> Option<&Drain> {
        self.drains.get(key)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (&DrainKey, &Drain)> {
        self.drains.iter()
    }

    /// The next deadline of one under way.
    pub fn next_due(&self) -> Option<Instant> {
        let under_way = self.drains.values().filter(|drain| !drain.phase.is_over());
        under_way.filter_map(|drain| drain.deadline).min()
    }

    /// Whether any is under way, so that it is worth while to count what remains.
    pub fn is_under_way(&self) -> bool {
        self.drains.values().any(|drain| !drain.phase.is_over())
    }
}

/// What the controller says of one drain.
#[derive(Debug, Clone, Copy, Default)]
struct Left {
    live_flows: u32,
    ending_flows: u32,
    unsettled_slots: u32,
    may_have_quic: bool,
}

impl Left {
    fn add(&mut self, one: &Remaining) {
        self.live_flows += one.live_flows;
        self.ending_flows += one.ending_flows;
        self.unsettled_slots += one.unsettled_slots;
        self.may_have_quic |= one.may_have_quic;
    }

    fn phase(self, late: bool) -> Phase {
        let Self { live_flows, ending_flows, unsettled_slots, may_have_quic } = self;
        match (live_flows, ending_flows, unsettled_slots, may_have_quic) {
            (0, 0, 0, false) => Phase::Done,
            _ if late => Phase::Cut { live_flows },
            (0, .., false) => Phase::Quiet { ending_flows, unsettled_slots },
            _ => Phase::Busy { live_flows, ending_flows },
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn key() -> DrainKey {
        DrainKey {
            service: "web".into(),
            backend: "be2".into(),
            address: IpAddr::from([10, 0, 0, 2]),
            removed: false,
        }
    }

    fn remaining(live_flows: u32, unsettled_slots: u32) -> Remaining {
        let DrainKey { service, backend, address, removed } = key();
        Remaining {
            service,
            backend,
            address,
            removed,
            live_flows,
            ending_flows: 0,
            unsettled_slots,
            may_have_quic: false,
        }
    }

    fn busy(live_flows: u32) -> Phase {
        Phase::Busy { live_flows, ending_flows: 0 }
    }

    #[test]
    fn a_drain_goes_on_with_its_deadline_where_its_backend_is_removed() {
        let (start, mut drains) = (Instant::now(), Drains::new());
        drains.begin(key(), start, Some(start + 60 * SECOND));
        assert_eq!(drains.observe(&[remaining(3, 20)], start + SECOND), []);
        let removed = |live_flows| Remaining { removed: true, ..remaining(live_flows, 20) };
        assert_eq!(drains.observe(&[removed(2)], start + 2 * SECOND), [], "it is not done by that");
        let known: Vec<_> =
            drains.iter().map(|(key, drain)| (key.removed, drain.phase, drain.began)).collect();
        assert_eq!(known, [(true, busy(2), start)]);
        let cut = DrainEvent::Cut { key: DrainKey { removed: true, ..key() }, live_flows: 1 };
        assert_eq!(drains.observe(&[removed(1)], start + 60 * SECOND), [cut]);
    }

    #[test]
    fn a_drain_keeps_its_deadline_where_its_service_is_called_as_one_was_that_is_no_more() {
        let now = Instant::now();
        for (name, earlier) in [("app", "web"), ("zone", "web")] {
            let of = |service: &str| DrainKey { service: service.to_owned(), ..key() };
            let mut drains = Drains::new();
            drains.begin(of(name), now - Duration::from_secs(60), None);
            drains.observe(&[], now);
            assert!(drains.of(&of(name)).unwrap().phase.is_over());
            drains.begin(of(earlier), now, Some(now + Duration::from_secs(9)));
            drains.rename(&Renames::from_iter([(earlier.to_owned(), name.to_owned())]));
            let drain = drains.of(&of(name)).unwrap();
            assert_eq!((drain.began, drain.deadline), (now, Some(now + Duration::from_secs(9))));
            assert_eq!(drains.iter().count(), 1);
        }
    }

    #[test]
    fn a_drain_is_done_when_no_flow_is_seen_and_no_slot_can_hold_one() {
        let (start, mut drains) = (Instant::now(), Drains::new());
        drains.begin(key(), start, None);
        let steps = [
            (remaining(3, 20), busy(3)),
            (remaining(0, 20), Phase::Quiet { ending_flows: 0, unsettled_slots: 20 }),
            (remaining(1, 20), busy(1)),
            (remaining(1, 1), busy(1)),
        ];
        for (second, (seen, phase)) in (1..).zip(steps) {
            assert_eq!(drains.observe(&[seen], start + second * SECOND), []);
            assert_eq!(drains.of(&key()).unwrap().phase, phase);
            assert!(drains.is_under_way());
        }
        let done = DrainEvent::Done { key: key(), took: 9 * SECOND };
        assert_eq!(drains.observe(&[remaining(0, 0)], start + 9 * SECOND), [done]);
        assert_eq!(drains.observe(&[remaining(0, 0)], start + 10 * SECOND), []);
        assert!(!drains.is_under_way());
    }

    #[test]
    fn what_opens_or_closes_keeps_a_drain_from_being_done_and_not_from_being_quiet() {
        let (start, mut drains) = (Instant::now(), Drains::new());
        let closing = Remaining { ending_flows: 2, ..remaining(0, 0) };
        assert_eq!(drains.observe(&[Remaining { live_flows: 1, ..closing.clone() }], start), []);
        assert_eq!(drains.of(&key()).unwrap().phase, Phase::Busy { live_flows: 1, ending_flows: 2 });
        assert_eq!(drains.observe(&[closing], start + SECOND), []);
        let quiet = Phase::Quiet { ending_flows: 2, unsettled_slots: 0 };
        assert_eq!(drains.of(&key()).unwrap().phase, quiet);
        assert_eq!(drains.observe(&[remaining(0, 0)], start + 2 * SECOND).len(), 1);
    }

    #[test]
    fn a_drain_is_busy_while_quic_connections_may_be_there() {
        let (start, mut drains) = (Instant::now(), Drains::new());
        let quic = Remaining { may_have_quic: true, ..remaining(0, 0) };
        assert_eq!(drains.observe(&[quic], start), []);
        assert_eq!(drains.of(&key()).unwrap().phase, busy(0));
        assert_eq!(drains.observe(&[remaining(0, 0)], start + SECOND).len(), 1);
    }

    #[test]
    fn a_deadline_cuts_a_drain_once() {
        let (start, mut drains) = (Instant::now(), Drains::new());
        drains.begin(key(), start, Some(start + 5 * SECOND));
        assert_eq!(drains.next_due(), Some(start + 5 * SECOND));
        assert_eq!(drains.observe(&[remaining(7, 20)], start + 4 * SECOND), []);
        let cut = DrainEvent::Cut { key: key(), live_flows: 7 };
        assert_eq!(drains.observe(&[remaining(7, 20)], start + 5 * SECOND), [cut]);
        assert_eq!(drains.observe(&[remaining(7, 20)], start + 6 * SECOND), []);
        assert_eq!(drains.next_due(), None);
    }

    #[test]
    fn a_backend_that_is_wanted_again_is_not_awaited_and_can_drain_anew() {
        let (start, mut drains) = (Instant::now(), Drains::new());
        drains.begin(key(), start, Some(start + SECOND));
        drains.cancel(&key()).unwrap();
        assert_eq!(drains.observe(&[], start + 2 * SECOND), []);
        drains.begin(key(), start + 3 * SECOND, None);
        assert_eq!(drains.observe(&[], start + 4 * SECOND).len(), 1);
        drains.begin(key(), start + 5 * SECOND, None);
        assert!(drains.is_under_way());
        assert_eq!(drains.of(&key()).unwrap().began, start + 5 * SECOND);
    }

    #[test]
    fn a_drain_that_was_cut_tells_how_many_flows_there_are_now() {
        let (start, mut drains) = (Instant::now(), Drains::new());
        drains.begin(key(), start, Some(start));
        for (second, seen) in [vec![remaining(19, 20)], vec![remaining(4, 20)], vec![]].iter().enumerate() {
            drains.observe(seen, start + SECOND * second as u32);
            let live_flows = seen.first().map_or(0, |one| one.live_flows);
            assert_eq!(drains.of(&key()).unwrap().phase, Phase::Cut { live_flows });
        }
    }

    #[test]
    fn each_removal_of_a_backend_begins_a_drain() {
        let (start, mut drains) = (Instant::now(), Drains::new());
        let key = DrainKey { removed: true, ..key() };
        let left = [Remaining { removed: true, ..remaining(3, 20) }];
        drains.begin(key.clone(), start, Some(start + SECOND));
        drains.forget_returned(&left, |_| true);
        assert_eq!(drains.observe(&left, start + SECOND).len(), 1, "what remains has not returned");
        drains.forget_returned(&[], |_| false);
        assert!(drains.of(&key).is_some());
        drains.forget_returned(&[], |one| *one == key);
        assert_eq!(drains.of(&key), None);
        drains.observe(&left, start + 9 * SECOND);
        let again = drains.of(&key).unwrap();
        assert_eq!((again.phase, again.began), (busy(3), start + 9 * SECOND));
    }

    #[test]
    fn a_backend_that_fails_and_passes_again_drains_on_until_its_deadline() {
        let (start, mut drains) = (Instant::now(), Drains::new());
        drains.begin(key(), start, Some(start + 9 * SECOND));
        assert_eq!(drains.observe(&[], start + SECOND).len(), 1);
        assert_eq!(drains.observe(&[remaining(2, 20)], start + 2 * SECOND), []);
        let again = drains.of(&key()).unwrap();
        assert_eq!((again.phase, again.began), (busy(2), start));
        let events = drains.observe(&[remaining(2, 20)], start + 9 * SECOND);
        assert_eq!(events, [DrainEvent::Cut { key: key(), live_flows: 2 }]);
    }

    #[test]
    fn a_drain_from_before_a_restart_is_followed() {
        let (start, mut drains) = (Instant::now(), Drains::new());
        assert_eq!(drains.observe(&[remaining(2, 9)], start), []);
        assert_eq!(drains.of(&key()).unwrap().phase, busy(2));
        // Its deadline comes from the overrides, a moment later.
        drains.begin(key(), start + SECOND, Some(start + 2 * SECOND));
        assert_eq!(drains.of(&key()).unwrap().began, start);
        assert_eq!(drains.observe(&[remaining(2, 9)], start + 2 * SECOND).len(), 1);
    }

    #[test]
    fn a_drain_that_ended_can_be_asked_about_for_a_while() {
        let (start, mut drains) = (Instant::now(), Drains::new());
        drains.begin(key(), start, None);
        drains.observe(&[], start);
        drains.observe(&[], start + KEPT - SECOND);
        assert_eq!(drains.of(&key()).unwrap().phase, Phase::Done);
        drains.observe(&[], start + KEPT);
        assert_eq!(drains.of(&key()), None);
    }

    proptest! {
        /// The first observation that decides, decides; nothing after it says anything more.
        #[test]
        fn a_drain_ends_once_and_by_the_first_reason(
            seen in prop::collection::vec((0_u32..3, 0_u32..3, 1_u64..20), 1..40), deadline in 0_u64..200,
        ) {
            let (start, mut drains) = (Instant::now(), Drains::new());
            let deadline = (deadline < 150).then(|| start + SECOND * deadline as u32);
            drains.begin(key(), start, deadline);
            let (mut now, mut events, mut expected) = (start, Vec::new(), None);
            for (live_flows, slots, seconds) in seen {
                now += SECOND * seconds as u32;
                events.extend(drains.observe(&[remaining(live_flows, slots)], now));
                if expected.is_none() && (live_flows, slots) == (0, 0) {
                    expected = Some(DrainEvent::Done { key: key(), took: now - start });
                } else if expected.is_none() && deadline.is_some_and(|deadline| now >= deadline) {
                    expected = Some(DrainEvent::Cut { key: key(), live_flows });
                }
            }
            prop_assert_eq!(events, Vec::from_iter(expected));
        }
    }
}
