//! Names for namespaces, where `ip netns` looks for them.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use nix::mount::{MntFlags, MsFlags, mount, umount2};

use crate::error::{Context, Result};

/// Where `ip netns` keeps names.
const FOLDER: &str = "/run/netns";

/// A name, given by a bind mount of the namespace; taken away on drop.
#[derive(Debug)]
pub(crate) struct Name {
    path: PathBuf,
}

impl Name {
    pub(crate) fn give(prefix: &str, label: &str, namespace: &File) -> Result<Self> {
        let path = Path::new(FOLDER).join(format!("{prefix}-{}-{label}", std::process::id()));
        fs::create_dir_all(FOLDER).context(|| format!("making {FOLDER}"))?;
        File::create_new(&path).context(|| format!("making {}", path.display()))?;
        let name = Self { path };
        let from = format!("/proc/self/fd/{}", namespace.as_raw_fd());
        mount(Some(from.as_str()), &name.path, None::<&str>, MsFlags::MS_BIND, None::<&str>)
            .context(|| format!("naming a namespace {}", name.path.display()))?;
        Ok(name)
    }
}

impl Drop for Name {
    fn drop(&mut self) {
        // Nothing can be done here about a name that somebody else took away.
        let _ = take_away(&self.path);
    }
}

/// Takes away the names of this prefix whose process is gone.
pub(crate) fn clean(prefix: &str) -> Result<()> {
    let entries = match fs::read_dir(FOLDER) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error).context(|| format!("reading {FOLDER}")),
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| owner(name, prefix));
        if owner.is_some_and(|process| !Path::new("/proc").join(process).exists()) {
            take_away(&entry.path()).context(|| format!("taking away {}", entry.path().display()))?;
        }
    }
    Ok(())
}

/// The process id in a name of this prefix.
fn owner<'a>(name: &'a str, prefix: &str) -> Option<&'a str> {
    let (process, _) = name.strip_prefix(prefix)?.strip_prefix('-')?.split_once('-')?;
    (!process.is_empty() && process.bytes().all(|byte| byte.is_ascii_digit())).then_some(process)
}

fn take_away(path: &Path) -> io::Result<()> {
    // Not mounted where the process ended between making the file and mounting.
    let _ = umount2(path, MntFlags::MNT_DETACH);
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Namespace, privilege};

    #[test]
    fn only_names_of_the_prefix_with_a_process_are_ours() {
        assert_eq!(owner("gw-12-client", "gw"), Some("12"));
        for other in ["gw-x-client", "gw--client", "gwy-12-client", "client", "gw-12"] {
            assert_eq!(owner(other, "gw"), None, "{other}");
        }
    }

    #[test]
    fn a_name_lasts_as_long_as_the_namespace_and_leftovers_go() {
        if !privilege::granted() {
            return;
        }
        fs::create_dir_all(FOLDER).unwrap();
        // No process has this number: it is above the kernel's greatest.
        let leftover = Path::new(FOLDER).join("gwtest-4194305-client");
        File::create(&leftover).unwrap();
        let namespace = Namespace::named("gwtest", "client").unwrap();
        let name = Path::new(FOLDER).join(format!("gwtest-{}-client", std::process::id()));
        assert!(!leftover.exists());
        assert!(name.exists());
        drop(namespace);
        assert!(!name.exists());
    }
}
