//! How long things took, counted by size: what quantiles are estimated from.

use std::time::Duration;

/// The upper bounds of the sizes, each held by it: what goes on within a rack, across a site, and what is waited for.
pub const BOUNDS: [Duration; 13] = [
    Duration::from_micros(250),
    Duration::from_micros(500),
    Duration::from_millis(1),
    Duration::from_micros(2_500),
    Duration::from_millis(5),
    Duration::from_millis(10),
    Duration::from_millis(25),
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(250),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(5),
];

/// Durations by size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Histogram {
    /// Of each size, and of what is longer than all bounds.
    counts: [u64; BOUNDS.len() + 1],
    sum: Duration,
}

impl Histogram {
    /// Counts one more.
    pub fn note(&mut self, took: Duration) {
        self.counts[BOUNDS.partition_point(|bound| *bound < took)] += 1;
        self.sum = self.sum.saturating_add(took);
    }

    /// How many took no longer than each of [`BOUNDS`], in their order.
    pub fn within(&self) -> impl Iterator<Item = (Duration, u64)> {
        let mut so_far = 0;
        BOUNDS.into_iter().zip(self.counts).map(move |(bound, count)| {
            so_far += count;
            (bound, so_far)
        })
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// How long all took together.
    pub fn sum(&self) -> Duration {
        self.sum
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn each_bound_counts_all_that_took_no_longer(micros in prop::collection::vec(0_u64..10_000_000, 0..50)) {
            let mut histogram = Histogram::default();
            let took: Vec<Duration> = micros.into_iter().map(Duration::from_micros).collect();
            took.iter().for_each(|took| histogram.note(*took));
            for (bound, count) in histogram.within() {
                prop_assert_eq!(count, took.iter().filter(|took| **took <= bound).count() as u64);
            }
            prop_assert_eq!((histogram.count(), histogram.sum()), (took.len() as u64, took.iter().sum()));
        }
    }

    #[test]
    fn bounds_rise() {
        assert!(BOUNDS.is_sorted());
    }
}
