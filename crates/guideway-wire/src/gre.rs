//! GRE (RFC 2784) with the key and sequence extensions of RFC 2890.

use zerocopy::big_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::ethernet::EtherType;

/// The fixed four bytes of a GRE header; the fields that its flags announce follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct GreHeader {
    /// Flags (upper bits) and version (lowest three bits).
    pub flags: U16,
    /// An [`EtherType`].
    pub protocol: U16,
}

impl GreHeader {
    /// Length in bytes, without optional fields.
    pub const LEN: usize = 4;
    /// Flag: a checksum and a reserved word follow.
    pub const CHECKSUM: u16 = 0x8000;
    /// Flag: a key follows (RFC 2890 §2.1).
    pub const KEY: u16 = 0x2000;
    /// Flag: a sequence number follows (RFC 2890 §2.2).
    pub const SEQUENCE: u16 = 0x1000;

    /// What the payload is.
    #[inline(always)]
    pub const fn ethertype(&self) -> EtherType {
        EtherType(self.protocol.get())
    }

    /// Length in bytes of the header with its optional fields, or `None` if a bit is set that RFC 2784 and RFC 2890
    /// do not define: a receiver must discard routing, reserved flags and other versions (RFC 2784 §2.3, §2.3.1).
    #[inline(always)]
    pub const fn full_length(&self) -> Option<usize> {
        let flags = self.flags.get();
        if flags & !(Self::CHECKSUM | Self::KEY | Self::SEQUENCE) != 0 {
            return None;
        }
        let mut length = Self::LEN;
        if flags & Self::CHECKSUM != 0 {
            length += 4;
        }
        if flags & Self::KEY != 0 {
            length += 4;
        }
        if flags & Self::SEQUENCE != 0 {
            length += 4;
        }
        Some(length)
    }
}

const _: () = assert!(size_of::<GreHeader>() == GreHeader::LEN);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_give_the_length() {
        let header = |flags| GreHeader { flags: U16::new(flags), protocol: U16::new(0x0800) };
        assert_eq!(header(0).full_length(), Some(4));
        assert_eq!(header(0x2000).full_length(), Some(8));
        assert_eq!(header(0xb000).full_length(), Some(16));
        // Routing (RFC 1701), a reserved flag, and version 1 (PPTP).
        for foreign in [0x4000, 0x0800, 0x0001] {
            assert_eq!(header(foreign).full_length(), None);
        }
        assert_eq!(header(0).ethertype(), EtherType::IPV4);
    }
}
