//! Whose the pins are: one process at a time, by a lock of the directory that ends with the process, however it ends.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{FlockOperation, flock, major, minor};

use crate::balancer::describe;
use crate::error::Error;
use crate::pins::Pins;

/// The pin directory in this process's hand.
#[derive(Debug)]
pub struct Hold {
    pins: Pins,
    directory: File,
}

impl Pins {
    /// Takes the directory, made if it is not there, so that no other process takes it as long as this value lives.
    ///
    /// # Errors
    /// [`Error::Held`] when another process has it, [`Error::Pin`] when it cannot be made or locked.
    pub fn hold(&self) -> Result<Hold, Error> {
        loop {
            self.make()?;
            let wrong = |error: io::Error| Error::Pin {
                path: self.directory().to_path_buf(),
                reason: format!("locking it failed: {}", describe(&error)),
            };
            let directory = match File::open(self.directory()) {
                Ok(directory) => directory,
                // Another process removed it between the two calls.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(wrong(error)),
            };
            match flock(&directory, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(rustix::io::Errno::WOULDBLOCK) => {
                    let process = holder(&directory);
                    return Err(Error::Held { path: self.directory().to_path_buf(), process });
                }
                Err(error) => return Err(wrong(error.into())),
            }
            // The one before may have removed it before it let go.
            if is_at(&directory, self.directory()).map_err(wrong)? {
                return Ok(Hold { pins: self.clone(), directory });
            }
        }
    }
}

impl Hold {
    /// Takes the directory again, and makes it, where somebody has removed it.
    ///
    /// # Errors
    /// As [`Pins::hold`].
    pub fn renew(&mut self) -> Result<(), Error> {
        if !is_at(&self.directory, self.pins.directory()).unwrap_or(false) {
            *self = self.pins.hold()?;
        }
        Ok(())
    }
}

/// Whether the open directory is the one that the path leads to.
fn is_at(directory: &File, path: &Path) -> io::Result<bool> {
    let open = directory.metadata()?;
    match fs::metadata(path) {
        Ok(there) => Ok((there.dev(), there.ino()) == (open.dev(), open.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// The process that has the lock, where the kernel tells.
fn holder(directory: &File) -> Option<u32> {
    let metadata = directory.metadata().ok()?;
    let (dev, inode) = (metadata.dev(), metadata.ino());
    let place = format!("{:02x}:{:02x}:{inode}", major(dev), minor(dev));
    locker(&fs::read_to_string("/proc/locks").ok()?, &place)
}

/// The process that has a lock of a whole file by the text of `/proc/locks` (proc_locks(5)), which names a file by its
/// device and inode.
fn locker(locks: &str, place: &str) -> Option<u32> {
    locks.lines().find_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        let kind = words.next()?;
        let (process, file) = (words.nth(2)?, words.next()?);
        // A process of another namespace has no number here.
        (kind == "FLOCK" && file == place).then(|| process.parse().ok().filter(|&id| id > 0)).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_holder_of_a_lock_is_read_from_the_kernels_list() {
        let locks = "1: POSIX  ADVISORY  WRITE 77 00:27:815 0 EOF\n\
                     2: FLOCK  ADVISORY  WRITE 0 00:27:816 0 EOF\n\
                     2: -> FLOCK  ADVISORY  WRITE 99 00:27:815 0 EOF\n\
                     3: FLOCK  ADVISORY  WRITE 30519 00:27:815 0 EOF\n";
        assert_eq!(locker(locks, "00:27:815"), Some(30519));
        assert_eq!(locker(locks, "00:27:816"), None);
        assert_eq!(locker(locks, "00:27:817"), None);
    }
}
