//! Where `up` keeps what outlives it.

use std::fmt::Display;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use guideway_xdp::ownership;
use nix::fcntl::{Flock, FlockArg};

use super::record::Record;
use crate::failure::Failure;

/// The version of what is pinned; programs of another one do not read it.
const LAYOUT: &str = "v1";

/// Where BPF file systems are, unless something else is asked for.
const BPFFS: &str = "/sys/fs/bpf";

/// Places that tests and unusual hosts change.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Places")]
pub(crate) struct Places {
    /// A directory of a BPF file system, made if need be: programs and maps are pinned below it; unless given, the one
    /// that `up` was told, else /sys/fs/bpf
    #[arg(long, value_name = "DIR")]
    bpffs: Option<PathBuf>,
    /// Where to keep the record of what was made
    #[arg(long, value_name = "DIR", default_value = "/run/guideway")]
    run_dir: PathBuf,
}

impl Places {
    /// The record of the one backend that a host is.
    pub(crate) fn record(&self) -> PathBuf {
        self.run_dir.join("backend.json")
    }

    /// Has no other `up` or `down` at work on this host as long as the result lives; one that is, is waited for.
    pub(crate) fn lock(&self) -> Result<Flock<File>, Failure> {
        let failed = |error: &dyn Display| {
            Failure::failed(format_args!("can't lock {} (--run-dir): {error}", self.run_dir.display()))
        };
        fs::create_dir_all(&self.run_dir).map_err(|error| failed(&error))?;
        let directory = File::open(&self.run_dir).map_err(|error| failed(&error))?;
        Flock::lock(directory, FlockArg::LockExclusive).map_err(|(_, error)| failed(&error))
    }

    /// The directory of the BPF file system: what was asked for now, else what the record tells of.
    pub(crate) fn bpffs(&self, record: Option<&Record>) -> Result<PathBuf, Failure> {
        let told = record.and_then(|record| record.bpffs.clone());
        let path = self.bpffs.clone().or(told).unwrap_or_else(|| BPFFS.into());
        // It is kept in the record, and read by processes that were started elsewhere.
        std::path::absolute(&path)
            .map_err(|error| Failure::failed(format_args!("{} (--bpffs): {error}", path.display())))
    }

    /// The directory of pinned maps and links.
    pub(crate) fn pins(&self, record: Option<&Record>) -> Result<PathBuf, Failure> {
        Ok(pins_below(&self.bpffs(record)?))
    }
}

/// The directory of pinned maps and links in this one of a BPF file system.
pub(crate) fn pins_below(bpffs: &Path) -> PathBuf {
    bpffs.join("guideway-backend").join(LAYOUT)
}

/// Of a directory and those above it the ones that are not there, the deepest first.
pub(crate) fn missing(bpffs: &Path) -> impl Iterator<Item = PathBuf> {
    bpffs.ancestors().take_while(|directory| !directory.exists()).map(Path::to_owned)
}

/// Makes the directory of pins, and those above it, where they are in a BPF file system.
pub(crate) fn make_pins(bpffs: &Path) -> Result<PathBuf, Failure> {
    let at = bpffs.display();
    let is_in_bpf = ownership::is_in_bpf(bpffs)
        .map_err(|error| Failure::failed(format_args!("can't look at {at} (--bpffs): {error}")))?;
    if !is_in_bpf {
        // In sysfs no directory can be made, and there is one to mount it at.
        let usual = Path::new("/sys/fs/bpf");
        let mount_at = if bpffs.starts_with(usual) { usual } else { bpffs };
        let make = if mount_at.exists() { String::new() } else { format!("mkdir -p {at} && ") };
        let mount_at = mount_at.display();
        return Err(Failure::failed(format_args!(
            "{at} is in no BPF file system; mount one (`{make}mount -t bpf -o mode=0700 bpf {mount_at}`) or name another (--bpffs); \
             `ip netns exec` hides the host's, `nsenter --net=/run/netns/NAME` does not"
        )));
    }
    let pins = pins_below(bpffs);
    ownership::make(&pins).map_err(Failure::failed)?;
    Ok(pins)
}
