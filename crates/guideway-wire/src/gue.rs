//! Generic UDP Encapsulation (draft-ietf-intarea-gue-09).
//!
//! The first two bits of the UDP payload are GUE's version, here called its variant. Variant 0 has a header of four
//! bytes or more. Variant 1 has none: its two bits are the top of the version field of the IP packet that follows at once
//! (01 of 0100 and of 0110).

use zerocopy::big_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::ip::IpProtocol;

/// The UDP port that IANA assigns to GUE.
pub const PORT: u16 = 6080;

/// The fixed four bytes of a variant 0 header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct GueHeader {
    /// Variant (two bits), control flag (one bit), and length of the optional fields in words of four bytes (five bits).
    pub variant_length: u8,
    /// Protocol of the payload, or the type of a control message if the control flag is set.
    pub protocol: IpProtocol,
    /// Which optional fields are there.
    pub flags: U16,
}

impl GueHeader {
    /// Length in bytes, without optional fields.
    pub const LEN: usize = 4;

    /// The variant: 0 for this header to mean anything.
    #[inline(always)]
    pub const fn variant(&self) -> u8 {
        self.variant_length >> 6
    }

    /// Whether this is a control message and no tunnelled packet.
    #[inline(always)]
    pub const fn is_control(&self) -> bool {
        self.variant_length & 0x20 != 0
    }

    /// Length in bytes of the header with its optional fields: 4 to 128.
    #[inline(always)]
    pub const fn full_length(&self) -> usize {
        Self::LEN + (((self.variant_length & 0x1f) as usize) << 2)
    }
}

const _: () = assert!(size_of::<GueHeader>() == GueHeader::LEN);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields() {
        let header = GueHeader::read_from_bytes(&[0x03, 0x04, 0x00, 0x00]).unwrap();
        assert_eq!((header.variant(), header.is_control(), header.full_length()), (0, false, 16));
        assert_eq!(header.protocol, IpProtocol::IPV4);
        let control = GueHeader::read_from_bytes(&[0x20, 0, 0, 0]).unwrap();
        assert!(control.is_control());
        // The first byte of an IP packet reads as variant 1.
        for first in [0x45, 0x60] {
            assert_eq!(GueHeader::read_from_bytes(&[first, 0, 0, 0]).unwrap().variant(), 1);
        }
    }
}
