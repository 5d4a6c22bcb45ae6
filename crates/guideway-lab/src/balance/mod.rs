//! How even shares are.
//!
//! The *load* of a backend is what it owns, divided by its fair share; see [`guideway_hash::churn::Balance`]. What is owned are
//! the M slots of a table. Of a policy without one, M flows drawn by lot stand for the slots, which is how the Maglev paper
//! compares such policies with its own; their shares come nearer to the policy's own the larger M is.
//!
//! [`paper`] is that comparison, beside the figures that the paper prints.

pub mod paper;
#[cfg(test)]
mod slowly;

use guideway_hash::TableSize;
use guideway_hash::churn::Balance;
use serde::Serialize;

use crate::population::{Weights, candidates, names};
use crate::random::Random;
use crate::refusal::{Refusal, some, within};
use crate::{Contender, Estimate, Execution};

/// What is to be computed. Equal settings give equal reports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Settings {
    /// Decides hashes and flows.
    pub seed: u64,
    /// How often each case is run, each time with another hash.
    pub runs: u32,
    /// The policies.
    pub contenders: Vec<Contender>,
    /// Numbers of backends.
    pub backends: Vec<u32>,
    /// Slots of the tables.
    #[serde(serialize_with = "crate::numbers")]
    pub slots: Vec<TableSize>,
    /// The weights of the backends.
    pub weights: Weights,
}

impl Default for Settings {
    /// A hundred equal backends, tables of five sizes.
    fn default() -> Self {
        let sizes =
            [1021, 4093, 16_381, 65_537, 262_139].map(|slots| TableSize::new(slots).unwrap_or_default());
        Self {
            seed: 1,
            runs: 10,
            contenders: Contender::ALL.to_vec(),
            backends: vec![100],
            slots: sizes.to_vec(),
            weights: Weights::equal(),
        }
    }
}

/// What a sweep found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// What was asked for.
    pub settings: Settings,
    /// One case a row: by number of backends, policy, table size.
    pub rows: Vec<Row>,
}

/// How even the shares of one case are.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// The policy.
    pub policy: Contender,
    /// How many backends there are.
    pub backends: u32,
    /// How many slots, or flows that stand for them, they share.
    pub slots: u32,
    /// The highest load.
    pub max_over_mean: Estimate,
    /// The lowest load.
    pub min_over_mean: Estimate,
    /// The coefficient of variation of the loads: their standard deviation over their mean.
    pub variation: Estimate,
    /// How much more than its fair share each backend must be able to carry so that the busiest is not overloaded: the highest
    /// load less 1.
    pub over_provisioning: Estimate,
}

/// Runs all cases.
///
/// # Errors
/// [`Refusal`]: the settings make no sense, or a policy refuses the backends.
pub fn run(settings: &Settings, execution: &Execution<'_>) -> Result<Report, Refusal> {
    settings.check()?;
    let mut cases = Vec::new();
    for &backends in &settings.backends {
        for &policy in &settings.contenders {
            cases.extend(settings.slots.iter().map(|&size| (policy, backends, size)));
        }
    }
    let jobs: Vec<_> =
        cases.iter().flat_map(|&case| (0..settings.runs).map(move |run| (case, run))).collect();
    let balances = execution.run(&jobs, |&(case, run)| settings.once(case, run))?;
    let rows = cases.iter().zip(balances.chunks(settings.runs as usize));
    let rows = rows.map(|(&(policy, backends, size), runs)| {
        let of = |measure: fn(&Balance) -> f64| {
            Estimate::of(runs.iter().map(measure)).unwrap_or(Estimate::NOTHING)
        };
        Row {
            policy,
            backends,
            slots: size.get(),
            max_over_mean: of(|balance| balance.max_over_mean),
            min_over_mean: of(|balance| balance.min_over_mean),
            variation: of(|balance| balance.variation),
            over_provisioning: of(|balance| balance.over_provisioning),
        }
    });
    Ok(Report { settings: settings.clone(), rows: rows.collect() })
}

impl Settings {
    fn check(&self) -> Result<(), Refusal> {
        within("the number of runs", self.runs, 1, 100_000)?;
        some("policy", &self.contenders)?;
        some("number of backends", &self.backends)?;
        some("table size", &self.slots)?;
        for &backends in &self.backends {
            within("the number of backends", backends, 1, 100_000)?;
            if let Some(size) = self.slots.iter().find(|size| size.get() < backends) {
                return Err(Refusal::Room { backends, slots: size.get() });
            }
        }
        Ok(())
    }

    fn once(&self, case: (Contender, u32, TableSize), run: u32) -> Result<Balance, Refusal> {
        let (contender, backends, size) = case;
        let seed = Random::stream(self.seed, 2 * u64::from(run)).word();
        let names = names(backends);
        let counts = owned(contender, &names, &self.weights, size, seed, || {
            Random::stream(self.seed, 2 * u64::from(run) + 1)
        })?;
        // A policy that knows no weights is judged by equal shares.
        let weight = |place| if contender.is_weighted() { self.weights.of(place) } else { 1 };
        let loads: Vec<(u64, u32)> =
            counts.into_iter().enumerate().map(|(place, count)| (count, weight(place))).collect();
        // There are slots, and weights above 0.
        Ok(Balance::of(loads).unwrap_or_else(|| unreachable!("somebody owns something")))
    }
}

/// How many of `size` slots each of `names` owns; of a policy without a table, of as many flows.
fn owned(
    contender: Contender,
    names: &[String],
    weights: &Weights,
    size: TableSize,
    seed: u64,
    flows: impl FnOnce() -> Random,
) -> Result<Vec<u64>, Refusal> {
    let mut policy = contender.policy(size, seed);
    policy
        .reconcile(&candidates(names, weights))
        .map_err(|error| Refusal::Policy { policy: contender.to_string(), error })?;
    let mut counts = vec![0; names.len()];
    let mut count = |hash| {
        if let Some(owner) = policy.pick_hash(hash) {
            counts[owner] += 1;
        }
    };
    if contender.has_table() {
        (0..u64::from(size.get())).for_each(&mut count);
    } else {
        let mut flows = flows();
        (0..size.get()).for_each(|_| count(flows.word()));
    }
    Ok(counts)
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use super::*;

    fn size(slots: u32) -> TableSize {
        TableSize::new(slots).unwrap()
    }

    #[test]
    fn maglev_is_even_to_one_slot_and_others_are_not() {
        let settings = Settings { runs: 3, slots: vec![size(4093)], ..Settings::default() };
        let report = run(&settings, &Execution::default()).unwrap();
        for row in report.rows {
            match row.policy {
                // 41 slots of 40.93
                Contender::Maglev => {
                    assert_eq!(row.over_provisioning.most, 41.0 / 40.93 - 1.0);
                    assert_eq!(row.over_provisioning.margin, Some(0.0));
                }
                _ => assert!(row.over_provisioning.least > 0.2, "{row:?}"),
            }
        }
    }

    #[test]
    fn the_same_settings_give_the_same_report_whatever_the_number_of_threads() {
        let with = |threads| {
            let settings =
                Settings { runs: 4, backends: vec![9], slots: vec![size(251)], ..Settings::default() };
            run(&settings, &Execution { threads: NonZeroUsize::new(threads), ..Execution::default() })
                .unwrap()
        };
        assert_eq!(with(1), with(3));
    }

    #[test]
    fn a_table_without_room_is_refused() {
        let settings = Settings { backends: vec![1022], ..Settings::default() };
        let refused = run(&settings, &Execution::default());
        assert_eq!(refused, Err(Refusal::Room { backends: 1022, slots: 1021 }));
    }
}
