//! The experiment of the Maglev paper's figure 12: our tables beside those of the paper's pseudocode.
//!
//! D. Eisenbud et al., "Maglev: A Fast and Reliable Software Network Load Balancer", NSDI 2016, section 5.3: of 1,000 backends some
//! fail at once, for tables of 65,537 and 655,373 slots; what is drawn is the share of entries that changed, the mean of 200
//! repetitions. The paper publishes this curve as a picture, without figures. So its curve is drawn again here: its pseudocode
//! 1, word for word, with offsets and skips from a generator of their own in place of the paper's two hash functions, which it does
//! not name. Neither the tables nor the hashes of the library take part in it.

use serde::Serialize;

use super::{Change, Settings};
use crate::random::Random;
use crate::{Estimate, Execution, Refusal};

/// Both curves.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// What our tables do.
    #[serde(flatten)]
    pub ours: super::Report,
    /// What the paper's pseudocode does, in the order of the rows of ours.
    pub pseudocode: Vec<Point>,
}

/// A point of the curve that the paper's pseudocode gives.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Point {
    /// How many backends fail.
    pub failed: u32,
    /// Of how many.
    pub backends: u32,
    /// Slots of the table.
    pub slots: u32,
    /// The share of the slots that changed.
    pub moved: Estimate,
    /// The share of the slots that changed though their backend had not failed.
    pub needless: Estimate,
}

/// Runs both. `settings` say what fails of how many: [`Settings::paper`], or less of it.
///
/// # Errors
/// [`Refusal`]: the settings make no sense.
pub fn run(settings: &Settings, execution: &Execution<'_>) -> Result<Report, Refusal> {
    let ours = super::run(settings, execution)?;
    let drains: Vec<u32> = settings
        .changes
        .iter()
        .filter_map(|&change| if let Change::Drain(failed) = change { Some(failed) } else { None })
        .collect();
    let tables = settings
        .backends
        .iter()
        .flat_map(|&backends| settings.slots.iter().map(move |size| (backends, size.get())));
    let tables: Vec<(u32, u32)> = tables.collect();
    let jobs: Vec<_> =
        tables.iter().flat_map(|&table| (0..settings.runs).map(move |run| (table, run))).collect();
    let shares = execution.run(&jobs, |&((backends, slots), run)| {
        let random = Random::stream(!settings.seed, u64::from(run));
        Ok::<_, Refusal>(changed(&drains, backends, slots, random))
    })?;
    let mut pseudocode = Vec::new();
    for (which, &failed) in drains.iter().enumerate() {
        for (&(backends, slots), runs) in tables.iter().zip(shares.chunks(settings.runs as usize)) {
            let of = |share: fn(&Changed) -> f64| {
                Estimate::of(runs.iter().map(|run| share(&run[which]))).unwrap_or(Estimate::NOTHING)
            };
            let (moved, needless) = (of(|changed| changed.moved), of(|changed| changed.needless));
            pseudocode.push(Point { failed, backends, slots, moved, needless });
        }
    }
    Ok(Report { pseudocode, ours })
}

/// Shares of the slots of one run.
#[derive(Debug, Clone, Copy)]
struct Changed {
    moved: f64,
    needless: f64,
}

/// What changes of one table when the first so many of `backends`, in an order drawn by lot, fail: for each of `drains`.
fn changed(drains: &[u32], backends: u32, slots: u32, mut random: Random) -> Vec<Changed> {
    let size = u64::from(slots);
    let lists: Vec<List> = (0..backends)
        .map(|backend| List { backend, offset: random.between(0, size), skip: random.between(1, size) })
        .collect();
    let mut order: Vec<u32> = (0..backends).collect();
    random.shuffle(&mut order);
    let was = populate(&lists, size);
    let share = |count: usize| count as f64 / f64::from(slots);
    let fail = |&failed: &u32| {
        let gone = &order[..failed as usize];
        let left: Vec<List> = lists.iter().copied().filter(|list| !gone.contains(&list.backend)).collect();
        let is = populate(&left, size);
        let moved = || was.iter().zip(&is).filter(|(old, new)| old != new);
        Changed {
            moved: share(moved().count()),
            needless: share(moved().filter(|(old, _)| !gone.contains(old)).count()),
        }
    };
    drains.iter().map(fail).collect()
}

