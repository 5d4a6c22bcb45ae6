//! Where the program of a pinned link is: at an interface of this network namespace, or not.
//!
//! Network namespaces may share a BPF file system, while each counts its interfaces for itself: a pin's name alone does
//! not tell whose interface it means. The kernel tells of a link which program it holds and at which index; what is at
//! that index here is asked for in this namespace.

use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

use nix::libc;

use crate::balancer::describe;
use crate::error::Error;
use crate::occupant::program_id;
use crate::pins::entries;
use crate::syscall::{Attributes, Command, ask, pinned};

/// Where a pinned link's program is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whereabouts {
    /// At the interface of this namespace with this index.
    Here(u32),
    /// Nowhere: the interface that it was at is gone.
    Nowhere,
    /// At no interface of this namespace.
    Elsewhere {
        /// The program's id.
        program: u32,
        /// The index of its interface, in a namespace that is not known.
        index: u32,
    },
}

/// The id of the program that the link pinned there holds.
pub(crate) fn program(pin: &Path) -> Result<u32, Error> {
    let told = pinned(pin).and_then(|link| info(link.as_raw_fd()));
    told.map(|info| info.program).map_err(|error| untold(pin, &error))
}

/// Where the program of the link pinned there is.
pub(crate) fn whereabouts(pin: &Path) -> Result<Whereabouts, Error> {
    find(pin).map_err(|error| untold(pin, &error))
}

fn untold(pin: &Path, error: &io::Error) -> Error {
    Error::Pin {
        path: pin.to_path_buf(),
        reason: format!("the kernel does not tell where its program is: {}", describe(error)),
    }
}

/// Refuses pins of programs that are at interfaces of another namespace. What is pinned by names that `is_link` does not
/// know, and a directory that is not there, is nobody's.
pub(crate) fn check(directory: &Path, is_link: impl Fn(&str) -> bool) -> Result<(), Error> {
    let Ok(entries) = entries(directory) else { return Ok(()) };
    for entry in entries.filter(|entry| is_link(&entry.file_name().to_string_lossy())) {
        let path = entry.path();
        if let Whereabouts::Elsewhere { program, index } = whereabouts(&path)? {
            return Err(Error::Elsewhere { path, program, index });
        }
    }
    Ok(())
}

/// The programs that the hook asks before that of the link pinned there, first to last; none where it is at no TC hook.
pub(crate) fn before(pin: &Path) -> io::Result<Vec<Classifier>> {
    let Info { kind, id, index, attach, .. } = info(pinned(pin)?.as_raw_fd())?;
    if kind != TCX || index == 0 {
        return Ok(Vec::new());
    }
    let mut all = classifiers(index, attach)?;
    let own = all.iter().position(|classifier| classifier.link == id);
    all.truncate(own.unwrap_or(0));
    Ok(all)
}

fn find(pin: &Path) -> io::Result<Whereabouts> {
    let link = pinned(pin)?;
    let mut info = info(link.as_raw_fd())?;
    loop {
        let Info { kind, id, program, index, attach, .. } = info;
        let here = match kind {
            _ if index == 0 => return Ok(Whereabouts::Nowhere),
            XDP => program_id(index).map(|there| there == Some(program)),
            TCX => classifiers(index, attach).map(|there| there.iter().any(|one| one.link == id)),
            // No link of ours; whoever opens it as one is told so.
            _ => return Ok(Whereabouts::Here(index)),
        };
        match here {
            Ok(true) => return Ok(Whereabouts::Here(index)),
            Err(error) if error.raw_os_error() != Some(libc::ENODEV) => return Err(error),
            _ => {}
        }
        // Another process may have put another program into the link between the two questions.
        let again = self::info(link.as_raw_fd())?;
        if again == info {
            return Ok(Whereabouts::Elsewhere { program, index });
        }
        info = again;
    }
}

/// `BPF_LINK_TYPE_XDP`.
const XDP: u32 = 6;
/// `BPF_LINK_TYPE_TCX`.
const TCX: u32 = 11;

/// The beginning of the kernel's `bpf_link_info`, for the links of an interface.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Info {
    kind: u32,
    id: u32,
    program: u32,
    pad: u32,
    index: u32,
    attach: u32,
}

fn info(link: i32) -> io::Result<Info> {
    #[repr(C)]
    struct Question {
        object: i32,
        length: u32,
        info: u64,
    }
    // SAFETY: the address is that of an `Info`, as long as the length says, which outlives the call below.
    unsafe impl Attributes for Question {}
    let mut info = Info::default();
    let length = size_of::<Info>() as u32;
    ask(Command::InfoByFd, &mut Question { object: link, length, info: (&raw mut info) as u64 })?;
    Ok(info)
}

/// A program at a TC hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Classifier {
    /// The program's id.
    pub(crate) program: u32,
    /// The id of the link that holds it; 0 for none.
    pub(crate) link: u32,
}

/// The programs of links at a TC hook, an attach type of the kernel, of the interface of this namespace with this index.
pub(crate) fn classifiers(index: u32, attach: u32) -> io::Result<Vec<Classifier>> {
    /// The most that the kernel has at one hook.
    const MOST: usize = 64;
    #[repr(C)]
    struct Question {
        index: u32,
        attach: u32,
        query_flags: u32,
        attach_flags: u32,
        programs: u64,
        count: u32,
        pad: u32,
        program_flags: u64,
        links: u64,
        link_flags: u64,
        revision: u64,
    }
    // SAFETY: the addresses are of arrays with as many entries as `count` says, which outlive the call below.
    unsafe impl Attributes for Question {}
    let (mut programs, mut links) = ([0_u32; MOST], [0_u32; MOST]);
    let mut question = Question {
        index,
        attach,
        query_flags: 0,
        attach_flags: 0,
        programs: programs.as_mut_ptr() as u64,
        count: MOST as u32,
        pad: 0,
        program_flags: 0,
        links: links.as_mut_ptr() as u64,
        link_flags: 0,
        revision: 0,
    };
    ask(Command::ProgQuery, &mut question)?;
    let found = programs.into_iter().zip(links).take(question.count as usize);
    Ok(found.map(|(program, link)| Classifier { program, link }).collect())
}
