//! ICMP for IPv6 (RFC 4443).

use zerocopy::big_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The first eight bytes of an ICMPv6 message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Icmpv6Header {
    /// What the message says: one of the constants here. Below 128 it is an error (RFC 4443 §2.1).
    pub kind: u8,
    /// Which variant of it.
    pub code: u8,
    /// Checksum over pseudo-header and message.
    pub checksum: U16,
    /// MTU of "packet too big"; identifier and sequence number of an echo.
    pub word: U32,
}

impl Icmpv6Header {
    /// Length in bytes.
    pub const LEN: usize = 8;
    /// Type: destination unreachable.
    pub const UNREACHABLE: u8 = 1;
    /// Code of [`Self::UNREACHABLE`]: nobody listens on the port.
    pub const PORT_UNREACHABLE: u8 = 4;
    /// Type: packet too big.
    pub const PACKET_TOO_BIG: u8 = 2;
    /// Type: time exceeded.
    pub const TIME_EXCEEDED: u8 = 3;
    /// Type: parameter problem.
    pub const PARAMETER_PROBLEM: u8 = 4;
    /// Type: echo request.
    pub const ECHO_REQUEST: u8 = 128;
    /// Type: echo reply.
    pub const ECHO_REPLY: u8 = 129;
    /// Type: redirect (RFC 4861 §4.5). Informational by its number, but no error may answer it (RFC 4443 §2.4).
    pub const REDIRECT: u8 = 137;

    /// Whether a message of this type reports an error and quotes the packet it is about.
    #[inline(always)]
    pub const fn is_error(kind: u8) -> bool {
        kind < 128
    }
}

const _: () = assert!(size_of::<Icmpv6Header>() == Icmpv6Header::LEN);
