//! `bpf(2)` where the loader has no function for it.

use std::ffi::{CStr, CString};
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use nix::libc;

/// What the kernel is asked to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Command {
    MapCreate = 0,
    ProgLoad = 5,
    ObjPin = 6,
    ObjGet = 7,
    InfoByFd = 15,
    ProgQuery = 16,
    LinkUpdate = 29,
    LinkDetach = 34,
}

/// Attributes of a command: a plain struct without padding, as the kernel's headers lay it out.
///
/// # Safety
/// Every byte of it is initialised, and every address in it is of memory that outlives the call and is as long as the
/// attributes say. For [`ask`], any bytes are a value of it, and that memory may be written.
pub(crate) unsafe trait Attributes {}

/// Asks by a command that writes none of its attributes, and gives what the kernel answers: a descriptor or 0.
pub(crate) fn call<T: Attributes>(command: Command, attributes: &T) -> io::Result<i32> {
    // SAFETY: the kernel reads as many bytes as are said, of a struct that is as `Attributes` promises.
    let result = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command as libc::c_long,
            std::ptr::from_ref(attributes),
            size_of::<T>() as libc::c_uint,
        )
    };
    match i32::try_from(result) {
        Ok(value) if value >= 0 => Ok(value),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Asks by [`Command::InfoByFd`] or [`Command::ProgQuery`]: the kernel writes its answer into the attributes, and into the
/// memory that they name.
pub(crate) fn ask<T: Attributes>(command: Command, attributes: &mut T) -> io::Result<()> {
    // SAFETY: the kernel reads and writes as many bytes as are said, of a struct that is as `Attributes` promises.
    let result = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command as libc::c_long,
            std::ptr::from_mut(attributes),
            size_of::<T>() as libc::c_uint,
        )
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Asks for a descriptor: by [`Command::MapCreate`], [`Command::ProgLoad`] or [`Command::ObjGet`].
pub(crate) fn open<T: Attributes>(command: Command, attributes: &T) -> io::Result<OwnedFd> {
    let descriptor = call(command, attributes)?;
    // SAFETY: the kernel has just given this descriptor, and nothing else knows of it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// What [`Command::ObjPin`] and [`Command::ObjGet`] are told.
#[repr(C)]
struct Object<'a> {
    path: u64,
    fd: u32,
    flags: u32,
    _path: PhantomData<&'a CStr>,
}

// SAFETY: the path is a string that lives as long as this.
unsafe impl Attributes for Object<'_> {}

impl<'a> Object<'a> {
    fn new(path: &'a CStr, fd: u32) -> Self {
        Self { path: path.as_ptr() as u64, fd, flags: 0, _path: PhantomData }
    }
}

/// Opens what is pinned there.
pub(crate) fn pinned(path: &Path) -> io::Result<OwnedFd> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    open(Command::ObjGet, &Object::new(&path, 0))
}

/// Pins something that stays open as it is, whether that succeeds or not.
pub(crate) fn pin(object: BorrowedFd<'_>, path: &Path) -> io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    call(Command::ObjPin, &Object::new(&path, object.as_raw_fd().unsigned_abs())).map(drop)
}
