//! The files that outlive the process, and the lock that keeps two daemons from sharing them.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use guideway_control::config::Source;
use guideway_control::drain;
use guideway_control::health::Snapshot;
use guideway_control::overrides::Overrides;
use guideway_control::state_file::{State, StateError, StateFile};
use rustix::fs::{FlockOperation, OFlags, flock};
use serde::{Deserialize, Serialize};

use crate::audit::AuditFile;
use crate::names::Names;
use crate::patience::Patience;
use crate::trial::OnTrial;

/// The directory of state.
#[derive(Debug)]
pub(crate) struct Store {
    health: StateFile,
    overrides: StateFile,
    drains: StateFile,
    config: StateFile,
    history: StateFile,
    trial: StateFile,
    names: StateFile,
    audit: AuditFile,
    /// What was set aside since it was last told.
    set_aside: Vec<String>,
    /// Held while this daemon lives.
    _lock: File,
}

/// The directory cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// It cannot be made or opened.
    #[error("cannot use {} for state: {error}; give another directory with --state", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// The file that keeps two daemons from sharing it cannot be opened.
    #[error(
        "cannot open {}: {error}; it has to be a file that this daemon can write: move away what is there, or give \
         another directory with --state",
        path.display()
    )]
    Lock {
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// Another daemon has it.
    #[error("another guideway uses {} already: stop it, or give each a directory of its own with --state", path.display())]
    Taken {
        /// The directory.
        path: PathBuf,
    },
    /// A file in it.
    #[error(transparent)]
    File(#[from] StateError),
}

/// The configuration that was taken last, as it was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LastGood {
    version: u32,
    /// Where it came from.
    pub(crate) name: String,
    /// When it was taken.
    pub(crate) taken_unix_seconds: u64,
    /// The whole text.
    pub(crate) text: String,
}

/// The configurations that were in force before this one, the newest last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct History {
    version: u32,
    pub(crate) before: Vec<LastGood>,
}

impl State for History {
    const VERSION: u32 = 1;
}

impl Default for History {
    fn default() -> Self {
        Self { version: Self::VERSION, before: Vec::new() }
    }
}

impl State for LastGood {
    const VERSION: u32 = 1;
}

impl LastGood {
    pub(crate) fn new(source: &Source, taken: SystemTime) -> Self {
        Self {
            version: Self::VERSION,
            name: source.name().to_owned(),
            taken_unix_seconds: seconds(taken),
            text: source.text().to_owned(),
        }
    }

    pub(crate) fn taken_at(&self) -> SystemTime {
        UNIX_EPOCH.checked_add(Duration::from_secs(self.taken_unix_seconds)).unwrap_or(UNIX_EPOCH)
    }

    pub(crate) fn source(&self) -> Source {
        Source::new(self.name.clone(), self.text.clone())
    }
}

/// A time as it is kept, in whole seconds: so it is the same after a restart.
pub(crate) fn as_kept(at: SystemTime) -> SystemTime {
    UNIX_EPOCH.checked_add(Duration::from_secs(seconds(at))).unwrap_or(UNIX_EPOCH)
}

