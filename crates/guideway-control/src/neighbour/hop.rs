//! One next hop: its MAC, and when it is to be asked about.
//!
//! ```text
//!               heard from                     time to confirm
//!   Resolving ─────────────▶ Known ──────────────────────────▶ Confirming
//!       ▲                     ▲ ▲                                │     │
//!       │                     │ └────────── heard from ──────────┘     │ silent
//!       │ silent              │ heard from                             ▼
//!       └──────────────── Restarting ◀─────────────────────────────────┘
//! ```
//! All but `Resolving` have a MAC that frames go to.

use std::time::{Duration, Instant};

use super::{Mac, Resolution};

/// From one confirmation of a next hop to the next, where there are no more than a thousand.
pub const CONFIRM_EVERY: Duration = Duration::from_secs(1);

/// How long a neighbour may take to confirm.
pub const CONFIRM_WITHIN: Duration = Duration::from_millis(300);

/// How long frames go to the MAC that was known while the neighbour is resolved anew.
pub const HELD_WHILE_RESOLVING: Duration = Duration::from_secs(1);

/// From one attempt to resolve to the next.
pub const RESOLVE_AGAIN: Duration = Duration::from_secs(1);

/// What is to be done about a next hop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Deed {
    Resolve,
    Confirm,
    Restart,
}

/// A next hop in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hop {
    phase: Phase,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// No MAC; asked for again at that time.
    Resolving { again: Instant },
    /// Heard from; `None`: set for good.
    Known { mac: Mac, confirm: Option<Instant> },
    /// Asked, and silent so far.
    Confirming { mac: Mac, until: Instant },
    /// Being resolved anew.
    Restarting { mac: Mac, until: Instant },
}

impl Hop {
    /// One of which nothing is known yet; to be resolved now.
    pub(super) fn new(now: Instant) -> Self {
        Self { phase: Phase::Resolving { again: now } }
    }

    /// Where frames go.
    pub(super) fn mac(&self) -> Option<Mac> {
        match self.phase {
            Phase::Resolving { .. } => None,
            Phase::Known { mac, .. } | Phase::Confirming { mac, .. } | Phase::Restarting { mac, .. } => {
                Some(mac)
            }
        }
    }

    /// When [`advance`](Self::advance) has something to do; `None` for one that is set for good.
    pub(super) fn due(&self) -> Option<Instant> {
        match self.phase {
            Phase::Resolving { again } => Some(again),
            Phase::Known { confirm, .. } => confirm,
            Phase::Confirming { until, .. } | Phase::Restarting { until, .. } => Some(until),
        }
    }

    /// Takes what the kernel knows. `pace` is the time to the next confirmation. Returns what is to be done at once.
    pub(super) fn hear(&mut self, heard: Resolution, now: Instant, pace: Duration) -> Option<Deed> {
        match heard {
            Resolution::Permanent(mac) => {
                self.phase = Phase::Known { mac, confirm: None };
                None
            }
            Resolution::Confirmed(mac) => {
                self.phase = Phase::Known { mac, confirm: Some(now + pace) };
                None
            }
            Resolution::Doubtful(mac) => match self.phase {
                // The kernel tells so of what was asked for.
                Phase::Confirming { mac: known, .. } if known == mac => None,
                _ => {
                    self.phase = Phase::Confirming { mac, until: now + CONFIRM_WITHIN };
                    Some(Deed::Confirm)
                }
            },
            Resolution::Unknown => match self.phase {
                Phase::Known { mac, .. } | Phase::Confirming { mac, .. } => {
                    self.phase = Phase::Restarting { mac, until: now + HELD_WHILE_RESOLVING };
                    Some(Deed::Resolve)
                }
                Phase::Resolving { .. } | Phase::Restarting { .. } => None,
            },
        }
    }

    /// Does what is due.
    pub(super) fn advance(&mut self, now: Instant) -> Option<Deed> {
        if self.due().is_none_or(|due| due > now) {
            return None;
        }
        match self.phase {
            Phase::Resolving { .. } => {
                self.phase = Phase::Resolving { again: now + RESOLVE_AGAIN };
                Some(Deed::Resolve)
            }
            Phase::Known { mac, .. } => {
                self.phase = Phase::Confirming { mac, until: now + CONFIRM_WITHIN };
                Some(Deed::Confirm)
            }
            Phase::Confirming { mac, .. } => {
                self.phase = Phase::Restarting { mac, until: now + HELD_WHILE_RESOLVING };
                Some(Deed::Restart)
            }
            Phase::Restarting { .. } => {
                self.phase = Phase::Resolving { again: now + RESOLVE_AGAIN };
                Some(Deed::Resolve)
            }
        }
    }

