//! UDP headers (RFC 768).

use zerocopy::big_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// A UDP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct UdpHeader {
    /// Source port.
    pub source: U16,
    /// Destination port.
    pub destination: U16,
    /// Length of header and payload in bytes.
    pub length: U16,
    /// Checksum over pseudo-header, header and payload; 0 means none.
    pub checksum: U16,
}

impl UdpHeader {
    /// Length in bytes.
    pub const LEN: usize = 8;
}

const _: () = assert!(size_of::<UdpHeader>() == UdpHeader::LEN);
