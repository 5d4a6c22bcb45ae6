//! The fragment cache: which backend the other fragments of a datagram went to.

use core::sync::atomic::Ordering::Relaxed;

use crate::word::AtomicU64;

use super::key::ServiceId;

/// Entries a bucket: one cache line.
pub const FRAGMENT_ENTRIES: usize = 4;

/// Seconds a datagram is remembered: what RFC 1122 section 3.3.2 gives as the least time of reassembly is 60, hosts
/// use 30 (Linux), and identification numbers come round after that.
pub const FRAGMENT_SECONDS: u32 = 30;

/// One cache line of the fragment cache.
#[derive(Debug, Default)]
#[cfg_attr(target_has_atomic = "64", derive(zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::KnownLayout))]
#[repr(C, align(64))]
pub struct FragmentBucket {
    /// The entries, in no order.
    pub entries: [FragmentEntry; FRAGMENT_ENTRIES],
}

/// One remembered datagram: 16 bytes, each word written whole.
///
/// `place` repeats 16 bits of the hash, so a reader that meets two writers between their stores sees a mismatch and
/// not another datagram's backend.
#[derive(Debug, Default)]
#[cfg_attr(target_has_atomic = "64", derive(zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::KnownLayout))]
#[repr(C)]
pub struct FragmentEntry {
    /// The keyed hash of source, destination, identification and protocol; 0 is free.
    pub hash: AtomicU64,
    /// [`FragmentPlace`].
    pub place: AtomicU64,
}

impl FragmentEntry {
    /// The datagram's place.
    #[inline(always)]
    pub fn place(&self) -> FragmentPlace {
        FragmentPlace(self.place.load(Relaxed))
    }
}

/// Where a datagram's fragments go: bits 0–14 local backend index, bit 15 whether its first fragment is still to come,
/// 16–31 service, 32–47 the top of the hash, 48–63 the second in which it was placed (modulo 2^16).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct FragmentPlace(pub u64);

impl FragmentPlace {
    /// The place of the datagram whose keyed hash is `hash`.
    #[inline(always)]
    pub const fn new(hash: u64, service: ServiceId, backend: u16, now: u32) -> FragmentPlace {
        FragmentPlace(
            (backend as u64 & 0x7fff)
                | ((service.0 as u64) << 16)
                | ((hash >> 48) << 32)
                | ((now as u64 & 0xffff) << 48),
        )
    }

    /// The same, given by a later fragment that came before the first.
    #[must_use]
    #[inline(always)]
    pub const fn awaiting_first(self) -> FragmentPlace {
        FragmentPlace(self.0 | AWAITS_FIRST)
    }

    /// Whether the first fragment of the datagram has not come yet.
    #[inline(always)]
    pub const fn awaits_first(self) -> bool {
        self.0 & AWAITS_FIRST != 0
    }

    /// No place at all. It names a backend that cannot be, so no datagram's place is equal.
    pub const NONE: FragmentPlace = FragmentPlace(u64::MAX);

    /// Whether this place was written for `hash` within the last [`FRAGMENT_SECONDS`].
    #[inline(always)]
    pub const fn is_of(self, hash: u64, now: u32) -> bool {
        (self.0 >> 32) & 0xffff == hash >> 48 && self.age(now) <= FRAGMENT_SECONDS
    }

    /// Seconds since it was written.
    #[inline(always)]
    pub const fn age(self, now: u32) -> u32 {
        let age = now.wrapping_sub(self.second()) & 0xffff;
        if age > 0x7fff { 0 } else { age }
    }

    /// The second in which it was written, modulo 2^16.
    #[inline(always)]
    pub const fn second(self) -> u32 {
        (self.0 >> 48) as u32
    }

    /// The service.
    #[inline(always)]
    pub const fn service(self) -> ServiceId {
        ServiceId((self.0 >> 16) as u16)
    }

    /// The local index of the backend.
    #[inline(always)]
    pub const fn backend(self) -> u16 {
        (self.0 & 0x7fff) as u16
    }
}

const AWAITS_FIRST: u64 = 1 << 15;

const _: () = assert!(size_of::<FragmentEntry>() == 16);
const _: () = assert!(size_of::<FragmentBucket>() == 64 && align_of::<FragmentBucket>() == 64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_good_for_its_datagram_and_its_time() {
        let hash = 0xdead_beef_0123_4567;
        let place = FragmentPlace::new(hash, ServiceId(9), 0x7ffe, 0xffff);
        assert_eq!((place.service(), place.backend()), (ServiceId(9), 0x7ffe));
        assert!(place.is_of(hash, 0xffff) && place.is_of(hash, 0x1_001d));
        assert!(!place.is_of(hash, 0x1_0020));
        assert!(!place.is_of(!hash, 0xffff));
        assert!(!place.awaits_first() && place.awaiting_first().awaits_first());
        assert_eq!(place.awaiting_first().backend(), 0x7ffe);
    }
}
