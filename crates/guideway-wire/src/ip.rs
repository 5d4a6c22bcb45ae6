//! What IPv4 and IPv6 share: protocol numbers, version, ECN.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// A number of IANA's protocol registry, as in IPv4's protocol and IPv6's next header field.
#[derive(
    Clone,
    Copy,
    Debug,
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
pub struct IpProtocol(pub u8);

impl IpProtocol {
    /// IPv6 hop-by-hop options (RFC 8200 §4.3).
    pub const HOP_BY_HOP: Self = Self(0);
    /// ICMP for IPv4 (RFC 792).
    pub const ICMP: Self = Self(1);
    /// IPv4 inside IP (RFC 2003, RFC 2473).
    pub const IPV4: Self = Self(4);
    /// TCP (RFC 9293).
    pub const TCP: Self = Self(6);
    /// UDP (RFC 768).
    pub const UDP: Self = Self(17);
    /// IPv6 inside IP (RFC 4213, RFC 2473).
    pub const IPV6: Self = Self(41);
    /// IPv6 routing header (RFC 8200 §4.4).
    pub const ROUTING: Self = Self(43);
    /// IPv6 fragment header (RFC 8200 §4.5).
    pub const FRAGMENT: Self = Self(44);
    /// GRE (RFC 2784).
    pub const GRE: Self = Self(47);
    /// IPsec encapsulating security payload (RFC 4303).
    pub const ESP: Self = Self(50);
    /// IPsec authentication header (RFC 4302).
    pub const AUTHENTICATION: Self = Self(51);
    /// ICMP for IPv6 (RFC 4443).
    pub const ICMPV6: Self = Self(58);
    /// IPv6: nothing follows (RFC 8200 §4.7).
    pub const NO_NEXT_HEADER: Self = Self(59);
    /// IPv6 destination options (RFC 8200 §4.6).
    pub const DESTINATION_OPTIONS: Self = Self(60);
}

/// The version of an IP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum IpVersion {
    /// IPv4 (RFC 791).
    V4 = 4,
    /// IPv6 (RFC 8200).
    V6 = 6,
}

impl IpVersion {
    /// The protocol number that announces a packet of this version inside another one.
    #[inline(always)]
    pub const fn as_payload(self) -> IpProtocol {
        match self {
            Self::V4 => IpProtocol::IPV4,
            Self::V6 => IpProtocol::IPV6,
        }
    }

    /// The version in the first byte of an IP packet, if it is one of the two.
    #[inline(always)]
    pub const fn of_first_byte(byte: u8) -> Option<Self> {
        match byte >> 4 {
            4 => Some(Self::V4),
            6 => Some(Self::V6),
            _ => None,
        }
    }
}

/// The two ECN bits of a traffic class byte (RFC 3168 §5).
pub mod ecn {
    /// Mask of the ECN bits in the traffic class.
    pub const MASK: u8 = 0b11;
    /// Not ECN-capable.
    pub const NOT_ECT: u8 = 0b00;
    /// ECN-capable, the codepoint of L4S and experiments.
    pub const ECT_1: u8 = 0b01;
    /// ECN-capable.
    pub const ECT_0: u8 = 0b10;
    /// Congestion experienced.
    pub const CE: u8 = 0b11;
}

/// Whether a packet is part of a fragmented datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fragment {
    /// A whole datagram.
    None,
    /// A whole datagram that carries an IPv6 fragment header all the same (RFC 6946).
    Atomic {
        /// The datagram's identification.
        id: u32,
    },
    /// The fragment at offset 0, with the transport header.
    First {
        /// The datagram's identification; 16 bits in IPv4.
        id: u32,
    },
    /// Any other fragment: it has no transport header.
    Later {
        /// The datagram's identification; 16 bits in IPv4.
        id: u32,
        /// Where it belongs in the datagram, in units of eight bytes.
        offset: u16,
    },
}

impl Fragment {
    /// The identification shared by all fragments of a datagram, if this is one of several.
    #[inline(always)]
    pub const fn datagram_id(&self) -> Option<u32> {
        match *self {
            Self::First { id } | Self::Later { id, .. } => Some(id),
            Self::None | Self::Atomic { .. } => None,
        }
    }

    /// Whether this fragment lacks the transport header.
    #[inline(always)]
    pub const fn is_later(&self) -> bool {
        matches!(self, Self::Later { .. })
    }
}
