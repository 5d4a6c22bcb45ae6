//! Whose a directory of pins has to be. Whoever can write to one, or put another in its place, can take programs and maps
//! away and leave their own for the next process to find.

use std::fmt;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::error::Error;

/// A directory of pins, or one above it, that others can change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exposed {
    path: PathBuf,
    to: Whom,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whom {
    Owner(u32),
    Writers(u32),
}

impl Exposed {
    /// What is so.
    pub fn cause(&self) -> String {
        let path = self.path.display();
        let whom = match self.to {
            Whom::Owner(user) => format!("belongs to user {user}"),
            Whom::Writers(mode) => format!("can be written to by others (mode {mode:04o})"),
        };
        format!("{path} {whom}, who could take pins away or exchange them; nothing there is used")
    }

    /// What to do about it.
    pub fn remedy(&self) -> String {
        let path = self.path.display();
        format!(
            "`rm -r {path}`, which ends what is pinned there; or, where you know all that is in it, `chown root {path} && \
             chmod go-w {path}`"
        )
    }
}

impl fmt::Display for Exposed {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}. Do away with that first: {}", self.cause(), self.remedy())
    }
}

/// Makes a directory of pins, and those above it, for this user alone, where they are not there; those that are have to
/// be such that nobody else can change them.
///
/// # Errors
/// [`Error::Exposed`], [`Error::Pin`].
pub fn make(pins: &Path) -> Result<(), Error> {
    check(pins)?;
    let failed = |error: io::Error| Error::Pin {
        path: pins.to_path_buf(),
        reason: match error.kind() {
            io::ErrorKind::PermissionDenied => format!("making it failed: {error}; this needs root"),
            _ => format!("making it failed: {error}"),
        },
    };
    DirBuilder::new().recursive(true).mode(0o700).create(pins).map_err(failed)?;
    // Somebody else may have made one of them between.
    check(pins)
}

/// Refuses a directory of pins that others can change, itself or one above it, as far as they are there and in a BPF file
/// system.
///
/// # Errors
/// [`Error::Exposed`], [`Error::Pin`] when they cannot be looked at.
pub fn check(pins: &Path) -> Result<(), Error> {
    exposed(pins)?.map_or(Ok(()), |exposed| Err(Error::Exposed(exposed)))
}

/// Whether the path, or what is there of it, is in a BPF file system.
///
/// # Errors
/// When the kernel does not tell.
pub fn is_in_bpf(path: &Path) -> io::Result<bool> {
    let there = path.ancestors().find(|path| path.exists()).unwrap_or(Path::new("."));
    Ok(rustix::fs::statfs(there)?.f_type as u64 == BPF_FS_MAGIC)
}

/// The topmost directory of pins, or above them, that others can change, if one is; what is not there is nobody's.
///
/// # Errors
/// [`Error::Pin`] when they cannot be looked at.
pub fn exposed(pins: &Path) -> Result<Option<Exposed>, Error> {
    let own = rustix::process::geteuid().as_raw();
    let mut topmost = None;
    for path in pins.ancestors() {
        let failed = |error: io::Error| Error::Pin {
            path: path.to_path_buf(),
            reason: format!("looking at it failed: {error}"),
        };
        // The link itself counts too: whoever owns one can have it lead elsewhere.
        let owner = match fs::symlink_metadata(path) {
            Ok(metadata) => metadata.uid(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(failed(error)),
        };
        if !is_in_bpf(path).map_err(failed)? {
            break;
        }
        let metadata = fs::metadata(path).map_err(failed)?;
        let mut found = |to| topmost = Some(Exposed { path: path.to_path_buf(), to });
        // In a sticky one others can make what they like, and change nothing of ours: good enough above the pins.
        let (mode, is_above) = (metadata.mode() & 0o7777, path != pins);
        let is_writable = mode & WRITERS != 0 && !(is_above && mode & STICKY != 0);
        match [owner, metadata.uid()].into_iter().find(|user| ![0, own].contains(user)) {
            Some(user) => found(Whom::Owner(user)),
            None if is_writable => found(Whom::Writers(mode)),
            None => {}
        }
    }
    Ok(topmost)
}

const BPF_FS_MAGIC: u64 = 0xcafe_4a11;
/// Write permission of group and others.
const WRITERS: u32 = 0o022;
const STICKY: u32 = 0o1000;
