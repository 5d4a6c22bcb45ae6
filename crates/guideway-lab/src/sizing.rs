//! How large a table must be: the smallest that keeps imbalance, needless churn and memory within limits.
//!
//! Sizes are tried from the smallest that has room, each about 1.4 times the one before, until one meets the limits and two more have
//! shown where the curve goes. Between the last that did not and the first that did, primes are halved down to neighbours. So the
//! answer is the smallest of all that were tried, and larger ones being better is taken for granted in between, as it is but for
//! chance. A limit is met when the upper end of the 95 % confidence interval meets it.

use guideway_hash::{TableSize, prime};
use serde::Serialize;

use crate::churn::{self, Change};
use crate::population::Weights;
use crate::refusal::{Refusal, within};
use crate::{Contender, Estimate, Execution};

/// What is wanted. Equal settings give equal reports.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Settings {
    /// Decides hashes and which backends change.
    pub seed: u64,
    /// How often each size is tried, each time with another hash.
    pub runs: u32,
    /// The policy; one with a table.
    pub contender: Contender,
    /// How many backends.
    pub backends: u32,
    /// Their weights.
    pub weights: Weights,
    /// The change that needless churn is measured at.
    pub change: Change,
    /// The limits.
    pub limits: Limits,
}

/// What a table has to keep to. `None` is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Limits {
    /// The highest load of a backend less 1, before and after the change: 0.01 lets the busiest carry 1 % more than its fair share.
    pub imbalance: Option<f64>,
    /// The share of slots that moves needlessly at the change.
    pub needless: Option<f64>,
    /// Bytes of the table in the packet path, [`BYTES_PER_SLOT`] a slot.
    pub bytes: Option<u64>,
}

/// What the packet path holds for a slot: two owners of 15 bits and a flag.
pub const BYTES_PER_SLOT: u64 = 4;

/// What was found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// What was asked for.
    pub settings: Settings,
    /// The sizes that were tried, in order of size.
    pub trials: Vec<Trial>,
    /// The smallest that meets all limits.
    pub smallest: Option<u32>,
    /// The smallest of the usual sizes ([`prime::LISTED`]) that is no smaller and within the limit of memory.
    pub listed: Option<u32>,
}

/// One size.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Trial {
    /// Slots.
    pub slots: u32,
    /// Bytes in the packet path.
    pub bytes: u64,
    /// The highest load less 1, before or after the change, whichever is higher.
    pub imbalance: Estimate,
    /// The share of slots that moves needlessly.
    pub needless: Estimate,
    /// Whether each limit is met; `true` where there is none.
    pub meets: Meets,
}

/// Which limits a size meets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Meets {
    /// That of imbalance.
    pub imbalance: bool,
    /// That of needless churn.
    pub needless: bool,
    /// That of memory.
    pub bytes: bool,
}

impl Meets {
    /// All of them.
    pub fn all(self) -> bool {
        self.imbalance && self.needless && self.bytes
    }

    /// Those that a larger table comes nearer to.
    fn grown(self) -> bool {
        self.imbalance && self.needless
    }
}

/// Looks for the size.
///
/// # Errors
/// [`Refusal`]: the settings make no sense.
pub fn run(settings: &Settings, execution: &Execution<'_>) -> Result<Report, Refusal> {
    settings.check()?;
    let fits = |slots: u32| u64::from(slots) * BYTES_PER_SLOT <= settings.limits.bytes.unwrap_or(u64::MAX);
    let rungs: Vec<u32> = settings.ladder().collect();
    let mut trials: Vec<Trial> = Vec::new();
    // Those beyond the first that is large enough show where the curve goes; those beyond the memory are of no use.
    let mut beyond = 0;
    for &slots in &rungs {
        if beyond > 2 || !fits(slots) && !trials.is_empty() {
            break;
        }
        trials.push(settings.attempt(slots, execution)?);
        beyond += usize::from(trials.iter().any(|trial| trial.meets.grown()));
    }
    if let Some(first) = trials.iter().position(|trial| trial.meets.grown()).filter(|&first| first > 0) {
        let (mut below, mut above) = (trials[first - 1].slots, trials[first].slots);
        while let Some(slots) = middle(below, above) {
            let trial = settings.attempt(slots, execution)?;
            *if trial.meets.grown() { &mut above } else { &mut below } = slots;
            trials.push(trial);
        }
        trials.sort_unstable_by_key(|trial| trial.slots);
    }
    let smallest = trials.iter().find(|trial| trial.meets.all()).map(|trial| trial.slots);
    let listed =
        smallest.and_then(|least| prime::LISTED.into_iter().find(|&size| size >= least && fits(size)));
    Ok(Report { settings: settings.clone(), trials, smallest, listed })
}

