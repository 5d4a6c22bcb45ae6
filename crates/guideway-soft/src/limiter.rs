//! The limit on ICMP messages that the balancer itself sends: so many in each second, over all packet threads.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use guideway_forward::record::pace::next_window;

/// Counts messages in the present second.
#[derive(Debug)]
pub(crate) struct IcmpLimiter {
    per_second: AtomicU32,
    /// The second in the high half, messages sent in it in the low.
    window: AtomicU64,
}

impl IcmpLimiter {
    /// At most `per_second` messages in a second.
    pub(crate) fn new(per_second: u32) -> Self {
        Self { per_second: AtomicU32::new(per_second), window: AtomicU64::new(u64::MAX) }
    }

    /// Changes the limit.
    pub(crate) fn set_per_second(&self, per_second: u32) {
        self.per_second.store(per_second, Relaxed);
    }

    /// Whether one more message may be sent now. Never waits: of threads that meet, some are refused.
    #[inline]
    pub(crate) fn allow(&self, now: u32) -> bool {
        let window = self.window.load(Relaxed);
        match next_window(window, now, self.per_second.load(Relaxed)) {
            Some(next) => self.window.compare_exchange(window, next, Relaxed, Relaxed).is_ok(),
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_second_has_its_own_allowance() {
        let limiter = IcmpLimiter::new(3);
        for now in [0, 1, 7, u32::MAX] {
            let sent = (0..10).filter(|_| limiter.allow(now)).count();
            assert_eq!(sent, 3, "in second {now}");
        }
        limiter.set_per_second(0);
        assert!(!limiter.allow(8));
    }
}
