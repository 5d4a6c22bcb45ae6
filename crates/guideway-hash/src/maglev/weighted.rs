//! Turns by weight, in integers.

use alloc::vec::Vec;

use super::{BuildError, Turns};

/// Turns in proportion to integer weights, for a table of a known size.
///
/// # Rule
/// Let `w_max` be the largest weight. Each backend has a credit, at first `w_max - w_i`. A round goes through the
/// backends in order: each one's credit grows by `w_i`, and when that reaches `w_max` it takes a turn and pays
/// `w_max`. So everybody takes a turn in the first round, the heaviest one in every round, and one with a third of
/// its weight in every third. Equal weights give [`RoundRobin`](super::RoundRobin).
///
/// A backend takes no more turns than its *quota*, which keeps shares exact: quotas add up to M, and are the
/// exact shares `M w_i / W` rounded up or down, those with the largest remainders up (on a tie, the earlier
/// backend). Where the exact share is below one slot the quota is one, and the others share what is left. When there
/// are more backends of positive weight than slots, the first M of them take one each.
///
/// Everything is integer arithmetic, so every machine gives the same turns. It takes O(N log N) time to prepare,
/// O(1) a turn, and O(N) memory, or that of 16,384 turns where it is more.
#[derive(Clone, Debug)]
pub struct Weighted {
    /// Backends that have turns left after those of `turns`, in order.
    runners: Vec<Runner>,
    heaviest: u64,
    /// The turns of a stretch of rounds, as (round - `begin`, backend), in order. Never empty.
    turns: Vec<(u32, u32)>,
    /// The next of them.
    at: usize,
    /// The first round of the stretch.
    begin: u32,
    /// Its rounds.
    stretch: u32,
    /// How often the same turns come again after it.
    repeats: u32,
    /// The turns of a stretch, backend by backend, before they are sorted by round.
    drawn: Vec<(u32, u32)>,
    /// Per round of a stretch, where its turns go.
    places: Vec<u32>,
}

/// The longest period, in turns, that is kept to be repeated whatever the number of backends: read in order, it comes
/// sooner than it could be worked out again, and it takes as much memory as a table of 65,537 slots.
const LONG_PERIOD: u64 = 1 << 14;

/// The turns up to which a short period is kept several times over.
const SHORT_PERIOD: u64 = 64;

#[derive(Clone, Debug)]
struct Runner {
    backend: u32,
    left: u32,
    /// The round of the next turn.
    round: u32,
    /// `w_max` in units of `w_i`: the whole rounds between two turns, and the rest.
    whole: u32,
    rest: u32,
    /// How much of a round the next turn comes late, in units of `1 / w_i`.
    late: u32,
    weight: u32,
}

impl Weighted {
    /// Turns for a table of `size` slots and backends of the given weights.
    ///
    /// # Errors
    /// [`BuildError::NoEligibleBackend`] when no weight is positive; [`BuildError::NoSlots`] for size 0;
    /// [`BuildError::Allocation`].
    pub fn new(size: u32, weights: &[u32]) -> Result<Self, BuildError> {
        if size == 0 {
            return Err(BuildError::NoSlots);
        }
        let heaviest =
            weights.iter().copied().max().filter(|&w| w > 0).ok_or(BuildError::NoEligibleBackend)?;
        let quotas = quotas(size, weights)?;
        let out_of_memory = |_| BuildError::Allocation { slots: size, backends: weights.len() };
        let mut runners = Vec::new();
        runners.try_reserve_exact(weights.len()).map_err(out_of_memory)?;
        runners.extend(weights.iter().zip(&quotas).enumerate().filter(|(_, (_, quota))| **quota > 0).map(
            |(backend, (&weight, &quota))| Runner {
                backend: backend as u32,
                left: quota,
                round: 0,
                whole: heaviest / weight,
                rest: heaviest % weight,
                late: 0,
                weight,
            },
        ));
        // After so many rounds the same turns come again; a short period is kept several times over.
        let shared = runners.iter().fold(heaviest, |shared, runner| gcd(shared, runner.weight));
        let turns_of_one = sum(&runners) / u64::from(shared);
        let times = (SHORT_PERIOD / turns_of_one).max(1);
        let period = u64::from(heaviest / shared) * times;
        let turns_of_period = turns_of_one * times;
        // The heaviest may be among those that own nothing, so rounds may be more than turns.
        let kept = LONG_PERIOD.max(3 * runners.len() as u64);
        let is_kept = turns_of_period.max(period) <= kept;
        let room = if is_kept { turns_of_period as usize } else { 0 }.max(3 * runners.len());
        let (mut turns, mut drawn, mut places) = (Vec::new(), Vec::new(), Vec::new());
        turns.try_reserve_exact(room).map_err(out_of_memory)?;
        drawn.try_reserve_exact(room).map_err(out_of_memory)?;
        let rounds = if is_kept { period as usize } else { 0 }.max(runners.len());
        places.try_reserve_exact(rounds + 1).map_err(out_of_memory)?;
        let mut this = Self {
            runners,
            heaviest: heaviest.into(),
            turns,
            at: 0,
            begin: 0,
            stretch: 0,
            repeats: 0,
            drawn,
            places,
        };
        if is_kept {
            this.draw(period as u32);
            this.repeat();
        } else {
            this.draw(this.one_turn_each());
        }
        Ok(this)
    }

