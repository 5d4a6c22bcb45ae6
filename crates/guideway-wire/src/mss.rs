//! The maximum segment size that a TCP SYN or SYN-ACK announces (RFC 9293 §3.7.1), and how to lower it.
//!
//! A backend behind a tunnel announces what its own link carries, and the tunnel's headers come on top. Lowering what it
//! announces lets a client's full segments pass without an ICMP error first.

use zerocopy::big_endian::U16;

use crate::ip::IpProtocol;
use crate::packet::{Packet, PacketRead};
use crate::parse::Parsed;
use crate::tcp::{TcpFlags, TcpHeader};

/// Where an announcement lies, and what it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Announced {
    /// Where the value begins, from the first byte of the frame.
    pub at: usize,
    /// The largest segment, in bytes of TCP payload.
    pub mss: u16,
}

/// The maximum segment size that the packet that `parsed` describes announces; `None` if it is no whole TCP packet
/// with SYN, or does not have this option among its first twelve.
#[inline(always)]
pub fn announced<P: PacketRead + ?Sized>(packet: &P, parsed: &Parsed) -> Option<Announced> {
    if parsed.protocol() != IpProtocol::TCP
        || parsed.fragment.is_later()
        || !parsed.tcp_flags.has(TcpFlags::SYN)
    {
        return None;
    }
    let header: TcpHeader = packet.read(parsed.l4_offset)?;
    let end = header.header_length();
    let mut offset = TcpHeader::LEN;
    for _ in 0..MAX_OPTIONS {
        if offset >= end {
            return None;
        }
        let at = parsed.l4_offset.wrapping_add(offset);
        let kind: u8 = packet.read(at)?;
        match kind {
            END => return None,
            NO_OPERATION => offset = offset.wrapping_add(1),
            _ => {
                let length: u8 = packet.read(at.wrapping_add(1))?;
                if kind == MSS && length == MSS_LENGTH {
                    let at = at.wrapping_add(2);
                    return Some(Announced { at, mss: packet.read::<U16>(at)?.get() });
                }
                // A shorter one would not lead on.
                if length < 2 {
                    return None;
                }
                offset = offset.wrapping_add(length as usize);
            }
        }
    }
    None
}

/// Lowers what the packet announces to `most`, if it is more; what it was, if so. The TCP checksum follows.
#[inline(always)]
pub fn clamp<P: Packet>(packet: &mut P, parsed: &Parsed, most: u16) -> Option<u16> {
    let Announced { at, mss } = announced(packet, parsed)?;
    if mss <= most {
        return None;
    }
    let checksum = parsed.l4_offset.wrapping_add(CHECKSUM_OFFSET);
    let odd = at.wrapping_sub(parsed.l4_offset) & 1 != 0;
    packet.replace_summed(at, checksum, odd, [U16::new(mss), U16::new(most)])?;
    Some(mss)
}

/// How many options are looked at, each padding byte counting as one. Stacks put this option first; the kernel's verifier
/// walks every way through the loop.
const MAX_OPTIONS: usize = 12;
const END: u8 = 0;
const NO_OPERATION: u8 = 1;
const MSS: u8 = 2;
const MSS_LENGTH: u8 = 4;

/// Where a TCP header has its checksum.
const CHECKSUM_OFFSET: usize = 16;
