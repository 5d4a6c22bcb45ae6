//! Slow start: a backend that comes back takes its share in steps.
//!
//! Tables depend on the proportion of weights alone, so while one backend of a service ramps, every weight of the
//! service is multiplied by [`STEPS`], and that of the ramping one by the step that it has reached.

use std::time::{Duration, Instant};

/// Steps of a ramp.
pub const STEPS: u32 = 10;

/// A ramp under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ramp {
    began: Instant,
    length: Duration,
}

impl Ramp {
    /// A ramp that begins now; `None` where there is nothing to ramp over.
    pub fn begin(now: Instant, length: Duration) -> Option<Self> {
        (!length.is_zero()).then_some(Self { began: now, length })
    }

    /// A ramp of which so much is over.
    pub fn resume(now: Instant, length: Duration, elapsed: Duration) -> Option<Self> {
        let began = now.checked_sub(elapsed).filter(|_| elapsed < length)?;
        Some(Self { began, length })
    }

    /// The step that it has reached, from 1; `None` when it is over.
    pub fn step(&self, now: Instant) -> Option<u32> {
        let elapsed = self.elapsed(now);
        if elapsed >= self.length {
            return None;
        }
        let over = elapsed.as_nanos() * u128::from(STEPS) / self.length.as_nanos();
        Some(over as u32 + 1)
    }

    /// When the next step begins, or the ramp ends.
    pub fn next(&self, now: Instant) -> Instant {
        let step = self.step(now).unwrap_or(STEPS);
        // A nanosecond late rather than early: the division rounds down.
        self.began + self.length * step / STEPS + Duration::from_nanos(1)
    }

    /// How much is over.
    pub fn elapsed(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.began)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_ramp_goes_through_every_step_once() {
        let start = Instant::now();
        let ramp = Ramp::begin(start, Duration::from_secs(20)).unwrap();
        let (mut now, mut steps) = (start, Vec::new());
        while let Some(step) = ramp.step(now) {
            steps.push(step);
            now = ramp.next(now);
        }
        assert_eq!(steps, (1..=STEPS).collect::<Vec<_>>());
        assert!(now.duration_since(start) <= Duration::from_secs(20) + Duration::from_micros(1));
    }

    #[test]
    fn nothing_ramps_over_no_time() {
        assert_eq!(Ramp::begin(Instant::now(), Duration::ZERO), None);
    }

    proptest! {
        #[test]
        fn steps_rise_and_the_next_one_is_always_ahead(length in 1_u64..10_000_000, at in 0_u64..12_000_000) {
            let start = Instant::now();
            let ramp = Ramp::begin(start, Duration::from_micros(length)).unwrap();
            let now = start + Duration::from_micros(at);
            match ramp.step(now) {
                Some(step) => {
                    prop_assert!((1..=STEPS).contains(&step));
                    let next = ramp.next(now);
                    prop_assert!(next > now);
                    prop_assert_eq!(ramp.step(next), (step < STEPS).then_some(step + 1));
                }
                None => prop_assert!(at >= length),
            }
        }
    }
}
