//! What a row of results makes of a backend: rise, fall, and damping of those that flap.
//!
//! ```text
//!                 rise passes in a row
//!   NeverPassed ─────────────────────────▶ Up ◀──┐
//!                                          │     │ rise passes in a row,
//!                   fall failures in a row │     │ doubled for each quick fall after the first
//!                                          ▼     │
//!                                         Down ──┘
//! ```
//! A result of the other kind starts a row anew. A time-out is a failure. A fall is quick when it comes within
//! [`STEADY_RESULTS`] results of the rise before it; so many results up in a row forgive all quick falls.

use serde::{Deserialize, Serialize};

/// Results that a backend has to stay up for, for its next fall to count as the first.
pub const STEADY_RESULTS: u8 = 30;

/// The most that damping multiplies `rise` by.
pub const MAX_DAMPING: u16 = 8;

/// What the checks say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It has never passed as often as it has to.
    #[default]
    NeverPassed,
    /// It passes.
    Up,
    /// It passed once, and fails.
    Down,
}

impl Verdict {
    /// A stable name for people, metrics and JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NeverPassed => "never-passed",
            Self::Up => "up",
            Self::Down => "down",
        }
    }
}

/// How long a row has to be to change the verdict; 0 counts as 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Thresholds {
    /// Passes in a row that bring a backend up.
    pub rise: u8,
    /// Failures in a row that take it down.
    pub fall: u8,
}

/// The state of one backend of one service. Thresholds come with each result, so that a reload can change them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Machine {
    verdict: Verdict,
    /// Results in a row that contradict the verdict.
    row: u16,
    /// Results since it came up.
    steady: u8,
    quick_falls: u8,
}

impl Machine {
    /// A newcomer.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes a result; `true` when the verdict changed.
    pub fn step(&mut self, passed: bool, thresholds: Thresholds) -> bool {
        if self.verdict == Verdict::Up {
            self.steady = self.steady.saturating_add(1).min(STEADY_RESULTS);
            if self.steady == STEADY_RESULTS {
                self.quick_falls = 0;
            }
        }
        if passed == (self.verdict == Verdict::Up) {
            self.row = 0;
            return false;
        }
        self.row = self.row.saturating_add(1);
        if self.row < self.needed(thresholds) {
            return false;
        }
        self.row = 0;
        if passed {
            self.verdict = Verdict::Up;
            self.steady = 0;
        } else {
            self.verdict = Verdict::Down;
            if self.steady < STEADY_RESULTS {
                self.quick_falls = self.quick_falls.saturating_add(1);
            }
        }
        true
    }

    /// Whether results of this kind change nothing any more, however many come.
    pub fn is_settled(&self, passed: bool) -> bool {
        let is_up = self.verdict == Verdict::Up;
        let is_steady = !is_up || (self.steady == STEADY_RESULTS && self.quick_falls == 0);
        passed == is_up && self.row == 0 && is_steady
    }

    /// Another question is asked from now on: what was answered to the one before counts towards no other verdict.
    pub(super) fn begin_row(&mut self) {
        self.row = 0;
    }

    /// What the checks say.
    pub fn verdict(&self) -> Verdict {
        self.verdict
    }

    /// Results in a row so far that contradict the verdict.
    pub fn row(&self) -> u16 {
        self.row
    }

    /// How long such a row has to be to change it.
    pub fn needed(&self, thresholds: Thresholds) -> u16 {
        match self.verdict {
            Verdict::Up => u16::from(thresholds.fall.max(1)),
            Verdict::NeverPassed => u16::from(thresholds.rise.max(1)),
            Verdict::Down => u16::from(thresholds.rise.max(1)) * self.damping(),
        }
    }

    /// Whether it has fallen quickly more than once.
    pub fn is_flapping(&self) -> bool {
        self.damping() > 1
    }

