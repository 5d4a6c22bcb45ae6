//! Where `up` keeps what outlives it.

use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// The version of what is pinned; programs of another one do not read it.
const LAYOUT: &str = "v1";

/// Places that tests and unusual hosts change.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Places {
    /// Where the BPF file system is mounted
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
        let mounted = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let mount = |line: &str| {
            let mut words = line.split(' ').skip(1);
            words.next().is_some_and(|at| Path::new(at) == self.bpffs) && words.next() == Some("bpf")
        };
        if !mounted.lines().any(mount) {
            let at = self.bpffs.display();
            return Err(Failure::failed(format_args!(
                "no BPF file system is mounted at {at}; mount one (`mount -t bpf bpf {at}`) or name another (--bpffs)"
            )));
        }
        let pins = self.pins();
        std::fs::create_dir_all(&pins)
            .map_err(|error| Failure::failed(format_args!("can't make {}: {error}", pins.display())))?;
        Ok(pins)
    }
}
