//! The word that records are made of: read and written whole, by relaxed loads and releasing stores.
//!
//! In user space it is the standard atomic. The BPF target's code generator has no atomic loads and stores before
//! its fourth instruction set, which kernels below 6.6 do not know; there a volatile access is the same one
//! instruction, and a packet only reads what the controller's store released.

use core::sync::atomic::Ordering::Relaxed;

#[cfg(not(target_arch = "bpf"))]
pub use core::sync::atomic::AtomicU64;

#[cfg(target_arch = "bpf")]
pub use kernel::{AtomicU64, steady};

/// The value of a word that does not change while a packet can come across it, so that a load that turns out to be
/// needless may be left out.
#[cfg(not(target_arch = "bpf"))]
#[inline(always)]
pub fn steady(word: &AtomicU64) -> u64 {
    word.load(Relaxed)
}

/// Whether two records say the same, word for word.
pub fn alike<const WORDS: usize>(one: [&AtomicU64; WORDS], other: [&AtomicU64; WORDS]) -> bool {
    one.iter().zip(other).all(|(one, other)| one.load(Relaxed) == other.load(Relaxed))
}

#[cfg(target_arch = "bpf")]
#[expect(
    unsafe_code,
    reason = "the target's only access that the optimiser neither repeats nor splits is volatile"
)]
mod kernel {
    use core::cell::UnsafeCell;
    use core::ptr;
    use core::sync::atomic::Ordering;

    /// A word of a map value.
    #[derive(Debug, Default)]
    #[repr(transparent)]
    pub struct AtomicU64(UnsafeCell<u64>);

    // SAFETY: aligned words are loaded and stored by one instruction each.
    unsafe impl Sync for AtomicU64 {}

    /// The value of a word that does not change while a packet can come across it.
    #[inline(always)]
    pub fn steady(word: &AtomicU64) -> u64 {
        // SAFETY: a reference to the word is valid, and nobody stores there meanwhile.
        unsafe { ptr::read(word.0.get()) }
    }

    impl AtomicU64 {
        /// A word with this value.
        pub const fn new(value: u64) -> AtomicU64 {
            AtomicU64(UnsafeCell::new(value))
        }

        /// The value now. The order is that of one instruction, whatever is asked for.
        #[inline(always)]
        pub fn load(&self, _: Ordering) -> u64 {
            // SAFETY: a reference to the word is valid.
            unsafe { ptr::read_volatile(self.0.get()) }
        }

        /// Replaces the value.
        #[inline(always)]
        pub fn store(&self, value: u64, _: Ordering) {
            // SAFETY: as in `load`, and other accesses are of the whole word too.
            unsafe { ptr::write_volatile(self.0.get(), value) };
        }

        /// Where the word lies.
        #[inline(always)]
        pub const fn as_ptr(&self) -> *mut u64 {
            self.0.get()
        }
    }
}
