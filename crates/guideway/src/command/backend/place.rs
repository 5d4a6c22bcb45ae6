//! Where `up` keeps what outlives it.

use std::path::{Path, PathBuf};

use nix::sys::statfs::{BPF_FS_MAGIC, statfs};

use crate::failure::Failure;

/// The version of what is pinned; programs of another one do not read it.
const LAYOUT: &str = "v1";

/// Places that tests and unusual hosts change.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Places")]
pub(crate) struct Places {
    /// A directory of a BPF file system: programs and maps are pinned below it
    #[arg(long, value_name = "DIR", default_value = "/sys/fs/bpf")]
    bpffs: PathBuf,
    /// Where to keep the record of what was made
    #[arg(long, value_name = "DIR", default_value = "/run/guideway")]
    run_dir: PathBuf,
}

impl Places {
    /// The record of the one backend that a host is.
    pub(crate) fn record(&self) -> PathBuf {
        self.run_dir.join("backend.json")
    }

    /// The directory of pinned maps and links.
    pub(crate) fn pins(&self) -> PathBuf {
        self.bpffs.join("guideway-backend").join(LAYOUT)
    }

    /// Makes the directory of pins.
    pub(crate) fn make_pins(&self) -> Result<PathBuf, Failure> {
        let at = self.bpffs.display();
        let kind = statfs(&self.bpffs).map_err(|error| {
            Failure::failed(format_args!("can't look at {at} (--bpffs): {}", error.desc()))
        })?;
        if kind.filesystem_type() != BPF_FS_MAGIC {
            return Err(Failure::failed(format_args!(
                "{at} is in no BPF file system; mount one (`mount -t bpf bpf {at}`) or name another (--bpffs)"
            )));
        }
        let pins = self.pins();
        std::fs::create_dir_all(&pins).map_err(|error| cannot_make(&pins, &error))?;
        Ok(pins)
    }
}

fn cannot_make(path: &Path, error: &std::io::Error) -> Failure {
    let root = if error.kind() == std::io::ErrorKind::PermissionDenied { "; this needs root" } else { "" };
    Failure::failed(format_args!("can't make {}: {error}{root}", path.display()))
}
