//! The program at an interface: put there in a mode that is chosen and told, never in place of a foreign one, and taken
//! away without touching any other.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;

use aya::programs::ProgramError;
use aya::programs::links::{FdLink, PinnedLink};
use aya::programs::xdp::{XdpLink, XdpMode};

use crate::balancer::{Balancer, describe};
use crate::descriptors;
use crate::error::Error;
use crate::occupant::{Occupant, name_of, named, occupant, program_id, untold};
use crate::peer::{Peer, joined_by_peer, peer};
use crate::sever::sever;
use crate::syscall;

/// How the program runs at an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// In the driver, before the kernel makes anything of the packet.
    Native,
    /// In the kernel's network stack: for any driver, and slow.
    Generic,
}

impl Mode {
    /// A stable name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Mode::Native => "native",
            Mode::Generic => "generic",
        }
    }

    const fn flags(self) -> XdpMode {
        match self {
            Mode::Native => XdpMode::Driver,
            Mode::Generic => XdpMode::Skb,
        }
    }
}

/// Which mode is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// This mode or none.
    Exactly(Mode),
    /// Native if the driver can, else generic.
    Auto,
}

/// The program at an interface.
#[derive(Debug)]
pub struct Attachment {
    /// The interface.
    pub interface: String,
    /// Its index.
    pub index: u32,
    /// How it runs there.
    pub mode: Mode,
    /// Why it does not run in native mode, where that was tried, or would have been had no earlier process left it.
    pub fell_back: Option<String>,
    /// Whether it took the place of a program that an earlier process had left.
    pub replaced: bool,
    holder: Holder,
    /// Where its link is pinned, if it is.
    pin: Option<PathBuf>,
}

/// Why a program that was taken over is not in native mode: trying it would take the old one away first.
const LEFT_GENERIC: &str = "an earlier process left it so, and native mode was not tried again, as that would stop \
                            forwarding for a moment; `guideway doctor` tells whether the driver can";

/// What keeps the program there.
#[derive(Debug)]
enum Holder {
    /// A link that ends with this value.
    Open(#[expect(dead_code, reason = "held for its drop")] FdLink),
    /// A link that stays when the process ends.
    Pinned(OwnedFd),
}

/// How it is with a program that was put at an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is there, and stays when the process ends.
    Whole,
    /// It is there, and somebody has removed the pin of its link: it would end with the process.
    Unpinned,
    /// It is not there: somebody took it off or put another in its place, or the interface was made anew.
    Gone,
}

impl Balancer {
    /// Puts the program at an interface. With pins (see [`Balancer::load_pinned`]) it stays when the process ends, and
    /// takes the place of an earlier process's by one atomic update; without, it ends with the [`Attachment`].
    ///
    /// # Errors
    /// [`Error::NoInterface`], [`Error::Occupied`] when a foreign program is there, [`Error::Attach`] when the driver
    /// refuses the mode, [`Error::Pin`].
    pub fn attach(&self, interface: &str, wish: Wish) -> Result<Attachment, Error> {
        let index = index_of(interface)?.ok_or_else(|| Error::NoInterface(interface.to_owned()))?;
        let attachment = |mode: Mode, fell_back, replaced, holder| Attachment {
            pin: self.pins.as_ref().map(|pins| pins.link(mode.as_str(), index)),
            interface: interface.to_owned(),
            index,
            mode,
            fell_back,
            replaced,
            holder,
        };
        if let Some((mode, link)) = self.replace(interface, index, wish)? {
            let fell_back = (wish == Wish::Auto && mode == Mode::Generic).then(|| LEFT_GENERIC.to_owned());
            return Ok(attachment(mode, fell_back, true, Holder::Pinned(link)));
        }
        if let Some(Occupant { id, name }) = occupant(interface, index)? {
            return Err(Error::Occupied { interface: interface.to_owned(), id, name });
        }
        let (mode, fell_back, link) = match wish {
            Wish::Exactly(mode) => (mode, None, self.link(interface, index, mode)?),
            Wish::Auto => match self.link(interface, index, Mode::Native) {
                Ok(link) => (Mode::Native, None, link),
                Err(native) => {
                    let link = self.link(interface, index, Mode::Generic)?;
                    (Mode::Generic, Some(native.to_string()), link)
                }
            },
        };
        let holder = match &self.pins {
            None => Holder::Open(link),
            Some(pins) => {
                let path = pins.link(mode.as_str(), index);
                let failed = |error: &(dyn std::error::Error + 'static)| Error::Pin {
                    path: path.clone(),
                    reason: describe(error),
                };
                let pinned = link.pin(&path).map_err(|error| failed(&error))?;
                match syscall::pinned(&path) {
                    Ok(link) => Holder::Pinned(link),
                    Err(error) => {
                        // Whatever fails here tells less than why.
                        let _ = pinned.unpin();
                        return Err(failed(&error));
                    }
                }
            }
        };
        let mut attachment = attachment(mode, None, false, holder);
        if let Some(why) = fell_back {
            attachment.note_fall_back(why);
        }
        Ok(attachment)
    }