    /// Of how many rounds a backend takes about one turn: at most as many as there are backends, with three turns each.
    fn one_turn_each(&self) -> u32 {
        let backends = self.runners.len() as u64;
        (backends * self.heaviest).div_ceil(sum(&self.runners)).min(backends) as u32
    }

    /// Puts the turns of the next so many rounds into `turns`.
    ///
    /// They come out backend by backend and are sorted by round by counting, which keeps the backends of a round in order.
    fn draw(&mut self, stretch: u32) {
        self.begin += self.stretch;
        self.stretch = stretch;
        self.at = 0;
        self.drawn.clear();
        self.places.clear();
        self.places.resize(stretch as usize + 1, 0);
        for runner in &mut self.runners {
            while runner.left > 0 && runner.round - self.begin < stretch {
                let round = runner.round - self.begin;
                self.drawn.push((round, runner.backend));
                self.places[round as usize + 1] += 1;
                runner.advance();
            }
        }
        for round in 1..self.places.len() {
            self.places[round] += self.places[round - 1];
        }
        self.turns.clear();
        self.turns.resize(self.drawn.len(), (0, 0));
        for &(round, backend) in &self.drawn {
            let place = &mut self.places[round as usize];
            self.turns[*place as usize] = (round, backend);
            *place += 1;
        }
    }

    /// Has the turns that were drawn come again as often as everybody has as many left.
    fn repeat(&mut self) {
        let heaviest = self.heaviest;
        let rounds = u64::from(self.stretch);
        let turns = |runner: &Runner| (u64::from(runner.weight) * rounds / heaviest) as u32;
        self.repeats = self.runners.iter().map(|runner| runner.left / turns(runner)).min().unwrap_or(0);
        for runner in &mut self.runners {
            runner.left -= self.repeats * turns(runner);
            runner.round += self.repeats * self.stretch;
        }
    }

    /// After the last of `turns`: the next ones.
    #[cold]
    fn go_on(&mut self) {
        self.at = 0;
        if self.repeats > 0 {
            self.repeats -= 1;
            self.begin += self.stretch;
            return;
        }
        let last = self.turns.last().copied();
        self.runners.retain(|runner| runner.left > 0);
        while !self.runners.is_empty() {
            self.draw(self.one_turn_each());
            if !self.turns.is_empty() {
                return;
            }
        }
        // Past the last turn of the table the last backend goes on, so that asking too often is harmless.
        self.turns.clear();
        self.turns.extend(last);
    }
}

fn sum(runners: &[Runner]) -> u64 {
    runners.iter().map(|runner| u64::from(runner.weight)).sum()
}

fn gcd(mut a: u32, mut b: u32) -> u32 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

impl Runner {
    /// Spends a turn: the next is `w_max / w_i` rounds later, counted from the exact time of the last and rounded up.
    fn advance(&mut self) {
        self.left -= 1;
        self.round += self.whole;
        if self.late >= self.rest {
            self.late -= self.rest;
        } else {
            self.late += self.weight - self.rest;
            self.round += 1;
        }
    }
}

impl Turns for Weighted {
    #[inline]
    fn next(&mut self) -> u32 {
        if self.at >= self.turns.len() {
            self.go_on();
        }
        let turn = self.turns.get(self.at);
        self.at += 1;
        turn.map_or(0, |&(_, backend)| backend)
    }

    fn round(&self) -> Option<u32> {
        let (round, _) = self.turns.get(self.at.checked_sub(1)?)?;
        Some(self.begin + round)
    }
}