    fn damping(&self) -> u16 {
        // The first quick fall is free.
        let doublings = self.quick_falls.saturating_sub(1).min(MAX_DAMPING.trailing_zeros() as u8);
        1 << doublings
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const THREE_TWO: Thresholds = Thresholds { rise: 2, fall: 3 };

    /// Feeds a row written as `S` and `F`; spaces are for the eye.
    fn feed(machine: &mut Machine, thresholds: Thresholds, row: &str) -> Vec<Verdict> {
        row.chars()
            .filter(|c| !c.is_whitespace())
            .map(|c| {
                machine.step(c == 'S', thresholds);
                machine.verdict()
            })
            .collect()
    }

    fn up() -> Machine {
        Machine { verdict: Verdict::Up, steady: STEADY_RESULTS, ..Machine::default() }
    }

    #[test]
    fn alternating_results_never_take_a_backend_down() {
        let mut machine = up();
        assert!(feed(&mut machine, THREE_TWO, &"FS".repeat(100)).iter().all(|&v| v == Verdict::Up));
    }

    #[test]
    fn the_third_failure_in_a_row_takes_it_down_and_the_second_pass_in_a_row_brings_it_back() {
        let mut machine = up();
        assert_eq!(feed(&mut machine, THREE_TWO, "FFF"), [Verdict::Up, Verdict::Up, Verdict::Down]);
        let rise = [Verdict::Down, Verdict::Down, Verdict::Down, Verdict::Up];
        assert_eq!(feed(&mut machine, THREE_TWO, "SFSS"), rise);
    }

    #[test]
    fn the_first_quick_fall_costs_nothing() {
        let mut machine = Machine::new();
        feed(&mut machine, THREE_TWO, "SS FFF");
        assert_eq!(feed(&mut machine, THREE_TWO, "SFSS").last(), Some(&Verdict::Up));
    }

    #[test]
    fn each_quick_fall_after_the_first_doubles_what_a_rise_takes_up_to_a_limit() {
        let mut machine = Machine::new();
        let mut rises = Vec::new();
        for _ in 0..7 {
            let mut passes = 0;
            while machine.verdict() != Verdict::Up {
                machine.step(true, THREE_TWO);
                passes += 1;
            }
            rises.push(passes);
            feed(&mut machine, THREE_TWO, "FFF");
        }
        assert_eq!(rises, [2, 2, 4, 8, 16, 16, 16]);
        assert!(machine.is_flapping());
    }

    #[test]
    fn staying_up_forgives_quick_falls() {
        let mut machine = Machine::new();
        feed(&mut machine, THREE_TWO, "SS FFF SS FFF SSSS");
        assert!(machine.is_flapping());
        feed(&mut machine, THREE_TWO, &"S".repeat(usize::from(STEADY_RESULTS)));
        assert!(!machine.is_flapping());
        assert_eq!(feed(&mut machine, THREE_TWO, "FFF SS").last(), Some(&Verdict::Up));
    }

    #[test]
    fn a_newcomer_that_fails_stays_one() {
        let mut machine = Machine::new();
        feed(&mut machine, THREE_TWO, &"FSF".repeat(50));
        assert_eq!(machine.verdict(), Verdict::NeverPassed);
    }

    /// Every verdict, row length and result, written out by hand.
    #[test]
    fn every_state_and_result_leads_where_the_table_says() {
        use Verdict::{Down, NeverPassed, Up};
        let table = [
            // verdict, row, passed, verdict after, row after
            (NeverPassed, 0, true, NeverPassed, 1),
            (NeverPassed, 1, true, Up, 0),
            (NeverPassed, 0, false, NeverPassed, 0),
            (NeverPassed, 1, false, NeverPassed, 0),
            (Up, 0, true, Up, 0),
            (Up, 1, true, Up, 0),
            (Up, 2, true, Up, 0),
            (Up, 0, false, Up, 1),
            (Up, 1, false, Up, 2),
            (Up, 2, false, Down, 0),
            (Down, 0, true, Down, 1),
            (Down, 1, true, Up, 0),
            (Down, 0, false, Down, 0),
            (Down, 1, false, Down, 0),
        ];
        for (verdict, row, passed, verdict_after, row_after) in table {
            for steady in [0, STEADY_RESULTS] {
                let mut machine = Machine { verdict, row, steady, quick_falls: 0 };
                let changed = machine.step(passed, THREE_TWO);
                assert_eq!((machine.verdict, machine.row), (verdict_after, row_after));
                assert_eq!(changed, verdict != verdict_after);
            }
        }
    }

    /// The same rules over the whole history, without counters that could drift.
    fn model(history: &[bool], rise: usize, fall: usize) -> Verdict {
        let mut verdict = Verdict::NeverPassed;
        let (mut since, mut up_since, mut quick) = (0, 0, 0_u32);
        for end in 1..=history.len() {
            let row = &history[since..end];
            let tail = |length: usize, kind: bool| {
                row.len() >= length && row[row.len() - length..].iter().all(|&passed| passed == kind)
            };
            if verdict == Verdict::Up {
                if end - up_since >= usize::from(STEADY_RESULTS) {
                    quick = 0;
                }
                if tail(fall, false) {
                    quick += u32::from(end - up_since < usize::from(STEADY_RESULTS));
                    (verdict, since) = (Verdict::Down, end);
                }
            } else {
                let damping = if verdict == Verdict::Down { quick.saturating_sub(1).min(3) } else { 0 };
                if tail(rise << damping, true) {
                    (verdict, since, up_since) = (Verdict::Up, end, end);
                }
            }
        }
        verdict
    }

    /// Runs of equal results, so that rows are long enough to matter.
    fn histories() -> impl Strategy<Value = Vec<bool>> {
        prop::collection::vec((any::<bool>(), 1_usize..40), 0..30).prop_map(|runs| {
            runs.into_iter().flat_map(|(passed, length)| std::iter::repeat_n(passed, length)).collect()
        })
    }

    proptest! {
        #[test]
        fn the_machine_agrees_with_the_rules_over_the_whole_history(
            history in histories(), rise in 1_u8..6, fall in 1_u8..6,
        ) {
            let thresholds = Thresholds { rise, fall };
            let mut machine = Machine::new();
            for (at, &passed) in history.iter().enumerate() {
                let before = machine.verdict();
                let changed = machine.step(passed, thresholds);
                prop_assert_eq!(changed, before != machine.verdict());
                let expected = model(&history[..=at], usize::from(rise), usize::from(fall));
                prop_assert_eq!(machine.verdict(), expected);
                prop_assert!(machine.row() < machine.needed(thresholds));
            }
        }

        #[test]
        fn what_is_settled_stays_as_it_is_and_enough_results_settle_it(
            history in histories(), rise in 1_u8..=100, fall in 1_u8..=100, kind in any::<bool>(),
        ) {
            let thresholds = Thresholds { rise, fall };
            let mut machine = Machine::new();
            for &passed in &history {
                machine.step(passed, thresholds);
                let mut next = machine;
                next.step(kind, thresholds);
                prop_assert_eq!(machine.is_settled(kind), next == machine);
            }
            let most = machine.needed(thresholds) + u16::from(STEADY_RESULTS) + 1;
            (0..most).for_each(|_| { machine.step(kind, thresholds); });
            prop_assert!(machine.is_settled(kind) && !machine.is_settled(!kind));
        }

        #[test]
        fn enough_results_of_one_kind_settle_any_state(
            history in histories(), rise in 1_u8..=100, fall in 1_u8..=100, kind in any::<bool>(),
        ) {
            let thresholds = Thresholds { rise, fall };
            let mut machine = Machine::new();
            history.iter().for_each(|&passed| { machine.step(passed, thresholds); });
            let most = machine.needed(thresholds);
            (0..most).for_each(|_| { machine.step(kind, thresholds); });
            prop_assert_eq!(machine.verdict() == Verdict::Up, kind);
        }
    }
}
