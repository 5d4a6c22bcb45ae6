//! The figures of an experiment, computed again the slow way.

use std::collections::BTreeMap;

use guideway_hash::TableSize;
use guideway_hash::policy::Candidate;

use super::{Change, Settings, run};
use crate::population::{Weights, names};
use crate::random::Random;
use crate::slow::{self, Backend};
use crate::{Contender, Execution};

/// Shares moved, needlessly moved, and least, and the highest load, of one list of hashes.
fn judged(
    contender: Contender,
    slots: u32,
    seed: u64,
    (before, after): (&[Backend], &[Backend]),
    hashes: &[u64],
) -> [f64; 4] {
    let was = slow::owners(contender, slots, seed, before, hashes);
    let is = slow::owners(contender, slots, seed, after, hashes);
    let weight = |list: &[Backend], name: &str| {
        list.iter()
            .find(|(other, _)| other == name)
            .map(|&(_, weight)| if contender.is_weighted() { weight } else { 1 })
    };
    let (mut moved, mut needless) = (0, 0);
    let mut lost = BTreeMap::<&str, i64>::new();
    for (old, new) in was.iter().zip(&is) {
        *lost.entry(old).or_default() += 1;
        *lost.entry(new).or_default() -= 1;
        moved += u32::from(old != new);
        // Both are there before and after, the old one no lighter and the new one no heavier.
        let untouched = weight(after, old) >= weight(before, old)
            && weight(before, new).is_some_and(|was| weight(after, new) <= Some(was));
        needless += u32::from(old != new && untouched);
    }
    let least: i64 = lost.values().filter(|&&lost| lost > 0).sum();
    let highest = |list: &[Backend], owners: &[String]| {
        let sum: u32 = list.iter().filter_map(|(name, _)| weight(list, name)).sum();
        let load = |(name, _): &Backend| {
            let owned = owners.iter().filter(|owner| *owner == name).count() as f64;
            owned * f64::from(sum) / (hashes.len() as f64 * f64::from(weight(list, name).unwrap()))
        };
        list.iter().map(load).fold(0.0, f64::max)
    };
    let shares =
        [f64::from(moved), f64::from(needless), least as f64].map(|count| count / hashes.len() as f64);
    [shares[0], shares[1], shares[2], highest(before, &was).max(highest(after, &is))]
}

fn eligible(list: &[Candidate<'_>]) -> Vec<Backend> {
    let name = |candidate: &Candidate<'_>| String::from_utf8(candidate.identity().to_vec()).unwrap();
    let there = list.iter().filter(|candidate| candidate.is_eligible());
    there.map(|candidate| (name(candidate), candidate.weight())).collect()
}

#[test]
fn every_figure_is_what_the_slow_way_gives() {
    let weights = Weights::pattern(vec![2, 1, 3]).unwrap();
    for (weights, backends) in [(Weights::equal(), 5), (weights, 7)] {
        let settings = Settings {
            seed: 9,
            runs: 2,
            contenders: Contender::ALL.into_iter().chain([Contender::Ring(7)]).collect(),
            backends: vec![backends],
            slots: vec![TableSize::new(61).unwrap(), TableSize::new(127).unwrap()],
            weights: weights.clone(),
            changes: vec![Change::Drain(2), Change::Add(1), Change::Reweight { count: 2, to: 2 }],
            flows: 300,
        };
        let report = run(&settings, &Execution::default()).unwrap();
        assert_eq!(report.rows.len(), 3 * (2 + 2 + 5));
        for row in &report.rows {
            let slots = row.slots.unwrap_or(2);
            let mut flows = [[0.0; 4]; 2];
            let mut table = [[0.0; 4]; 2];
            for number in 0..2 {
                let stream = |part: u64| Random::stream(9, 3 * number as u64 + part);
                let all = names(backends + 1);
                let known = &all[..row.change.most_backends(backends).unwrap() as usize];
                let (before, after) = row.change.lists(known, backends, &weights, &mut stream(1));
                let (before, after) = (eligible(&before), eligible(&after));
                let mut random = stream(2);
                let hashes: Vec<u64> = (0..300).map(|_| random.word()).collect();
                let each: Vec<u64> = (0..u64::from(slots)).collect();
                let seed = stream(0).word();
                flows[number] = judged(row.policy, slots, seed, (&before, &after), &hashes);
                table[number] = judged(row.policy, slots, seed, (&before, &after), &each);
            }
            let close = |estimate: crate::Estimate, runs: [[f64; 4]; 2], which: usize| {
                let (one, other) = (runs[0][which], runs[1][which]);
                assert!((estimate.mean - (one + other) / 2.0).abs() < 1e-12, "{row:?}: {runs:?}");
                assert!((estimate.least - one.min(other)).abs() < 1e-12, "{row:?}: {runs:?}");
                assert!((estimate.most - one.max(other)).abs() < 1e-12, "{row:?}: {runs:?}");
            };
            close(row.flows.moved, flows, 0);
            close(row.flows.needless, flows, 1);
            close(row.flows.least, flows, 2);
            close(row.flows.max_over_mean, flows, 3);
            if let Some(moved) = &row.table {
                close(moved.moved, table, 0);
                close(moved.needless, table, 1);
                close(moved.least, table, 2);
                close(moved.max_over_mean, table, 3);
            }
        }
    }
}
