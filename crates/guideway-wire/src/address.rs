//! IP addresses of either family in sixteen bytes.

use core::cmp::Ordering;
use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// An IPv4 or IPv6 address in one fixed shape, fit for map keys: its 16 bytes in network order, aligned to 8.
///
/// IPv4 is held IPv4-mapped (`::ffff:a.b.c.d`, RFC 4291 §2.5.5.2). [`crate::parse()`] refuses IPv6 packets that
/// carry a mapped address on the wire, so the form says the family without doubt.
///
/// Inside are two words and not bytes, for the compiler to move an address in two registers: in the kernel's 512
/// bytes of stack a loose byte takes a slot of eight.
#[derive(Clone, Copy, PartialEq, Eq, Hash, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(transparent)]
pub struct Address([u64; 2]);

impl Address {
    /// `::`, the unspecified IPv6 address.
    pub const UNSPECIFIED: Self = Self([0; 2]);

    /// The mapped form of an IPv4 address.
    #[inline(always)]
    pub const fn v4(address: [u8; 4]) -> Self {
        Self([0, (MAPPED << 32 | u32::from_be_bytes(address) as u64).to_be()])
    }

    /// An IPv6 address as it stands.
    #[inline(always)]
    pub const fn v6(address: [u8; 16]) -> Self {
        Self(zerocopy::transmute!(address))
    }

    /// The bytes in network order.
    #[inline(always)]
    pub const fn octets(&self) -> [u8; 16] {
        zerocopy::transmute!(self.0)
    }

    /// The upper and the lower eight bytes as numbers.
    #[inline(always)]
    pub const fn halves(&self) -> (u64, u64) {
        let [high, low] = self.0;
        (u64::from_be(high), u64::from_be(low))
    }

    /// Whether this is an IPv4 address in mapped form.
    #[inline(always)]
    pub const fn is_v4(&self) -> bool {
        let (high, low) = self.halves();
        high == 0 && low >> 32 == MAPPED
    }

    /// The last four bytes: the IPv4 address, when it is one.
    #[inline(always)]
    pub const fn low_v4(&self) -> [u8; 4] {
        let (_, low) = self.halves();
        (low as u32).to_be_bytes()
    }

    /// The IPv4 address, or `None` for IPv6.
    #[inline(always)]
    pub const fn as_v4(&self) -> Option<[u8; 4]> {
        if self.is_v4() { Some(self.low_v4()) } else { None }
    }

    /// The standard library's view of this address.
    pub const fn to_ip(&self) -> IpAddr {
        match self.as_v4() {
            Some([a, b, c, d]) => IpAddr::V4(Ipv4Addr::new(a, b, c, d)),
            None => IpAddr::V6(Ipv6Addr::from_octets(self.octets())),
        }
    }
}

/// Bits 32 to 63 of the lower half of a mapped address.
const MAPPED: u64 = 0xffff;

impl Ord for Address {
    fn cmp(&self, other: &Self) -> Ordering {
        self.halves().cmp(&other.halves())
    }
}

impl PartialOrd for Address {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl From<IpAddr> for Address {
    fn from(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(v4) => Self::v4(v4.octets()),
            IpAddr::V6(v6) => Self::v6(v6.octets()),
        }
    }
}

impl From<Address> for IpAddr {
    fn from(address: Address) -> Self {
        address.to_ip()
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.to_ip(), f)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.to_ip(), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_keep_apart() {
        let v4 = Address::v4([192, 0, 2, 1]);
        assert!(v4.is_v4());
        assert_eq!(v4.as_v4(), Some([192, 0, 2, 1]));
        assert_eq!(v4.to_ip(), IpAddr::from([192, 0, 2, 1]));
        let v6: IpAddr = "2001:db8::ffff:c000:201".parse().unwrap();
        assert_eq!(Address::from(v6).as_v4(), None);
        assert_eq!(IpAddr::from(Address::from(v6)), v6);
        assert_eq!(Address::from(v6).octets()[..4], [0x20, 0x01, 0x0d, 0xb8]);
        assert!(Address::v4([1, 2, 3, 4]) < Address::v4([2, 0, 0, 0]) && v4 < Address::from(v6));
    }
}
