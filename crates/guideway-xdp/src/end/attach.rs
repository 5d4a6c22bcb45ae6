//! A backend host's programs at its interface: the decapsulator where packets come in, the clamp where they leave.
//!
//! With pins each stays when the process ends, and the next process puts its own in its place by one update.

use std::path::{Path, PathBuf};
use std::{fs, io};

use aya::programs::links::FdLink;
use aya::programs::xdp::{XdpLink, XdpMode};
use aya::programs::{ProgramError, TcAttachType};

use super::{CLAMP, Decapsulator, MAPS, TC, Which, XDP, error_code};
use crate::balancer::describe;
use crate::error::Error;
use crate::occupant::{Occupant, name, occupant};
use crate::pins::{entries, refuse_directories};
use crate::sever::sever;
use crate::whereabouts::{self, Classifier, Whereabouts};
use crate::{prober, tc};

/// Where the decapsulator runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    /// XDP in the driver, before the kernel makes anything of the packet.
    Native,
    /// XDP in the kernel's network stack, for any driver.
    Generic,
    /// TC ingress, after the kernel has taken the packet in: for any driver, at peace with its checksum and
    /// aggregation offloads.
    Tc,
}

impl Hook {
    /// All of them.
    pub const ALL: [Hook; 3] = [Hook::Native, Hook::Generic, Hook::Tc];

    /// A stable name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Hook::Native => "native",
            Hook::Generic => "generic",
            Hook::Tc => "tc",
        }
    }
}

/// Which hook is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// This one or none.
    Exactly(Hook),
    /// Native XDP if the driver can, else TC: generic XDP copies packets that were aggregated, TC does not.
    Auto,
}

/// What was attached.
#[derive(Debug)]
pub struct Attached {
    /// Where the decapsulator runs.
    pub hook: Hook,
    /// Why it does not run in the driver, where that was tried.
    pub fell_back: Option<String>,
    /// Whether it took the place of one that an earlier process had left.
    pub replaced: bool,
    /// Links that end with this value; none if they are pinned.
    _links: Vec<FdLink>,
}

/// How the decapsulator got to its hook.
type Placed = (Hook, Option<String>, bool, Option<FdLink>);

impl Decapsulator {
    /// Puts the decapsulator at `interface`, and the clamp at `egress`.
    ///
    /// # Errors
    /// [`Error::NoInterface`], [`Error::Occupied`] when a foreign XDP program is there, [`Error::Attach`] when the hook
    /// cannot be had, [`Error::Pin`].
    pub fn attach(&mut self, interface: &str, egress: &str, wish: Wish) -> Result<Attached, Error> {
        let (index, egress_index) = (index_of(interface)?, index_of(egress)?);
        let (hook, fell_back, replaced, link) = self.place(interface, index, wish)?;
        let pin = self.pin(&clamp_name(egress_index));
        let place = tc::Place { interface: egress, attach: TcAttachType::Egress };
        let clamp = tc::attach(self.classifier(CLAMP)?, CLAMP, &place, pin.as_deref())?;
        self.leave_other_egress(egress_index)?;
        let links = [link, clamp.link].into_iter().flatten().collect();
        Ok(Attached { hook, fell_back, replaced, _links: links })
    }

    /// Takes an earlier process's clamp off other interfaces.
    fn leave_other_egress(&self, egress_index: u32) -> Result<(), Error> {
        let Some(pins) = &self.pins else { return Ok(()) };
        let (all, own) = (pinned_links(pins)?, clamp_name(egress_index));
        let clamps =
            all.iter().filter(|pin| file_name(pin).starts_with(CLAMP_PREFIX) && file_name(pin) != own);
        clamps.into_iter().try_for_each(|pin| end_link(pin))
    }

