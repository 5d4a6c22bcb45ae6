//! Where it stands: namespaces of its own, with or without root, and directories that vanish with them.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use guideway_testbed::forwarder::Forwarder;
use guideway_testbed::kernel::KernelForwarder;
use guideway_testbed::privilege;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

use super::EngineWish;
use crate::failure::Failure;

/// What is hidden under a file system of its own: a real daemon's socket among it.
const RUN: &str = "/run";

/// Everything that the daemon writes. Below [`RUN`], so nobody else sees it.
pub(super) const DIRECTORY: &str = "/run/guideway";

/// What the daemon's directory for state is called in it.
pub(super) const STATE: &str = "state";

/// A BPF file system of its own.
const BPF: &str = "/run/guideway/bpf";

/// The pins' directory in it.
pub(super) const PINS: &str = "/run/guideway/bpf/pins";

/// What forwards, and why nothing better does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ground {
    /// Whether it is the kernel.
    pub(crate) kernel: bool,
    /// Whether this process is root on the machine, and not only in its user namespace.
    pub(crate) root: bool,
    /// Why it is not the kernel although that was not refused.
    pub(crate) why_not: Option<String>,
}

/// Makes them. To be called before the process has a second thread.
pub(crate) fn take(wish: EngineWish) -> Result<Ground, Failure> {
    let root = match unshare(CloneFlags::CLONE_NEWNS) {
        Ok(()) => true,
        Err(_) => {
            let entered = privilege::enter_user_namespace();
            entered.map_err(closed)?;
            unshare(CloneFlags::CLONE_NEWNS).map_err(closed)?;
            false
        }
    };
    directories().map_err(closed)?;
    privilege::check().map_err(closed)?;
    let why_not = if wish == EngineWish::Soft {
        None
    } else if root {
        KernelForwarder::permitted().err().map(|error| error.to_string())
    } else {
        Some("XDP needs root".to_owned())
    };
    let kernel = wish != EngineWish::Soft && why_not.is_none();
    if let Some(why) = why_not.as_ref().filter(|_| wish == EngineWish::Xdp) {
        let remedy = "run it as root, with sudo, or with --engine soft";
        return Err(Failure::failed(format!("the kernel cannot forward here: {why}; {remedy}")));
    }
    if kernel {
        bpf_file_system().map_err(|error| Failure::failed(format!("mounting a BPF file system: {error}")))?;
    }
    Ok(Ground { kernel, root, why_not })
}

/// Forgets what a daemon that has ended remembered.
pub(crate) fn forget_state() -> Result<(), Failure> {
    match fs::remove_dir_all(Path::new(DIRECTORY).join(STATE)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Failure::failed(format!("removing the daemon's state: {error}")))
        }
        _ => Ok(()),
    }
}

/// A mount namespace is there; gives it directories that nobody else sees.
fn directories() -> io::Result<()> {
    let none = None::<&str>;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)?;
    mount(Some("tmpfs"), RUN, Some("tmpfs"), MsFlags::MS_NOSUID, Some("size=512m,mode=755"))?;
    fs::create_dir_all(DIRECTORY)
}

fn bpf_file_system() -> io::Result<()> {
    fs::create_dir_all(BPF)?;
    Ok(mount(Some("bpf"), BPF, Some("bpf"), MsFlags::empty(), None::<&str>)?)
}

/// Namespaces are closed to this user: what, why, and what to do.
fn closed(error: impl std::fmt::Display) -> Failure {
    let user = |key: &str, closed: &str| {
        let path = Path::new("/proc/sys").join(key);
        fs::read_to_string(path).is_ok_and(|value| value.trim() == closed)
    };
    let settings = [
        ("kernel/apparmor_restrict_unprivileged_userns", "1", "0"),
        ("kernel/unprivileged_userns_clone", "0", "1"),
        ("user/max_user_namespaces", "0", "10000"),
    ];
    let setting = settings.iter().find(|(key, closed, _)| user(key, closed));
    let remedy = match setting {
        Some((key, closed, open)) => {
            let key = key.replace('/', ".");
            format!("here {key} is {closed}: `sudo sysctl {key}={open}` opens them, or run it with sudo")
        }
        None => {
            "run it with sudo; in a container, give that the capabilities SYS_ADMIN and NET_ADMIN".to_owned()
        }
    };
    Failure::failed(format!(
        "this makes a network of its own from namespaces, for which it needs root or user namespaces, and neither \
         is allowed ({error}); {remedy}"
    ))
}

/// How long an end that was asked for may take.
pub(super) const END_AT_MOST: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use nix::errno::Errno;

    use super::*;

    #[test]
    fn a_refusal_says_what_why_and_what_to_do() {
        let told = closed(Errno::EPERM).to_string();
        for part in ["needs root or user namespaces", "Operation not permitted", "sudo"] {
            assert!(told.contains(part), "no {part:?} in {told}");
        }
    }
}
