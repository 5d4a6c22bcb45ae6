//! A map's memory in this process: with `sever`, the only unsafe code of this crate.

use std::fmt;
use std::marker::PhantomData;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::{Mutex, PoisonError};

use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};
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
        let bytes = bytes_of::<T>(len);
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

/// An array map of which only the first values are mapped, as many as were asked for so far. What is mapped counts as this
/// process's memory, touched or not, and most of a map may be room to grow.
pub(crate) struct Growing<T> {
    map: &'static str,
    fd: OwnedFd,
    start: NonNull<T>,
    /// All of the map; addresses for it are set aside from the beginning, so that no value ever moves.
    most: usize,
    reached: AtomicUsize,
    growth: Mutex<Growth>,
    values: PhantomData<T>,
}

/// How far it has come.
struct Growth {
    /// Bytes mapped.
    mapped: usize,
    /// Bytes of addresses that are this value's own: those behind may be another's after a failure.
    owned: usize,
}

/// It grows by so many bytes, which few mappings are enough for.
const STEP: usize = 256 << 10;

// SAFETY: what is reached through it is shared memory of atomic words.
unsafe impl<T: Sync> Send for Growing<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Growing<T> {}

impl<T: FromBytes> Growing<T> {
    /// Sets addresses aside for `len` values of the array map `fd`, of which none is mapped yet.
    pub(crate) fn new(map: &'static str, fd: impl AsFd, len: usize) -> Result<Self, Error> {
        let bytes = bytes_of::<T>(len);
        let failed = |source| Error::Mapping { map, bytes, source };
        let fd = fd.as_fd().try_clone_to_owned().map_err(failed)?;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a new mapping at a place of the kernel's choice touches nothing that exists.
        let start = unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, ProtFlags::empty(), flags) };
        let start = start.map_err(|errno| failed(errno.into()))?;
        let start =
            NonNull::new(start.cast::<T>()).ok_or_else(|| failed(std::io::ErrorKind::OutOfMemory.into()))?;
        let growth = Mutex::new(Growth { mapped: 0, owned: bytes });
        Ok(Self { map, fd, start, most: len, reached: AtomicUsize::new(0), growth, values: PhantomData })
    }

    /// Maps the first `len` values, or all there are. What is mapped stays so.
    pub(crate) fn reach(&self, len: usize) -> Result<(), Error> {
        let len = len.min(self.most);
        if len <= self.reached.load(Acquire) {
            return Ok(());
        }
        let mut growth = self.growth.lock().unwrap_or_else(PoisonError::into_inner);
        let whole = bytes_of::<T>(self.most);
        let wanted = (len * size_of::<T>()).next_multiple_of(STEP).min(whole);
        let more = wanted.saturating_sub(growth.mapped);
        if more == 0 {
            return Ok(());
        }
        let failed = |source| Error::Mapping { map: self.map, bytes: more, source };
        if wanted > growth.owned {
            return Err(failed(std::io::ErrorKind::OutOfMemory.into()));
        }
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::FIXED);
        // SAFETY: the pages behind those that are mapped are this value's own, and nobody was given any of them yet.
        let mapped = unsafe {
            let at = self.start.as_ptr().byte_add(growth.mapped).cast();
            mmap(at, more, access, flags, &self.fd, growth.mapped as u64)
        };
        if let Err(errno) = mapped {
            // The addresses may have been given up before it failed: from now on they are not touched.
            growth.owned = growth.mapped;
            return Err(failed(errno.into()));
        }
        growth.mapped = wanted;
        self.reached.store((wanted / size_of::<T>()).min(self.most), Release);
        Ok(())
    }

    /// The values that are mapped.
    pub(crate) fn values(&self) -> &[T] {
        let len = self.reached.load(Acquire);
        // SAFETY: so many values are mapped from `start` on, a page's beginning, and stay so as long as `self` lives; any
        // bits are a `T`, and words are only changed as atomics.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), len) }
    }
}

/// The bytes of so many values, in whole pages.
fn bytes_of<T>(len: usize) -> usize {
    len.saturating_mul(size_of::<T>()).next_multiple_of(rustix::param::page_size())
}

impl<T> Drop for Growing<T> {
    fn drop(&mut self) {
        let growth = self.growth.get_mut().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: these addresses are this value's own, and nobody borrows from it any more. A failure leaves them mapped.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), growth.owned) };
    }
}

impl<T> fmt::Debug for Growing<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Growing").field("most", &self.most).field("reached", &self.reached).finish()
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
