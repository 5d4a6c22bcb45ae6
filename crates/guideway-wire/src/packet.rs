//! Checked access to the bytes of one frame.
//!
//! # Over a packet in the kernel
//! The verifier follows one register from the bounds check to the access, so an implementation over `data` and
//! `data_end` must keep the optimiser from rearranging the sum. What is accepted, tried on Linux 6.18:
//! - pass the offset through a move that the compiler cannot see through (inline assembly `{0} = {0}`; an empty
//!   one makes duplicate line records, which the kernel refuses), then compare it with a bound below 2^15;
//! - read `data` and `data_end` by volatile loads, each passed through the same move, and so the sum `data + offset`;
//! - subtract `data` from `data_end` for [`PacketRead::len`] in inline assembly, else it becomes a sum with a negated pointer.

use zerocopy::big_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, Unaligned};

use crate::checksum::update;

/// Reading from a frame by offset. An offset counts from the first byte of the Ethernet header.
///
/// Implemented for byte slices, so a parser can be tried on any bytes; the kernel side implements it over the
/// packet's `data` and `data_end`.
pub trait PacketRead {
    /// Length of the frame in bytes.
    fn len(&self) -> usize;

    /// Whether the frame holds no byte at all.
    #[inline(always)]
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A copy of the value at `offset`, or `None` if any byte of it lies beyond the frame.
    fn read<T: FromBytes + Unaligned + Copy>(&self, offset: usize) -> Option<T>;
}

/// A frame that can be changed, and grown or shrunk at its ends.
///
/// An operation that returns `None` has changed nothing.
pub trait Packet: PacketRead {
    /// Stores `value` at `offset`; `None` if any byte of it would lie beyond the frame.
    fn write<T: IntoBytes + Immutable + Unaligned>(&mut self, offset: usize, value: &T) -> Option<()>;

    /// Adds `bytes` at the front, their content unspecified; `None` without that much head room.
    fn grow_head(&mut self, bytes: usize) -> Option<()>;

    /// Takes `bytes` off the front; `None` if the frame is shorter than that.
    fn shrink_head(&mut self, bytes: usize) -> Option<()>;

    /// Cuts the frame to its first `len` bytes; `None` if it is shorter than that.
    fn truncate(&mut self, len: usize) -> Option<()>;

    /// Replaces the word `old` at `at` by `new`, given as `[old, new]`, and has the Internet checksum at `checksum`
    /// follow. `odd` says that the word begins at an odd place of what is summed, so that its bytes belong to two words.
    ///
    /// Where a network card will compute the checksum, an implementation leaves it alone.
    #[inline(always)]
    fn replace_summed(&mut self, at: usize, checksum: usize, odd: bool, words: [U16; 2]) -> Option<()> {
        let [old, new] = words;
        let sum: U16 = self.read(checksum)?;
        self.write(at, &new)?;
        let place = |word: U16| if odd { word.get().swap_bytes() } else { word.get() };
        self.write(checksum, &U16::new(update(sum.get(), place(old), place(new))))
    }
}

impl PacketRead for [u8] {
    #[inline(always)]
    fn len(&self) -> usize {
        <[u8]>::len(self)
    }

    #[inline(always)]
    fn read<T: FromBytes + Unaligned + Copy>(&self, offset: usize) -> Option<T> {
        T::read_from_prefix(self.get(offset..)?).ok().map(|(value, _)| value)
    }
}

/// A frame inside a larger buffer: the bytes before it are its head room.
#[derive(Debug)]
pub struct SliceFrame<'a> {
    buffer: &'a mut [u8],
    start: usize,
    end: usize,
}

impl<'a> SliceFrame<'a> {
    /// The frame of `len` bytes that begins at `head_room` in `buffer`; `None` if it would not fit there.
    #[inline]
    pub fn new(buffer: &'a mut [u8], head_room: usize, len: usize) -> Option<Self> {
        let end = head_room.checked_add(len)?;
        (end <= buffer.len()).then_some(Self { buffer, start: head_room, end })
    }

    /// The frame's bytes.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        // `start <= end <= buffer.len()` holds in every constructor and method, so the slice is never the empty default.
        self.buffer.get(self.start..self.end).unwrap_or_default()
    }

    /// Where the frame lies in the buffer now, as start and end.
    #[inline]
    pub fn range(&self) -> (usize, usize) {
        (self.start, self.end)
    }
}

impl PacketRead for SliceFrame<'_> {
    #[inline(always)]
    fn len(&self) -> usize {
        self.end - self.start
    }

    #[inline(always)]
    fn read<T: FromBytes + Unaligned + Copy>(&self, offset: usize) -> Option<T> {
        self.bytes().read(offset)
    }
}

impl Packet for SliceFrame<'_> {
    #[inline(always)]
    fn write<T: IntoBytes + Immutable + Unaligned>(&mut self, offset: usize, value: &T) -> Option<()> {
        let frame = self.buffer.get_mut(self.start..self.end)?;
        value.write_to_prefix(frame.get_mut(offset..)?).ok()
    }

    #[inline(always)]
    fn grow_head(&mut self, bytes: usize) -> Option<()> {
        self.start = self.start.checked_sub(bytes)?;
        Some(())
    }

    #[inline(always)]
    fn shrink_head(&mut self, bytes: usize) -> Option<()> {
        let start = self.start.checked_add(bytes)?;
        (start <= self.end).then(|| self.start = start)
    }

    #[inline(always)]
    fn truncate(&mut self, len: usize) -> Option<()> {
        (len <= self.len()).then(|| self.end = self.start + len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn access_ends_where_the_frame_ends() {
        let mut buffer = *b"....frame++";
        let mut frame = SliceFrame::new(&mut buffer, 4, 5).unwrap();
        assert_eq!(frame.read::<[u8; 2]>(3), Some(*b"me"));
        assert_eq!(frame.read::<[u8; 2]>(4), None);
        assert_eq!(frame.read::<u8>(usize::MAX), None);
        assert_eq!(frame.write(4, b"xy"), None);
        assert_eq!(frame.write(3, b"xy"), Some(()));
        assert_eq!(frame.bytes(), b"fraxy");
    }

    #[test]
    fn ends_move_only_within_the_buffer() {
        let mut buffer = *b"....frame++";
        let mut frame = SliceFrame::new(&mut buffer, 4, 5).unwrap();
        assert_eq!(frame.grow_head(5), None);
        assert_eq!(frame.grow_head(4), Some(()));
        assert_eq!(frame.bytes(), b"....frame");
        assert_eq!(frame.truncate(10), None);
        assert_eq!(frame.truncate(8), Some(()));
        assert_eq!(frame.shrink_head(9), None);
        assert_eq!(frame.shrink_head(4), Some(()));
        assert_eq!(frame.bytes(), b"fram");
        assert!(SliceFrame::new(&mut [0; 4], 3, 2).is_none());
        assert!(SliceFrame::new(&mut [0; 4], usize::MAX, 2).is_none());
    }
}
