//! Small files that outlive the daemon: JSON with a version, replaced whole or not at all.
//!
//! A file is written beside the old one, synced, and renamed over it; then the directory is synced. So whoever reads,
//! after a kill or a loss of power at any moment, finds the old content or the new.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use nix::libc::{ELOOP, ENXIO, O_NONBLOCK};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// What a [`StateFile`] can hold.
pub trait State: Serialize + DeserializeOwned {
    /// The version that is written, and the only one that is read. It is the value's field `version`.
    const VERSION: u32;
}

/// A file that holds a `T`.
#[derive(Debug, Clone)]
pub struct StateFile {
    path: PathBuf,
}

/// A state file could not be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    /// The system refused.
    #[error("cannot {doing} {}: {error}", path.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// The content is not what was written once.
    #[error("{} is damaged: {error}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// In what way.
        error: serde_json::Error,
    },
    /// Something else has its name: a directory, a pipe, links that lead round.
    #[error("{} is no regular file: {error}", path.display())]
    NoFile {
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// Another version of Guideway wrote it.
    #[error("{} has version {found}, this program reads version {known}", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// The version that is known.
        known: u32,
    },
}

impl StateFile {
    /// The file at that path; it need not be there yet, but its directory must.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads it; `None` where there is none.
    ///
    /// # Errors
    /// [`StateError`].
    pub fn read<T: State>(&self) -> Result<Option<T>, StateError> {
        let bytes = match read_regular(&self.path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) if is_no_file(&error) => {
                return Err(StateError::NoFile { path: self.path.clone(), error });
            }
            Err(error) => return Err(self.io("read", error)),
        };
        #[derive(serde::Deserialize)]
        struct Version {
            version: u32,
        }
        let damaged = |error| StateError::Damaged { path: self.path.clone(), error };
        let Version { version } = serde_json::from_slice(&bytes).map_err(damaged)?;
        if version != T::VERSION {
            return Err(StateError::Version { path: self.path.clone(), found: version, known: T::VERSION });
        }
        serde_json::from_slice(&bytes).map(Some).map_err(damaged)
    }

    /// Gives it another name, beside this one, so that it can be looked at and a new one written.
    ///
    /// # Errors
    /// [`StateError`]; it has its name still then.
    pub fn set_aside(&self) -> Result<PathBuf, StateError> {
        for number in 1.. {
            let mut name = self.path.as_os_str().to_owned();
            name.push(format!(".damaged-{number}"));
            let aside = PathBuf::from(name);
            // A link first: unlike a rename it replaces nothing that was set aside before.
            match fs::hard_link(&self.path, &aside) {
                Ok(()) => {
                    fs::remove_file(&self.path).map_err(|error| self.io("remove", error))?;
                    return Ok(aside);
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                // A directory has no second name; it takes the place of an empty one that was not there.
                Err(_) if fs::symlink_metadata(&self.path).is_ok_and(|metadata| metadata.is_dir()) => {
                    match fs::create_dir(&aside).and_then(|()| fs::rename(&self.path, &aside)) {
                        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                        moved => return moved.map(|()| aside).map_err(|error| self.io("set aside", error)),
                    }
                }
                Err(error) => return Err(self.io("set aside", error)),
            }
        }
        Err(self.io("set aside", io::ErrorKind::AlreadyExists.into()))
    }

    /// Replaces its content.
    ///
    /// # Errors
    /// [`StateError`]; the old content is still there then, unless only the last step failed.
    pub fn write<T: State>(&self, value: &T) -> Result<(), StateError> {
        self.write_to(&mut Real, value)
    }

    fn write_to<T: State>(&self, disk: &mut impl Disk, value: &T) -> Result<(), StateError> {
        let mut bytes = serde_json::to_vec_pretty(value)
            .map_err(|error| StateError::Damaged { path: self.path.clone(), error })?;
        bytes.push(b'\n');
        let directory = match self.path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let beside = self.beside();
        let mut file = disk.create(&beside).map_err(|error| self.io("create a file beside", error))?;
        disk.write(&mut file, &bytes).map_err(|error| self.io("write a file beside", error))?;
        disk.sync(&file).map_err(|error| self.io("sync a file beside", error))?;
        drop(file);
        disk.rename(&beside, &self.path).map_err(|error| self.io("replace", error))?;
        disk.sync_directory(directory).map_err(|error| self.io("sync the directory of", error))
    }

    /// There is one writer, so one name is enough, and what a kill left there is overwritten.
    fn beside(&self) -> PathBuf {
        let mut name = self.path.as_os_str().to_owned();
        name.push(".new");
        PathBuf::from(name)
    }

    fn io(&self, doing: &'static str, error: io::Error) -> StateError {
        StateError::Io { doing, path: self.path.clone(), error }
    }
}