    /// Whether the program is still where it was put, whatever the interface is named now, and its pin as well.
    ///
    /// # Errors
    /// [`Error::Untold`], [`Error::Load`], [`Error::Pin`] when the kernel does not tell: nothing is known then.
    pub fn standing(&self, attachment: &Attachment) -> Result<Standing, Error> {
        let own = self.program_id()?;
        // An interface that was made anew has another index, and one that is gone has none; a name can be given to another.
        let there = match program_id(attachment.index) {
            Ok(there) => there,
            Err(error) if error.raw_os_error() == Some(nix::libc::ENODEV) => None,
            Err(error) => return Err(untold(&attachment.interface, &error)),
        };
        let sampling = self.sampling.load(Relaxed);
        if !there.is_some_and(|program| program == own || sampling) {
            return Ok(Standing::Gone);
        }
        let is_pinned = attachment.pin.as_deref().map_or(Ok(true), is_there)?;
        Ok(if is_pinned { Standing::Whole } else { Standing::Unpinned })
    }

    /// Takes the name that the interface has now; whether somebody has renamed it.
    ///
    /// # Errors
    /// As [`Balancer::standing`].
    pub fn follow_name(&self, attachment: &mut Attachment) -> Result<bool, Error> {
        match name_of(attachment.index).filter(|name| *name != attachment.interface) {
            // Without the program it may be another one, which came to the index after this one went.
            Some(name) if self.standing(attachment)? != Standing::Gone => {
                attachment.interface = name;
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// Pins the link of an attachment again where [`Balancer::standing`] says that its pin is gone. Where that fails, the
    /// program stays where it is, as long as this process.
    ///
    /// # Errors
    /// [`Error::Exposed`], [`Error::Pin`].
    pub fn repin(&self, attachment: &Attachment) -> Result<(), Error> {
        let (Some(pins), Holder::Pinned(link), Some(path)) =
            (&self.pins, &attachment.holder, &attachment.pin)
        else {
            return Ok(());
        };
        // Whoever removed the pins may have removed their directory too.
        pins.make()?;
        let failed = |error: io::Error| Error::Pin { path: path.clone(), reason: describe(&error) };
        syscall::pin(link.as_fd(), path).map_err(failed)
    }

    /// Puts the program back at an interface where [`Balancer::standing`] says that it is gone. What still holds it at another
    /// place is let go only when that has succeeded.
    ///
    /// # Errors
    /// As [`Balancer::attach`]; the attachment is as it was then.
    pub fn reattach(&self, attachment: &mut Attachment, wish: Wish) -> Result<(), Error> {
        let same = index_of(&attachment.interface)? == Some(attachment.index);
        if let Some(pins) = &self.pins {
            // Whoever removed the pins may have removed their directory too.
            pins.make()?;
        }
        let wish = if same { Wish::Exactly(attachment.mode) } else { wish };
        let fresh = self.attach(&attachment.interface, wish)?;
        let before = std::mem::replace(attachment, fresh);
        if same {
            attachment.fell_back = attachment.fell_back.take().or(before.fell_back);
        } else if let Some(path) = before.pin {
            // It is another's place by now. One that stays is taken off by the next process, or as this one ends.
            let _ = sever(&path);
        }
        Ok(())
    }

    /// Puts this process's program in place of the one that an earlier process left at the interface.
    fn replace(&self, interface: &str, index: u32, wish: Wish) -> Result<Option<(Mode, OwnedFd)>, Error> {
        let Some(pins) = self.pins.clone() else {
            return Ok(None);
        };
        for mode in [Mode::Native, Mode::Generic] {
            let path = pins.link(mode.as_str(), index);
            if !path.exists() {
                continue;
            }
            let failed = |reason: String| Error::Pin { path: path.clone(), reason };
            let pinned = PinnedLink::from_pin(&path).map_err(|error| failed(describe(&error)))?;
            if matches!(wish, Wish::Exactly(other) if other != mode) {
                // Another mode is another hook: the old link goes first.
                drop(pinned.unpin().map_err(|error| failed(error.to_string()))?);
                continue;
            }
            // The pin stays where it is: whenever this process ends, the link lives and has a program, old or new.
            let link = XdpLink::try_from(FdLink::from(pinned)).map_err(|error| failed(describe(&error)))?;
            let put = self.with_program(|program| match program.attach_to_link(link) {
                Ok(id) => {
                    drop(program.take_link(id).map_err(|error| failed(describe(&error)))?);
                    Ok(Ok(()))
                }
                Err(error) => Ok(Err(error)),
            })?;
            match put {
                Ok(()) => {
                    let link = syscall::pinned(&path).map_err(|error| failed(describe(&error)))?;
                    return Ok(Some((mode, link)));
                }
                // Somebody ended the link, or the interface of that index is another one by now: it leads nowhere.
                Err(error)
                    if descriptors::code(&error) == Some(nix::libc::ENOLINK)
                        || occupant(interface, index)?.is_none() =>
                {
                    std::fs::remove_file(&path).map_err(|error| failed(describe(&error)))?;
                }
                Err(error) => return Err(attach_error(interface, mode, &error)),
            }
        }
        Ok(None)
    }

    fn link(&self, interface: &str, index: u32, mode: Mode) -> Result<FdLink, Error> {
        if mode == Mode::Native
            && let Some(reason) = peer(interface, index)?.objection()
        {
            let reason = format!("{reason}: {}", Peer::REMEDY);
            return Err(Error::Attach { interface: interface.to_owned(), mode: mode.as_str(), reason });
        }
        let link = self.with_program(|program| {
            let id = program.attach_to_if_index(index, mode.flags());
            let link = id.and_then(|id| program.take_link(id));
            link.map_err(|error| attach_error(interface, mode, &error))
        })?;
        FdLink::try_from(link).map_err(|_| Error::Attach {
            interface: interface.to_owned(),
            mode: mode.as_str(),
            reason: "this kernel has no links for XDP; Linux 5.9 is the first that has".into(),
        })
    }
}

impl Attachment {
    /// Notes why it does not run in native mode, and what has to be done in generic mode where it runs.
    pub fn note_fall_back(&mut self, mut why: String) {
        if let Some((cause, remedy)) = joined_by_peer(self.index) {
            why += &format!("; in generic mode, {cause}: {remedy}");
        }
        self.fell_back = Some(why);
    }

    /// Takes the program away from the interface, this one and no other, whoever else holds its link.
    ///
    /// # Errors
    /// [`Error::Attach`] when the kernel refuses.
    pub fn detach(self) -> Result<(), Error> {
        let Some(pin) = self.pin else { return Ok(()) };
        match sever(&pin) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::Attach {
                interface: self.interface,
                mode: self.mode.as_str(),
                reason: format!("taking the program off by the pin of its link failed: {}", describe(&error)),
            }),
            _ => Ok(()),
        }
    }
}

/// The index of an interface, if there is one of this name.
fn index_of(interface: &str) -> Result<Option<u32>, Error> {
    let link = named(interface).map_err(|error| untold(interface, &error))?;
    Ok(link.map(|link| link.header.index))
}

/// Whether there is a pin; that none can be looked at does not say that there is none.
fn is_there(pin: &Path) -> Result<bool, Error> {
    pin.try_exists().map_err(|error| Error::Pin {
        path: pin.to_path_buf(),
        reason: format!("looking at it failed: {}", describe(&error)),
    })
}

/// What the kernel's refusal means, and what to do.
pub(crate) fn attach_error(interface: &str, mode: Mode, error: &ProgramError) -> Error {
    let code = descriptors::code(error);
    let remedy = match (code, mode) {
        (Some(nix::libc::EOPNOTSUPP), Mode::Native) => {
            "the driver has no XDP: ask for generic mode, or use a driver that has"
        }
        (Some(nix::libc::ERANGE | nix::libc::EMSGSIZE | nix::libc::EINVAL), Mode::Native) => {
            "the driver's buffers do not fit: lower the interface's MTU to what one page holds (about 3,500 bytes) and \
             switch off large receive offload"
        }
        (Some(nix::libc::EBUSY), _) => "another program is there already",
        (Some(nix::libc::EPERM | nix::libc::EACCES), _) => "this process lacks CAP_NET_ADMIN",
        (Some(nix::libc::EMFILE | nix::libc::ENFILE), _) => "nothing is wrong with the interface",
        _ => "see the kernel's log (`dmesg`) for what the driver says",
    };
    Error::Attach {
        interface: interface.to_owned(),
        mode: mode.as_str(),
        reason: format!("{}; {remedy}", describe(error)),
    }
}