    fn place(&mut self, interface: &str, index: u32, wish: Wish) -> Result<Placed, Error> {
        // One of an earlier process stays at its hook, unless another one is asked for.
        let held = Hook::ALL
            .into_iter()
            .find(|hook| self.pin(&link_name(*hook, index)).is_some_and(|pin| pin.exists()));
        let (hook, (link, replaced)) = match (wish, held) {
            (Wish::Auto, Some(hook)) => (hook, self.at(interface, index, hook)?),
            (Wish::Exactly(hook), Some(old)) if old != hook => {
                (hook, self.move_to(interface, index, old, hook)?)
            }
            (Wish::Exactly(hook), _) => (hook, self.at(interface, index, hook)?),
            (Wish::Auto, None) => match self.at(interface, index, Hook::Native) {
                Ok(done) => (Hook::Native, done),
                Err(occupied @ Error::Occupied { .. }) => return Err(occupied),
                Err(native) => {
                    let (link, replaced) = self.at(interface, index, Hook::Tc)?;
                    return Ok((Hook::Tc, Some(native.to_string()), replaced, link));
                }
            },
        };
        Ok((hook, None, replaced, link))
    }

    /// From one hook to another. Where both can be had at once, there is no moment without; where the new one cannot be
    /// had, the old one stays.
    fn move_to(
        &mut self,
        interface: &str,
        index: u32,
        old: Hook,
        hook: Hook,
    ) -> Result<(Option<FdLink>, bool), Error> {
        let pin = self.pin(&link_name(old, index));
        let unpin = || pin.as_deref().map_or(Ok(()), end_link);
        // An interface has one XDP program, in one mode.
        let exclusive = old != Hook::Tc && hook != Hook::Tc;
        if exclusive {
            unpin()?;
        }
        match self.at(interface, index, hook) {
            Ok((link, _)) => {
                if !exclusive {
                    unpin()?;
                }
                Ok((link, true))
            }
            Err(error) => {
                if exclusive {
                    self.at(interface, index, old)?;
                }
                Err(error)
            }
        }
    }

    /// Puts it at this very hook; whether it took the place of an earlier one.
    fn at(&mut self, interface: &str, index: u32, hook: Hook) -> Result<(Option<FdLink>, bool), Error> {
        let pin = self.pin(&link_name(hook, index));
        let mode = match hook {
            Hook::Native => XdpMode::Driver,
            Hook::Generic => XdpMode::Skb,
            Hook::Tc => {
                let place = tc::Place { interface, attach: TcAttachType::Ingress };
                let attached = tc::attach(self.classifier(TC)?, TC, &place, pin.as_deref())?;
                return Ok((attached.link, attached.replaced));
            }
        };
        let failed = |error: &ProgramError| attach_error(interface, hook, error);
        if let Some(pin) = pin.as_deref().filter(|pin| pin.exists()) {
            let program = self.xdp()?;
            let replaced = tc::pinned(pin)
                .and_then(|link| XdpLink::try_from(link).map_err(|error| tc::pin_error(pin, &error)))
                .and_then(|link| program.attach_to_link(link).map_err(|error| failed(&error)));
            match replaced {
                Ok(id) => {
                    // Taken, so that it is not closed with the program; the pin holds it.
                    let link = program.take_link(id).map_err(|error| failed(&error))?;
                    drop(link);
                    return Ok((None, true));
                }
                // The interface of that index is another one by now, and the link leads nowhere.
                Err(_) if occupant(interface, index)?.is_none() => {
                    end_link(pin)?;
                }
                Err(error) => return Err(error),
            }
        }
        if let Some(Occupant { id, name }) = occupant(interface, index)? {
            return Err(Error::Occupied { interface: interface.to_owned(), id, name });
        }
        let program = self.xdp()?;
        let id = program.attach_to_if_index(index, mode).map_err(|error| failed(&error))?;
        let link = program.take_link(id).map_err(|error| failed(&error))?;
        let link = FdLink::try_from(link).map_err(|_| Error::Attach {
            interface: interface.to_owned(),
            mode: hook.as_str(),
            reason: "this kernel has no links for XDP; Linux 5.9 is the first that has".into(),
        })?;
        Ok((tc::keep(link, pin.as_deref())?, false))
    }

    fn pin(&self, name: &str) -> Option<PathBuf> {
        self.pins.as_ref().map(|pins| pins.join(name))
    }
}

const CLAMP_PREFIX: &str = "clamp-";

fn clamp_name(index: u32) -> String {
    format!("{CLAMP_PREFIX}{index}")
}

fn file_name(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}

/// Whether a pin of this name is a link's; what else is there are maps.
fn is_link(name: &str) -> bool {
    let hook = |hook: Hook| name.strip_prefix(hook.as_str()).is_some_and(|rest| rest.starts_with('-'));
    name.starts_with(CLAMP_PREFIX) || Hook::ALL.into_iter().any(hook)
}

