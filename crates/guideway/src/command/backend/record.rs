//! What `up` made, in a file: so that `down` takes away that and nothing else.

use std::io::ErrorKind;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use guideway_xdp::occupant::name_of;
use serde::{Deserialize, Serialize};

use super::setup::Clamp;
use super::sysctl::{Changed, needed};
use crate::failure::Failure;

/// What was asked for, and what was made for it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// The network namespace, as `/proc/self/ns/net` names it.
    pub(crate) namespace: String,
    /// The directory of a BPF file system below which programs and maps are pinned; none where a version that kept no
    /// account of it has written the record.
    #[serde(default)]
    pub(crate) bpffs: Option<PathBuf>,
    /// That directory and those above it which were not there before, the deepest first.
    #[serde(default)]
    pub(crate) made: Vec<PathBuf>,
    /// The interface that packets come by.
    pub(crate) listen_on: String,
    /// Its index, which stays when it is renamed; none where a version that kept no account of it has written the record.
    #[serde(default)]
    pub(crate) listen_on_index: Option<u32>,
    /// The interface that answers leave by.
    pub(crate) egress: String,
    /// Its index, in the same way.
    #[serde(default)]
    pub(crate) egress_index: Option<u32>,
    /// All virtual addresses.
    pub(crate) vips: Vec<IpAddr>,
    /// Those that were not on the loopback interface before.
    pub(crate) added: Vec<IpAddr>,
    /// Settings that were changed.
    pub(crate) sysctls: Vec<Changed>,
    /// Where the decapsulator runs.
    pub(crate) hook: String,
    /// The segment sizes that are announced at most.
    pub(crate) clamp: Clamp,
}

impl Record {
    fn read(path: &Path) -> Result<Option<Record>, Failure> {
        let text = match std::fs::read(path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => {
                return Err(Failure::failed(format_args!("can't read {}: {error}", path.display())));
            }
        };
        serde_json::from_slice(&text).map(Some).map_err(|error| {
            Failure::failed(format_args!(
                "{}: {error}; it tells what was changed here: mend it, or take that away by hand and remove it",
                path.display()
            ))
        })
    }

    /// Of this network namespace, where nothing has been made yet.
    pub(crate) fn new() -> Record {
        Record { namespace: namespace(), ..Record::default() }
    }

    /// The record of this network namespace, if there is one. One of another namespace is an error: its addresses and
    /// interfaces are not here.
    pub(crate) fn of_here(path: &Path) -> Result<Option<Record>, Failure> {
        let record = Record::read(path)?;
        match record {
            Some(record) if record.namespace != namespace() => Err(Failure::failed(format_args!(
                "{} tells of a backend in another network namespace ({}): run this there, or name another directory (--run-dir, \
                 and --bpffs)",
                path.display(),
                record.namespace
            ))),
            record => Ok(record.map(Record::with_present_names)),
        }
    }

    /// With the names that interfaces have now, where somebody has renamed them: programs stay at an interface then, and the
    /// kernel's settings of it move to the new name.
    fn with_present_names(mut self) -> Record {
        let present = |index: Option<u32>, name: &str| index.and_then(name_of).filter(|now| now != name);
        if let Some(now) = present(self.listen_on_index, &self.listen_on) {
            let moved = needed(&self.listen_on).into_iter().zip(needed(&now));
            for (before, after) in moved {
                let those = self.sysctls.iter_mut().filter(|changed| changed.key == before.key);
                those.for_each(|changed| changed.key.clone_from(&after.key));
            }
            self.listen_on = now;
        }
        if let Some(now) = present(self.egress_index, &self.egress) {
            self.egress = now;
        }
        self
    }

    /// Writes it: whole, or not at all.
    pub(crate) fn write(&self, path: &Path) -> Result<(), Failure> {
        let failed = |error: std::io::Error| {
            Failure::failed(format_args!("can't write the record {}: {error}", path.display()))
        };
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(failed)?;
        }
        let text = serde_json::to_string_pretty(self).map_err(|error| failed(error.into()))?;
        let beside = path.with_extension("new");
        std::fs::write(&beside, text + "\n").map_err(failed)?;
        std::fs::rename(&beside, path).map_err(failed)
    }

    /// Takes away the directories that were made for pins, as far as nothing is in them.
    pub(crate) fn unmake_directories(&self) {
        for directory in &self.made {
            // What somebody else has put there keeps it.
            let _ = std::fs::remove_dir(directory);
        }
    }
}

fn namespace() -> String {
    // Where there is no such file there is but one.
    std::fs::read_link("/proc/self/ns/net").map(|link| link.display().to_string()).unwrap_or_default()
}
