//! How many descriptors the process may have, and what part of them each of its works gets.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// As many as the systemd unit allows: more are never needed.
const ENOUGH: u64 = 65_536;

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

/// A part that leaves enough for the daemon's own work.
pub(crate) fn part() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX) / PART
}
