//! The Internet checksum (RFC 1071) and its incremental update (RFC 1624).

use zerocopy::big_endian::{U16, U32};

use crate::address::Address;
use crate::ip::IpProtocol;
use crate::packet::PacketRead;

/// A ones' complement sum in the making.
///
/// Values are added as numbers in network order, in words of 16 or 32 bits: 2^16 is 1 modulo 0xffff, so a wide word
/// counts as the sum of its halves. The 64-bit total cannot overflow below 2^32 words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum(u64);

impl Sum {
    /// The empty sum.
    pub const ZERO: Self = Self(0);

    /// Adds one 16-bit word, given in host order.
    #[inline(always)]
    pub const fn add_u16(self, word: u16) -> Self {
        Self(self.0.wrapping_add(word as u64))
    }

    /// Adds two 16-bit words at once, given in host order.
    #[inline(always)]
    pub const fn add_u32(self, words: u32) -> Self {
        Self(self.0.wrapping_add(words as u64))
    }

    /// Adds four 16-bit words at once, given in host order.
    #[inline(always)]
    pub const fn add_u64(self, words: u64) -> Self {
        self.add_u32((words >> 32) as u32).add_u32(words as u32)
    }

    /// Adds another sum.
    #[inline(always)]
    pub const fn add(self, other: Self) -> Self {
        Self(self.0.wrapping_add(other.0))
    }

    /// Takes a 16-bit word out that was added before (RFC 1624 §3: adds its complement).
    #[inline(always)]
    pub const fn remove_u16(self, word: u16) -> Self {
        self.add_u16(!word)
    }

    /// Adds the eight words of an IPv6 address, or of the mapped form of an IPv4 one less the mapping prefix.
    #[inline(always)]
    pub const fn add_address(self, address: &Address) -> Self {
        let (high, low) = address.halves();
        if address.is_v4() { self.add_u32(low as u32) } else { self.add_u64(high).add_u64(low) }
    }

    /// Adds the pseudo-header of a transport protocol: RFC 9293 §3.1 for IPv4, RFC 8200 §8.1 for IPv6.
    /// `length` is that of the transport header and its payload.
    #[inline(always)]
    pub const fn add_pseudo_header(
        self,
        source: &Address,
        destination: &Address,
        protocol: IpProtocol,
        length: u32,
    ) -> Self {
        self.add_address(source).add_address(destination).add_u32(length).add_u16(protocol.0 as u16)
    }

    /// Adds bytes; an odd last byte counts as the upper half of a word.
    pub fn add_bytes(mut self, bytes: &[u8]) -> Self {
        let (words, rest) = bytes.as_chunks::<4>();
        for word in words {
            self = self.add_u32(u32::from_be_bytes(*word));
        }
        match *rest {
            [a] => self.add_u16(u16::from_be_bytes([a, 0])),
            [a, b] => self.add_u16(u16::from_be_bytes([a, b])),
            [a, b, c] => self.add_u32(u32::from_be_bytes([a, b, c, 0])),
            _ => self,
        }
    }

    /// Adds `len` bytes of a frame from `offset`, at most `MAX_WORDS` words of four bytes.
    ///
    /// `None` if the bytes lie beyond the frame or `len` is above `4 * MAX_WORDS`. The bound lets the kernel's
    /// verifier see the end of the loop.
    #[inline(always)]
    pub fn add_packet<const MAX_WORDS: usize, P: PacketRead + ?Sized>(
        mut self,
        packet: &P,
        offset: usize,
        len: usize,
    ) -> Option<Self> {
        let words = len / 4;
        if words > MAX_WORDS || (words == MAX_WORDS && len & 3 != 0) {
            return None;
        }
        let mut at = offset;
        for index in 0..MAX_WORDS {
            if index >= words {
                break;
            }
            self = self.add_u32(packet.read::<U32>(at)?.get());
            at = at.wrapping_add(4);
        }
        if len & 2 != 0 {
            self = self.add_u16(packet.read::<U16>(at)?.get());
            at = at.wrapping_add(2);
        }
        if len & 1 != 0 {
            self = self.add_u16((packet.read::<u8>(at)? as u16) << 8);
        }
        Some(self)
    }

