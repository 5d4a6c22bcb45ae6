//! What a load balancer reads of QUIC: the version-independent properties (RFC 8999), the packet types of
//! versions 1 (RFC 9000) and 2 (RFC 9369), and a server id in the connection id (draft-ietf-quic-load-balancers, plain form).

use zerocopy::big_endian::U32;

use crate::packet::PacketRead;

/// The longest connection id of QUIC versions 1 and 2 (RFC 9000 §17.2). RFC 8999 alone would allow 255 bytes.
pub const MAX_CONNECTION_ID: usize = 20;

/// The longest server id that [`ServerIdLayout`] can describe, in bytes.
pub const MAX_SERVER_ID: usize = 8;

/// Which packet of a connection this is, as far as the first bytes say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum QuicKind {
    /// Short header: an established connection; its id was chosen by the server.
    Short,
    /// Long header, Initial: a client's first carry an id of the client's choice.
    Initial,
    /// Long header, 0-RTT: as Initial.
    ZeroRtt,
    /// Long header, Handshake: the id was chosen by the server.
    Handshake,
    /// Long header, Retry: only servers send it.
    Retry,
    /// Long header of version 0: only servers send it.
    VersionNegotiation,
    /// Long header of a version that is not known here; its type bits mean nothing to us.
    OtherVersion,
}

/// The invariant part of a QUIC packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuicHeader {
    /// Packet type.
    pub kind: QuicKind,
    /// Version; 0 for short headers, which carry none.
    pub version: u32,
    /// Where the destination connection id begins, as an offset in the frame.
    pub id_offset: usize,
    /// Length of the destination connection id in bytes; in a short header, which does not tell it, all bytes up to
    /// the end of the datagram, at most [`MAX_CONNECTION_ID`].
    pub id_len: usize,
}

/// Reads the invariants of the QUIC packet that fills a UDP payload from `offset` to `end` (offsets in the frame).
///
/// `None` if the payload is cut short, or its connection id longer than [`MAX_CONNECTION_ID`]. The fixed bit of versions 1
/// and 2 is not looked at: it is no invariant, and endpoints that agree on it clear it at random (RFC 9287).
#[inline(always)]
pub fn parse<P: PacketRead + ?Sized>(packet: &P, offset: usize, end: usize) -> Option<QuicHeader> {
    let first: u8 = packet.read(offset)?;
    if offset >= end {
        return None;
    }
    if first & 0x80 == 0 {
        let id_offset = offset.wrapping_add(1);
        let rest = end.wrapping_sub(id_offset);
        let id_len = if rest > MAX_CONNECTION_ID { MAX_CONNECTION_ID } else { rest };
        return Some(QuicHeader { kind: QuicKind::Short, version: 0, id_offset, id_len });
    }
    let version = packet.read::<U32>(offset.wrapping_add(1))?.get();
    let id_len = packet.read::<u8>(offset.wrapping_add(5))? as usize;
    let id_offset = offset.wrapping_add(6);
    if id_len > MAX_CONNECTION_ID || id_offset.wrapping_add(id_len) > end {
        return None;
    }
    let kind = match (version, first >> 4 & 0b11) {
        (0, _) => QuicKind::VersionNegotiation,
        (VERSION_1, 0) | (VERSION_2, 1) => QuicKind::Initial,
        (VERSION_1, 1) | (VERSION_2, 2) => QuicKind::ZeroRtt,
        (VERSION_1, 2) | (VERSION_2, 3) => QuicKind::Handshake,
        (VERSION_1, _) | (VERSION_2, _) => QuicKind::Retry,
        _ => QuicKind::OtherVersion,
    };
    Some(QuicHeader { kind, version, id_offset, id_len })
}

/// Version 1 (RFC 9000 §15).
const VERSION_1: u32 = 1;
/// Version 2 (RFC 9369 §3.1).
const VERSION_2: u32 = 0x6b33_43cf;

impl QuicHeader {
    /// Whether the sender is a client that may not yet know an id of the server's choice.
    #[inline(always)]
    pub const fn may_open(&self) -> bool {
        matches!(self.kind, QuicKind::Initial | QuicKind::ZeroRtt)
    }

