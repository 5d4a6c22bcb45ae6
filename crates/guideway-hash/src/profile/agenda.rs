//! Turns by weight for rules of one shape: in round 1, 2, 3 … a backend takes a turn when round × weight has reached
//! its target, and the target then grows by the largest weight.

use alloc::{collections::BinaryHeap, vec::Vec};
use core::cmp::Reverse;

use crate::maglev::Turns;

/// The arithmetic that a rule counts in. Floats and integers don't round alike, so a profile has to use its system's.
pub(super) trait Measure: Copy + PartialOrd {
    /// `self` reached after `rounds` rounds.
    fn times(self, rounds: u64) -> Self;
    /// The sum.
    fn plus(self, other: Self) -> Self;
    /// The first round in which a weight of `self` reaches `target`; `u64::MAX` for one that no build gets to.
    fn first_round_at(self, target: Self) -> u64;
}

impl Measure for u64 {
    fn times(self, rounds: u64) -> Self {
        self * rounds
    }

    fn plus(self, other: Self) -> Self {
        self + other
    }

    fn first_round_at(self, target: Self) -> u64 {
        target.div_ceil(self).max(1)
    }
}

impl Measure for f64 {
    fn times(self, rounds: u64) -> Self {
        rounds as f64 * self
    }

    fn plus(self, other: Self) -> Self {
        self + other
    }

    fn first_round_at(self, target: Self) -> u64 {
        // The quotient is within one of the answer, for products of whole rounds rise with the rounds.
        let mut round = (target / self) as u64;
        if round > u64::from(u32::MAX) {
            return u64::MAX;
        }
        while round > 1 && self.times(round - 1) >= target {
            round -= 1;
        }
        while round < 1 || self.times(round) < target {
            round += 1;
        }
        round
    }
}

/// Turns by such a rule.
pub(super) struct Agenda<M> {
    weights: Vec<M>,
    targets: Vec<M>,
    step: M,
    pace: Pace,
}

/// How the next turn is found. Both ways give the same turns.
enum Pace {
    /// By asking each backend in each round: best when many of them take a turn.
    Dense { round: u64, next: usize },
    /// From a queue of (round, backend): best when most rounds pass most backends by.
    Sparse(BinaryHeap<Reverse<(u64, u32)>>),
}

/// Backends asked a turn, above which a queue is cheaper.
const DENSE_LIMIT: f64 = 16.0;

impl<M: Measure> Agenda<M> {
    /// Turns for these positive weights, the largest of which is `step`. `crowding` is how many backends there are
    /// for each that takes a turn in a typical round.
    pub(super) fn new(weights: Vec<M>, first_target: M, step: M, crowding: f64) -> Self {
        let pace = if crowding <= DENSE_LIMIT {
            Pace::Dense { round: 1, next: 0 }
        } else {
            let first = weights.iter().enumerate();
            Pace::Sparse(
                first
                    .map(|(who, weight)| Reverse((weight.first_round_at(first_target), who as u32)))
                    .collect(),
            )
        };
        Self { targets: weights.iter().map(|_| first_target).collect(), weights, step, pace }
    }
}

impl<M: Measure> Turns for Agenda<M> {
    #[inline]
    fn next(&mut self) -> u32 {
        match &mut self.pace {
            Pace::Dense { round, next } => loop {
                if *next == self.weights.len() {
                    *next = 0;
                    *round += 1;
                }
                let who = *next;
                *next += 1;
                let target = self.targets[who];
                if self.weights[who].times(*round) >= target {
                    self.targets[who] = target.plus(self.step);
                    return who as u32;
                }
            },
            Pace::Sparse(queue) => {
                let Some(mut first) = queue.peek_mut() else {
                    // Nobody is in the queue only when there is no weight at all, and then nobody asks.
                    return 0;
                };
                let Reverse((round, who)) = *first;
                let target = self.targets[who as usize].plus(self.step);
                self.targets[who as usize] = target;
                // One turn a round is the most there is, even where the target would allow another.
                let next = self.weights[who as usize].first_round_at(target).max(round + 1);
                *first = Reverse((next, who));
                who
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn turns<M: Measure>(weights: &[M], first: M, step: M, crowding: f64) -> Vec<u32> {
        let mut agenda = Agenda::new(weights.to_vec(), first, step, crowding);
        (0..2_000).map(|_| agenda.next()).collect()
    }

    proptest! {
        #[test]
        fn queue_and_rounds_agree(weights in prop::collection::vec(1..=u32::MAX, 1..20), small in any::<bool>()) {
            let weights: Vec<u32> = weights.into_iter().map(|w| if small { w % 9 + 1 } else { w }).collect();
            let heaviest = weights.iter().copied().max().unwrap();
            let whole: Vec<u64> = weights.iter().map(|&w| w.into()).collect();
            let step = u64::from(heaviest);
            prop_assert_eq!(turns(&whole, step, step, 0.0), turns(&whole, step, step, 99.0));
            let sum: f64 = weights.iter().map(|&w| f64::from(w)).sum();
            let parts: Vec<f64> = weights.iter().map(|&w| f64::from(w) / sum).collect();
            let step = f64::from(heaviest) / sum;
            prop_assert_eq!(turns(&parts, 0.0, step, 0.0), turns(&parts, 0.0, step, 99.0));
        }
    }
}
