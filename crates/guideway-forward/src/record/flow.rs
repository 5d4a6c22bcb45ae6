//! The flow table's bucket and entry: what is remembered of the flows that the slots alone would send elsewhere.

use core::sync::atomic::Ordering::Relaxed;

use crate::word::AtomicU64;

use super::key::ServiceId;

/// Entries a bucket: one cache line.
pub const ENTRIES: usize = 4;

/// One cache line of the flow table: a flow can be in any entry of one bucket, and in no other bucket.
#[derive(Debug, Default)]
#[cfg_attr(target_has_atomic = "64", derive(zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::KnownLayout))]
#[repr(C, align(64))]
pub struct Bucket {
    /// The entries, in no order.
    pub entries: [Entry; ENTRIES],
}

/// One remembered flow: 16 bytes.
///
/// An entry is published by one compare-exchange of `tag`; `info` is written before and after, so that whoever sees
/// the tag sees an info of this flow (or, for the instant between, of the flow that lost the entry).
#[derive(Debug, Default)]
#[cfg_attr(target_has_atomic = "64", derive(zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::KnownLayout))]
#[repr(C)]
pub struct Entry {
    /// [`Tag`]; 0 is free.
    pub tag: AtomicU64,
    /// [`Info`].
    pub info: AtomicU64,
}

impl Entry {
    /// The flow, its backend and its class; `None` when the entry is free.
    #[inline(always)]
    pub fn tag(&self) -> Option<Tag> {
        match self.tag.load(Relaxed) {
            0 => None,
            word => Some(Tag(word)),
        }
    }

    /// When the flow was seen last, and where it belongs.
    #[inline(always)]
    pub fn info(&self) -> Info {
        Info(self.info.load(Relaxed))
    }
}

/// Which flow, on which backend, in which phase: bits 0–2 [`Class`], 3–17 local backend index, 18–63 fingerprint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Tag(pub u64);

impl Tag {
    /// The bits of a flow's keyed hash that the fingerprint keeps.
    pub const FINGERPRINT: u64 = !0 << 18;

    /// The tag of the flow whose keyed hash is `hash`.
    #[inline(always)]
    pub const fn new(hash: u64, backend: u16, class: Class) -> Tag {
        Tag((hash & Self::FINGERPRINT) | ((backend as u64 & 0x7fff) << 3) | class as u64)
    }

    /// Whether this is the flow whose keyed hash is `hash`.
    #[inline(always)]
    pub const fn is_of(self, hash: u64) -> bool {
        (self.0 ^ hash) & Self::FINGERPRINT == 0
    }

    /// The local index of the backend.
    #[inline(always)]
    pub const fn backend(self) -> u16 {
        ((self.0 >> 3) & 0x7fff) as u16
    }

    /// The phase. A word that no forwarder wrote reads as half open, the first to be evicted.
    #[inline(always)]
    pub const fn class(self) -> Class {
        match self.0 & 7 {
            2 => Class::Confirmed,
            3 => Class::Old,
            4 => Class::Closing,
            5 => Class::Udp,
            6 => Class::Reset,
            _ => Class::HalfOpen,
        }
    }

    /// The same flow on the same backend in another phase.
    #[inline(always)]
    #[must_use]
    pub const fn with_class(self, class: Class) -> Tag {
        Tag((self.0 & !7) | class as u64)
    }
}

/// The phase of a remembered flow. It decides how long it is remembered, and who is forgotten first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Class {
    /// A TCP SYN was seen, and nothing after it.
    HalfOpen = 1,
    /// A TCP flow that sent more than its SYN.
    Confirmed = 2,
    /// A TCP flow opened before the last change of its slot, adopted when it was seen.
    Old = 3,
    /// A TCP flow whose client sent FIN. Its backend may still be sending.
    Closing = 4,
    /// A flow of a protocol without an opening packet.
    Udp = 5,
    /// A TCP flow whose client sent RST, and nothing after it.
    Reset = 6,
}

impl Class {
    /// All classes, in the order of their numbers.
    pub const ALL: [Class; 6] =
        [Class::HalfOpen, Class::Confirmed, Class::Old, Class::Closing, Class::Udp, Class::Reset];

    /// Seconds of silence after which a flow of this class is forgotten, given the service's idle times.
    #[inline(always)]
    pub const fn idle_seconds(self, tcp_idle: u32, udp_idle: u32) -> u32 {
        match self {
            Class::HalfOpen => min(HALF_OPEN_SECONDS, tcp_idle),
            Class::Closing => min(CLOSING_SECONDS, tcp_idle),
            Class::Reset => min(RESET_SECONDS, tcp_idle),
            Class::Confirmed | Class::Old => tcp_idle,
            Class::Udp => udp_idle,
        }
    }

