//! The counters of one CPU, as the kernel keeps them: plain words, since only that CPU writes them.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::outcome::{Event, Outcome};

/// Packets and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Tally {
    /// Packets.
    pub packets: u64,
    /// Bytes of the frames as they were received.
    pub bytes: u64,
}

impl Tally {
    /// Counts one packet.
    #[inline(always)]
    pub const fn add(&mut self, bytes: u32) {
        self.packets = self.packets.wrapping_add(1);
        self.bytes = self.bytes.wrapping_add(bytes as u64);
    }
}

/// What one CPU did with its packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Books {
    /// All packets that came in.
    pub received: Tally,
    /// By [`Outcome::index`].
    pub outcomes: [Tally; Outcome::COUNT],
    /// By [`Event::index`].
    pub events: [u64; Event::COUNT],
}

// The kernel gives a CPU's value at most 32 KiB.
const _: () = assert!(size_of::<Books>() < 32_768);
