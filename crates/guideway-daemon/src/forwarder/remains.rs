//! What a daemon that is gone left in the kernel.

use std::path::{Path, PathBuf};

use guideway_xdp::occupant::{self, Occupant, name_of};
use guideway_xdp::pins::Pins;

/// What [`detach`] did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Detached {
    /// Whether there was a forwarder below the directory.
    pub taken: bool,
    /// Balancers' programs that are in this network namespace all the same, by interface: with other pins, or with none and
    /// held by another process.
    pub left: Vec<(String, Occupant)>,
}

/// Takes away what an earlier process left in the kernel below this directory, and asks the kernel what is left.
///
/// # Errors
/// [`guideway_xdp::Error::Held`] while a daemon is at work there: it would put back what is taken away.
/// [`guideway_xdp::Error::Elsewhere`] where it forwards in another network namespace.
pub fn detach(root: &Path) -> Result<Detached, guideway_xdp::Error> {
    let pins = Pins::new(root)?;
    pins.are_of_here()?;
    let _hold = pins.hold()?;
    let taken = pins.is_taken();
    pins.remove()?;
    Ok(Detached { taken, left: occupant::balancers()? })
}

/// What an earlier process left in the kernel below a directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Remains {
    /// Where it is pinned.
    pub pinned: Vec<PathBuf>,
    /// The interfaces that its program is at: the name, while there is such an interface, and the index.
    pub interfaces: Vec<(Option<String>, u32)>,
}

/// What [`detach`] would take away, also while a daemon is at work there; nothing is changed.
///
/// # Errors
/// When what is there cannot be read, or forwards in another network namespace.
pub fn remains(root: &Path) -> Result<Remains, guideway_xdp::Error> {
    let Some(pins) = Pins::find(root)? else { return Ok(Remains::default()) };
    pins.are_of_here()?;
    let named = |index: u32| (name_of(index), index);
    Ok(Remains { pinned: pins.listing()?, interfaces: pins.interfaces()?.into_iter().map(named).collect() })
}