/// Refuses the pins of another network namespace.
///
/// # Errors
/// [`Error::Elsewhere`]; [`Error::Pin`] where the kernel does not tell.
pub fn are_of_here(pins: &Path) -> Result<(), Error> {
    refuse_directories(pins, |name| is_link(name) || MAPS.contains(&name))?;
    whereabouts::check(pins, is_link)
}

/// The pins of links in a directory.
fn pinned_links(pins: &Path) -> Result<Vec<PathBuf>, Error> {
    let paths = entries(pins)?.map(|entry| entry.path());
    Ok(paths.filter(|path| is_link(file_name(path))).collect())
}

/// Takes a pinned link's program off its hook, at once.
fn end_link(pin: &Path) -> Result<(), Error> {
    sever(pin).map_err(|error| tc::pin_error(pin, &error))
}

fn link_name(hook: Hook, index: u32) -> String {
    format!("{}-{index}", hook.as_str())
}

fn index_of(interface: &str) -> Result<u32, Error> {
    nix::net::if_::if_nametoindex(interface).map_err(|_| Error::NoInterface(interface.to_owned()))
}

fn attach_error(interface: &str, hook: Hook, error: &ProgramError) -> Error {
    let remedy = match (error_code(error), hook) {
        (Some(nix::libc::EOPNOTSUPP), Hook::Native) => "the driver has no XDP: ask for tc",
        (Some(nix::libc::ERANGE | nix::libc::EMSGSIZE | nix::libc::EINVAL), Hook::Native) => {
            "the driver's buffers do not fit: lower the interface's MTU to what one page holds (about 3,500 bytes) and \
             switch off large receive offload, or ask for tc"
        }
        (Some(nix::libc::EBUSY), _) => "another program is there already",
        (Some(nix::libc::EPERM | nix::libc::EACCES), _) => "this process lacks CAP_NET_ADMIN",
        _ => "see the kernel's log (`dmesg`) for what the driver says",
    };
    Error::Attach {
        interface: interface.to_owned(),
        mode: hook.as_str(),
        reason: format!("{}; {remedy}", describe(error)),
    }
}

/// Takes away what [`Decapsulator::attach`] left with these pins: the programs, and then their maps.
///
/// # Errors
/// [`Error::Elsewhere`] when another network namespace uses these pins, [`Error::Pin`] when a pin cannot be removed,
/// [`Error::Attach`] when a filter cannot.
pub fn detach(pins: &Path, interface: &str, egress: &str) -> Result<(), Error> {
    are_of_here(pins)?;
    if !tc::has_links() {
        for (name, interface, attach) in
            [(TC, interface, TcAttachType::Ingress), (CLAMP, egress, TcAttachType::Egress)]
        {
            // With an interface its filters are gone too.
            if index_of(interface).is_ok() {
                tc::detach_filter(name, &tc::Place { interface, attach })?;
            }
        }
    }
    let failed = |path: &Path, error: &io::Error| tc::pin_error(path, error);
    if !pins.exists() {
        return Ok(());
    }
    pinned_links(pins)?.iter().try_for_each(|pin| end_link(pin))?;
    for entry in entries(pins)? {
        fs::remove_file(entry.path()).map_err(|error| failed(&entry.path(), &error))?;
    }
    match fs::remove_dir(pins) {
        // Other versions may have theirs beside.
        Ok(()) => drop(pins.parent().map(fs::remove_dir)),
        // A directory of somebody's is in it.
        Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {}
        Err(error) => return Err(failed(pins, &error)),
    }
    Ok(())
}

/// What is pinned in a directory of a decapsulator's pins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pinned {
    /// Programs, or maps that a program may have.
    Programs,
    /// Maps that no program has.
    Maps,
    /// Nothing.
    Nothing,
}

/// What is pinned there.
///
/// # Errors
/// [`Error::Pin`] when the directory cannot be read.
pub fn pinned(pins: &Path) -> Result<Pinned, Error> {
    if !pins.exists() {
        return Ok(Pinned::Nothing);
    }
    let mut names = entries(pins)?.map(|entry| entry.file_name()).peekable();
    Ok(if names.peek().is_none() {
        Pinned::Nothing
    // A filter has no pin.
    } else if !tc::has_links() || names.any(|name| is_link(&name.to_string_lossy())) {
        Pinned::Programs
    } else {
        Pinned::Maps
    })
}