    /// The destination connection id, its first `len` bytes at most. For short headers `len` must be the length that
    /// the servers use, as the packet does not tell it.
    #[inline(always)]
    pub fn connection_id<P: PacketRead + ?Sized>(&self, packet: &P, len: usize) -> Option<ConnectionId> {
        let len = if len < self.id_len { len } else { self.id_len };
        let mut words = [0u64; 3];
        // One byte at a time: the place and the length vary, and the kernel's verifier wants a fixed bound.
        for index in 0..MAX_CONNECTION_ID {
            if index >= len {
                break;
            }
            let byte: u8 = packet.read(self.id_offset.wrapping_add(index))?;
            let value = (byte as u64) << (56 - 8 * (index % 8));
            if index < 8 {
                words[0] |= value;
            } else if index < 16 {
                words[1] |= value;
            } else {
                words[2] |= value;
            }
        }
        Some(ConnectionId { words, len: len as u64 })
    }

    /// The server id in the destination connection id, as a big-endian number. `None` if the id is too short for it.
    #[inline(always)]
    pub fn server_id<P: PacketRead + ?Sized>(&self, packet: &P, layout: ServerIdLayout) -> Option<u64> {
        let from = layout.offset as usize;
        let len = layout.len as usize;
        if from.wrapping_add(len) > self.id_len {
            return None;
        }
        let mut id = 0u64;
        for index in 0..MAX_SERVER_ID {
            if index >= len {
                break;
            }
            let byte: u8 = packet.read(self.id_offset.wrapping_add(from).wrapping_add(index))?;
            id = id << 8 | byte as u64;
        }
        Some(id)
    }
}

/// Where in a connection id the servers put their id. QUIC-LB's plain form has it from byte 1, after the byte with
/// the config rotation bits and the length (draft-ietf-quic-load-balancers §4, §5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ServerIdLayout {
    offset: u8,
    len: u8,
}

impl ServerIdLayout {
    /// A server id of `len` bytes (1 to [`MAX_SERVER_ID`]) from byte `offset` of the connection id; `None` if it
    /// could not lie within [`MAX_CONNECTION_ID`] bytes.
    #[inline(always)]
    pub const fn new(offset: u8, len: u8) -> Option<Self> {
        if len == 0 || len as usize > MAX_SERVER_ID || offset as usize + len as usize > MAX_CONNECTION_ID {
            return None;
        }
        Some(Self { offset, len })
    }

    /// First byte of the server id.
    #[inline(always)]
    pub const fn offset(self) -> u8 {
        self.offset
    }

    /// Length of the server id in bytes.
    #[inline(always)]
    #[expect(clippy::len_without_is_empty, reason = "never empty: the length is from 1")]
    pub const fn len(self) -> u8 {
        self.len
    }
}

/// A connection id of up to [`MAX_CONNECTION_ID`] bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConnectionId {
    words: [u64; 3],
    len: u64,
}