/// The bytes of a regular file. Nothing else is read: a pipe would be waited for, and a device may have no end.
///
/// # Errors
/// What the system says, and [`io::ErrorKind::InvalidInput`] for what is no regular file.
pub fn read_regular(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = File::options().read(true).custom_flags(O_NONBLOCK).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "a directory, a pipe or a device"));
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn is_no_file(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::InvalidInput || matches!(error.raw_os_error(), Some(ELOOP | ENXIO))
}

/// The steps of a write, so that a test can stop at each.
trait Disk {
    fn create(&mut self, path: &Path) -> io::Result<File>;
    fn write(&mut self, file: &mut File, bytes: &[u8]) -> io::Result<()>;
    fn sync(&mut self, file: &File) -> io::Result<()>;
    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()>;
    fn sync_directory(&mut self, path: &Path) -> io::Result<()>;
}

struct Real;

impl Disk for Real {
    fn create(&mut self, path: &Path) -> io::Result<File> {
        // Not waited for, should a pipe be there.
        let mut new = File::options();
        new.write(true).create(true).truncate(true).mode(0o600).custom_flags(O_NONBLOCK).open(path)
    }

    fn write(&mut self, file: &mut File, bytes: &[u8]) -> io::Result<()> {
        file.write_all(bytes)
    }

