//! The figures of an experiment, computed again the slow way.

use guideway_hash::TableSize;

use super::{Settings, run};
use crate::population::{Weights, names};
use crate::random::Random;
use crate::{Contender, Execution, slow};

#[test]
fn every_figure_is_what_the_slow_way_gives() {
    for pattern in [vec![1], vec![1, 2, 4]] {
        let weights = Weights::pattern(pattern).unwrap();
        let settings = Settings {
            seed: 5,
            runs: 1,
            contenders: Contender::ALL.to_vec(),
            backends: vec![6],
            slots: vec![TableSize::new(101).unwrap()],
            weights: weights.clone(),
        };
        let report = run(&settings, &Execution::default()).unwrap();
        assert_eq!(report.rows.len(), 6);
        for row in &report.rows {
            let weight = |place| if row.policy.is_weighted() { weights.of(place) } else { 1 };
            let backends: Vec<slow::Backend> =
                names(6).into_iter().enumerate().map(|(place, name)| (name, weight(place))).collect();
            let mut flows = Random::stream(5, 1);
            let hashes: Vec<u64> =
                (0..101).map(|slot| if row.policy.has_table() { slot } else { flows.word() }).collect();
            let seed = Random::stream(5, 0).word();
            let owners = slow::owners(row.policy, 101, seed, &backends, &hashes);
            let sum: u32 = backends.iter().map(|&(_, weight)| weight).sum();
            let loads = backends.iter().map(|(name, weight)| {
                let owned = owners.iter().filter(|owner| *owner == name).count() as f64;
                owned / (101.0 * f64::from(*weight) / f64::from(sum))
            });
            let loads: Vec<f64> = loads.collect();
            let mean = loads.iter().sum::<f64>() / 6.0;
            let deviation = (loads.iter().map(|load| (load - mean).powi(2)).sum::<f64>() / 6.0).sqrt();
            let highest = loads.iter().copied().fold(0.0, f64::max);
            let lowest = loads.iter().copied().fold(9.0, f64::min);
            for (figure, slow) in [
                (row.max_over_mean, highest),
                (row.min_over_mean, lowest),
                (row.variation, deviation / mean),
                (row.over_provisioning, highest - 1.0),
            ] {
                assert!((figure.mean - slow).abs() < 1e-9, "{row:?}: {loads:?}");
            }
        }
    }
}
