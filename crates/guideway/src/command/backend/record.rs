//! What `up` made, in a file: so that `down` takes away that and nothing else.

use std::io::ErrorKind;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::setup::Clamp;
use super::sysctl::Changed;
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
    /// The interface that packets come by.
    pub(crate) listen_on: String,
    /// The interface that answers leave by.
    pub(crate) egress: String,
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
            record => Ok(record),
        }
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
}

fn namespace() -> String {
    // Where there is no such file there is but one.
    std::fs::read_link("/proc/self/ns/net").map(|link| link.display().to_string()).unwrap_or_default()
}
