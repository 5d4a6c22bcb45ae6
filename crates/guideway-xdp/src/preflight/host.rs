//! Whether this host, and this process, can run programs at all.

use std::path::Path;

use rustix::process::{Resource, getrlimit};

use super::{Finding, Subject};
use crate::{ownership, pins};

/// Capabilities by their bits (linux/capability.h).
const CAPABILITIES: [(u32, &str, &str); 3] = [
    (12, "CAP_NET_ADMIN", "attach programs to interfaces"),
    (38, "CAP_PERFMON", "let the verifier pass the programs' pointer arithmetic"),
    (39, "CAP_BPF", "load programs and make maps"),
];
const SYS_ADMIN: u32 = 21;

/// The first kernel that has links for XDP, without which a program would not outlive its process.
const FIRST: (u32, u32) = (5, 9);
/// The oldest on which the programs are tested.
const TESTED: (u32, u32) = (6, 1);
/// From here on maps are not counted as locked memory.
const COUNTS_BY_CGROUP: (u32, u32) = (5, 11);

pub(super) fn examine(pins: &Path) -> Vec<Finding> {
    let release = nix::sys::utsname::uname().map(|name| name.release().to_string_lossy().into_owned());
    let release = release.unwrap_or_default();
    let version = version(&release);
    let mut findings = vec![kernel(&release, version)];
    findings.extend(capabilities(&std::fs::read_to_string("/proc/self/status").unwrap_or_default()));
    findings.push(file_system(pins));
    findings.extend(exposed(pins));
    findings.extend(locked_memory(version));
    findings.extend(jit(&std::fs::read_to_string("/proc/sys/net/core/bpf_jit_enable").unwrap_or_default()));
    findings
}

/// Major and minor number.
fn version(release: &str) -> (u32, u32) {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|number| number.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

fn kernel(release: &str, version: (u32, u32)) -> Finding {
    let cause = format!("Linux {release}");
    if version < FIRST {
        let cause = format!("{cause} has no links for XDP: a program would not outlive its process");
        return Finding::fail(Subject::Host, cause, "run Linux 6.1 or newer");
    }
    if version < TESTED {
        let cause = format!("{cause} is older than 6.1, the oldest on which the programs are tested");
        return Finding::warn(Subject::Host, cause, "run Linux 6.1 or newer");
    }
    Finding::ok(Subject::Host, cause)
}

fn capabilities(status: &str) -> Vec<Finding> {
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).unwrap_or(0);
    let has = |bit: u32| effective & (1 << bit) != 0;
    let missing: Vec<_> = CAPABILITIES
        .iter()
        .filter(|(bit, _, _)| !has(*bit) && (*bit == 12 || !has(SYS_ADMIN)))
        .map(|(_, name, what_for)| {
            Finding::fail(
                Subject::Host,
                format!("this process lacks {name}, without which it can't {what_for}"),
                format!("run it as root, or as a service with AmbientCapabilities={name}"),
            )
        })
        .collect();
    if missing.is_empty() {
        return vec![Finding::ok(Subject::Host, "this process may load and attach programs")];
    }
    missing
}

fn file_system(pins: &Path) -> Finding {
    match ownership::is_in_bpf(pins) {
        Ok(true) => Finding::ok(Subject::Host, format!("{} is in a BPF file system", pins.display())),
        _ => Finding::fail(
            Subject::Host,
            format!("{} is in no BPF file system: programs would end with their process", pins.display()),
            MOUNT,
        ),
    }
}

/// For root alone: the usual mode lets everybody make directories there.
const MOUNT: &str = "mount -t bpf -o mode=0700 bpf /sys/fs/bpf";

/// Whether others can change the directories of pins that are there.
fn exposed(root: &Path) -> Option<Finding> {
    // What cannot be looked at is told by whoever opens it.
    let exposed = ownership::exposed(&pins::layout_below(root)).ok().flatten()?;
    Some(Finding::fail(Subject::Host, exposed.cause(), exposed.remedy()))
}

fn locked_memory(version: (u32, u32)) -> Option<Finding> {
    if version >= COUNTS_BY_CGROUP {
        return None;
    }
    let limit = getrlimit(Resource::Memlock).current?;
    (limit < 128 << 20).then(|| {
        Finding::fail(
            Subject::Host,
            format!("this kernel counts maps as locked memory, of which this process may have {limit} bytes"),
            "run it with `ulimit -l unlimited`, or as a service with LimitMEMLOCK=infinity",
        )
    })
}

fn jit(setting: &str) -> Option<Finding> {
    (setting.trim() == "0").then(|| {
        Finding::warn(
            Subject::Host,
            "programs are interpreted, many times slower than compiled",
            "sysctl -w net.core.bpf_jit_enable=1",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::super::Grade;
    use super::*;

    #[test]
    fn kernels_are_graded_by_their_version() {
        let grade = |release: &str| kernel(release, version(release)).grade;
        assert_eq!(grade("5.4.0-42-generic"), Grade::Fail);
        assert_eq!(grade("5.15.0"), Grade::Warn);
        assert_eq!(grade("6.1.0-49-amd64"), Grade::Ok);
        assert_eq!(grade("7.0"), Grade::Ok);
        assert_eq!(grade("nonsense"), Grade::Fail);
    }

    #[test]
    fn each_missing_capability_is_named() {
        let all = format!("CapEff:\t{:016x}\n", 1_u64 << 12 | 1 << 38 | 1 << 39);
        assert!(capabilities(&all).iter().all(|finding| finding.grade == Grade::Ok));
        let old = format!("CapEff:\t{:016x}\n", 1_u64 << 12 | 1 << 21);
        assert!(capabilities(&old).iter().all(|finding| finding.grade == Grade::Ok));
        let none = capabilities("CapEff:\t0000000000000000\n");
        let named: String = none.iter().map(|finding| finding.cause.as_str()).collect();
        assert!(["CAP_NET_ADMIN", "CAP_PERFMON", "CAP_BPF"].iter().all(|name| named.contains(name)));
    }

    #[test]
    fn an_ordinary_directory_keeps_no_programs() {
        let finding = file_system(Path::new("/proc/nothing/here"));
        assert_eq!(finding.grade, Grade::Fail);
        assert_eq!(finding.remedy.as_deref(), Some(MOUNT));
    }

    #[test]
    fn an_interpreter_is_warned_of() {
        assert_eq!(jit("0\n").map(|finding| finding.grade), Some(Grade::Warn));
        assert_eq!(jit("1\n"), None);
    }
}
