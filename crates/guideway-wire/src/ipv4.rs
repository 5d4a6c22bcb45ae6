//! IPv4 headers (RFC 791).

use zerocopy::big_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::checksum::{self, Sum};
use crate::ip::IpProtocol;
use crate::packet::PacketRead;

/// The fixed 20 bytes of an IPv4 header. Up to 40 bytes of options may follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Ipv4Header {
    /// Version (upper four bits) and header length in words of four bytes.
    pub version_length: u8,
    /// DSCP (upper six bits, RFC 2474) and ECN (RFC 3168).
    pub traffic_class: u8,
    /// Length of header and payload in bytes.
    pub total_length: U16,
    /// Names the datagram among fragments.
    pub identification: U16,
    /// DF and MF flags and the fragment offset in units of eight bytes.
    pub flags_offset: U16,
    /// Hops left.
    pub ttl: u8,
    /// What the payload is.
    pub protocol: IpProtocol,
    /// Checksum over the header with its options.
    pub checksum: U16,
    /// Source address.
    pub source: [u8; 4],
    /// Destination address.
    pub destination: [u8; 4],
}

impl Ipv4Header {
    /// Length in bytes, without options.
    pub const LEN: usize = 20;
    /// Length in bytes with all the options a header can hold.
    pub const MAX_LEN: usize = 60;
    /// First byte of a header without options.
    pub const VERSION_LENGTH_PLAIN: u8 = 0x45;
    /// "Don't fragment" in [`Self::flags_offset`].
    pub const DONT_FRAGMENT: u16 = 0x4000;
    /// "More fragments" in [`Self::flags_offset`].
    pub const MORE_FRAGMENTS: u16 = 0x2000;

    /// The version field: 4 in a valid header.
    #[inline(always)]
    pub const fn version(&self) -> u8 {
        self.version_length >> 4
    }

    /// Header length in bytes with options: 0 to 60, valid from 20.
    #[inline(always)]
    pub const fn header_length(&self) -> usize {
        ((self.version_length & 0x0f) as usize) << 2
    }

    /// Whether routers may not fragment this packet.
    #[inline(always)]
    pub const fn dont_fragment(&self) -> bool {
        self.flags_offset.get() & Self::DONT_FRAGMENT != 0
    }

    /// Whether fragments follow this one.
    #[inline(always)]
    pub const fn more_fragments(&self) -> bool {
        self.flags_offset.get() & Self::MORE_FRAGMENTS != 0
    }

    /// Fragment offset in units of eight bytes.
    #[inline(always)]
    pub const fn fragment_offset(&self) -> u16 {
        self.flags_offset.get() & 0x1fff
    }

    /// The sum of the fixed header: 0xffff when folded, if there are no options and the checksum is right.
    #[inline(always)]
    pub const fn sum(&self) -> Sum {
        Sum::ZERO
            .add_u16(u16::from_be_bytes([self.version_length, self.traffic_class]))
            .add_u16(self.total_length.get())
            .add_u16(self.identification.get())
            .add_u16(self.flags_offset.get())
            .add_u16(u16::from_be_bytes([self.ttl, self.protocol.0]))
            .add_u16(self.checksum.get())
            .add_u32(u32::from_be_bytes(self.source))
            .add_u32(u32::from_be_bytes(self.destination))
    }

    /// This header with the checksum that it must have if no options follow.
    #[inline(always)]
    pub fn with_checksum(mut self) -> Self {
        self.checksum = U16::ZERO;
        self.checksum = U16::new(self.sum().checksum());
        self
    }

    /// This header with one hop less and the checksum updated for it (RFC 1141, RFC 1624).
    /// `None` when no hop is left to take: at TTL 1 and 0 a router answers with "time exceeded" (RFC 1812 §5.3.1).
    #[inline(always)]
    pub fn decrement_ttl(mut self) -> Option<Self> {
        if self.ttl <= 1 {
            return None;
        }
        let old = u16::from_be_bytes([self.ttl, self.protocol.0]);
        // TTL is above 1, so the subtraction stays in its byte.
        let new = old.wrapping_sub(0x0100);
        self.ttl = (new >> 8) as u8;
        self.checksum = U16::new(checksum::update(self.checksum.get(), old, new));
        Some(self)
    }
}

/// Whether the checksum of the IPv4 header at `ip_offset` is right, options included.
/// `None` if the header is cut or its length field is below 20.
#[inline(always)]
pub fn checksum_valid<P: PacketRead + ?Sized>(packet: &P, ip_offset: usize) -> Option<bool> {
    let header: Ipv4Header = packet.read(ip_offset)?;
    let options = header.header_length().checked_sub(Ipv4Header::LEN)?;
    let sum = header.sum().add_packet::<10, P>(packet, ip_offset.wrapping_add(Ipv4Header::LEN), options)?;
    Some(sum.fold() == 0xffff)
}

const _: () = assert!(size_of::<Ipv4Header>() == Ipv4Header::LEN);

#[cfg(test)]
mod tests {
    use super::*;

    /// A TCP packet's header, TTL 64, DF, DSCP 46; its checksum left 0.
    const GOLDEN: [u8; 20] = [
        0x45, 0xb8, 0x00, 0x3c, 0x1c, 0x46, 0x40, 0x00, 0x40, 0x06, 0x00, 0x00, 0xc0, 0x00, 0x02, 0x01, 0xc6,
        0x33, 0x64, 0x07,
    ];

    #[test]
    fn fields() {
        let header = Ipv4Header::read_from_bytes(&GOLDEN).unwrap();
        assert_eq!((header.version(), header.header_length()), (4, 20));
        assert!(header.dont_fragment() && !header.more_fragments());
        assert_eq!(header.fragment_offset(), 0);
        assert_eq!(header.protocol, IpProtocol::TCP);
    }

    #[test]
    fn decrementing_keeps_the_checksum_right() {
        let mut header = Ipv4Header::read_from_bytes(&GOLDEN).unwrap().with_checksum();
        for ttl in (1..64).rev() {
            header = header.decrement_ttl().unwrap();
            assert_eq!(header.ttl, ttl);
            assert_eq!(header.sum().fold(), 0xffff);
        }
        assert_eq!(header.decrement_ttl(), None);
    }

    #[test]
    fn checksum_covers_options() {
        let mut bytes = [0u8; 24];
        bytes[..20].copy_from_slice(&GOLDEN);
        bytes[0] = 0x46;
        bytes[20..].copy_from_slice(&[0x94, 0x04, 0x00, 0x00]); // router alert (RFC 2113)
        let checksum = Sum::ZERO.add_bytes(&bytes).checksum();
        bytes[10..12].copy_from_slice(&checksum.to_be_bytes());
        assert_eq!(checksum_valid(&bytes[..], 0), Some(true));
        bytes[22] ^= 1;
        assert_eq!(checksum_valid(&bytes[..], 0), Some(false));
        assert_eq!(checksum_valid(&bytes[..23], 0), None);
        bytes[0] = 0x44;
        assert_eq!(checksum_valid(&bytes[..], 0), None);
    }
}
