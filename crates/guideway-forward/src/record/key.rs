//! What a service is looked up by, and what the look-ups return.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Names a service record: below [`MAX_SERVICES`].
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(transparent)]
pub struct ServiceId(pub u16);

/// The service id that names no service.
pub const NO_SERVICE: ServiceId = ServiceId(u16::MAX);

/// The service id that stands for several services where one could be named.
pub const SEVERAL_SERVICES: ServiceId = ServiceId(u16::MAX - 1);

/// The most services: the ids above stand for none and for several.
pub const MAX_SERVICES: u16 = SEVERAL_SERVICES.0;

/// The key of an exact-port service, or of an any-port one with port 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ServiceKey {
    /// The virtual address; IPv4 as `::ffff:a.b.c.d`.
    pub address: [u8; 16],
    /// The port in network byte order; 0 is any port.
    pub port: [u8; 2],
    /// The IP protocol number (6 TCP, 17 UDP).
    pub protocol: u8,
    /// 0; 1 in the key of an address alone.
    pub reserved: u8,
}

impl ServiceKey {
    /// The key of `address`, `port` (host order) and `protocol`.
    #[inline(always)]
    pub const fn new(address: [u8; 16], port: u16, protocol: u8) -> ServiceKey {
        ServiceKey { address, port: port.to_be_bytes(), protocol, reserved: 0 }
    }

    /// The key of what is known of a virtual address, whatever port and protocol.
    #[inline(always)]
    pub const fn of_address(address: [u8; 16]) -> ServiceKey {
        ServiceKey { address, port: [0, 0], protocol: 0, reserved: 1 }
    }

    /// The key of the any-port service of the same address and protocol.
    #[inline(always)]
    pub const fn any_port(self) -> ServiceKey {
        ServiceKey { port: [0, 0], ..self }
    }
}

/// The key of a service whose virtual addresses are a prefix, laid out for a longest-prefix trie.
///
/// Protocol and port come before the address, so that one trie holds every service: its prefix length is 32 bits of
/// protocol and port plus the length of the address prefix (96 more for IPv4, mapped).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct PrefixKey {
    /// Significant bits after this word.
    pub bits: u32,
    /// The IP protocol number.
    pub protocol: u8,
    /// Always 0.
    pub reserved: u8,
    /// The port in network byte order; 0 is any port.
    pub port: [u8; 2],
    /// The virtual prefix; IPv4 as `::ffff:a.b.c.d`.
    pub address: [u8; 16],
}

impl PrefixKey {
    /// Bits of protocol and port before the address.
    pub const LEADING_BITS: u32 = 32;

    /// The key that looks up a whole address.
    #[inline(always)]
    pub const fn of(key: &ServiceKey) -> PrefixKey {
        PrefixKey {
            bits: Self::LEADING_BITS + 128,
            protocol: key.protocol,
            reserved: 0,
            port: key.port,
            address: key.address,
        }
    }
}

/// The key of a backend that QUIC-LB knows by a server id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct QuicKey {
    /// The server id, big-endian, in the low bytes.
    pub server_id: u64,
    /// The service.
    pub service: ServiceId,
    /// Always 0.
    pub reserved: [u8; 6],
}

impl QuicKey {
    /// The key of `server_id` at `service`.
    #[inline(always)]
    pub const fn new(service: ServiceId, server_id: u64) -> QuicKey {
        QuicKey { server_id, service, reserved: [0; 6] }
    }
}

/// What is known of an address that is a VIP, or inside a virtual prefix, whatever the port.
///
/// A later fragment has no ports; it can be placed when the address has one service of its protocol, and is the host's
/// when it has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Vip {
    /// The TCP service of this address; [`NO_SERVICE`] or [`SEVERAL_SERVICES`] when it is not one.
    pub tcp: ServiceId,
    /// The UDP service of this address, likewise.
    pub udp: ServiceId,
}

impl Vip {
    /// An address without a service.
    pub const EMPTY: Vip = Vip { tcp: NO_SERVICE, udp: NO_SERVICE };

    /// With one service more, of IP protocol 6 or 17; others have no services.
    #[must_use]
    pub fn with(mut self, protocol: u8, service: ServiceId) -> Vip {
        let field = match protocol {
            6 => &mut self.tcp,
            17 => &mut self.udp,
            _ => return self,
        };
        *field = match (*field, service) {
            (NO_SERVICE, service) => service,
            (known, NO_SERVICE) => known,
            (known, service) if known == service => known,
            _ => SEVERAL_SERVICES,
        };
        self
    }
}

const _: () = assert!(size_of::<ServiceKey>() == 20);
const _: () = assert!(size_of::<PrefixKey>() == 24);
const _: () = assert!(size_of::<Vip>() == 4);
const _: () = assert!(size_of::<QuicKey>() == 16);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_knows_none_one_or_several_services_of_a_protocol() {
        let [a, b] = [ServiceId(1), ServiceId(2)];
        let vip = Vip::EMPTY.with(6, a).with(6, a).with(17, a).with(17, b).with(132, b);
        assert_eq!(vip, Vip { tcp: a, udp: SEVERAL_SERVICES });
        assert_eq!(vip.with(6, NO_SERVICE), vip);
        assert_eq!(Vip::EMPTY.with(17, b).tcp, NO_SERVICE);
    }
}
