//! What a change of the backends moves, and how much of it needlessly.
//!
//! Of N backends, k are drained, joined by k others, or given another weight. Before and after, F flows are resolved, and, where
//! a policy has a table, all of its slots are read. What moved did so because its old owner *departed*, because the change
//! *attracted* it (its new owner joined or gained weight, or its old one lost some), or *needlessly*: see
//! [`guideway_hash::churn`]. Policies, numbers of backends and table sizes are swept; each case is run with several seeds,
//! which decide the hash, the flows and which backends change.
//!
//! ```
//! use guideway_lab::churn::{self, Settings};
//! use guideway_lab::{Contender, Execution};
//!
//! let settings = Settings { contenders: vec![Contender::RendezvousTable], runs: 3, ..Settings::default() };
//! let report = churn::run(&settings, &Execution::default())?;
//! assert!(report.rows.iter().all(|row| row.flows.needless_in_all == 0));
//! # Ok::<(), guideway_lab::Refusal>(())
//! ```

mod change;
pub mod paper;
#[cfg(test)]
mod slowly;

use guideway_hash::TableSize;
use guideway_hash::churn::{BackendChurn, Balance, Churn};
use guideway_hash::policy::{Candidate, Moves, Roster};
use serde::Serialize;

pub use change::Change;

use crate::population::{Weights, names};
use crate::random::Random;
use crate::refusal::{Refusal, some, within};
use crate::{Contender, Estimate, Execution};

/// What is to be computed. Equal settings give equal reports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Settings {
    /// Decides hashes, flows, and which backends change.
    pub seed: u64,
    /// How often each case is run, each time with another hash, other flows and other backends that change.
    pub runs: u32,
    /// The policies.
    pub contenders: Vec<Contender>,
    /// Numbers of backends before the change.
    pub backends: Vec<u32>,
    /// Slots of the tables of policies that have one.
    #[serde(serialize_with = "crate::numbers")]
    pub slots: Vec<TableSize>,
    /// Their weights.
    pub weights: Weights,
    /// The changes.
    pub changes: Vec<Change>,
    /// Flows that are resolved before and after.
    pub flows: u32,
}

impl Default for Settings {
    /// One of four backends is drained, over 20,000 flows and tables of five sizes.
    fn default() -> Self {
        let sizes = [251, 1021, 4093, 16_381, 65_537].map(|slots| TableSize::new(slots).unwrap_or_default());
        Self {
            seed: 1,
            runs: 10,
            contenders: Contender::ALL.to_vec(),
            backends: vec![4],
            slots: sizes.to_vec(),
            weights: Weights::equal(),
            changes: vec![Change::Drain(1)],
            flows: 20_000,
        }
    }
}

impl Settings {
    /// The experiment of the Maglev paper's figure 12: of 1,000 backends some fail at once, for two table sizes, 200 times each.
    ///
    /// [`paper::run`] draws the paper's own curve beside it.
    pub fn paper() -> Self {
        let sizes = [65_537, 655_373].map(|slots| TableSize::new(slots).unwrap_or_default());
        Self {
            runs: 200,
            contenders: vec![Contender::Maglev],
            backends: vec![1_000],
            slots: sizes.to_vec(),
            changes: [1, 2, 5, 10, 20, 50].map(Change::Drain).to_vec(),
            ..Self::default()
        }
    }
}

/// What a sweep found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// What was asked for.
    pub settings: Settings,
    /// One case a row: by change, number of backends, policy, table size.
    pub rows: Vec<Row>,
}

/// What one case moved.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// The policy.
    pub policy: Contender,
    /// What changed.
    pub change: Change,
    /// How many backends there were before.
    pub backends: u32,
    /// Slots of the table; `None` for a policy without one.
    pub slots: Option<u32>,
    /// Of the flows.
    pub flows: Moved,
    /// Of the slots; `None` for a policy without a table.
    pub table: Option<Moved>,
}

/// What moved, as shares of all that was compared, 0 to 1.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Moved {
    /// How many were compared in each run.
    pub compared: u64,
    /// All that moved.
    pub moved: Estimate,
    /// Moved because its old owner departed.
    pub departed: Estimate,
    /// Moved because the change asked for it.
    pub attracted: Estimate,
    /// Moved needlessly.
    pub needless: Estimate,
    /// What would have to move for each backend to end with as much as it did.
    pub least: Estimate,
    /// The highest load of a backend before or after the change, whichever is higher; 1 is its fair share.
    pub max_over_mean: Estimate,
    /// How many moved needlessly in all runs together: 0 says that none ever did.
    pub needless_in_all: u64,
}