    /// The sum folded to 16 bits. 0xffff for data that holds its own right checksum.
    #[inline(always)]
    pub const fn fold(self) -> u16 {
        // 64 bits to at most 33, to at most 18, to at most 17, to 16.
        let sum = (self.0 >> 32) + (self.0 & 0xffff_ffff);
        let sum = (sum >> 16) + (sum & 0xffff);
        let sum = (sum >> 16) + (sum & 0xffff);
        let sum = (sum >> 16) + (sum & 0xffff);
        sum as u16
    }

    /// The checksum: the complement of the folded sum.
    #[inline(always)]
    pub const fn checksum(self) -> u16 {
        !self.fold()
    }

    /// The checksum in UDP's form, where a computed 0 is sent as 0xffff because 0 means none (RFC 768).
    #[inline(always)]
    pub const fn udp_checksum(self) -> u16 {
        match self.checksum() {
            0 => 0xffff,
            checksum => checksum,
        }
    }
}

/// The checksum after one 16-bit word of the data has changed from `old` to `new` (RFC 1624 §3, equation 3).
#[inline(always)]
pub const fn update(checksum: u16, old: u16, new: u16) -> u16 {
    Sum::ZERO.add_u16(!checksum).remove_u16(old).add_u16(new).checksum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    extern crate std;
    use std::vec::Vec;

    /// RFC 1071 §1 by the letter: one 16-bit word at a time, carry end-around at each step.
    fn by_the_letter(bytes: &[u8]) -> u16 {
        let mut sum = 0u16;
        for pair in bytes.chunks(2) {
            let word = u16::from_be_bytes([pair[0], *pair.get(1).unwrap_or(&0)]);
            let (next, carry) = sum.overflowing_add(word);
            sum = next + u16::from(carry);
        }
        !sum
    }

    #[test]
    fn example_of_rfc_1071() {
        let sum = Sum::ZERO.add_bytes(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]);
        assert_eq!(sum.fold(), 0xddf2);
    }

    #[test]
    fn example_of_rfc_1624() {
        // §4: the case on which the older equation 2 of RFC 1141 fails.
        assert_eq!(update(0xdd2f, 0x5555, 0x3285), 0x0000);
    }

    #[test]
    fn folding_carries_to_the_end() {
        assert_eq!(Sum(u64::MAX).fold(), 0xffff);
        assert_eq!(Sum(0xffff_ffff_0000_0001).fold(), 1);
        assert_eq!(Sum(0x1_ffff).fold(), 1);
    }

    #[test]
    fn frame_sum_is_bounded() {
        let bytes = [1u8; 12];
        assert!(Sum::ZERO.add_packet::<2, _>(&bytes[..], 0, 8).is_some());
        assert!(Sum::ZERO.add_packet::<2, _>(&bytes[..], 0, 9).is_none());
        assert!(Sum::ZERO.add_packet::<4, _>(&bytes[..], 4, 9).is_none());
    }

    proptest! {
        #[test]
        fn all_ways_agree(bytes in proptest::collection::vec(any::<u8>(), 0..600), offset in 0usize..8) {
            let expected = by_the_letter(&bytes);
            prop_assert_eq!(Sum::ZERO.add_bytes(&bytes).checksum(), expected);
            let shifted: Vec<u8> = core::iter::repeat_n(0x5a, offset).chain(bytes.iter().copied()).collect();
            let sum = Sum::ZERO.add_packet::<150, _>(&shifted[..], offset, bytes.len()).unwrap();
            prop_assert_eq!(sum.checksum(), expected);
        }

        #[test]
        fn update_equals_recomputing(mut bytes in proptest::collection::vec(any::<u8>(), 2..64), at in 0usize..32, new: u16) {
            let even = bytes.len() & !1;
            bytes.truncate(even);
            let at = (at * 2) % bytes.len();
            let before = Sum::ZERO.add_bytes(&bytes).checksum();
            let old = u16::from_be_bytes([bytes[at], bytes[at + 1]]);
            bytes[at..at + 2].copy_from_slice(&new.to_be_bytes());
            // All-zero data alone has the other representation of zero; the header of a packet is never that.
            prop_assume!(bytes.iter().any(|&b| b != 0));
            prop_assert_eq!(update(before, old, new), Sum::ZERO.add_bytes(&bytes).checksum());
        }
    }
}