/// Where the decapsulator with these pins runs, on the interface with this name.
///
/// # Errors
/// [`Error::Elsewhere`] when another network namespace uses these pins, [`Error::Pin`].
pub fn attached(pins: &Path, interface: &str) -> Result<Option<Hook>, Error> {
    let Ok(index) = index_of(interface) else { return Ok(None) };
    are_of_here(pins)?;
    for hook in Hook::ALL {
        // A filter has no pin, the maps have.
        let filter = hook == Hook::Tc && !tc::has_links() && pins.exists();
        if filter || is_at(&pins.join(link_name(hook, index)), index)? {
            return Ok(Some(hook));
        }
    }
    Ok(None)
}

/// Whether the clamp with these pins is on the interface with this name.
///
/// # Errors
/// [`Error::Pin`].
pub fn is_clamped(pins: &Path, egress: &str) -> Result<bool, Error> {
    let Ok(index) = index_of(egress) else { return Ok(false) };
    // A filter has no pin, the maps have.
    if tc::has_links() { is_at(&pins.join(clamp_name(index)), index) } else { Ok(pins.exists()) }
}

/// A program that TC asks before one of ours, and which ours may then not see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InFront {
    /// Its id.
    pub id: u32,
    /// Its name; empty if it has none or the kernel does not tell.
    pub name: String,
    /// The id of the link that holds it, unless it is there without one.
    pub link: Option<u32>,
}

/// The programs that TC asks before the one with these pins at the interface with this name, first to last. Those that let
/// every packet pass that is not theirs, as Guideway's own for probes does, are not among them.
///
/// # Errors
/// [`Error::Pin`] when the kernel does not tell.
pub fn in_front(pins: &Path, which: Which, interface: &str) -> Result<Vec<InFront>, Error> {
    let Ok(index) = index_of(interface) else { return Ok(Vec::new()) };
    let pin = match which {
        Which::Xdp => return Ok(Vec::new()),
        Which::Tc => pins.join(link_name(Hook::Tc, index)),
        Which::Clamp => pins.join(clamp_name(index)),
    };
    // Filters have no pins, and come after whatever a link holds.
    if !pin.exists() {
        return Ok(Vec::new());
    }
    let before = whereabouts::before(&pin).map_err(|error| Error::Pin {
        path: pin,
        reason: format!("the kernel does not tell which programs come before its own: {error}"),
    })?;
    let in_front = before.into_iter().map(|Classifier { program, link }| InFront {
        id: program,
        name: name(program),
        link: Some(link).filter(|link| *link != 0),
    });
    Ok(in_front.filter(|program| program.name != prober::PROGRAM).collect())
}

/// Whether a link is pinned there whose program is at this interface.
fn is_at(pin: &Path, index: u32) -> Result<bool, Error> {
    Ok(pin.exists() && whereabouts::whereabouts(pin)? == Whereabouts::Here(index))
}

/// The programs by the names of ours that are at these interfaces, whatever holds them, by name and interface. After
/// [`detach`], these are pinned elsewhere.
///
/// # Errors
/// [`Error::Attach`] when the kernel does not tell.
pub fn leftovers(interface: &str, egress: &str) -> Result<Vec<(String, String)>, Error> {
    let mut found = Vec::new();
    if let Ok(index) = index_of(interface) {
        let xdp = occupant(interface, index)?.map(|occupant| occupant.name);
        found.extend(xdp.filter(|name| name == XDP).map(|name| (name, interface.to_owned())));
    }
    if !tc::has_links() {
        return Ok(found);
    }
    for (own, interface, attach) in [(TC, interface, tc::INGRESS), (CLAMP, egress, tc::EGRESS)] {
        let Ok(index) = index_of(interface) else { continue };
        let there = whereabouts::classifiers(index, attach).map_err(|error| Error::Attach {
            interface: interface.to_owned(),
            mode: Hook::Tc.as_str(),
            reason: format!("the kernel does not tell what is attached: {error}"),
        })?;
        let names = there.into_iter().map(|classifier| name(classifier.program));
        found.extend(names.filter(|name| name == own).map(|name| (name, interface.to_owned())));
    }
    Ok(found)
}
