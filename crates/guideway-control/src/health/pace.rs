//! When the next check of a row begins.
//!
//! Jitter only shortens: two checks never begin further apart than the interval. While results contradict a verdict, they begin
//! no further apart than `recheck`, which may be much shorter: what is well is asked seldom, and a change is known soon all the
//! same. There the pace is quickened besides by as much as lets the deciding check time out before `fall` (or `rise`) intervals are
//! over, counted from the moment that the backend changed. That holds where `timeout × (1 + 1/(n - 1))` is no more than the
//! interval, `n` being the row that decides; with `n = 1`, or longer time-outs, it may take one time-out longer.
//!
//! While the first checks of a backend decide whether it takes flows at all, they come a second apart, or `recheck` where that
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

/// The times of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Times {
    /// From the beginning of one check to that of the next, while nothing changes.
    pub interval: Duration,
    /// The same while results contradict a verdict; no more than the interval.
    pub recheck: Duration,
    /// How long an answer may take; no more than the interval.
    pub timeout: Duration,
}

/// How the verdicts stand that a check is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stand {
    /// No result contradicts them.
    Confirmed,
    /// Results contradict one that a row of so many changes.
    Contradicted(u16),
    /// The first is awaited, and decides whether a backend takes flows.
    Awaited,
}

impl Stand {
    /// How those of two backends stand that the same check is asked for: the one that is in more of a hurry counts.
    pub(crate) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Confirmed, stand) | (stand, Self::Confirmed) => stand,
            (Self::Contradicted(one), Self::Contradicted(other)) => Self::Contradicted(one.min(other)),
            (Self::Awaited, _) | (_, Self::Awaited) => Self::Awaited,
        }
    }
}

impl Times {
    /// From now to the first check: checks that begin together spread over a second, or an interval where that is shorter.
    pub(crate) fn first(&self, dice: &mut Dice) -> Duration {
        dice.part_of(self.interval.min(FIRST_WAIT))
    }

    /// The longest time from the beginning of one check to that of the next.
    pub(crate) fn longest(&self, stand: Stand) -> Duration {
        let Self { interval, recheck, timeout } = *self;
        match stand {
            Stand::Confirmed => interval,
            Stand::Contradicted(row) if row > 1 => {
                let quickened = interval.saturating_sub(timeout / u32::from(row - 1));
                quickened.max(timeout).min(recheck)
            }
            Stand::Contradicted(_) => recheck,
            Stand::Awaited => recheck.min(FIRST_WAIT),
        }
    }

    /// From the beginning of one check to that of the next. A check that is not over by then holds up the next.
    pub(crate) fn gap(&self, dice: &mut Dice, stand: Stand) -> Duration {
        let longest = self.longest(stand);
        longest.saturating_sub(dice.part_of(longest / JITTER_DIVISOR)).max(self.least(stand))
    }

    /// The shortest: no check begins before the one before may have taken its time, unless they are to come as often as that.
    pub(crate) fn least(&self, stand: Stand) -> Duration {
        self.timeout.min(self.longest(stand))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn stands() -> impl Strategy<Value = Stand> {
        let row = (1_u16..20).prop_map(Stand::Contradicted);
        prop_oneof![Just(Stand::Confirmed), row, Just(Stand::Awaited)]
    }

    prop_compose! {
        /// Any times; the time-out is up to such a part of the interval, in percent.
        fn times(most: u32)(
            interval in 100_u64..100_000, recheck in 1_u32..=100, share in 1..=most,
        ) -> Times {
            let interval = Duration::from_millis(interval);
            Times { interval, recheck: interval * recheck / 100, timeout: interval * share / 100 }
        }
    }

    proptest! {
        #[test]
        fn a_gap_is_never_longer_than_it_may_be_nor_so_short_that_checks_are_hurried(
            seed: u64, times in times(100), stand in stands(),
        ) {
            let gap = times.gap(&mut Dice::new(seed), stand);
            let longest = match stand {
                Stand::Confirmed => times.interval,
                Stand::Contradicted(_) => times.recheck,
                Stand::Awaited => times.recheck.min(SECOND),
            };
            prop_assert!(gap <= longest && gap >= times.timeout.min(longest));
            if stand == Stand::Confirmed {
                prop_assert!(gap >= times.interval * 9 / 10);
            }
        }

        #[test]
        fn a_silent_backend_is_found_out_within_fall_intervals_and_sooner_by_quick_rechecks(
            seed: u64, times in times(50), fall in 2_u16..20,
        ) {
            let mut dice = Dice::new(seed);
            // It went silent just after it had answered, and the next check begins one whole interval later.
            let mut at = times.interval;
            for _ in 1..fall {
                at += times.gap(&mut dice, Stand::Contradicted(fall)).max(times.timeout);
            }
            let (found, slack) = (at + times.timeout, Duration::from_micros(1));
            prop_assert!(found <= times.interval * u32::from(fall) + slack);
            let row = times.recheck.max(times.timeout) * u32::from(fall - 1);
            prop_assert!(found <= times.interval + row + times.timeout + slack);
        }
    }

    #[test]
    fn jitter_follows_from_the_seed_and_spreads() {
        let times = Times { interval: 2 * SECOND, recheck: SECOND, timeout: SECOND };
        let gaps = |seed| {
            let mut dice = Dice::new(seed);
            (0..100).map(move |_| times.gap(&mut dice, Stand::Confirmed))
        };
        assert!(gaps(1).eq(gaps(1)));
        assert!(!gaps(1).eq(gaps(2)));
        let (least, most) = (gaps(3).min().unwrap(), gaps(3).max().unwrap());
        assert!(least < Duration::from_millis(1_830) && most > Duration::from_millis(1_970));
    }
}