    /// A stable name for metrics and JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Class::HalfOpen => "half_open",
            Class::Confirmed => "confirmed",
            Class::Old => "old",
            Class::Closing => "closing",
            Class::Udp => "udp",
            Class::Reset => "reset",
        }
    }
}

/// Seconds a half-open flow is remembered: long enough for three retransmissions of the client's SYN (1 + 2 + 4 s,
/// RFC 6298) and a slow handshake behind them.
pub const HALF_OPEN_SECONDS: u32 = 30;

/// Seconds of silence after which a flow whose client sent FIN is forgotten. The client may have closed its half alone
/// (RFC 9293 section 3.6) and wait for an answer, of which a balancer sees nothing but acknowledgements; if all is over,
/// so long is a drain kept waiting. It is the time for which Linux keeps a socket that waits for the other side's FIN.
pub const CLOSING_SECONDS: u32 = 60;

/// Seconds a flow is remembered after its client's last RST: for retransmissions under way. If it was forged, and the
/// flow speaks again, it is remembered as before.
pub const RESET_SECONDS: u32 = 10;

/// When and where: bits 0–23 slot, 24–39 service, 40–63 last seen (seconds, modulo 2^24).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Info(pub u64);

impl Info {
    const SECONDS: u32 = 0xff_ffff;

    /// An info of a flow of `service` in `slot` of its active table, seen at `now` (seconds of any clock).
    #[inline(always)]
    pub const fn new(now: u32, service: ServiceId, slot: u32) -> Info {
        Info((((now & Self::SECONDS) as u64) << 40) | ((service.0 as u64) << 24) | (slot & 0xff_ffff) as u64)
    }

    /// The slot of the table that was active when the flow was seen last.
    #[inline(always)]
    pub const fn slot(self) -> u32 {
        (self.0 & 0xff_ffff) as u32
    }

    /// The service.
    #[inline(always)]
    pub const fn service(self) -> ServiceId {
        ServiceId((self.0 >> 24) as u16)
    }

    /// The low 24 bits of the second in which the flow was seen last.
    #[inline(always)]
    pub const fn seen(self) -> u32 {
        (self.0 >> 40) as u32
    }

    /// Seconds of silence at `now`; 0 for a stamp from the near future (another CPU's clock was read later).
    #[inline(always)]
    pub const fn silence(self, now: u32) -> u32 {
        let silence = now.wrapping_sub(self.seen()) & Self::SECONDS;
        // Half the range, 97 days, is the future.
        if silence > Self::SECONDS / 2 { 0 } else { silence }
    }
}

#[inline(always)]
const fn min(a: u32, b: u32) -> u32 {
    if a < b { a } else { b }
}

const _: () = assert!(size_of::<Entry>() == 16);
const _: () = assert!(size_of::<Bucket>() == 64 && align_of::<Bucket>() == 64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tag_fields_do_not_touch_each_other() {
        for class in Class::ALL {
            let tag = Tag::new(u64::MAX, 0x1234, class);
            assert_eq!((tag.backend(), tag.class()), (0x1234, class));
            assert!(tag.is_of(u64::MAX) && !tag.is_of(u64::MAX ^ (1 << 18)));
            assert!(tag.is_of(u64::MAX ^ (1 << 17)));
            assert_ne!(Tag::new(0, 0, class).0, 0, "a live entry is never a free one");
            assert_eq!(tag.with_class(Class::Closing).backend(), 0x1234);
        }
    }

    #[test]
    fn silence_survives_the_wrap_of_the_clock() {
        let info = Info::new(0xff_fffe, ServiceId(7), 5_000_010);
        assert_eq!((info.service(), info.slot(), info.seen()), (ServiceId(7), 5_000_010, 0xff_fffe));
        assert_eq!(info.silence(0xff_fffe), 0);
        assert_eq!(info.silence(0x100_0003), 5);
        assert_eq!(info.silence(0xff_fff0), 0, "a stamp from the near future");
    }

    #[test]
    fn a_class_is_never_remembered_longer_than_the_service_says() {
        assert_eq!(Class::HalfOpen.idle_seconds(900, 30), 30);
        assert_eq!(Class::HalfOpen.idle_seconds(5, 30), 5);
        assert_eq!(Class::Closing.idle_seconds(900, 30), 60);
        assert_eq!(Class::Closing.idle_seconds(40, 30), 40);
        assert_eq!(Class::Reset.idle_seconds(900, 30), 10);
        assert_eq!(Class::Old.idle_seconds(900, 30), 900);
        assert_eq!(Class::Udp.idle_seconds(900, 30), 30);
    }
}
