//! The limit on ICMP messages of our own, and the clock: so many messages in each second, over all CPUs.

use core::sync::atomic::Ordering::Relaxed;

use crate::word::AtomicU64;

/// The rate limit's state, and the clock that it goes by: one cache line.
#[derive(Debug, Default)]
#[cfg_attr(target_has_atomic = "64", derive(zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::KnownLayout))]
#[repr(C, align(64))]
pub struct Pace {
    /// The second in the high half, messages sent in it in the low.
    pub window: AtomicU64,
    per_second: AtomicU64,
    /// One more than the second at which the clock stands still; 0 lets it run.
    stopped: AtomicU64,
    spare: [AtomicU64; 5],
}

impl Pace {
    /// Sets how many messages are sent in one second at most.
    pub fn set_per_second(&self, messages: u32) {
        self.per_second.store(messages as u64, Relaxed);
    }

    /// How many messages are sent in one second at most.
    #[inline(always)]
    pub fn per_second(&self) -> u32 {
        self.per_second.load(Relaxed) as u32
    }

    /// Stops the clock at this second, or lets it run: for tests and for answers about a moment that is past.
    pub fn stop_clock(&self, at: Option<u32>) {
        self.stopped.store(at.map_or(0, |second| second as u64 + 1), Relaxed);
    }

    /// The second at which the clock stands still.
    #[inline(always)]
    pub fn stopped_at(&self) -> Option<u32> {
        self.stopped.load(Relaxed).checked_sub(1).map(|second| second as u32)
    }
}

/// The window after one more message in second `now`, or `None` if there have been `per_second` already.
#[inline(always)]
pub const fn next_window(window: u64, now: u32, per_second: u32) -> Option<u64> {
    let sent = if (window >> 32) as u32 == now { window as u32 } else { 0 };
    if sent >= per_second { None } else { Some(((now as u64) << 32) | (sent as u64 + 1)) }
}

const _: () = assert!(size_of::<Pace>() == 64 && align_of::<Pace>() == 64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_second_has_its_own_allowance() {
        let mut window = u64::MAX;
        for now in [0, 1, 7, u32::MAX] {
            for _ in 0..3 {
                window = next_window(window, now, 3).unwrap();
            }
            assert_eq!(next_window(window, now, 3), None, "in second {now}");
        }
        assert_eq!(next_window(0, 8, 0), None);
    }

    #[test]
    fn the_clock_runs_until_it_is_stopped() {
        let pace = Pace::default();
        assert_eq!(pace.stopped_at(), None);
        for second in [0, 1_000, u32::MAX] {
            pace.stop_clock(Some(second));
            assert_eq!(pace.stopped_at(), Some(second));
        }
        pace.stop_clock(None);
        assert_eq!(pace.stopped_at(), None);
    }
}
