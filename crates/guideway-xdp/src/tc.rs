//! Programs at the TC hook: by a link where the kernel has one for that (6.6), else by a filter of the clsact qdisc.

use std::io;
use std::path::Path;

use aya::programs::links::{FdLink, LinkOrder, PinnedLink};
use aya::programs::tc::{
    NlOptions, SchedClassifierLink, TcAttachOptions, TcError, qdisc_add_clsact, qdisc_detach_program,
};
use aya::programs::{ProgramError, SchedClassifier, TcAttachType};
use aya::util::KernelVersion;

use crate::balancer::describe;
use crate::end::error_code;
use crate::error::Error;

/// The kernel's number of the hook where packets come in, for links (`BPF_TCX_INGRESS`).
pub(crate) const INGRESS: u32 = 46;
/// The one where they leave (`BPF_TCX_EGRESS`).
pub(crate) const EGRESS: u32 = 47;

/// An interface and a direction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'a> {
    pub(crate) interface: &'a str,
    pub(crate) attach: TcAttachType,
}

/// A program that was attached.
#[derive(Debug)]
pub(crate) struct Attached {
    /// What holds it, unless a pin or the qdisc does.
    pub(crate) link: Option<FdLink>,
    /// Whether it took the place of an earlier process's.
    pub(crate) replaced: bool,
}

/// Attaches a program. With `pin` it stays when the process ends.
///
/// On kernels without links for TC it is a filter, which stays in any case, until [`detach_filter`].
pub(crate) fn attach(
    program: &mut SchedClassifier,
    name: &'static str,
    place: &Place<'_>,
    pin: Option<&Path>,
) -> Result<Attached, Error> {
    let failed = |error: &ProgramError| attach_error(place.interface, error);
    if !has_links() {
        return attach_filter(program, name, place);
    }
    if let Some(pin) = pin.filter(|pin| pin.exists()) {
        let updated = pinned(pin)
            .and_then(|link| SchedClassifierLink::try_from(link).map_err(|error| pin_error(pin, &error)))
            .and_then(|link| program.attach_to_link(link).map_err(|error| failed(&error)));
        match updated {
            Ok(id) => {
                drop(program.take_link(id).map_err(|error| failed(&error))?);
                return Ok(Attached { link: None, replaced: true });
            }
            // The interface that it was made for is gone, and this one has its number.
            Err(_) => std::fs::remove_file(pin).map_err(|error| pin_error(pin, &error))?,
        }
    }
    let order = TcAttachOptions::TcxOrder(LinkOrder::first());
    let id =
        program.attach_with_options(place.interface, place.attach, order).map_err(|error| failed(&error))?;
    let link = program.take_link(id).map_err(|error| failed(&error))?;
    let link = FdLink::try_from(link).map_err(|error| Error::Attach {
        interface: place.interface.to_owned(),
        mode: "tc",
        reason: describe(&error),
    })?;
    Ok(Attached { link: keep(link, pin)?, replaced: false })
}

/// Whether this kernel has links for TC.
pub(crate) fn has_links() -> bool {
    KernelVersion::current().is_ok_and(|version| version >= KernelVersion::new(6, 6, 0))
}

fn attach_filter(
    program: &mut SchedClassifier,
    name: &'static str,
    place: &Place<'_>,
) -> Result<Attached, Error> {
    let failed = |error: &ProgramError| attach_error(place.interface, error);
    match qdisc_add_clsact(place.interface) {
        Ok(()) | Err(TcError::AlreadyAttached) => {}
        Err(error) if error_code(&error) == Some(nix::libc::EEXIST) => {}
        Err(error) => return Err(failed(&error.into())),
    }
    let replaced = detach_filter(name, place)?;
    let id = program
        .attach_with_options(place.interface, place.attach, TcAttachOptions::Netlink(NlOptions::default()))
        .map_err(|error| failed(&error))?;
    let link = program.take_link(id).map_err(|error| failed(&error))?;
    // Dropped, it would take the filter away.
    std::mem::forget(link);
    Ok(Attached { link: None, replaced })
}

/// Takes away the filters of this name; whether there were any.
pub(crate) fn detach_filter(name: &str, place: &Place<'_>) -> Result<bool, Error> {
    match qdisc_detach_program(place.interface, place.attach, name) {
        Ok(()) => Ok(true),
        Err(TcError::IoError(error)) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(attach_error(place.interface, &error.into())),
    }
}

/// The link that is pinned there; the pin stays.
pub(crate) fn pinned(pin: &Path) -> Result<FdLink, Error> {
    PinnedLink::from_pin(pin).map(FdLink::from).map_err(|error| pin_error(pin, &error))
}

/// Pins a link, or gives it back where there is no pin.
pub(crate) fn keep(link: FdLink, pin: Option<&Path>) -> Result<Option<FdLink>, Error> {
    let Some(pin) = pin else { return Ok(Some(link)) };
    let kept = link.pin(pin).map_err(|error| pin_error(pin, &error))?;
    drop(kept);
    Ok(None)
}

pub(crate) fn pin_error(pin: &Path, error: &(dyn std::error::Error + 'static)) -> Error {
    Error::Pin { path: pin.to_path_buf(), reason: describe(error) }
}

fn attach_error(interface: &str, error: &ProgramError) -> Error {
    Error::Attach { interface: interface.to_owned(), mode: "tc", reason: describe(error) }
}
