//! IPv6 headers and the chain of extension headers (RFC 8200).

use zerocopy::big_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::ip::{Fragment, IpProtocol};
use crate::packet::PacketRead;
use crate::parse::ParseError;

/// Extension headers that [`walk`] follows before it gives up. RFC 8200 §4.1 recommends an order of at most seven.
pub const MAX_EXTENSIONS: usize = 8;

/// The fixed 40 bytes of an IPv6 header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Ipv6Header {
    /// Version (4 bits), traffic class (8 bits), flow label (20 bits).
    pub version_class_label: U32,
    /// Length in bytes of all that follows this header.
    pub payload_length: U16,
    /// What follows.
    pub next_header: IpProtocol,
    /// Hops left.
    pub hop_limit: u8,
    /// Source address.
    pub source: [u8; 16],
    /// Destination address.
    pub destination: [u8; 16],
}

impl Ipv6Header {
    /// Length in bytes.
    pub const LEN: usize = 40;

    /// The first word from its parts; a label above 20 bits is cut.
    #[inline(always)]
    pub const fn first_word(traffic_class: u8, flow_label: u32) -> U32 {
        U32::new(6 << 28 | (traffic_class as u32) << 20 | (flow_label & 0x000f_ffff))
    }

    /// The version field: 6 in a valid header.
    #[inline(always)]
    pub const fn version(&self) -> u8 {
        (self.version_class_label.get() >> 28) as u8
    }

    /// DSCP and ECN.
    #[inline(always)]
    pub const fn traffic_class(&self) -> u8 {
        (self.version_class_label.get() >> 20) as u8
    }

    /// The flow label (RFC 6437).
    #[inline(always)]
    pub const fn flow_label(&self) -> u32 {
        self.version_class_label.get() & 0x000f_ffff
    }

    /// This header with one hop less. `None` when no hop is left to take: a router answers hop limit 1 and 0 with
    /// "time exceeded" (RFC 4443 §3.3).
    #[inline(always)]
    pub const fn decrement_hop_limit(mut self) -> Option<Self> {
        if self.hop_limit <= 1 {
            return None;
        }
        self.hop_limit -= 1;
        Some(self)
    }
}

/// The fragment header (RFC 8200 §4.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct FragmentHeader {
    /// What the fragmented part begins with.
    pub next_header: IpProtocol,
    /// Zero when sent, ignored when received.
    pub reserved: u8,
    /// Fragment offset in units of eight bytes (13 bits), reserved (2 bits), "more fragments" (1 bit).
    pub offset_more: U16,
    /// Names the datagram among fragments.
    pub identification: U32,
}

impl FragmentHeader {
    /// Length in bytes.
    pub const LEN: usize = 8;

    /// Fragment offset in units of eight bytes.
    #[inline(always)]
    pub const fn fragment_offset(&self) -> u16 {
        self.offset_more.get() >> 3
    }

    /// Whether fragments follow this one.
    #[inline(always)]
    pub const fn more_fragments(&self) -> bool {
        self.offset_more.get() & 1 != 0
    }

    /// What this header makes of the packet.
    #[inline(always)]
    pub const fn fragment(&self) -> Fragment {
        let id = self.identification.get();
        match (self.fragment_offset(), self.more_fragments()) {
            (0, false) => Fragment::Atomic { id },
            (0, true) => Fragment::First { id },
            (offset, _) => Fragment::Later { id, offset },
        }
    }
}

/// What a walk over the extension headers found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chain {
    /// The protocol after the extension headers. In a later fragment: what the fragment header names, be that an
    /// extension header, since the rest of the chain is in the first fragment (RFC 7112).
    pub protocol: IpProtocol,
    /// Where that protocol's bytes begin, as an offset in the frame.
    pub offset: usize,
    /// Whether the packet is a fragment.
    pub fragment: Fragment,
}

