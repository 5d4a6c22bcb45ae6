//! Waiting for an earlier daemon to let go: one that was killed a moment ago takes a while to end, since the kernel frees
//! what it held first.

use std::fmt::Display;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// An earlier daemon gets so long, for all that it may hold together.
const LONG_ENOUGH: Duration = Duration::from_secs(3);

/// From one look to the next.
const LOOK_EVERY: Duration = Duration::from_millis(25);

/// What is left of the time that an earlier daemon gets.
#[derive(Debug)]
pub(crate) struct Patience {
    until: Instant,
    told: bool,
}

impl Patience {
    pub(crate) fn new() -> Self {
        Self { until: Instant::now() + LONG_ENOUGH, told: false }
    }

    /// Takes something that an earlier daemon may hold: again and again while it does, and says once what is waited for.
    pub(crate) fn take<T, E: Display>(
        &mut self,
        is_held: impl Fn(&E) -> bool,
        mut take: impl FnMut() -> Result<T, E>,
    ) -> Result<T, E> {
        loop {
            match take() {
                Err(held) if is_held(&held) && Instant::now() < self.until => {
                    if !self.told {
                        let seconds = LONG_ENOUGH.as_secs();
                        tracing::warn!(about = "daemon", "{held}; waiting up to {seconds} s for it to end");
                        self.told = true;
                    }
                    sleep(LOOK_EVERY);
                }
                taken => return taken,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_let_go_of_is_taken_and_any_other_failure_is_told_at_once() {
        let mut tries = 0;
        let take = || {
            tries += 1;
            if tries < 3 { Err("held") } else { Ok(tries) }
        };
        assert_eq!(Patience::new().take(|error| *error == "held", take), Ok(3));
        let broken = Patience::new().take(|error| *error == "held", || Err::<(), _>("broken"));
        assert_eq!(broken, Err("broken"));
        let mut spent = Patience { until: Instant::now(), told: false };
        assert_eq!(spent.take(|_| true, || Err::<(), _>("held")), Err("held"));
    }
}
