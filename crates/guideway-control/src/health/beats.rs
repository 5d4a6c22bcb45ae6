//! What is due when, in beats: checks that are due within one beat begin together, so that thousands of them a second wake
//! whoever makes them some dozen times.
//!
//! A beat is a power of two milliseconds, no more than one part in [`PARTS`] of the interval. All count from one origin,
//! so that every long beat is a short one as well.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::stream::StreamId;

/// A beat is so small a part of an interval at least: 32 ms of a second, 128 ms of five.
const PARTS: u128 = 30;

/// The longest beat, milliseconds.
const LONGEST_MS: u128 = 128;

/// Streams by when they are due.
#[derive(Debug, Default)]
pub(super) struct Beats {
    origin: Option<Instant>,
    due: BTreeMap<Instant, Vec<StreamId>>,
}

impl Beats {
    /// The last beat that is not after `at`, for a check with this interval: none begins later than it has to.
    pub(super) fn not_after(&mut self, at: Instant, interval: Duration) -> Instant {
        at.checked_sub(self.over(at, interval)).unwrap_or(at)
    }

    /// The first beat that is not before `at`.
    pub(super) fn not_before(&mut self, at: Instant, interval: Duration) -> Instant {
        match self.over(at, interval) {
            Duration::ZERO => at,
            over => at + (length(interval) - over),
        }
    }

    /// What of `at` is over since the last beat.
    fn over(&mut self, at: Instant, interval: Duration) -> Duration {
        let since = at.saturating_duration_since(*self.origin.get_or_insert(at));
        let over = since.as_nanos() % length(interval).as_nanos();
        // Less than a beat.
        Duration::from_nanos(over as u64)
    }

    pub(super) fn insert(&mut self, at: Instant, stream: StreamId) {
        self.due.entry(at).or_default().push(stream);
    }

    /// Takes back what was inserted, if it is still there.
    pub(super) fn remove(&mut self, at: Instant, stream: StreamId) {
        let Some(streams) = self.due.get_mut(&at) else { return };
        if let Some(place) = streams.iter().position(|&other| other == stream) {
            streams.swap_remove(place);
        }
        if streams.is_empty() {
            self.due.remove(&at);
        }
    }

    /// When something is due next.
    pub(super) fn first(&self) -> Option<Instant> {
        self.due.first_key_value().map(|(&at, _)| at)
    }

    /// Those of the first beat, if it is not after `now`.
    pub(super) fn pop(&mut self, now: Instant) -> Option<Vec<StreamId>> {
        let first = self.due.first_entry().filter(|first| *first.key() <= now)?;
        Some(first.remove())
    }
}

fn length(interval: Duration) -> Duration {
    let most = (interval.as_millis() / PARTS).clamp(1, LONGEST_MS);
    Duration::from_millis(1 << most.ilog2())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_beat_is_a_small_part_of_the_interval() {
        let intervals = [1, 100, 1_000, 2_000, 5_000, 3_600_000].map(|interval| length(ms(interval)));
        assert_eq!(intervals, [1, 2, 32, 64, 128, 128].map(ms));
    }

    #[test]
    fn what_is_taken_back_is_not_due() {
        let (mut beats, now) = (Beats::default(), Instant::now());
        beats.insert(now, 1);
        beats.insert(now, 2);
        beats.insert(now + ms(5), 3);
        beats.remove(now, 1);
        beats.remove(now + ms(1), 2);
        assert_eq!((beats.first(), beats.pop(now)), (Some(now), Some(vec![2])));
        assert_eq!((beats.first(), beats.pop(now)), (Some(now + ms(5)), None));
        beats.remove(now + ms(5), 3);
        assert_eq!(beats.first(), None);
    }

    proptest! {
        #[test]
        fn beats_stand_round_a_moment_and_those_of_long_intervals_are_those_of_short_ones(
            at in 0_u64..10_000_000_000, short in 1_u64..100_000, more in 0_u64..100_000,
        ) {
            let (mut beats, origin) = (Beats::default(), Instant::now());
            let (short, long) = (ms(short), ms(short + more));
            prop_assert_eq!(beats.not_after(origin, long), origin);
            let at = origin + Duration::from_nanos(at);
            let (before, after) = (beats.not_after(at, long), beats.not_before(at, long));
            prop_assert!(before <= at && at <= after);
            prop_assert_eq!(after - before, if before == after { Duration::ZERO } else { length(long) });
            prop_assert_eq!(beats.not_after(before, short), before);
            prop_assert_eq!(beats.not_before(after, short), after);
        }
    }
}
