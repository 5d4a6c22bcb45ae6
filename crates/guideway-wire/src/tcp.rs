//! TCP headers (RFC 9293).

use zerocopy::big_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The control bits of a TCP segment (RFC 9293 §3.1).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(transparent)]
pub struct TcpFlags(pub u8);

impl TcpFlags {
    /// No more data from the sender.
    pub const FIN: Self = Self(0x01);
    /// Synchronize sequence numbers.
    pub const SYN: Self = Self(0x02);
    /// Reset the connection.
    pub const RST: Self = Self(0x04);
    /// Push.
    pub const PSH: Self = Self(0x08);
    /// The acknowledgment field counts.
    pub const ACK: Self = Self(0x10);

    /// Whether any bit of `flags` is set.
    #[inline(always)]
    pub const fn has(self, flags: Self) -> bool {
        self.0 & flags.0 != 0
    }

    /// Both sets together.
    #[inline(always)]
    pub const fn with(self, flags: Self) -> Self {
        Self(self.0 | flags.0)
    }

    /// Whether this opens a connection: SYN without ACK, RST or FIN.
    #[inline(always)]
    pub const fn opens(self) -> bool {
        self.0 & 0x17 == Self::SYN.0
    }
}

/// The fixed 20 bytes of a TCP header. Up to 40 bytes of options may follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct TcpHeader {
    /// Source port.
    pub source: U16,
    /// Destination port.
    pub destination: U16,
    /// Sequence number of the first byte.
    pub sequence: U32,
    /// Next sequence number that the sender expects, if ACK is set.
    pub acknowledgment: U32,
    /// Header length in words of four bytes (upper four bits), and reserved bits.
    pub data_offset: u8,
    /// Control bits.
    pub flags: TcpFlags,
    /// Receive window.
    pub window: U16,
    /// Checksum over pseudo-header, header and payload.
    pub checksum: U16,
    /// Urgent pointer.
    pub urgent: U16,
}

impl TcpHeader {
    /// Length in bytes, without options.
    pub const LEN: usize = 20;

    /// Header length in bytes with options: 0 to 60, valid from 20.
    #[inline(always)]
    pub const fn header_length(&self) -> usize {
        ((self.data_offset >> 4) as usize) << 2
    }
}

const _: () = assert!(size_of::<TcpHeader>() == TcpHeader::LEN);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_bare_syn_opens() {
        assert!(TcpFlags::SYN.opens());
        // ECN set-up (RFC 3168 §6.1.1) sends SYN with ECE and CWR; data with PSH may ride on it.
        assert!(TcpFlags(0xc2).opens());
        assert!(TcpFlags::SYN.with(TcpFlags::PSH).opens());
        assert!(!TcpFlags::SYN.with(TcpFlags::ACK).opens());
        assert!(!TcpFlags::SYN.with(TcpFlags::FIN).opens());
        assert!(!TcpFlags::SYN.with(TcpFlags::RST).opens());
        assert!(!TcpFlags::ACK.opens());
    }

    #[test]
    fn fields() {
        let bytes =
            [0xc8, 0x0e, 0x01, 0xbb, 0, 0, 0, 1, 0, 0, 0, 2, 0x80, 0x12, 0xff, 0xff, 0xab, 0xcd, 0, 0];
        let header = TcpHeader::read_from_bytes(&bytes).unwrap();
        assert_eq!((header.source.get(), header.destination.get()), (51214, 443));
        assert_eq!((header.sequence.get(), header.acknowledgment.get()), (1, 2));
        assert_eq!(header.header_length(), 32);
        assert!(header.flags.has(TcpFlags::SYN) && header.flags.has(TcpFlags::ACK));
    }
}
