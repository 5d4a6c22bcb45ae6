//! How many descriptors the process may have, and what part of them each of its works gets.

use std::fs::File;
use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::error::RunError;

/// As many as the systemd unit allows: more are never needed.
const ENOUGH: u64 = 65_536;

/// With fewer, no daemon gets far.
const FEWEST: u64 = 128;

/// What the end needs to find pins, programs and interfaces.
const RESERVED: usize = 16;

/// The part of all descriptors that connections to the API may have together, and the part that checks may have under way.
const PART: u64 = 4;

/// Raises the limit that a shell gives, often 1,024, as far as the process itself may.
pub(crate) fn raise() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let reachable = maximum.unwrap_or(ENOUGH).min(ENOUGH);
    if current.is_some_and(|current| current < reachable) {
        // Where that is refused, there are fewer, which whoever needs them is told.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(reachable), maximum });
    }
}

/// Refuses a limit that is too low for any daemon, before something fails that does not know why.
pub(crate) fn suffice() -> Result<(), RunError> {
    match getrlimit(Resource::Nofile).current {
        Some(may) if may < FEWEST => Err(RunError::Descriptors { may, fewest: FEWEST }),
        _ => Ok(()),
    }
}

/// Descriptors that are kept for the end, which may come when there are no others.
#[derive(Debug)]
pub(crate) struct Reserve(#[expect(dead_code, reason = "they are open, and that is all")] Vec<File>);

impl Reserve {
    pub(crate) fn take() -> io::Result<Self> {
        let first = File::open("/dev/null")?;
        let others = (1..RESERVED).map(|_| first.try_clone()).collect::<io::Result<Vec<File>>>()?;
        Ok(Self(others.into_iter().chain([first]).collect()))
    }

    /// Gives them to whoever asks next, with all others that the process may have.
    pub(crate) fn give(self) {
        raise();
    }
}

/// A part that leaves enough for the daemon's own work.
pub(crate) fn part() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX) / PART
}
