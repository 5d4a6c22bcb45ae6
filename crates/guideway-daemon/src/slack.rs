//! Memory that is free again after large work goes back to the system: a table of a million slots, or a configuration of
//! megabytes, leaves many times its size behind, and glibc keeps what lies below anything that is still in use. It keeps the more
//! the more heaps it has, of which each thread takes one: what a thread reads and another keeps lies scattered in the reader's.
//!
//! The only unsafe code of this crate.

use std::time::{Duration, Instant};

/// So much work is worth a look at all of the heap, which takes some milliseconds.
const WORTH: u64 = 8 << 20;

/// The work has to be over for so long: as much again may come at once.
const QUIET: Duration = Duration::from_secs(1);

/// Bytes that a slot takes while its table is built and compared, and that a byte of a configuration takes while it is read.
const A_SLOT: u64 = 16;
const A_BYTE: u64 = 40;

/// What was taken for a while and has not been given back.
#[derive(Debug, Default)]
pub(crate) struct Slack {
    bytes: u64,
    /// When the last of it came.
    since: Option<Instant>,
}

impl Slack {
    /// A table of so many slots was built.
    pub(crate) fn note_table(&mut self, slots: u32, now: Instant) {
        self.note(u64::from(slots) * A_SLOT, now);
    }

    /// A configuration of so many bytes was read.
    pub(crate) fn note_text(&mut self, bytes: usize, now: Instant) {
        self.note(bytes as u64 * A_BYTE, now);
    }

    fn note(&mut self, bytes: u64, now: Instant) {
        self.bytes = self.bytes.saturating_add(bytes);
        self.since = Some(now);
    }

    /// Whether it is time to [`give_back`]; it counts as done then.
    pub(crate) fn is_due(&mut self, now: Instant) -> bool {
        let due = self.bytes >= WORTH && self.since.is_some_and(|since| now >= since + QUIET);
        if due {
            *self = Self::default();
        }
        due
    }
}

/// Has all threads share one heap; for the beginning, when there is one thread. Threads keep what they free of small things to
/// themselves, so that they seldom wait for each other.
pub(crate) fn share_one_heap() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it is given no pointer; it is unsafe beside other threads alone (mallopt(3)), and none is there yet.
    unsafe {
        nix::libc::mallopt(nix::libc::M_ARENA_MAX, 1);
    }
}

/// Gives free memory back. Whoever takes memory meanwhile waits for some milliseconds.
pub(crate) fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it is given no pointer, and takes the locks of what it looks at (malloc_trim(3): MT-Safe).
    unsafe {
        nix::libc::malloc_trim(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn much_work_that_is_over_is_worth_it_once() {
        let (start, mut slack) = (Instant::now(), Slack::default());
        slack.note_table(65_537, start);
        assert!(!slack.is_due(start + 9 * QUIET), "too little");
        slack.note_table(1_048_573, start + QUIET);
        assert!(!slack.is_due(start + QUIET), "more may come");
        assert!(slack.is_due(start + 2 * QUIET) && !slack.is_due(start + 9 * QUIET));
        slack.note_text(1 << 20, start);
        assert!(slack.is_due(start + QUIET));
        give_back();
    }
}