    /// The link lost its carrier, or found it: whatever was known is void.
    pub(super) fn reset(&mut self, now: Instant) {
        *self = Self::new(now);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const A: Mac = [2, 0, 0, 0, 0, 0xa];
    const B: Mac = [2, 0, 0, 0, 0, 0xb];

    /// Every phase and everything that can be heard, written out by hand.
    #[test]
    fn every_phase_and_word_leads_where_the_table_says() {
        let now = Instant::now();
        let later = now + Duration::from_secs(9);
        let known = |mac| Phase::Known { mac, confirm: Some(now + CONFIRM_EVERY) };
        let set = |mac| Phase::Known { mac, confirm: None };
        let confirming = |mac, until| Phase::Confirming { mac, until };
        let restarting = |mac, until| Phase::Restarting { mac, until };
        let resolving = Phase::Resolving { again: later };
        let (soon, held) = (now + CONFIRM_WITHIN, now + HELD_WHILE_RESOLVING);
        let phases = [
            resolving,
            Phase::Known { mac: A, confirm: Some(later) },
            set(A),
            confirming(A, later),
            restarting(A, later),
        ];
        use Resolution::*;
        for phase in phases {
            let table = [
                (Confirmed(A), known(A), None),
                (Confirmed(B), known(B), None),
                (Permanent(B), set(B), None),
                match phase {
                    Phase::Confirming { .. } => (Doubtful(A), confirming(A, later), None),
                    _ => (Doubtful(A), confirming(A, soon), Some(Deed::Confirm)),
                },
                (Doubtful(B), confirming(B, soon), Some(Deed::Confirm)),
                match phase {
                    Phase::Resolving { .. } | Phase::Restarting { .. } => (Unknown, phase, None),
                    _ => (Unknown, restarting(A, held), Some(Deed::Resolve)),
                },
            ];
            for (heard, expected, deed) in table {
                let mut hop = Hop { phase };
                assert_eq!(hop.hear(heard, now, CONFIRM_EVERY), deed, "{phase:?} {heard:?}");
                assert_eq!(hop.phase, expected, "{phase:?} {heard:?}");
            }
        }
    }

    #[test]
    fn a_silent_neighbour_is_confirmed_restarted_and_given_up() {
        let mut now = Instant::now();
        let mut hop = Hop::new(now);
        hop.hear(Resolution::Confirmed(A), now, CONFIRM_EVERY);
        let mut deeds = Vec::new();
        for _ in 0..5 {
            let due = hop.due().unwrap();
            assert_eq!(hop.advance(due - Duration::from_nanos(1)), None);
            let waited = due - now;
            now = due;
            deeds.push((waited, hop.advance(now).unwrap(), hop.mac()));
        }
        let expected = [
            (CONFIRM_EVERY, Deed::Confirm, Some(A)),
            (CONFIRM_WITHIN, Deed::Restart, Some(A)),
            (HELD_WHILE_RESOLVING, Deed::Resolve, None),
            (RESOLVE_AGAIN, Deed::Resolve, None),
            (RESOLVE_AGAIN, Deed::Resolve, None),
        ];
        assert_eq!(deeds, expected);
    }

    proptest! {
        /// A MAC is given up only after it was doubted for as long as it is held, and never without having been asked.
        #[test]
        fn a_mac_is_never_dropped_in_haste(
            steps in prop::collection::vec((0_u64..1_500, prop::option::of(0_u8..4)), 1..60),
        ) {
            let mut now = Instant::now();
            let mut hop = Hop::new(now);
            let mut heard_at = now;
            for (ms, heard) in steps {
                let end = now + Duration::from_millis(ms);
                while let Some(due) = hop.due().filter(|&due| due <= end) {
                    now = now.max(due);
                    let before = hop.mac();
                    let deed = hop.advance(now);
                    prop_assert!(deed.is_some());
                    prop_assert!(hop.due().is_some_and(|due| due > now));
                    if before.is_some() && hop.mac().is_none() {
                        prop_assert!(now - heard_at >= HELD_WHILE_RESOLVING);
                    }
                }
                now = end;
                if let Some(heard) = heard {
                    let words = [
                        Resolution::Confirmed(A),
                        Resolution::Doubtful(B),
                        Resolution::Permanent(A),
                        Resolution::Unknown,
                    ];
                    let before = hop.mac();
                    hop.hear(words[usize::from(heard)], now, CONFIRM_EVERY);
                    prop_assert!(before.is_none() || hop.mac().is_some());
                    if heard < 3 {
                        heard_at = now;
                    }
                }
            }
        }
    }
}
