//! A map's memory in this process: with `sever`, the only unsafe code of this crate.

use std::fmt;
use std::marker::PhantomData;
use std::os::fd::AsFd;
use std::ptr::NonNull;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use zerocopy::FromBytes;

use crate::error::Error;

/// An array map of values `T`, mapped for reading and writing.
///
/// `T` is made of atomic words (or its bits mean something whatever they are), since the kernel program and other
/// processes read and write the same memory.
pub(crate) struct Mapped<T> {
    start: NonNull<T>,
    len: usize,
    bytes: usize,
    values: PhantomData<T>,
}

// SAFETY: what is reached through it is shared memory of atomic words.
unsafe impl<T: Sync> Send for Mapped<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Mapped<T> {}

impl<T: FromBytes> Mapped<T> {
    /// Maps `len` values of the array map `fd`. The kernel refuses if the map is smaller, so the length is not
    /// believed but checked.
    pub(crate) fn new(map: &'static str, fd: impl AsFd, len: usize) -> Result<Self, Error> {
        let page = rustix::param::page_size();
        let bytes = len.saturating_mul(size_of::<T>()).next_multiple_of(page);
        let failed = |source| Error::Mapping { map, bytes, source };
        // SAFETY: a new mapping at a place of the kernel's choice touches nothing that exists.
        let start = unsafe {
            mmap(std::ptr::null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, fd, 0)
        };
        let start = start.map_err(|errno| failed(errno.into()))?;
        let start =
            NonNull::new(start.cast::<T>()).ok_or_else(|| failed(std::io::ErrorKind::OutOfMemory.into()))?;
        Ok(Self { start, len, bytes, values: PhantomData })
    }

    /// The values.
    pub(crate) fn values(&self) -> &[T] {
        // SAFETY: the mapping has `len` values, begins at a page, and lives as long as `self`; any bits are a `T`,
        // and words are only changed as atomics.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }

    /// The first value; every map has one.
    pub(crate) fn first(&self) -> &T {
        // SAFETY: as in `values`; a mapping of no bytes cannot be made, so there is a first value.
        unsafe { self.start.as_ref() }
    }
}

impl<T> Drop for Mapped<T> {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, and nobody borrows from it any more. A failure leaves it mapped.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

impl<T> fmt::Debug for Mapped<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mapped").field("len", &self.len).field("bytes", &self.bytes).finish()
    }
}