    fn sync(&mut self, file: &File) -> io::Result<()> {
        file.sync_all()
    }

    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn sync_directory(&mut self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    struct Numbers {
        version: u32,
        numbers: Vec<u64>,
    }

    impl State for Numbers {
        const VERSION: u32 = 3;
    }

    fn numbers(first: u64) -> Numbers {
        // Long enough for a write to be cut in the middle.
        Numbers { version: 3, numbers: (first..first + 2_000).collect() }
    }

    /// A directory of its own, removed at the end.
    struct Directory(PathBuf);

    impl Directory {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("guideway-{name}-{}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }
    }

    impl Drop for Directory {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    /// Is killed at step `last`, in the middle of it where it has one.
    struct Mortal {
        steps: Vec<&'static str>,
        last: usize,
        written: usize,
    }

    impl Mortal {
        fn step(&mut self, name: &'static str) -> io::Result<()> {
            if self.steps.len() == self.last {
                return Err(io::Error::other("killed"));
            }
            self.steps.push(name);
            Ok(())
        }
    }

    impl Disk for Mortal {
        fn create(&mut self, path: &Path) -> io::Result<File> {
            self.step("create")?;
            Real.create(path)
        }

        fn write(&mut self, file: &mut File, bytes: &[u8]) -> io::Result<()> {
            if self.steps.len() == self.last {
                Real.write(file, &bytes[..self.written.min(bytes.len())])?;
            }
            self.step("write")?;
            Real.write(file, bytes)
        }

        fn sync(&mut self, file: &File) -> io::Result<()> {
            self.step("sync")?;
            Real.sync(file)
        }

        fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
            self.step("rename")?;
            Real.rename(from, to)
        }

        fn sync_directory(&mut self, path: &Path) -> io::Result<()> {
            self.step("sync directory")?;
            Real.sync_directory(path)
        }
    }

    #[test]
    fn what_is_written_is_read_and_nothing_is_there_before() {
        let directory = Directory::new("state-round");
        let file = StateFile::new(directory.0.join("state.json"));
        assert_eq!(file.read::<Numbers>().unwrap(), None);
        file.write(&numbers(1)).unwrap();
        file.write(&numbers(2)).unwrap();
        assert_eq!(file.read().unwrap(), Some(numbers(2)));
        assert_eq!(fs::read_dir(&directory.0).unwrap().count(), 1);
    }

    #[test]
    fn a_kill_at_any_step_leaves_the_old_content_or_the_new() {
        let directory = Directory::new("state-steps");
        let file = StateFile::new(directory.0.join("state.json"));
        let all = ["create", "write", "sync", "rename", "sync directory"];
        for last in 0..=all.len() {
            for written in [0, 1, 700, usize::MAX] {
                file.write(&numbers(1)).unwrap();
                let mut disk = Mortal { steps: Vec::new(), last, written };
                let result = file.write_to(&mut disk, &numbers(2));
                assert_eq!(disk.steps, all[..last]);
                assert_eq!(result.is_ok(), last == all.len());
                let expected = if last > 3 { numbers(2) } else { numbers(1) };
                assert_eq!(file.read().unwrap(), Some(expected), "killed at step {last}");
                file.write(&numbers(3)).unwrap();
                assert_eq!(file.read().unwrap(), Some(numbers(3)));
            }
        }
    }

    #[test]
    fn a_process_killed_while_it_writes_leaves_whole_content() {
        const PATH: &str = "GUIDEWAY_TEST_STATE_FILE";
        const NAME: &str = "state_file::tests::a_process_killed_while_it_writes_leaves_whole_content";
        if let Some(path) = std::env::var_os(PATH) {
            // The process that is killed: this test again.
            let file = StateFile::new(path);
            for first in 0.. {
                file.write(&numbers(first)).unwrap();
            }
        }
        let directory = Directory::new("state-kill");
        let file = StateFile::new(directory.0.join("state.json"));
        let mut seen = 0;
        for _ in 0..20 {
            let before = file.read::<Numbers>().unwrap().map(|state| state.numbers[0]);
            let mut child = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", NAME, "--nocapture"])
                .env(PATH, file.path())
                .stdout(Stdio::null())
                .spawn()
                .unwrap();
            // Wait until it has written something new, and kill it in whatever it does then.
            let mut now = before;
            while now == before || now.is_none() {
                now = file.read::<Numbers>().unwrap().map(|state| state.numbers[0]);
                assert!(child.try_wait().unwrap().is_none(), "the writer ended by itself");
                std::thread::yield_now();
            }
            child.kill().unwrap();
            child.wait().unwrap();
            let state = file.read::<Numbers>().unwrap().unwrap();
            assert_eq!(state, numbers(state.numbers[0]));
            seen += 1;
        }
        assert_eq!(seen, 20);
    }

    #[test]
    fn what_is_set_aside_keeps_its_content_and_replaces_nothing() {
        let directory = Directory::new("state-aside");
        let file = StateFile::new(directory.0.join("state.json"));
        for content in ["one", "two"] {
            fs::write(file.path(), content).unwrap();
            let aside = file.set_aside().unwrap();
            assert_eq!(fs::read_to_string(aside).unwrap(), content);
            assert!(!file.path().exists());
        }
        assert_eq!(fs::read_dir(&directory.0).unwrap().count(), 2);
        assert!(file.set_aside().unwrap_err().to_string().contains("cannot set aside"));
    }

    #[test]
    fn what_is_no_regular_file_is_not_waited_for_and_is_set_aside() {
        let directory = Directory::new("state-kinds");
        let file = StateFile::new(directory.0.join("state.json"));
        let path = file.path();
        let kinds: [&dyn Fn(); 3] = [
            &|| fs::create_dir(path).unwrap(),
            &|| nix::unistd::mkfifo(path, nix::sys::stat::Mode::S_IRWXU).unwrap(),
            &|| std::os::unix::fs::symlink("state.json", path).unwrap(),
        ];
        for make in kinds {
            make();
            let error = file.read::<Numbers>().unwrap_err();
            assert!(matches!(error, StateError::NoFile { .. }), "{error}");
            let aside = file.set_aside().unwrap();
            assert!(fs::symlink_metadata(aside).is_ok() && fs::symlink_metadata(path).is_err());
            file.write(&numbers(1)).unwrap();
            assert_eq!(file.read().unwrap(), Some(numbers(1)));
            fs::remove_file(path).unwrap();
        }
        assert_eq!(fs::read_dir(&directory.0).unwrap().count(), 3);
    }

    #[test]
    fn damage_and_other_versions_are_told_with_the_file() {
        let directory = Directory::new("state-damage");
        let file = StateFile::new(directory.0.join("state.json"));
        fs::write(file.path(), "{\"version\": 3, \"numbers\": [1, 2").unwrap();
        let damaged = file.read::<Numbers>().unwrap_err();
        assert!(matches!(damaged, StateError::Damaged { .. }));
        assert!(damaged.to_string().contains("state.json is damaged"), "{damaged}");
        fs::write(file.path(), "{\"version\": 4, \"anything\": true}").unwrap();
        let version = file.read::<Numbers>().unwrap_err();
        assert!(matches!(version, StateError::Version { found: 4, known: 3, .. }), "{version}");
        let nowhere = StateFile::new(directory.0.join("missing").join("state.json"));
        assert!(nowhere.write(&numbers(1)).unwrap_err().to_string().contains("cannot create a file beside"));
    }
}
