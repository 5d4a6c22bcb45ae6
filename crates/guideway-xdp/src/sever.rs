//! Ending a pinned link at once.
//!
//! A link whose pin is removed is let go when the kernel gets to it: for a moment its program is still there, and another
//! one is refused. This system call takes the program off before it returns. The loader has no function for it.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use nix::libc;

/// Takes the program of the link that is pinned there off its hook, and then the pin away.
pub(crate) fn sever(pin: &Path) -> io::Result<()> {
    let name = CString::new(pin.as_os_str().as_bytes())?;
    let object = Object { path: name.as_ptr() as u64, fd: 0, flags: 0 };
    let link = call(OBJ_GET, &object)?;
    // SAFETY: the kernel has just given this descriptor, and nothing else knows of it.
    let link = unsafe { OwnedFd::from_raw_fd(link) };
    match call(LINK_DETACH, &Detach { link: link.as_raw_fd() }) {
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

/// What `BPF_OBJ_GET` is told.
#[repr(C)]
struct Object {
    path: u64,
    fd: u32,
    flags: u32,
}

/// What `BPF_LINK_DETACH` is told.
#[repr(C)]
struct Detach {
    link: i32,
}

const OBJ_GET: libc::c_long = 7;
const LINK_DETACH: libc::c_long = 34;

fn call<T>(command: libc::c_long, attributes: &T) -> io::Result<i32> {
    // SAFETY: the kernel reads as many bytes as are said, of a plain struct without padding, and writes none for these
    // two commands; the path in it is a string that outlives the call.
    let result = unsafe {
        libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(attributes), size_of::<T>() as libc::c_uint)
    };
    match i32::try_from(result) {
        Ok(value) if value >= 0 => Ok(value),
        _ => Err(io::Error::last_os_error()),
    }
}
