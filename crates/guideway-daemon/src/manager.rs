//! What the service manager is told, where there is one (`sd_notify`): that the daemon is ready, reads its configuration,
//! lives, and ends; and in a line how it is.
//!
//! The loop itself feeds the watchdog, and so does what it has to do that takes long and comes to an end. One that hangs is
//! started anew by the manager, and the next daemon takes over.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use sd_notify::NotifyState;

use crate::notify::Notify;

/// The line is told so often at most.
const LINE_EVERY: Duration = Duration::from_secs(1);

/// What was owed to the manager is told again after so long.
const AGAIN: Duration = Duration::from_secs(1);

/// The longest line, characters.
const LINE: usize = 200;

/// Where no watchdog says how long it waits, the loop may stand still so long; it comes by once a second.
const STILL_AT_MOST: Duration = Duration::from_secs(10);

/// The sign of life that the watchdog waits for, and whoever asks whether the daemon lives.
#[derive(Debug)]
pub(crate) struct Heartbeat {
    /// How often it is wanted; `None` where no watchdog waits.
    every: Option<Duration>,
    due: Cell<Instant>,
    pulse: Pulse,
    notify: Notify,
}

/// When the loop gave a sign of life last, for other threads.
#[derive(Debug, Clone)]
pub(crate) struct Pulse {
    since: Instant,
    /// Milliseconds after that.
    at: Arc<AtomicU64>,
    still_at_most: Duration,
}

impl Pulse {
    pub(crate) fn new(now: Instant, still_at_most: Duration) -> Self {
        Self { since: now, at: Arc::default(), still_at_most }
    }

    /// How long the loop has stood still, where that is too long.
    pub(crate) fn stands_still(&self, now: Instant) -> Option<Duration> {
        let last = self.since + Duration::from_millis(self.at.load(Relaxed));
        Some(now.saturating_duration_since(last)).filter(|still| *still > self.still_at_most)
    }

    fn beat(&self, now: Instant) {
        self.at.store(now.saturating_duration_since(self.since).as_millis() as u64, Relaxed);
    }
}

impl Heartbeat {
    pub(crate) fn new(now: Instant) -> Self {
        let within = sd_notify::watchdog_enabled();
        let pulse = Pulse::new(now, within.unwrap_or(STILL_AT_MOST));
        Self {
            every: within.map(|within| within / 2),
            due: Cell::new(now),
            pulse,
            notify: Notify::from_environment(),
        }
    }

    /// What other threads know of it.
    pub(crate) fn pulse(&self) -> &Pulse {
        &self.pulse
    }

    /// Gives it, to the watchdog if it is due; when that is due next.
    pub(crate) fn beat(&self, now: Instant) -> Option<Instant> {
        self.pulse.beat(now);
        let every = self.every?;
        if self.due.get() <= now {
            self.notify.tell(&[NotifyState::Watchdog]);
            self.due.set(now + every);
        }
        Some(self.due.get())
    }
}

/// What was told, and when something is to be told again.
#[derive(Debug, Default)]
pub(crate) struct Manager {
    notify: Notify,
    /// That the daemon is ready, which the manager could not take.
    owes_ready: bool,
    line: String,
    line_at: Option<Instant>,
    /// The number of the event that the line was made of.
    seen: u64,
}

impl Manager {
    pub(crate) fn new() -> Self {
        Self { notify: Notify::from_environment(), ..Self::default() }
    }

    /// Forwarding, with the configuration in force. A manager that cannot take that is told again.
    pub(crate) fn ready(&mut self) {
        self.owes_ready = !self.notify.tell(&[NotifyState::Ready]);
    }

    /// About to read the configuration again; [`ready`](Self::ready) says that it is over.
    pub(crate) fn reloading(&self) {
        if let Ok(now) = NotifyState::monotonic_usec_now() {
            self.notify.tell(&[NotifyState::Reloading, now]);
        }
    }

    /// About to end.
    pub(crate) fn stopping(&self) {
        self.notify.tell(&[NotifyState::Stopping]);
    }

    /// Tells what is due; when it is to be called again. `event` numbers what happened last; only when that changes, and not
    /// more often than once in [`LINE_EVERY`], the line is made.
    pub(crate) fn advance(
        &mut self,
        now: Instant,
        event: u64,
        line: impl FnOnce() -> String,
    ) -> Option<Instant> {
        if self.owes_ready {
            self.ready();
        }
        let rested = self.line_at.is_none_or(|at| now >= at + LINE_EVERY);
        if event != self.seen && rested {
            self.seen = event;
            self.line_at = Some(now);
            let line = one_line(&line());
            if line != self.line {
                self.notify.tell(&[NotifyState::Status(&line)]);
                self.line = line;
            }
        }
        let line_due = self.line_at.filter(|_| event != self.seen).map(|at| at + LINE_EVERY);
        line_due.into_iter().chain(self.owes_ready.then(|| now + AGAIN)).min()
    }
}

/// The first line of a text, and not too much of it: a message has one assignment a line.
fn one_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().chars().take(LINE).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::notify::tests::{hanging, hear};

    #[test]
    fn that_it_is_ready_is_told_again_to_a_manager_that_could_not_take_it() {
        let (socket, notify) = hanging();
        let (start, mut manager) = (Instant::now(), Manager { notify, ..Manager::default() });
        manager.ready();
        assert_eq!(manager.advance(start, 0, String::new), Some(start + AGAIN));
        hear(&socket);
        assert_eq!(manager.advance(start + AGAIN, 0, String::new), None);
        assert!(std::iter::repeat_with(|| hear(&socket)).any(|heard| heard == "READY=1\n"));
    }

    #[test]
    fn the_line_is_made_when_something_happened_and_not_too_often() {
        let start = Instant::now();
        let mut manager = Manager::default();
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
    fn a_watchdog_is_fed_at_its_time_and_others_see_each_sign_of_life() {
        let start = Instant::now();
        let every = Duration::from_secs(1);
        let pulse = Pulse::new(start, 2 * every);
        let heartbeat = Heartbeat {
            every: Some(every),
            due: Cell::new(start),
            pulse: pulse.clone(),
            notify: Notify::default(),
        };
        let next = heartbeat.beat(start);
        assert_eq!(next, Some(start + every));
        assert_eq!(heartbeat.beat(start + every / 2), next);
        assert_eq!(pulse.stands_still(start + every / 2 + 2 * every), None);
        let still = 2 * every + Duration::from_millis(1);
        assert_eq!(pulse.stands_still(start + every / 2 + still), Some(still));
        assert_eq!(heartbeat.beat(start + every), Some(start + every * 2));
        assert_eq!(pulse.stands_still(start + every / 2 + still), None);
    }
}