impl Settings {
    fn check(&self) -> Result<(), Refusal> {
        if !self.contender.has_table() {
            return Err(Refusal::NoTable { policy: self.contender.to_string() });
        }
        within("the number of backends", self.backends, 1, 30_000)?;
        let Limits { imbalance, needless, .. } = self.limits;
        // A limit of memory alone is met by the smallest table that has room.
        if imbalance.is_none() && needless.is_none() {
            return Err(Refusal::Nothing { what: "limit that grows the table: imbalance or needless churn" });
        }
        for share in [imbalance, needless].into_iter().flatten() {
            if !(share > 0.0 && share.is_finite()) {
                return Err(Refusal::Limit);
            }
        }
        self.change.most_backends(self.backends).map(|_| ())
    }

    /// Primes from the smallest with room for all, each about the square root of 2 times the one before.
    fn ladder(&self) -> impl Iterator<Item = u32> {
        // There is room: `check` has seen to the change.
        let room = self.change.most_backends(self.backends).unwrap_or(self.backends).max(2);
        std::iter::successors(prime_from(room), |&slots| {
            // 1.4 in whole numbers, so that every machine climbs alike.
            prime_from((u64::from(slots) * 7 / 5).max(u64::from(slots) + 1) as u32)
        })
    }

    fn attempt(&self, slots: u32, execution: &Execution<'_>) -> Result<Trial, Refusal> {
        let size = TableSize::new(slots).unwrap_or_default();
        let churn = churn::Settings {
            seed: self.seed,
            runs: self.runs,
            contenders: vec![self.contender],
            backends: vec![self.backends],
            slots: vec![size],
            weights: self.weights.clone(),
            changes: vec![self.change],
            // The slots are what counts.
            flows: 1,
        };
        let rows = churn::run(&churn, execution)?.rows;
        // The policy has a table, so there is a row of its slots.
        let (imbalance, needless) = match rows.first().and_then(|row| row.table.as_ref()) {
            Some(moved) => (moved.max_over_mean.less(1.0), moved.needless),
            None => (Estimate::NOTHING, Estimate::NOTHING),
        };
        let bytes = u64::from(slots) * BYTES_PER_SLOT;
        let within = |estimate: &Estimate, limit: Option<f64>| {
            limit.is_none_or(|limit| estimate.interval().1 <= limit)
        };
        let meets = Meets {
            imbalance: within(&imbalance, self.limits.imbalance),
            needless: within(&needless, self.limits.needless),
            bytes: self.limits.bytes.is_none_or(|limit| bytes <= limit),
        };
        Ok(Trial { slots, bytes, imbalance, needless, meets })
    }
}

/// The first prime from `least` that is a table size.
fn prime_from(least: u32) -> Option<u32> {
    (least..=prime::MAX).find(|&slots| prime::is_prime(slots))
}