impl ConnectionId {
    /// The id with these bytes; `None` above [`MAX_CONNECTION_ID`] of them.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        let mut padded = [0u8; 24];
        if bytes.len() > MAX_CONNECTION_ID {
            return None;
        }
        padded.get_mut(..bytes.len())?.copy_from_slice(bytes);
        let [a, b, c] = [0, 8, 16].map(|at| {
            let mut word = 0u64;
            for byte in padded.iter().skip(at).take(8) {
                word = word << 8 | u64::from(*byte);
            }
            word
        });
        Some(Self { words: [a, b, c], len: bytes.len() as u64 })
    }

    /// Length in bytes.
    #[inline(always)]
    pub const fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether the id has no bytes: a peer that told its connections apart by address alone (RFC 9000 §5.1).
    #[inline(always)]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The bytes, padded with zeros to 24 and read as big-endian words.
    #[inline(always)]
    pub const fn words(&self) -> [u64; 3] {
        self.words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The start of the client Initial of RFC 9001 §A.2, and some bytes of its token and length.
    const INITIAL: [u8; 20] =
        [0xc0, 0, 0, 0, 1, 8, 0x83, 0x94, 0xc8, 0xf0, 0x3e, 0x51, 0x57, 0x08, 0, 0, 0x44, 0x9e, 0x7b, 0x9a];

    fn with_start(first: u8, version: u32) -> Option<QuicKind> {
        let mut packet = INITIAL;
        packet[0] = first;
        packet[1..5].copy_from_slice(&version.to_be_bytes());
        parse(&packet[..], 0, packet.len()).map(|header| header.kind)
    }

    #[test]
    fn initial_of_rfc_9001() {
        let header = parse(&INITIAL[..], 0, INITIAL.len()).unwrap();
        assert_eq!((header.kind, header.version, header.id_len), (QuicKind::Initial, 1, 8));
        assert!(header.may_open());
        let id = header.connection_id(&INITIAL[..], 20).unwrap();
        assert_eq!(Some(id), ConnectionId::new(&INITIAL[6..14]));
        assert_eq!(id.words(), [0x8394_c8f0_3e51_5708, 0, 0]);
    }

    #[test]
    fn kinds_by_version() {
        assert_eq!(with_start(0xd0, 1), Some(QuicKind::ZeroRtt));
        assert_eq!(with_start(0xe0, 1), Some(QuicKind::Handshake));
        assert_eq!(with_start(0xf0, 1), Some(QuicKind::Retry));
        // RFC 9369 §3.2 moves each type on by one.
        assert_eq!(with_start(0xd0, VERSION_2), Some(QuicKind::Initial));
        assert_eq!(with_start(0xe0, VERSION_2), Some(QuicKind::ZeroRtt));
        assert_eq!(with_start(0xf0, VERSION_2), Some(QuicKind::Handshake));
        assert_eq!(with_start(0xc0, VERSION_2), Some(QuicKind::Retry));
        assert_eq!(with_start(0x80, 0), Some(QuicKind::VersionNegotiation));
        assert_eq!(with_start(0x80, 0xff00_001d), Some(QuicKind::OtherVersion));
        // Without the fixed bit (RFC 9287).
        assert_eq!(with_start(0x80, 1), Some(QuicKind::Initial));
        assert_eq!(with_start(0x16, 1), Some(QuicKind::Short));
    }

    #[test]
    fn cut_packets_and_long_ids_are_refused() {
        for len in 0..14 {
            assert_eq!(parse(&INITIAL[..len], 0, len), None, "{len} bytes");
        }
        let mut packet = [0u8; 40];
        packet[..20].copy_from_slice(&INITIAL);
        packet[5] = 20;
        assert!(parse(&packet[..], 0, 40).is_some());
        packet[5] = 21;
        assert_eq!(parse(&packet[..], 0, 40), None);
    }

    #[test]
    fn server_id_of_a_short_header() {
        // First byte, then the connection id: rotation and length bits, server id, nonce.
        let packet = [0x41, 0x07, 0xab, 0xcd, 0xef, 1, 2, 3, 4, 9, 9];
        let header = parse(&packet[..], 0, packet.len()).unwrap();
        assert_eq!((header.kind, header.id_len), (QuicKind::Short, 10));
        assert!(!header.may_open());
        let layout = ServerIdLayout::new(1, 3).unwrap();
        assert_eq!(header.server_id(&packet[..], layout), Some(0xab_cdef));
        assert_eq!(header.server_id(&packet[..], ServerIdLayout::new(8, 2).unwrap()), Some(0x0909));
        assert_eq!(header.server_id(&packet[..], ServerIdLayout::new(8, 3).unwrap()), None);
        let id = header.connection_id(&packet[..], 8).unwrap();
        assert_eq!(Some(id), ConnectionId::new(&packet[1..9]));
    }

    #[test]
    fn layouts_lie_within_an_id() {
        assert!(ServerIdLayout::new(12, 8).is_some());
        assert!(ServerIdLayout::new(13, 8).is_none());
        assert!(ServerIdLayout::new(0, 0).is_none());
        assert!(ServerIdLayout::new(0, 9).is_none());
        assert!(ConnectionId::new(&[0; 21]).is_none());
        assert_eq!(ConnectionId::new(&[7; 20]).map(|id| id.words()[2]), Some(0x0707_0707_0000_0000));
    }
}
