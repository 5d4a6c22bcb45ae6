//! What the service manager is told, where there is one (`sd_notify`): that the daemon is ready, reads its configuration,
//! lives, and ends; and in a line how it is.
//!
//! The loop itself feeds the watchdog, and so does what it has to do that takes long and comes to an end. One that hangs is
//! started anew by the manager, and the next daemon takes over.

use std::cell::Cell;
use std::time::{Duration, Instant};

use sd_notify::NotifyState;

/// The line is told so often at most.
const LINE_EVERY: Duration = Duration::from_secs(1);

/// The longest line, characters.
const LINE: usize = 200;

/// The sign of life that the watchdog waits for.
#[derive(Debug)]
pub(crate) struct Heartbeat {
    /// How often it is wanted; `None` where nobody waits.
    every: Option<Duration>,
    due: Cell<Instant>,
}

impl Heartbeat {
    pub(crate) fn new(now: Instant) -> Self {
        Self { every: sd_notify::watchdog_enabled().map(|within| within / 2), due: Cell::new(now) }
    }

    /// Gives it if it is due; when it is due next.
    pub(crate) fn beat(&self, now: Instant) -> Option<Instant> {
        let every = self.every?;
        if self.due.get() <= now {
            tell(&[NotifyState::Watchdog]);
            self.due.set(now + every);
        }
        Some(self.due.get())
    }
}

/// What was told, and when something is to be told again.
#[derive(Debug)]
pub(crate) struct Manager {
    heartbeat: Heartbeat,
    line: String,
    line_at: Option<Instant>,
    /// The number of the event that the line was made of.
    seen: u64,
}

impl Manager {
    pub(crate) fn new(now: Instant) -> Self {
        Self { heartbeat: Heartbeat::new(now), line: String::new(), line_at: None, seen: 0 }
    }

    /// Forwarding, with the configuration in force.
    pub(crate) fn ready(&self) {
        tell(&[NotifyState::Ready]);
    }

    /// About to read the configuration again; [`ready`](Self::ready) says that it is over.
    pub(crate) fn reloading(&self) {
        if let Ok(now) = NotifyState::monotonic_usec_now() {
            tell(&[NotifyState::Reloading, now]);
        }
    }

    /// About to end.
    pub(crate) fn stopping(&self) {
        tell(&[NotifyState::Stopping]);
    }

    /// Tells what is due; when it is to be called again. `event` numbers what happened last; only when that changes, and not
    /// more often than once in [`LINE_EVERY`], the line is made.
    pub(crate) fn advance(
        &mut self,
        now: Instant,
        event: u64,
        line: impl FnOnce() -> String,
    ) -> Option<Instant> {
        let heartbeat_due = self.heartbeat.beat(now);
        let rested = self.line_at.is_none_or(|at| now >= at + LINE_EVERY);
        if event != self.seen && rested {
            self.seen = event;
            self.line_at = Some(now);
            let line = one_line(&line());
            if line != self.line {
                tell(&[NotifyState::Status(&line)]);
                self.line = line;
            }
        }
        let line_due = self.line_at.filter(|_| event != self.seen).map(|at| at + LINE_EVERY);
        [heartbeat_due, line_due].into_iter().flatten().min()
    }
}

/// The first line of a text, and not too much of it: a message has one assignment a line.
fn one_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().chars().take(LINE).collect()
}

fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!("the service manager cannot be told: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heartbeat(every: Option<Duration>, due: Instant) -> Heartbeat {
        Heartbeat { every, due: Cell::new(due) }
    }

    #[test]
    fn the_line_is_made_when_something_happened_and_not_too_often() {
        let start = Instant::now();
        let mut manager =
            Manager { heartbeat: heartbeat(None, start), line: String::new(), line_at: None, seen: 0 };
        let mut made = 0;
        let mut advance = |at: u64, event| {
            manager.advance(start + Duration::from_millis(at), event, || {
                made += 1;
                format!("{event}\nmore")
            })
        };
        assert_eq!(advance(0, 0), None);
        assert_eq!(advance(10, 1), None);
        assert_eq!(advance(20, 2), Some(start + Duration::from_millis(1_010)));
        assert_eq!(advance(1_010, 5), None);
        assert_eq!(advance(5_000, 5), None);
        assert_eq!(made, 2);
        assert_eq!((manager.line.as_str(), manager.seen), ("5", 5));
    }

    #[test]
    fn a_watchdog_is_fed_at_its_time_and_says_when_next() {
        let start = Instant::now();
        let every = Duration::from_secs(1);
        let heartbeat = heartbeat(Some(every), start);
        let mut manager = Manager { heartbeat, line: String::new(), line_at: None, seen: 0 };
        let next = manager.advance(start, 0, String::new);
        assert_eq!(next, Some(start + every));
        assert_eq!(manager.advance(start + every / 2, 0, String::new), next);
        assert_eq!(manager.advance(start + every, 0, String::new), Some(start + every * 2));
    }
}