/// Follows the extension headers from `offset`, where a header of type `next` begins, up to `end`, the end of the IP
/// packet: hop-by-hop, routing, fragment, destination options and authentication, at most [`MAX_EXTENSIONS`] of them.
///
/// Anything else ends the chain, ESP and "no next header" included. A later fragment ends it at its fragment header.
///
/// # Errors
/// The chain is cut, too long, has hop-by-hop options in another place than the first, or two fragment headers.
#[inline(always)]
pub fn walk<P: PacketRead + ?Sized>(
    packet: &P,
    next: IpProtocol,
    offset: usize,
    end: usize,
) -> Result<Chain, ParseError> {
    let mut protocol = next;
    let mut fragment = Fragment::None;
    // The place is kept as the bytes left of the packet, 16 bits of them: so it has the same range in every round
    // whatever the headers before, and the kernel's verifier need not tell the rounds apart.
    let mut left = end.wrapping_sub(offset) as u16;
    // One way out, with every value set: what an early return leaves unset, the compiler may still compute with, and
    // the verifier refuses that.
    let mut fault = Some(ParseError::TooManyExtensions);
    for index in 0..=MAX_EXTENSIONS {
        let at = end.wrapping_sub(left as usize);
        match protocol {
            IpProtocol::HOP_BY_HOP if index != 0 => {
                fault = Some(ParseError::MisplacedHopByHop);
                break;
            }
            IpProtocol::HOP_BY_HOP
            | IpProtocol::ROUTING
            | IpProtocol::DESTINATION_OPTIONS
            | IpProtocol::AUTHENTICATION => {
                if index == MAX_EXTENSIONS {
                    break;
                }
                let Some([following, length]) = packet.read::<[u8; 2]>(at) else {
                    fault = Some(cut(fragment));
                    break;
                };
                let bytes = if protocol == IpProtocol::AUTHENTICATION {
                    // In words of four bytes, less two (RFC 4302 §2.2).
                    (length as u16 + 2) << 2
                } else {
                    // In words of eight bytes, less one (RFC 8200 §4.2).
                    (length as u16 + 1) << 3
                };
                if bytes > left {
                    fault = Some(cut(fragment));
                    break;
                }
                left = left.wrapping_sub(bytes);
                protocol = IpProtocol(following);
            }
            IpProtocol::FRAGMENT => {
                if index == MAX_EXTENSIONS {
                    break;
                }
                if fragment != Fragment::None {
                    fault = Some(ParseError::NestedFragment);
                    break;
                }
                let header: Option<FragmentHeader> = packet.read(at);
                let (Some(header), true) = (header, left >= FragmentHeader::LEN as u16) else {
                    fault = Some(ParseError::TruncatedExtension);
                    break;
                };
                left = left.wrapping_sub(FragmentHeader::LEN as u16);
                protocol = header.next_header;
                fragment = header.fragment();
                if fragment.is_later() {
                    fault = None;
                    break;
                }
            }
            _ => {
                fault = None;
                break;
            }
        }
    }
    let chain = Chain { protocol, offset: end.wrapping_sub(left as usize), fragment };
    match fault {
        None => Ok(chain),
        Some(error) => Err(error),
    }
}

/// A chain that ends in a first fragment should have been complete there (RFC 7112 §5).
#[inline(always)]
const fn cut(fragment: Fragment) -> ParseError {
    match fragment {
        Fragment::First { .. } => ParseError::TinyFirstFragment,
        _ => ParseError::TruncatedExtension,
    }
}

const _: () = assert!(size_of::<Ipv6Header>() == Ipv6Header::LEN);
const _: () = assert!(size_of::<FragmentHeader>() == FragmentHeader::LEN);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_word_splits_and_joins() {
        let mut header = Ipv6Header::read_from_bytes(&[0; 40]).unwrap();
        header.version_class_label = Ipv6Header::first_word(0xb9, 0xfff_abcde);
        assert_eq!((header.version(), header.traffic_class(), header.flow_label()), (6, 0xb9, 0xabcde));
    }

    #[test]
    fn last_hop_is_not_taken() {
        let mut header = Ipv6Header::read_from_bytes(&[0; 40]).unwrap();
        header.hop_limit = 2;
        let header = header.decrement_hop_limit().unwrap();
        assert_eq!((header.hop_limit, header.decrement_hop_limit()), (1, None));
    }

    #[test]
    fn chain_of_every_kind() {
        let mut bytes = [0u8; 80];
        bytes[0] = 43; // hop-by-hop, 8 bytes
        bytes[8..10].copy_from_slice(&[60, 1]); // routing, 16 bytes
        bytes[24..26].copy_from_slice(&[51, 0]); // destination options, 8 bytes
        bytes[32..34].copy_from_slice(&[44, 4]); // authentication, 24 bytes
        bytes[56..64].copy_from_slice(&[60, 0, 0, 1, 0, 0, 0, 9]); // first fragment of datagram 9
        bytes[64..66].copy_from_slice(&[17, 0]); // destination options, 8 bytes
        let chain = walk(&bytes[..], IpProtocol(0), 0, 80).unwrap();
        assert_eq!(chain.protocol, IpProtocol::UDP);
        assert_eq!((chain.offset, chain.fragment), (72, Fragment::First { id: 9 }));
        // A fragment that stops before the end of the chain.
        assert_eq!(walk(&bytes[..], IpProtocol(0), 0, 71), Err(ParseError::TinyFirstFragment));
        assert_eq!(walk(&bytes[..], IpProtocol(0), 0, 55), Err(ParseError::TruncatedExtension));
        bytes[58..60].copy_from_slice(&[0, 8]);
        let later = walk(&bytes[..], IpProtocol(0), 0, 80).unwrap();
        assert_eq!(later.fragment, Fragment::Later { id: 9, offset: 1 });
        assert_eq!((later.protocol, later.offset), (IpProtocol::DESTINATION_OPTIONS, 64));
    }

    #[test]
    fn chain_is_bounded() {
        let mut bytes = [0u8; 80];
        for at in (0..80).step_by(8) {
            bytes[at] = 60;
        }
        bytes[56] = 6;
        assert_eq!(walk(&bytes[..], IpProtocol(60), 0, 80).map(|c| (c.protocol.0, c.offset)), Ok((6, 64)));
        bytes[56] = 60;
        assert_eq!(walk(&bytes[..], IpProtocol(60), 0, 80), Err(ParseError::TooManyExtensions));
        bytes[0] = 0;
        assert_eq!(walk(&bytes[..], IpProtocol(60), 0, 80), Err(ParseError::MisplacedHopByHop));
        bytes[..3].copy_from_slice(&[44, 0, 0]);
        bytes[8] = 6;
        assert_eq!(walk(&bytes[..], IpProtocol(44), 0, 80), Err(ParseError::NestedFragment));
    }
}