/// A backend's preference list: entry `j` is `(offset + j * skip) mod M`.
#[derive(Debug, Clone, Copy)]
struct List {
    backend: u32,
    offset: u64,
    skip: u64,
}

/// Pseudocode 1 of the paper; its letters are the paper's.
fn populate(permutation: &[List], m: u64) -> Vec<u32> {
    let mut next = vec![0; permutation.len()];
    let mut entry: Vec<Option<u32>> = vec![None; m as usize];
    let mut n = 0;
    while n < m {
        for (i, list) in permutation.iter().enumerate() {
            let preferred = |j: u64| ((list.offset + j * list.skip) % m) as usize;
            let mut c = preferred(next[i]);
            while entry[c].is_some() {
                next[i] += 1;
                c = preferred(next[i]);
            }
            entry[c] = Some(list.backend);
            next[i] += 1;
            n += 1;
            if n == m {
                break;
            }
        }
    }
    entry.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use guideway_hash::TableSize;
    use guideway_hash::hash::{self, NativeHasher, StableHasher};

    use super::*;
    use crate::population::names;
    use crate::{Contender, slow};

    #[test]
    fn with_our_hashes_the_pseudocode_gives_our_table() {
        let (mut names, hasher, slots) = (names(9), NativeHasher::new(5), 251u64);
        names.sort();
        let lists: Vec<List> = (0..)
            .zip(&names)
            .map(|(backend, name)| List {
                backend,
                offset: hasher.hash(hash::OFFSET, name.as_bytes()) % slots,
                skip: hasher.hash(hash::SKIP, name.as_bytes()) % (slots - 1) + 1,
            })
            .collect();
        let backends: Vec<slow::Backend> = names.iter().map(|name| (name.clone(), 1)).collect();
        let each: Vec<u64> = (0..slots).collect();
        let ours = slow::owners(Contender::Maglev, 251, 5, &backends, &each);
        let theirs = populate(&lists, slots).into_iter().map(|backend| &names[backend as usize]);
        assert!(theirs.eq(&ours));
    }

    #[test]
    fn both_curves_agree_within_what_chance_allows() {
        let settings = Settings {
            runs: 60,
            backends: vec![50],
            slots: vec![TableSize::new(1021).unwrap(), TableSize::new(8191).unwrap()],
            changes: vec![Change::Drain(1), Change::Drain(5)],
            ..Settings::paper()
        };
        let report = run(&settings, &Execution::default()).unwrap();
        assert_eq!(report.pseudocode.len(), 4);
        for (ours, theirs) in report.ours.rows.iter().zip(&report.pseudocode) {
            assert_eq!((ours.change.count(), ours.slots), (theirs.failed, Some(theirs.slots)));
            let table = ours.table.as_ref().unwrap();
            for (one, other) in [(table.moved, theirs.moved), (table.needless, theirs.needless)] {
                // Three times the margins of a seeded run: a curve that differed in kind would be far outside.
                let margin = 3.0 * (one.margin.unwrap() + other.margin.unwrap());
                assert!((one.mean - other.mean).abs() < margin, "{one:?} {other:?}");
                assert!(one.mean > margin, "what is compared is more than the doubt: {one:?}");
            }
        }
    }

    #[test]
    fn a_backend_that_failed_owns_nothing_and_moves_nothing_needlessly_by_itself() {
        // Two backends, one fails: all that changes was its own.
        let changed = changed(&[1], 2, 101, Random::stream(3, 0))[0];
        assert_eq!(changed.needless, 0.0);
        assert!((changed.moved - 0.5).abs() < 0.01, "{changed:?}");
    }
}
