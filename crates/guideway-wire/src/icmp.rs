//! ICMP for IPv4 (RFC 792).

use zerocopy::big_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The first eight bytes of an ICMP message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct IcmpHeader {
    /// What the message says: one of the constants here.
    pub kind: u8,
    /// Which variant of it.
    pub code: u8,
    /// Checksum over the message.
    pub checksum: U16,
    /// Identifier of an echo; unused in errors, except that some give the quoted length (RFC 4884).
    pub word1: U16,
    /// Sequence number of an echo; next-hop MTU of "fragmentation needed" (RFC 1191 §4).
    pub word2: U16,
}

impl IcmpHeader {
    /// Length in bytes.
    pub const LEN: usize = 8;
    /// Type: echo reply.
    pub const ECHO_REPLY: u8 = 0;
    /// Type: destination unreachable.
    pub const UNREACHABLE: u8 = 3;
    /// Type: source quench (deprecated by RFC 6633, still an error message).
    pub const SOURCE_QUENCH: u8 = 4;
    /// Type: redirect.
    pub const REDIRECT: u8 = 5;
    /// Type: echo request.
    pub const ECHO_REQUEST: u8 = 8;
    /// Type: time exceeded.
    pub const TIME_EXCEEDED: u8 = 11;
    /// Type: parameter problem.
    pub const PARAMETER_PROBLEM: u8 = 12;
    /// Code of [`Self::UNREACHABLE`]: fragmentation needed and DF set.
    pub const FRAGMENTATION_NEEDED: u8 = 4;
    /// Code of [`Self::UNREACHABLE`]: nobody listens on the port.
    pub const PORT_UNREACHABLE: u8 = 3;

    /// Whether a message of this type reports an error and quotes the packet it is about (RFC 1122 §3.2.2).
    #[inline(always)]
    pub const fn is_error(kind: u8) -> bool {
        matches!(
            kind,
            Self::UNREACHABLE
                | Self::SOURCE_QUENCH
                | Self::REDIRECT
                | Self::TIME_EXCEEDED
                | Self::PARAMETER_PROBLEM
        )
    }
}

const _: () = assert!(size_of::<IcmpHeader>() == IcmpHeader::LEN);
