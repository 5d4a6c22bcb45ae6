//! Where programs and maps outlive the process: below a directory of the BPF file system, one directory a layout.
//!
//! ```text
//! /sys/fs/bpf/guideway/v4/SERVICES …         the maps
//! /sys/fs/bpf/guideway/v4/native-3           the link of the interface with index 3, and its mode
//! ```
//! A link holds its program, and the program its maps, so an interface goes on forwarding when the process has ended,
//! however it ended. The next process takes the maps over and puts its own program in place of the old one by one
//! update of the link. Maps of another layout lie in another directory: they are never read as what they are not.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use guideway_forward::record::LAYOUT_VERSION;

use crate::attach::Mode;
use crate::balancer::describe;
use crate::error::Error;
use crate::ownership;
use crate::sever::sever;
use crate::whereabouts;

/// Where pins lie unless something else is asked for.
pub const DEFAULT_ROOT: &str = "/sys/fs/bpf/guideway";

/// The pin directory of this version's layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pins {
    directory: PathBuf,
}

impl Pins {
    /// The directory of this layout below `root`, made if it is not there.
    ///
    /// # Errors
    /// [`Error::Pin`] when it cannot be made, when `root` is in no BPF file system, or when a program of another layout
    /// still forwards from there; [`Error::Exposed`] when others can change it.
    pub fn new(root: &Path) -> Result<Pins, Error> {
        let wrong = |reason: String| Error::Pin { path: root.to_path_buf(), reason };
        if !ownership::is_in_bpf(root).map_err(|error| wrong(error.to_string()))? {
            return Err(wrong(format!("it is in no BPF file system; {MOUNT}")));
        }
        let pins = Pins { directory: layout_below(root) };
        ownership::check(&pins.directory)?;
        if root.is_dir() {
            refuse_others(root)?;
        }
        pins.make()?;
        Ok(pins)
    }

    /// The directory of this layout below `root`, if it is there; nothing is made.
    ///
    /// # Errors
    /// As [`Pins::new`].
    pub fn find(root: &Path) -> Result<Option<Pins>, Error> {
        if !root.is_dir() {
            return Ok(None);
        }
        let directory = layout_below(root);
        ownership::check(&directory)?;
        refuse_others(root)?;
        Ok(directory.is_dir().then_some(Pins { directory }))
    }

    /// Everything that is pinned here, by name.
    ///
    /// # Errors
    /// [`Error::Pin`] when the directory cannot be read.
    pub fn listing(&self) -> Result<Vec<PathBuf>, Error> {
        let mut paths: Vec<PathBuf> = self.entries()?.map(|entry| entry.path()).collect();
        paths.sort();
        Ok(paths)
    }

    fn entries(&self) -> Result<impl Iterator<Item = fs::DirEntry>, Error> {
        entries(&self.directory)
    }

    /// Where this layout's pins are.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Makes the directory where it is not there, or not any more.
    pub(crate) fn make(&self) -> Result<(), Error> {
        ownership::make(&self.directory)
    }

    /// Takes the directory away where nothing is in it.
    pub fn leave(&self) {
        if fs::remove_dir(&self.directory).is_ok() {
            let _ = self.directory.parent().map(fs::remove_dir);
        }
    }