/// How many turns each weight is due in a table of `size` slots: see [`Weighted`].
fn quotas(size: u32, weights: &[u32]) -> Result<Vec<u32>, BuildError> {
    let out_of_memory = |_| BuildError::Allocation { slots: size, backends: weights.len() };
    let mut quotas = Vec::new();
    quotas.try_reserve_exact(weights.len()).map_err(out_of_memory)?;
    quotas.resize(weights.len(), 0_u32);
    let mut order: Vec<u32> = Vec::new();
    order.try_reserve_exact(weights.len()).map_err(out_of_memory)?;
    order.extend((0_u32..).zip(weights).filter(|(_, weight)| **weight > 0).map(|(backend, _)| backend));
    if order.len() > size as usize {
        for &backend in &order[..size as usize] {
            quotas[backend as usize] = 1;
        }
        return Ok(quotas);
    }
    let weight_of = |backend: u32| u64::from(weights[backend as usize]);
    order.sort_unstable_by_key(|&backend| (weight_of(backend), backend));
    let mut sum: u64 = order.iter().map(|&backend| weight_of(backend)).sum();
    let mut slots = u64::from(size);
    // Whoever is due less than a slot gets one; that leaves less for the others, the next lightest first.
    let mut small = 0;
    for &backend in &order {
        if slots * weight_of(backend) >= sum {
            break;
        }
        quotas[backend as usize] = 1;
        slots -= 1;
        sum -= weight_of(backend);
        small += 1;
    }
    // The rest: whole slots first, then one more for the largest remainders.
    let rest = &mut order[small..];
    let mut unclaimed = slots;
    for &backend in &*rest {
        let whole = slots * weight_of(backend) / sum;
        quotas[backend as usize] = whole as u32;
        unclaimed -= whole;
    }
    let remainder = |backend: u32| slots * weight_of(backend) % sum;
    rest.sort_unstable_by_key(|&backend| (core::cmp::Reverse(remainder(backend)), backend));
    for &backend in &rest[..unclaimed as usize] {
        quotas[backend as usize] += 1;
    }
    Ok(quotas)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::maglev::RoundRobin;
    use proptest::prelude::*;

    fn counts(size: u32, weights: &[u32]) -> Vec<u32> {
        let mut turns = Weighted::new(size, weights).unwrap();
        let mut counts = alloc::vec![0; weights.len()];
        for _ in 0..size {
            counts[turns.next() as usize] += 1;
        }
        counts
    }

    /// The rule as it is written down: round after round, everybody's credit.
    fn by_the_book(size: u32, weights: &[u32]) -> Vec<(u32, u32)> {
        let quotas = quotas(size, weights).unwrap();
        let heaviest = u64::from(*weights.iter().max().unwrap());
        let mut credits: Vec<u64> = weights.iter().map(|&w| heaviest - u64::from(w)).collect();
        let mut taken = alloc::vec![0; weights.len()];
        let mut turns = Vec::new();
        let mut round = 0;
        while turns.len() < size as usize {
            for (backend, &weight) in weights.iter().enumerate() {
                credits[backend] += u64::from(weight);
                if weight > 0 && credits[backend] >= heaviest {
                    credits[backend] -= heaviest;
                    if taken[backend] < quotas[backend] {
                        taken[backend] += 1;
                        turns.push((round, backend as u32));
                    }
                }
            }
            round += 1;
        }
        turns
    }

    proptest! {
        #[test]
        fn turns_follow_the_credits(
            size in prop_oneof![1_u32..400, 1_000_u32..40_000],
            weights in prop_oneof![
                prop::collection::vec(0_u32..60, 1..30),
                prop::collection::vec((1_u32..5).prop_map(|weight| 25 * weight), 1..8),
                prop::collection::vec(1_u32..20_000, 1..4),
            ],
        ) {
            prop_assume!(weights.iter().any(|&w| w > 0));
            let mut turns = Weighted::new(size, &weights).unwrap();
            for (round, backend) in by_the_book(size, &weights) {
                prop_assert_eq!(turns.next(), backend);
                prop_assert_eq!(turns.round(), Some(round));
            }
        }

        #[test]
        fn shares_are_exact_to_a_turn_and_never_zero(
            size in 30_u32..5000, weights in prop::collection::vec(0_u32..1000, 1..30),
        ) {
            let sum: u64 = weights.iter().map(|&w| u64::from(w)).sum();
            prop_assume!(sum > 0);
            let counts = counts(size, &weights);
            // Where everybody is due a slot, nobody is a whole slot off.
            let all_due = weights.iter().all(|&w| w == 0 || u64::from(size) * u64::from(w) >= sum);
            for (&weight, &count) in weights.iter().zip(&counts) {
                prop_assert_eq!(weight > 0, count > 0);
                let (exact, count) = (u64::from(size) * u64::from(weight), u64::from(count) * sum);
                prop_assert!(!all_due || exact.abs_diff(count) < sum);
            }
        }
    }

    #[test]
    fn equal_weights_take_turns_in_order() {
        let mut weighted = Weighted::new(1000, &[5; 7]).unwrap();
        let mut plain = RoundRobin::new(7);
        for _ in 0..1000 {
            assert_eq!((weighted.next(), weighted.round()), (plain.next(), plain.round()));
        }
    }

    #[test]
    fn extreme_weights_cost_no_more_than_others() {
        let weights = [1, u32::MAX, u32::MAX - 1, 2, 1 << 31];
        let counts = counts(65_537, &weights);
        assert_eq!(counts, [1, 26_214, 26_214, 1, 13_107]);
    }

    #[test]
    fn with_fewer_slots_than_backends_the_first_take_one_each() {
        assert_eq!(counts(3, &[0, 9, 1, 1, 5]), [0, 1, 1, 1, 0]);
        assert_eq!(counts(2, &[1, 1, u32::MAX]), [1, 1, 0]);
        assert_eq!(Weighted::new(3, &[0, 0]).err(), Some(BuildError::NoEligibleBackend));
        assert_eq!(Weighted::new(0, &[1]).err(), Some(BuildError::NoSlots));
    }
}