/// Runs all cases.
///
/// # Errors
/// [`Refusal`]: the settings make no sense, or a policy refuses the backends.
pub fn run(settings: &Settings, execution: &Execution<'_>) -> Result<Report, Refusal> {
    settings.check()?;
    let cases = settings.cases();
    let jobs: Vec<(usize, u32)> =
        (0..cases.len()).flat_map(|case| (0..settings.runs).map(move |run| (case, run))).collect();
    let outcomes = execution.run(&jobs, |&(case, run)| settings.once(&cases[case], run))?;
    let rows = cases.iter().zip(outcomes.chunks(settings.runs as usize)).map(|(case, outcomes)| {
        let tables: Option<Vec<Counted>> = outcomes.iter().map(|outcome| outcome.slots).collect();
        Row {
            policy: case.contender,
            change: case.change,
            backends: case.backends,
            slots: case.contender.has_table().then(|| case.size.get()),
            flows: Moved::of(&outcomes.iter().map(|outcome| outcome.flows).collect::<Vec<_>>()),
            table: tables.map(|tables| Moved::of(&tables)),
        }
    });
    Ok(Report { settings: settings.clone(), rows: rows.collect() })
}

/// One combination of all that is swept.
#[derive(Debug, Clone, Copy)]
struct Case {
    contender: Contender,
    change: Change,
    backends: u32,
    /// Of no account where the policy has no table.
    size: TableSize,
}

/// What one run of a case moved.
#[derive(Debug, Clone, Copy)]
struct Outcome {
    flows: Counted,
    slots: Option<Counted>,
}

#[derive(Debug, Clone, Copy)]
struct Counted {
    moves: Moves,
    least: u64,
    highest_load: f64,
}

impl Settings {
    fn check(&self) -> Result<(), Refusal> {
        within("the number of runs", self.runs, 1, 100_000)?;
        within("the number of flows", self.flows, 1, 10_000_000)?;
        some("policy", &self.contenders)?;
        some("number of backends", &self.backends)?;
        some("table size", &self.slots)?;
        some("change", &self.changes)?;
        for &backends in &self.backends {
            within("the number of backends", backends, 1, 100_000)?;
            for change in &self.changes {
                let most = change.most_backends(backends)?;
                if self.contenders.iter().any(|contender| contender.has_table())
                    && let Some(size) = self.slots.iter().find(|size| size.get() < most)
                {
                    return Err(Refusal::Room { backends: most, slots: size.get() });
                }
            }
        }
        Ok(())
    }

    fn cases(&self) -> Vec<Case> {
        let mut cases = Vec::new();
        for &change in &self.changes {
            for &backends in &self.backends {
                for &contender in &self.contenders {
                    // Without a table all sizes are one case.
                    let sizes = if contender.has_table() { &self.slots[..] } else { &self.slots[..1] };
                    cases.extend(sizes.iter().map(|&size| Case { contender, change, backends, size }));
                }
            }
        }
        cases
    }

    /// One run of one case. What is random depends on the seed and the number of the run alone, so that all cases of a run meet
    /// the same hash and the same flows.
    fn once(&self, case: &Case, run: u32) -> Result<Outcome, Refusal> {
        let refused = |error| Refusal::Policy { policy: case.contender.to_string(), error };
        let hash_seed = Random::stream(self.seed, 3 * u64::from(run)).word();
        let names = names(case.change.most_backends(case.backends)?);
        let mut choice = Random::stream(self.seed, 3 * u64::from(run) + 1);
        let (before, after) = case.change.lists(&names, case.backends, &self.weights, &mut choice);
        let (old, new) = (Roster::new(&before).map_err(refused)?, Roster::new(&after).map_err(refused)?);

        let mut policy = case.contender.policy(case.size, hash_seed);
        let owners = |policy: &dyn guideway_hash::policy::Policy| {
            // Something is committed, so there is an answer.
            let owner = |hash: u64| policy.pick_hash(hash).unwrap_or_default() as u32;
            let mut random = Random::stream(self.seed, 3 * u64::from(run) + 2);
            let flows: Vec<u32> = (0..self.flows).map(|_| owner(random.word())).collect();
            let slots: Option<Vec<u32>> =
                policy.slots().map(|slots| (0..u64::from(slots)).map(owner).collect());
            (flows, slots)
        };
        policy.reconcile(&before).map_err(refused)?;
        let (flows_before, slots_before) = owners(&*policy);
        // The same policy, reconciled: a table of winners starts from the one before, as it would in a balancer.
        policy.reconcile(&after).map_err(refused)?;
        let (flows_after, slots_after) = owners(&*policy);

        let weighted = case.contender.is_weighted();
        let weight = |list: &[Candidate<'_>], place: u32| {
            if weighted { list[place as usize].weight() } else { 1 }
        };
        let compare = |was: Vec<u32>, is: Vec<u32>| -> Result<Counted, Refusal> {
            let churn = Churn::of_owners(&old, &new, weighted, was.into_iter().zip(is))?;
            let shares = |row: &BackendChurn| {
                let before = row.old.map(|place| (row.before, weight(&before, place)));
                (before, row.new.map(|place| (row.after, weight(&after, place))))
            };
            let (was, is): (Vec<_>, Vec<_>) = churn.backends.iter().map(shares).unzip();
            let highest = |shares: Vec<Option<(u64, u32)>>| {
                Balance::of(shares.into_iter().flatten().collect::<Vec<_>>())
                    .map_or(0.0, |balance| balance.max_over_mean)
            };
            let highest_load = highest(was).max(highest(is));
            Ok(Counted { moves: churn.moves, least: churn.least, highest_load })
        };
        let slots = slots_before.zip(slots_after).map(|(was, is)| compare(was, is)).transpose()?;
        Ok(Outcome { flows: compare(flows_before, flows_after)?, slots })
    }
}

