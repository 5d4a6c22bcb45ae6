//! Ethernet II with up to two VLAN tags (IEEE 802.3, 802.1Q, 802.1ad).

use core::fmt;

use zerocopy::big_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// A 48-bit hardware address.
#[derive(
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    FromBytes,
    IntoBytes,
    Immutable,
    KnownLayout,
    Unaligned,
)]
#[repr(transparent)]
pub struct MacAddr(pub [u8; 6]);

impl MacAddr {
    /// Whether the group bit is set: multicast or broadcast.
    #[inline(always)]
    pub const fn is_multicast(&self) -> bool {
        self.0[0] & 1 != 0
    }
}

impl fmt::Display for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What an Ethernet header or VLAN tag says follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EtherType(pub u16);

impl EtherType {
    /// IPv4 (RFC 894).
    pub const IPV4: Self = Self(0x0800);
    /// IPv6 (RFC 2464).
    pub const IPV6: Self = Self(0x86dd);
    /// ARP (RFC 826).
    pub const ARP: Self = Self(0x0806);
    /// A customer VLAN tag (802.1Q).
    pub const VLAN: Self = Self(0x8100);
    /// A service VLAN tag (802.1ad, "QinQ").
    pub const SERVICE_VLAN: Self = Self(0x88a8);
    /// Outer tag of QinQ gear that predates 802.1ad.
    pub const OLD_QINQ: Self = Self(0x9100);

    /// Whether a VLAN tag follows.
    #[inline(always)]
    pub const fn is_vlan(self) -> bool {
        self.0 == Self::VLAN.0 || self.0 == Self::SERVICE_VLAN.0 || self.0 == Self::OLD_QINQ.0
    }
}

/// The fixed part of an Ethernet II header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct EthernetHeader {
    /// Where the frame goes.
    pub destination: MacAddr,
    /// Where it comes from.
    pub source: MacAddr,
    /// An [`EtherType`].
    pub ethertype: U16,
}

impl EthernetHeader {
    /// Length in bytes.
    pub const LEN: usize = 14;

    /// What follows this header.
    #[inline(always)]
    pub const fn ethertype(&self) -> EtherType {
        EtherType(self.ethertype.get())
    }
}

/// A VLAN tag as it stands after an [`EtherType`] that announces one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct VlanTag {
    /// Priority (3 bits), drop eligible (1 bit), VLAN id (12 bits).
    pub control: U16,
    /// An [`EtherType`].
    pub ethertype: U16,
}

impl VlanTag {
    /// Length in bytes.
    pub const LEN: usize = 4;

    /// What follows this tag.
    #[inline(always)]
    pub const fn ethertype(&self) -> EtherType {
        EtherType(self.ethertype.get())
    }

    /// The VLAN id, 0 to 4095.
    #[inline(always)]
    pub const fn vlan_id(&self) -> u16 {
        self.control.get() & 0x0fff
    }
}

const _: () = assert!(size_of::<EthernetHeader>() == EthernetHeader::LEN);
const _: () = assert!(size_of::<VlanTag>() == VlanTag::LEN);

#[cfg(test)]
mod tests {
    use super::*;
    extern crate std;
    use std::string::ToString;

    #[test]
    fn header_and_tag_fields() {
        let bytes = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x81, 0x00, 0xb0, 0x64, 0x08, 0x00];
        let (header, rest) = EthernetHeader::read_from_prefix(&bytes).unwrap();
        assert_eq!(header.destination.to_string(), "02:00:00:00:00:01");
        assert!(!header.source.is_multicast());
        assert!(header.ethertype().is_vlan());
        let tag = VlanTag::read_from_bytes(rest).unwrap();
        assert_eq!((tag.vlan_id(), tag.ethertype()), (100, EtherType::IPV4));
        assert!(MacAddr([0xff; 6]).is_multicast());
    }
}