    /// The pin of a map.
    pub(crate) fn map(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// The pin of the link at an interface.
    pub(crate) fn link(&self, mode: &str, index: u32) -> PathBuf {
        self.directory.join(format!("{mode}-{index}"))
    }

    /// Whether all maps are pinned here: an earlier process left them, or a present one has them. A set that a killed
    /// process had begun to pin is none.
    pub fn is_taken(&self) -> bool {
        crate::tables::ALL.iter().all(|shape| self.map(shape.name).exists())
    }

    /// Takes away the pins of maps.
    pub(crate) fn forget_maps(&self) -> Result<(), Error> {
        let pinned = crate::tables::ALL.iter().map(|shape| self.map(shape.name)).filter(|path| path.exists());
        pinned.into_iter().try_for_each(|path| {
            fs::remove_file(&path)
                .map_err(|error| Error::Pin { path, reason: format!("removing it failed: {error}") })
        })
    }

    /// Refuses pins whose programs are at interfaces of another network namespace.
    ///
    /// # Errors
    /// [`Error::Elsewhere`]; [`Error::Pin`] where the kernel does not tell.
    pub fn are_of_here(&self) -> Result<(), Error> {
        self.refuse_directories()?;
        whereabouts::check(&self.directory, |name| index_of(name).is_some())
    }

    /// Refuses directories where pins belong.
    pub(crate) fn refuse_directories(&self) -> Result<(), Error> {
        let is_map = |name: &str| crate::tables::ALL.iter().any(|shape| shape.name == name);
        refuse_directories(&self.directory, |name| is_map(name) || index_of(name).is_some())
    }

    /// The interfaces at which links are pinned here, by index.
    ///
    /// # Errors
    /// [`Error::Pin`] when the directory cannot be read.
    pub fn interfaces(&self) -> Result<BTreeSet<u32>, Error> {
        let names = self.entries()?.map(|entry| entry.file_name());
        Ok(names.filter_map(|name| index_of(&name.to_string_lossy())).collect())
    }

    /// The pins of links.
    pub(crate) fn links(&self) -> Result<Vec<PathBuf>, Error> {
        let is_link = |entry: &fs::DirEntry| index_of(&entry.file_name().to_string_lossy()).is_some();
        Ok(self.entries()?.filter(is_link).map(|entry| entry.path()).collect())
    }

    /// Takes the program whose link is pinned here off the interface with this index, whoever holds the link; `false`
    /// where none is pinned.
    ///
    /// # Errors
    /// [`Error::Pin`].
    pub fn take_off(&self, index: u32) -> Result<bool, Error> {
        let paths = MODES.map(|mode| self.link(mode, index)).into_iter().filter(|path| path.exists());
        let mut found = false;
        for path in paths {
            sever(&path).map_err(|error| Error::Pin {
                path,
                reason: format!("taking its program off the interface failed: {}", describe(&error)),
            })?;
            found = true;
        }
        Ok(found)
    }

    /// Takes all pins away, and the programs whose links are pinned off their interfaces, whoever else holds those. Maps
    /// that are not open in a process end with that.
    ///
    /// # Errors
    /// [`Error::Pin`], naming what could not be removed.
    pub fn remove(&self) -> Result<(), Error> {
        for index in self.interfaces()? {
            self.take_off(index)?;
        }
        let failed = |path: &Path, error: std::io::Error| Error::Pin {
            path: path.to_path_buf(),
            reason: format!("removing it failed: {error}"),
        };
        for path in self.listing()? {
            fs::remove_file(&path).map_err(|error| failed(&path, error))?;
        }
        // Either stays where something else is in it: a directory of somebody's, another layout's pins, a decapsulator's.
        self.leave();
        Ok(())
    }
}

/// What is in a directory of pins but other directories, which are somebody else's: a pin is none.
pub(crate) fn entries(pins: &Path) -> Result<impl Iterator<Item = fs::DirEntry>, Error> {
    let listing = fs::read_dir(pins).map_err(|error| Error::Pin {
        path: pins.to_path_buf(),
        reason: format!("reading it failed: {error}"),
    })?;
    Ok(listing.flatten().filter(|entry| !is_directory(entry)))
}

/// Refuses a directory that has the name of a pin of ours: the kernel would tell of it as of a permission that lacks.
pub(crate) fn refuse_directories(pins: &Path, is_ours: impl Fn(&str) -> bool) -> Result<(), Error> {
    let Ok(listing) = fs::read_dir(pins) else { return Ok(()) };
    let mut directories = listing.flatten().filter(is_directory);
    let in_the_way = directories.find(|entry| is_ours(&entry.file_name().to_string_lossy()));
    in_the_way.map_or(Ok(()), |entry| {
        let path = entry.path();
        let reason = format!("a directory is where a pin of Guideway's belongs: `rm -r {}`", path.display());
        Err(Error::Pin { path, reason })
    })
}

fn is_directory(entry: &fs::DirEntry) -> bool {
    entry.file_type().is_ok_and(|kind| kind.is_dir())
}

/// Where this layout's pins lie below `root`.
pub(crate) fn layout_below(root: &Path) -> PathBuf {
    root.join(format!("v{LAYOUT_VERSION}"))
}

const MOUNT: &str = "mount one with `mount -t bpf -o mode=0700 bpf /sys/fs/bpf`, or give another directory; \
                     `ip netns exec` hides the host's, `nsenter --net=/run/netns/NAME` does not";

/// The modes in the names of links' pins.
const MODES: [&str; 2] = [Mode::Native.as_str(), Mode::Generic.as_str()];

/// The interface whose link is pinned by this name, if a link is.
fn index_of(name: &str) -> Option<u32> {
    let (mode, index) = name.split_once('-')?;
    MODES.contains(&mode).then(|| index.parse().ok()).flatten()
}

fn refuse_others(root: &Path) -> Result<(), Error> {
    let Some(other) = others(root)?.into_iter().next() else { return Ok(()) };
    Err(Error::Pin {
        path: other,
        reason: "another version of Guideway, whose records have another layout, still forwards from here: stop it and \
                 take its programs away with that version before this one starts"
            .into(),
    })
}

/// Directories of other layouts in which links are pinned.
fn others(root: &Path) -> Result<Vec<PathBuf>, Error> {
    let listing = fs::read_dir(root).map_err(|error| Error::Pin {
        path: root.to_path_buf(),
        reason: format!("reading it failed: {error}"),
    })?;
    let own = format!("v{LAYOUT_VERSION}");
    let forwards = |path: &PathBuf| {
        fs::read_dir(path)
            .into_iter()
            .flatten()
            .flatten()
            .any(|entry| index_of(&entry.file_name().to_string_lossy()).is_some())
    };
    let version = |name: &str| name.strip_prefix('v').is_some_and(|rest| rest.parse::<u32>().is_ok());
    Ok(listing
        .flatten()
        .filter(|entry| {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            version(&name) && name != own.as_str()
        })
        .map(|entry| entry.path())
        .filter(forwards)
        .collect())
}