fn seconds(at: SystemTime) -> u64 {
    at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// The verdicts of a daemon that is gone, and how long ago they were written.
#[derive(Debug)]
pub(crate) struct Remembered {
    pub(crate) snapshot: Snapshot,
    pub(crate) away: Duration,
}

impl Store {
    /// Opens the directory, made if it is not there.
    pub(crate) fn open(path: &Path, patience: &mut Patience) -> Result<Self, StoreError> {
        let unusable = |error: io::Error| StoreError::Directory { path: path.to_path_buf(), error };
        fs::create_dir_all(path).map_err(unusable)?;
        // Not waited for, should it be a pipe.
        let nonblocking = OFlags::NONBLOCK.bits() as i32;
        let mut opened = File::options();
        let opened = opened.write(true).create(true).truncate(true).custom_flags(nonblocking);
        let lock = path.join("lock");
        let lock = opened.open(&lock).map_err(|error| StoreError::Lock { path: lock, error })?;
        let take = || match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Err(rustix::io::Errno::WOULDBLOCK) => Err(StoreError::Taken { path: path.to_path_buf() }),
            taken => taken.map_err(|error| unusable(error.into())),
        };
        patience.take(|error| matches!(error, StoreError::Taken { .. }), take)?;
        let file = |name: &str| StateFile::new(path.join(name));
        Ok(Self {
            health: file("health.json"),
            overrides: file("overrides.json"),
            drains: file("drains.json"),
            config: file("config.json"),
            history: file("history.json"),
            trial: file("trial.json"),
            names: file("names.json"),
            audit: AuditFile::new(path.join("audit.jsonl")),
            set_aside: Vec::new(),
            _lock: lock,
        })
    }

    /// What the checks had found.
    pub(crate) fn health(&mut self) -> Result<Option<Remembered>, StateError> {
        let read = self.health.read();
        let Some(snapshot) = self.or_set_aside(read, |store| &store.health, "all checks begin anew")? else {
            return Ok(None);
        };
        // A clock that was set back makes it young, which is the careful guess.
        let written = fs::metadata(self.health.path()).and_then(|metadata| metadata.modified()).ok();
        let away = written.and_then(|written| SystemTime::now().duration_since(written).ok());
        Ok(Some(Remembered { snapshot, away: away.unwrap_or_default() }))
    }

    /// What operators had said.
    pub(crate) fn overrides(&mut self) -> Result<Option<Overrides>, StateError> {
        let read = self.overrides.read();
        let instead = "the configuration holds for all backends, whatever operators said before";
        self.or_set_aside(read, |store| &store.overrides, instead)
    }

    /// The drains that were under way.
    pub(crate) fn drains(&mut self) -> Result<drain::Snapshot, StateError> {
        let read = self.drains.read();
        let instead = "the deadlines of drains under way begin anew";
        Ok(self.or_set_aside(read, |store| &store.drains, instead)?.unwrap_or_default())
    }

    /// The configuration that was taken last.
    pub(crate) fn config(&mut self) -> Result<Option<LastGood>, StateError> {
        let read = self.config.read();
        self.or_set_aside(read, |store| &store.config, "the configuration file alone is read")
    }

    /// The configurations of before.
    pub(crate) fn history(&mut self) -> Result<History, StateError> {
        let read = self.history.read();
        let read = self.or_set_aside(read, |store| &store.history, "there is nothing to go back to")?;
        Ok(read.unwrap_or_default())
    }

    /// The trial that was under way.
    pub(crate) fn trial(&mut self) -> Result<Option<OnTrial>, StateError> {
        let read = self.trial.read();
        self.or_set_aside(read, |store| &store.trial, "whether a trial ended with the daemon is not told")
    }

    /// The names that services have had.
    pub(crate) fn names(&mut self) -> Result<Names, StateError> {
        let read = self.names.read();
        let instead = "what is remembered of services by other names is not found";
        Ok(self.or_set_aside(read, |store| &store.names, instead)?.unwrap_or_default())
    }

    /// What was set aside since this was last asked, in words.
    pub(crate) fn take_set_aside(&mut self) -> Vec<String> {
        std::mem::take(&mut self.set_aside)
    }

    /// What was read. A file that makes no sense is set aside and told of: it is no reason not to start, and nothing of it
    /// is lost.
    fn or_set_aside<T>(
        &mut self,
        read: Result<Option<T>, StateError>,
        file: impl FnOnce(&Self) -> &StateFile,
        instead: &str,
    ) -> Result<Option<T>, StateError> {
        let senseless = match read {
            Err(
                error @ (StateError::Damaged { .. } | StateError::Version { .. } | StateError::NoFile { .. }),
            ) => error,
            read => return read,
        };
        self.set_aside.push(match file(self).set_aside() {
            Ok(aside) => format!("{senseless}; it was set aside as {}, and {instead}", aside.display()),
            Err(error) => format!(
                "{senseless}; {error}, so it stays until it is replaced: move it away to look at it; {instead}"
            ),
        });
        Ok(None)
    }

    /// Who changed what.
    pub(crate) fn audit(&self) -> &AuditFile {
        &self.audit
    }

    pub(crate) fn write_history(&self, history: &History) -> Result<(), StateError> {
        self.history.write(history)
    }

    pub(crate) fn write_trial(&self, trial: &OnTrial) -> Result<(), StateError> {
        self.trial.write(trial)
    }

    pub(crate) fn write_names(&self, names: &Names) -> Result<(), StateError> {
        self.names.write(names)
    }

    pub(crate) fn write_health(&self, snapshot: &Snapshot) -> Result<(), StateError> {
        self.health.write(snapshot)
    }

    pub(crate) fn write_overrides(&self, overrides: &Overrides) -> Result<(), StateError> {
        self.overrides.write(overrides)
    }

    pub(crate) fn write_drains(&self, drains: &drain::Snapshot) -> Result<(), StateError> {
        self.drains.write(drains)
    }

    pub(crate) fn write_config(&self, config: &LastGood) -> Result<(), StateError> {
        self.config.write(config)
    }
}