impl Moved {
    fn of(runs: &[Counted]) -> Self {
        let compared = runs.first().map_or(0, |run| run.moves.compared);
        let share = |count: fn(&Counted) -> u64| {
            let shares = runs.iter().map(|run| count(run) as f64 / run.moves.compared.max(1) as f64);
            Estimate::of(shares).unwrap_or(Estimate::NOTHING)
        };
        Self {
            compared,
            moved: share(|run| run.moves.moved()),
            departed: share(|run| run.moves.departed),
            attracted: share(|run| run.moves.attracted),
            needless: share(|run| run.moves.needless),
            least: share(|run| run.least),
            max_over_mean: Estimate::of(runs.iter().map(|run| run.highest_load)).unwrap_or(Estimate::NOTHING),
            needless_in_all: runs.iter().map(|run| run.moves.needless).sum(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use super::*;

    fn small() -> Settings {
        let size = |slots| TableSize::new(slots).unwrap();
        Settings { runs: 4, slots: vec![size(31), size(251)], flows: 500, ..Settings::default() }
    }

    #[test]
    fn rendezvous_moves_nothing_needlessly_at_any_size_and_modulo_nearly_all() {
        for change in [Change::Drain(1), Change::Add(2), Change::Reweight { count: 2, to: 3 }] {
            let report = run(&Settings { changes: vec![change], ..small() }, &Execution::default()).unwrap();
            for row in &report.rows {
                let needless =
                    row.flows.needless_in_all + row.table.as_ref().map_or(0, |t| t.needless_in_all);
                match row.policy {
                    Contender::Rendezvous | Contender::RendezvousTable | Contender::Ring(_) => {
                        assert_eq!(needless, 0, "{row:?}");
                    }
                    Contender::Modulo if !matches!(change, Change::Reweight { .. }) => {
                        assert!(row.flows.needless.mean > 0.3, "{row:?}");
                    }
                    _ => {}
                }
            }
        }
    }

    #[test]
    fn the_same_settings_give_the_same_report_whatever_the_number_of_threads() {
        let with = |threads| {
            let execution = Execution { threads: NonZeroUsize::new(threads), ..Execution::default() };
            run(&small(), &execution).unwrap()
        };
        assert_eq!(with(1), with(5));
        assert_ne!(with(1).rows, run(&Settings { seed: 2, ..small() }, &Execution::default()).unwrap().rows);
    }

    #[test]
    fn what_makes_no_sense_is_refused_before_any_work() {
        let refusal = |settings| run(&settings, &Execution::default()).unwrap_err();
        let drain_all = refusal(Settings { changes: vec![Change::Drain(4)], ..small() });
        assert_eq!(drain_all, Refusal::NobodyLeft { count: 4, backends: 4 });
        let no_room = refusal(Settings { backends: vec![4, 31], changes: vec![Change::Add(1)], ..small() });
        assert_eq!(no_room, Refusal::Room { backends: 32, slots: 31 });
        assert!(matches!(refusal(Settings { runs: 0, ..small() }), Refusal::Range { .. }));
        assert!(matches!(refusal(Settings { contenders: vec![], ..small() }), Refusal::Nothing { .. }));
        let reweight = Change::Reweight { count: 5, to: 2 };
        let too_many = refusal(Settings { changes: vec![reweight], ..small() });
        assert_eq!(too_many, Refusal::TooMany { count: 5, backends: 4 });
    }

    #[test]
    fn without_a_table_the_size_of_tables_does_not_matter() {
        let report = run(&small(), &Execution::default()).unwrap();
        let rows = |contender| report.rows.iter().filter(|row| row.policy == contender).count();
        assert_eq!((rows(Contender::Maglev), rows(Contender::Rendezvous)), (2, 1));
    }
}
