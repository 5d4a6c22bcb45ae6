//! Whether network namespaces can be made, and how to make it so.

use std::fs;
use std::thread;

use nix::sched::{CloneFlags, unshare};
use nix::unistd::{Gid, Uid};

use crate::error::{Context, Error, Result};
use crate::forwarder::Forwarder;

/// When this variable is `1`, a test that cannot have its privileges fails instead of being passed over.
pub const REQUIRE_PRIVILEGES: &str = "GUIDEWAY_REQUIRE_PRIVILEGES";

/// Tries whether this process may make a network namespace.
///
/// # Errors
/// [`Error::Privilege`].
pub fn check() -> Result<()> {
    let tried = thread::spawn(|| unshare(CloneFlags::CLONE_NEWNET)).join();
    match tried {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(Error::Privilege { source: error.into() }),
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// What a privileged test does first: `true` to go on; `false`, with a line that says so, to be passed over.
///
/// # Panics
/// Without privileges when [`REQUIRE_PRIVILEGES`] is `1`.
pub fn granted() -> bool {
    match check() {
        Ok(()) => true,
        Err(error) => pass_over(&error),
    }
}

/// As [`granted`], for a test that runs on packet path `F`.
///
/// # Panics
/// Without privileges when [`REQUIRE_PRIVILEGES`] is `1`.
pub fn granted_to<F: Forwarder>() -> bool {
    match check().and_then(|()| F::permitted()) {
        Ok(()) => true,
        Err(error) => pass_over(&error),
    }
}

/// As [`granted`], for a program that is not part of this one.
///
/// # Panics
/// Without the program when [`REQUIRE_PRIVILEGES`] is `1`.
pub fn installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path)
        .chain(["/usr/sbin".into(), "/sbin".into()])
        .any(|folder| folder.join(program).is_file());
    found || pass_over(&format!("{program} is not installed"))
}

fn pass_over(reason: &dyn std::fmt::Display) -> bool {
    let required = std::env::var(REQUIRE_PRIVILEGES).is_ok_and(|value| value == "1");
    assert!(!required, "{REQUIRE_PRIVILEGES} is 1, but {reason}");
    eprintln!("passed over: {reason}");
    false
}

/// Makes this process root in a user namespace of its own, so that an ordinary user can have a test bed.
///
/// To be called before the process has a second thread; the kernel refuses it afterwards.
///
/// # Errors
/// [`Error::Privilege`] where user namespaces are closed to this user.
pub fn enter_user_namespace() -> Result<()> {
    let (user, group) = (Uid::effective(), Gid::effective());
    unshare(CloneFlags::CLONE_NEWUSER).map_err(|error| Error::Privilege { source: error.into() })?;
    let write = |file: &str, line: String| {
        let path = format!("/proc/self/{file}");
        fs::write(&path, line).context(|| format!("writing {path}"))
    };
    write("setgroups", "deny".to_owned())?;
    write("uid_map", format!("0 {user} 1"))?;
    write("gid_map", format!("0 {group} 1"))
}
