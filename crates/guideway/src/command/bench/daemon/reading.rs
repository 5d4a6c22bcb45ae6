//! What the kernel says of a process: processor time and memory.

use std::fs;
use std::time::Duration;

use crate::failure::Failure;

/// Ticks of `utime` and `stime` in a second, which is fixed for user space.
const TICKS: f64 = 100.0;

/// A process that is looked at.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reading(pub(super) u32);

/// Resident memory, megabytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Memory {
    /// All of it (VmRSS).
    pub(super) all: f64,
    /// What is its own: heaps and stacks (RssAnon).
    pub(super) own: f64,
    /// The program, and the tables that it shares with the kernel as far as they were touched (RssFile, RssShmem).
    pub(super) mapped: f64,
}

impl Reading {
    /// The processor time so far, in user space and in the kernel.
    pub(super) fn time(self) -> Result<Duration, Failure> {
        let text = self.file("stat")?;
        let ticks =
            ticks(&text).ok_or_else(|| Failure::failed("the kernel's account of the daemon's time"))?;
        Ok(Duration::from_secs_f64(ticks as f64 / TICKS))
    }

    pub(super) fn memory(self) -> Result<Memory, Failure> {
        Ok(memory(&self.file("status")?))
    }

    fn file(self, name: &str) -> Result<String, Failure> {
        let path = format!("/proc/{}/{name}", self.0);
        fs::read_to_string(&path).map_err(|error| Failure::failed(format!("reading {path}: {error}")))
    }
}

/// The sum of `utime` and `stime` of `/proc/PID/stat` (proc_pid_stat(5)). The name before may have spaces.
fn ticks(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(11);
    let (user, system): (u64, u64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some(user + system)
}

fn memory(status: &str) -> Memory {
    let of = |name: &str| -> f64 {
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let kibibytes = line.and_then(|rest| rest.trim().trim_end_matches("kB").trim().parse::<f64>().ok());
        kibibytes.unwrap_or(f64::NAN) * 1024.0 / 1e6
    };
    Memory { all: of("VmRSS"), own: of("RssAnon"), mapped: of("RssFile") + of("RssShmem") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_that_of_user_space_and_kernel_whatever_the_name() {
        let stat = "7 (a b) c) S 1 7 7 0 -1 4194560 900 0 0 0 120 34 0 0 20 0 3 0 100 1 2";
        assert_eq!(ticks(stat), Some(154));
        assert_eq!(ticks("7 (a"), None);
    }

    #[test]
    fn memory_is_in_megabytes_by_kind() {
        let status = "Name:\tx\nVmRSS:\t    2000 kB\nRssAnon:\t    1000 kB\nRssFile:\t     600 kB\nRssShmem:\t     400 kB\n";
        assert_eq!(memory(status), Memory { all: 2.048, own: 1.024, mapped: 1.024 });
    }
}
