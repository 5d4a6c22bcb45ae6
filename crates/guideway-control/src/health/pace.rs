//! When the next check of a row begins.
//!
//! Jitter only shortens: two checks never begin further apart than the interval. While results contradict a verdict
//! the pace is quickened by as much as lets the deciding check time out before `fall` (or `rise`) intervals are over,
//! counted from the moment that the backend changed. That holds where `timeout × (1 + 1/(n - 1))` is no more than the
//! interval, `n` being the row that decides; with `n = 1`, or longer time-outs, it may take one time-out longer.
//!
//! While the first checks of a backend decide whether it takes flows at all, they come a second apart, or an interval where that
//! is shorter: nobody wants to wait for two checks of a minute each.

use std::time::Duration;

/// The most by which jitter shortens a gap: one part in so many.
const JITTER_DIVISOR: u32 = 10;

/// The longest wait for the first check, and between those that decide the first verdict.
const FIRST_WAIT: Duration = Duration::from_secs(1);

/// A small generator of even numbers out of a seed (SplitMix64); its next states are as seeded.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let word = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    /// A part of `whole`: from nothing up to all of it.
    fn part_of(&mut self, whole: Duration) -> Duration {
        let part = u128::from(self.next() >> 32) * whole.as_nanos() / (1 << 32);
        Duration::from_nanos(u64::try_from(part).unwrap_or(u64::MAX))
    }
}

/// From now to the first check: checks that begin together spread over a second, or an interval where that is shorter.
pub(crate) fn first(dice: &mut Dice, interval: Duration) -> Duration {
    dice.part_of(interval.min(FIRST_WAIT))
}

/// From the beginning of one check to that of the next. `deciding` is the row that would change a verdict, while
/// results contradict it.
pub(crate) fn gap(dice: &mut Dice, interval: Duration, timeout: Duration, deciding: Option<u16>) -> Duration {
    let gap = match deciding {
        Some(row) if row > 1 => interval.saturating_sub(timeout / u32::from(row - 1)),
        _ => interval,
    };
    gap.saturating_sub(dice.part_of(gap / JITTER_DIVISOR)).max(timeout)
}

/// The same while the first verdict is awaited.
pub(crate) fn first_gap(dice: &mut Dice, interval: Duration, timeout: Duration) -> Duration {
    gap(dice, interval.min(FIRST_WAIT), timeout, None)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_gap_is_never_longer_than_the_interval_nor_shorter_than_the_time_out(
            seed: u64, interval in 100_u64..100_000, share in 1_u64..=100, deciding in prop::option::of(1_u16..20),
        ) {
            let interval = Duration::from_millis(interval);
            let timeout = interval * share as u32 / 100;
            let gap = gap(&mut Dice::new(seed), interval, timeout, deciding);
            prop_assert!(gap >= timeout && gap <= interval);
            if deciding.is_none() {
                prop_assert!(gap >= interval * 9 / 10);
            }
        }

        #[test]
        fn first_checks_are_a_second_apart_at_most_but_for_their_time_out(
            seed: u64, interval in 100_u64..100_000, share in 1_u64..=100,
        ) {
            let interval = Duration::from_millis(interval);
            let timeout = interval * share as u32 / 100;
            let gap = first_gap(&mut Dice::new(seed), interval, timeout);
            prop_assert!(gap >= timeout && gap <= interval && gap <= timeout.max(FIRST_WAIT));
        }

        #[test]
        fn a_silent_backend_is_found_out_within_fall_intervals(
            seed: u64, interval in 100_u64..100_000, share in 1_u64..=50, fall in 2_u16..20,
        ) {
            let interval = Duration::from_millis(interval);
            let timeout = interval * share as u32 / 100;
            let mut dice = Dice::new(seed);
            // It went silent just after it had answered, and the next check begins one whole interval later.
            let mut at = interval;
            for _ in 1..fall {
                at += gap(&mut dice, interval, timeout, Some(fall));
            }
            prop_assert!(at + timeout <= interval * u32::from(fall) + Duration::from_micros(1));
        }
    }

    #[test]
    fn jitter_follows_from_the_seed_and_spreads() {
        let gaps = |seed| {
            let mut dice = Dice::new(seed);
            (0..100).map(move |_| gap(&mut dice, Duration::from_secs(2), Duration::from_secs(1), None))
        };
        assert!(gaps(1).eq(gaps(1)));
        assert!(!gaps(1).eq(gaps(2)));
        let (least, most) = (gaps(3).min().unwrap(), gaps(3).max().unwrap());
        assert!(least < Duration::from_millis(1_830) && most > Duration::from_millis(1_970));
    }
}
