//! IP addresses of either family in sixteen bytes.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// An IPv4 or IPv6 address in one fixed shape, fit for map keys.
///
/// IPv4 is held IPv4-mapped (`::ffff:a.b.c.d`, RFC 4291 §2.5.5.2). [`crate::parse()`] refuses IPv6 packets that
/// carry a mapped address on the wire, so the form says the family without doubt.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(transparent)]
pub struct Address(pub [u8; 16]);

impl Address {
    /// `::`, the unspecified IPv6 address.
    pub const UNSPECIFIED: Self = Self([0; 16]);

    /// The mapped form of an IPv4 address.
    #[inline(always)]
    pub const fn v4(address: [u8; 4]) -> Self {
        let [a, b, c, d] = address;
        Self([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d])
    }

    /// An IPv6 address as it stands.
    #[inline(always)]
    pub const fn v6(address: [u8; 16]) -> Self {
        Self(address)
    }

    /// Whether this is an IPv4 address in mapped form.
    #[inline(always)]
    pub const fn is_v4(&self) -> bool {
        let [a, b, c, d, e, f, g, h, i, j, k, l, ..] = self.0;
        (a | b | c | d | e | f | g | h | i | j) == 0 && (k & l) == 0xff
    }

    /// The last four bytes: the IPv4 address, when it is one.
    #[inline(always)]
    pub const fn low_v4(&self) -> [u8; 4] {
        let [.., a, b, c, d] = self.0;
        [a, b, c, d]
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
            None => IpAddr::V6(Ipv6Addr::from_octets(self.0)),
        }
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
    }
}