/// A prime between two, as near to the middle as may be; `None` when there is none.
fn middle(below: u32, above: u32) -> Option<u32> {
    let middle = below + (above - below) / 2;
    let higher = (middle.max(below + 1)..above).find(|&slots| prime::is_prime(slots));
    higher.or_else(|| (below + 1..middle).rev().find(|&slots| prime::is_prime(slots)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::population::names;
    use crate::random::Random;
    use crate::slow;

    fn settings(limits: Limits) -> Settings {
        Settings {
            seed: 4,
            runs: 1,
            contender: Contender::Maglev,
            backends: 7,
            weights: Weights::equal(),
            change: Change::Drain(1),
            limits,
        }
    }

    /// The highest load less 1, and the share that moves needlessly, of one size: the slow way.
    fn slowly(slots: u32) -> (f64, f64) {
        let stream = |number| Random::stream(4, number);
        let slots_of = |seed, backends: &[slow::Backend]| {
            let all: Vec<u64> = (0..u64::from(slots)).collect();
            slow::owners(Contender::Maglev, slots, seed, backends, &all)
        };
        let names = names(7);
        let backends: Vec<slow::Backend> = names.iter().map(|name| (name.clone(), 1)).collect();
        let owners = slots_of(stream(0).word(), &backends);
        let (_, after) = Change::Drain(1).lists(&names, 7, &Weights::equal(), &mut stream(1));
        let stays = |name: &String| after.iter().any(|c| c.is_eligible() && c.identity() == name.as_bytes());
        let fewer: Vec<slow::Backend> = backends.iter().filter(|(name, _)| stays(name)).cloned().collect();
        let now = slots_of(stream(0).word(), &fewer);
        let needless = owners.iter().zip(&now).filter(|(old, new)| old != new && stays(old)).count();
        let most = |owners: &[String]| {
            names.iter().map(|name| owners.iter().filter(|owner| *owner == name).count()).max().unwrap()
                as f64
        };
        let highest = (7.0 * most(&owners)).max(6.0 * most(&now));
        (highest / f64::from(slots) - 1.0, needless as f64 / f64::from(slots))
    }

    #[test]
    fn every_trial_is_what_the_slow_way_gives_and_the_answer_is_the_smallest_that_meets_the_limits() {
        for limits in [
            Limits { imbalance: Some(0.02), ..Limits::default() },
            Limits { needless: Some(0.03), ..Limits::default() },
            Limits { imbalance: Some(0.05), needless: Some(0.05), bytes: Some(4 * 1009) },
        ] {
            let report = run(&settings(limits), &Execution::default()).unwrap();
            for trial in &report.trials {
                let (imbalance, needless) = slowly(trial.slots);
                assert!((trial.imbalance.mean - imbalance).abs() < 1e-9, "{trial:?}");
                assert!((trial.needless.mean - needless).abs() < 1e-12, "{trial:?}");
                let meets = imbalance <= limits.imbalance.unwrap_or(9.0) + 1e-12
                    && needless <= limits.needless.unwrap_or(9.0)
                    && u64::from(trial.slots) * 4 <= limits.bytes.unwrap_or(u64::MAX);
                assert_eq!(trial.meets.all(), meets, "{trial:?}");
                assert!(!meets || report.smallest.unwrap() <= trial.slots);
            }
            // The prime before the answer was tried, and falls short.
            let smallest = report.smallest.unwrap();
            let before = (2..smallest).rev().find(|&slots| prime::is_prime(slots)).unwrap();
            assert!(
                report.trials.iter().any(|trial| trial.slots == before && !trial.meets.all()),
                "{report:?}"
            );
            assert!(report.listed.is_none_or(|listed| listed >= smallest));
        }
    }

    #[test]
    fn limits_that_nothing_meets_have_no_answer() {
        let limits = Limits { imbalance: Some(0.001), bytes: Some(2_000), ..Limits::default() };
        let report = run(&settings(limits), &Execution::default()).unwrap();
        assert_eq!((report.smallest, report.listed), (None, None));
        assert!(report.trials.iter().all(|trial| trial.bytes <= 2_000 && !trial.meets.imbalance));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let refusal = |settings| run(&settings, &Execution::default()).unwrap_err();
        assert!(matches!(refusal(settings(Limits::default())), Refusal::Nothing { .. }));
        let limits = Limits { imbalance: Some(0.01), ..Limits::default() };
        let ring = Settings { contender: Contender::Ring(160), ..settings(limits) };
        assert_eq!(refusal(ring), Refusal::NoTable { policy: "ring".into() });
        let zero = settings(Limits { needless: Some(0.0), ..Limits::default() });
        assert_eq!(refusal(zero), Refusal::Limit);
    }
}
