//! Ending a pinned link at once.
//!
//! A link whose pin is removed is let go when the kernel gets to it: for a moment its program is still there, and another
//! one is refused. This system call takes the program off before it returns. The loader has no function for it.

use std::fs;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

use nix::libc;

use crate::syscall::{Attributes, Command, call, pinned};

/// Takes the program of the link that is pinned there off its hook, and then the pin away.
pub(crate) fn sever(pin: &Path) -> io::Result<()> {
    let link = pinned(pin)?;
    match call(Command::LinkDetach, &Detach { link: link.as_raw_fd() }) {
        // The interface is gone, or the link is of a kind or a kernel that cannot: then the pin is what holds it.
        Err(error)
            if !matches!(error.raw_os_error(), Some(libc::ENOLINK | libc::EOPNOTSUPP | libc::EINVAL)) =>
        {
            return Err(error);
        }
        _ => {}
    }
    fs::remove_file(pin)
}

/// What `BPF_LINK_DETACH` is told.
#[repr(C)]
struct Detach {
    link: i32,
}

// SAFETY: it holds no address.
unsafe impl Attributes for Detach {}
