//! The program at an interface: put there in a mode that is chosen and told, never in place of a foreign one, and taken
//! away without touching any other.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;

use aya::programs::ProgramError;
use aya::programs::links::{FdLink, PinnedLink};
use aya::programs::xdp::{XdpLink, XdpMode};
use nix::errno::Errno;

use crate::balancer::{Balancer, describe};
use crate::error::Error;
use crate::occupant::{Occupant, occupant};
use crate::peer::{Peer, joined_by_peer, peer};
use crate::sever::sever;

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
    Pinned(PinnedLink),
    /// Nothing: somebody took the program away, and it could not be put back.
    Lost,
}

impl Balancer {
    /// Puts the program at an interface. With pins (see [`Balancer::load_pinned`]) it stays when the process ends, and
    /// takes the place of an earlier process's by one atomic update; without, it ends with the [`Attachment`].
    ///
    /// # Errors
    /// [`Error::NoInterface`], [`Error::Occupied`] when a foreign program is there, [`Error::Attach`] when the driver
    /// refuses the mode, [`Error::Pin`].
    pub fn attach(&self, interface: &str, wish: Wish) -> Result<Attachment, Error> {
        let index =
            nix::net::if_::if_nametoindex(interface).map_err(|_| Error::NoInterface(interface.to_owned()))?;
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
                    let mut why = native.to_string();
                    if let Some((cause, remedy)) = joined_by_peer(index) {
                        why = format!("{why}; in generic mode, {cause}: {remedy}");
                    }
                    (Mode::Generic, Some(why), link)
                }
            },
        };
        let holder = match &self.pins {
            None => Holder::Open(link),
            Some(pins) => {
                let path = pins.link(mode.as_str(), index);
                let failed = |error: &dyn std::error::Error| Error::Pin {
                    path: path.clone(),
                    reason: describe(error),
                };
                Holder::Pinned(link.pin(&path).map_err(|error| failed(&error))?)
            }
        };
        Ok(attachment(mode, fell_back, false, holder))
    }

    /// Whether the program is still where it was put, and its pin as well.
    ///
    /// # Errors
    /// [`Error::Attach`], [`Error::Load`] when the kernel does not tell.
    pub fn is_attached(&self, attachment: &Attachment) -> Result<bool, Error> {
        let own = self.program_id()?;
        // An interface that was made anew has another index, and one that is gone has no program. Anything else (no file
        // descriptor left, say) tells nothing of it, and must not have the program taken off.
        let index = match nix::net::if_::if_nametoindex(attachment.interface.as_str()) {
            Ok(index) => Some(index),
            Err(Errno::ENODEV) => None,
            Err(error) => {
                return Err(Error::Attach {
                    interface: attachment.interface.clone(),
                    mode: attachment.mode.as_str(),
                    reason: format!("the kernel does not tell whether the interface is there: {error}"),
                });
            }
        };
        if index != Some(attachment.index) {
            return Ok(false);
        }
        let there = occupant(&attachment.interface, attachment.index)?;
        let pinned = self
            .pins
            .as_ref()
            .is_none_or(|pins| pins.link(attachment.mode.as_str(), attachment.index).exists());
        let sampling = self.sampling.load(Relaxed);
        Ok(pinned && there.is_some_and(|occupant| occupant.id == own || sampling))
    }

    /// Puts the program back at an interface where [`Balancer::is_attached`] says that it is not.
    ///
    /// # Errors
    /// As [`Balancer::attach`]; the attachment is as it was then.
    pub fn reattach(&self, attachment: &mut Attachment, wish: Wish) -> Result<(), Error> {
        if let Some(pins) = &self.pins {
            // Whoever removed the pins may have removed their directory too.
            pins.make()?;
            let path = pins.link(attachment.mode.as_str(), attachment.index);
            let failed = |reason: String| Error::Pin { path: path.clone(), reason };
            let holder = std::mem::replace(&mut attachment.holder, Holder::Lost);
            if let (Holder::Pinned(link), false) = (holder, path.exists()) {
                let pinned = FdLink::from(link).pin(&path).map_err(|error| failed(describe(&error)))?;
                attachment.holder = Holder::Pinned(pinned);
                if self.is_attached(attachment)? {
                    return Ok(());
                }
            }
            // What is pinned holds nothing any more, or a place where the interface was.
            if path.exists() {
                sever(&path).map_err(|error| failed(error.to_string()))?;
            }
        }
        let index = nix::net::if_::if_nametoindex(attachment.interface.as_str()).ok();
        let same = index == Some(attachment.index);
        let wish = if same { Wish::Exactly(attachment.mode) } else { wish };
        let interface = attachment.interface.clone();
        let fell_back = attachment.fell_back.take();
        match self.attach(&interface, wish) {
            Ok(fresh) => {
                let fell_back = fresh.fell_back.clone().or(fell_back.filter(|_| same));
                *attachment = Attachment { fell_back, ..fresh };
                Ok(())
            }
            Err(error) => {
                attachment.fell_back = fell_back;
                Err(error)
            }
        }
    }

    /// Puts this process's program in place of the one that an earlier process left at the interface.
    fn replace(&self, interface: &str, index: u32, wish: Wish) -> Result<Option<(Mode, PinnedLink)>, Error> {
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
            let attached = self.with_program(|program| match program.attach_to_link(link) {
                Ok(id) => {
                    drop(program.take_link(id).map_err(|error| failed(describe(&error)))?);
                    Ok(Ok(()))
                }
                Err(error) => Ok(Err(error)),
            })?;
            match attached {
                Ok(()) => {
                    let link = PinnedLink::from_pin(&path).map_err(|error| failed(describe(&error)))?;
                    return Ok(Some((mode, link)));
                }
                // The interface of that index is another one by now, and the link led nowhere.
                Err(_) if occupant(interface, index)?.is_none() => {
                    std::fs::remove_file(&path).map_err(|error| failed(error.to_string()))?;
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
                reason: format!("taking the program off by the pin of its link failed: {error}"),
            }),
            _ => Ok(()),
        }
    }
}

/// What the kernel's refusal means, and what to do.
pub(crate) fn attach_error(interface: &str, mode: Mode, error: &ProgramError) -> Error {
    let code = error_code(error);
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
        _ => "see the kernel's log (`dmesg`) for what the driver says",
    };
    Error::Attach {
        interface: interface.to_owned(),
        mode: mode.as_str(),
        reason: format!("{}; {remedy}", describe(error)),
    }
}

fn error_code(error: &(dyn std::error::Error + 'static)) -> Option<i32> {
    let mut cause = Some(error);
    while let Some(inner) = cause {
        if let Some(code) = inner.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error) {
            return Some(code);
        }
        cause = inner.source();
    }
    None
}
