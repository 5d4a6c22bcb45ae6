//! Where services listen on single addresses, and which addresses are virtual: a hash table in lines of the cache.
//!
//! # How it lies in memory
//! The array of lines has two halves. One is in use; a change fills the other and then stores one word ([`At`]), so a
//! packet sees all of the old directory or all of the new one. A half is a table of 2^n lines (32 at least) with two
//! [`places`](Line::place) each, and after it a filter of 16 bits for each line of the table.
//!
//! A key is in one of two lines, which its hash names, and in no other. An address that is virtual has its bit set in the
//! filter, so for most of the others one look at a few bytes is enough.

use core::sync::atomic::Ordering::Relaxed;

use super::key::ServiceKey;
use crate::word::AtomicU64;

/// Places of one line.
pub const PLACES: usize = 2;

/// Bits of the filter for each line of the table, as a power of two.
const FILTER_SHIFT: u32 = 4;

/// The least number of lines that a table has: its filter then fills one line.
pub const LEAST_LINES: u32 = 32;

/// The most lines that a table has, so that both of a key's lines come from hash bits of their own.
pub const MOST_LINES: u32 = 1 << 24;

/// One cache line: two places of three words in the table, 512 bits in the filter.
#[derive(Debug, Default)]
#[cfg_attr(target_has_atomic = "64", derive(zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::KnownLayout))]
#[repr(C, align(64))]
pub struct Line {
    words: [AtomicU64; 8],
}

/// What stands in a place: the key's words, and the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    address: [u64; 2],
    /// The rest of the key with [`TAKEN`] in the low half, the value in the high half; 0 is a free place.
    rest: u64,
}

/// Marks a place that is not free; in the byte of the key that is reserved.
const TAKEN: u32 = 1 << 31;

impl Held {
    /// This value of this key.
    #[inline(always)]
    pub const fn new(key: &ServiceKey, value: u32) -> Held {
        Held { address: zerocopy::transmute!(key.address), rest: rest(key) as u64 | ((value as u64) << 32) }
    }

    /// The key.
    pub const fn key(&self) -> ServiceKey {
        let [a, b, protocol, reserved] = ((self.rest as u32) & !TAKEN).to_ne_bytes();
        ServiceKey { address: zerocopy::transmute!(self.address), port: [a, b], protocol, reserved }
    }

    /// The value.
    pub const fn value(&self) -> u32 {
        (self.rest >> 32) as u32
    }
}

/// What of the key is not the address.
#[inline(always)]
const fn rest(key: &ServiceKey) -> u32 {
    let [a, b] = key.port;
    u32::from_ne_bytes([a, b, key.protocol, key.reserved]) | TAKEN
}

impl Line {
    /// What stands in place 0 or 1.
    pub fn place(&self, place: usize) -> Option<Held> {
        let (places, _) = self.words.as_chunks::<3>();
        let [high, low, rest] = places.get(place)?;
        let held = Held { address: [high.load(Relaxed), low.load(Relaxed)], rest: rest.load(Relaxed) };
        (held.rest != 0).then_some(held)
    }

    /// Writes a place. Only in the half that is not in use.
    pub fn set_place(&self, place: usize, held: Held) {
        let (places, _) = self.words.as_chunks::<3>();
        if let Some([high, low, rest]) = places.get(place) {
            high.store(held.address[0], Relaxed);
            low.store(held.address[1], Relaxed);
            rest.store(held.rest, Relaxed);
        }
    }

    /// Takes everything out. Only in the half that is not in use.
    pub fn clear(&self) {
        self.words.iter().for_each(|word| word.store(0, Relaxed));
    }

    /// Sets a bit of a line of the filter. Only in the half that is not in use.
    pub fn set_bit(&self, bit: u32) {
        if let Some(word) = self.words.get((bit >> 6 & 7) as usize) {
            word.store(word.load(Relaxed) | 1 << (bit & 63), Relaxed);
        }
    }

    #[inline(always)]
    fn bit(&self, bit: u32) -> bool {
        self.words[(bit >> 6 & 7) as usize].load(Relaxed) >> (bit & 63) & 1 != 0
    }

    /// The value of a key that is wanted, if it is in this line.
    #[inline(always)]
    fn find(&self, wanted: &Held) -> Option<u32> {
        let [a, b, c, d, e, f, ..] = &self.words;
        let value = |high: &AtomicU64, low: &AtomicU64, rest: &AtomicU64| {
            let rest = rest.load(Relaxed);
            let found = rest as u32 == wanted.rest as u32
                && low.load(Relaxed) == wanted.address[1]
                && high.load(Relaxed) == wanted.address[0];
            found.then_some((rest >> 32) as u32)
        };
        match value(a, b, c) {
            None => value(d, e, f),
            found => found,
        }
    }
}

/// Which directory is in use, in one word: bits 4–31 the lines of its table less one, the high half the first of them.
/// The low four bits are others'.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct At(pub u64);

impl At {
    /// The directory whose table has so many lines, a power of two, from this line of the array on.
    pub const fn new(first: u32, lines: u32) -> At {
        At(((first as u64) << 32) | ((lines.wrapping_sub(1) as u64 & 0x0fff_ffff) << 4))
    }

    /// The first line.
    #[inline(always)]
    pub const fn first(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// Lines of the table less one.
    #[inline(always)]
    pub const fn mask(self) -> u32 {
        self.0 as u32 >> 4
    }

    /// Lines of the filter, after those of the table.
    pub const fn filter_lines(self) -> u32 {
        (self.mask() >> (9 - FILTER_SHIFT)) + 1
    }

    /// The two lines that a key can be in.
    #[inline(always)]
    pub const fn lines(self, key: &ServiceKey) -> [u32; 2] {
        let hash = (spread(&key.address) ^ rest(key) as u64).wrapping_mul(0xd6e8_feb8_6659_fd93);
        let (high, low) = ((hash >> 32) as u32, hash as u32);
        let (first, mask) = (self.first(), self.mask());
        [first.wrapping_add((low ^ high) & mask), first.wrapping_add(high & mask)]
    }

    /// The line of the filter that tells of an address, and the bit in it.
    #[inline(always)]
    pub const fn filter(self, address: &[u8; 16]) -> (u32, u32) {
        let bit = spread(address) as u32 & (self.mask() << FILTER_SHIFT | ((1 << FILTER_SHIFT) - 1));
        (self.first().wrapping_add(self.mask()).wrapping_add(1).wrapping_add(bit >> 9), bit & 511)
    }
}

/// A hash of the address whose lower half depends on all of it.
#[inline(always)]
const fn spread(address: &[u8; 16]) -> u64 {
    let [high, low]: [u64; 2] = zerocopy::transmute!(*address);
    let word = u64::from_be(low) ^ u64::from_be(high).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = word.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    word ^ (word >> 32)
}

/// The value of a key; `line` hands out the lines of the array.
#[inline(always)]
pub fn find<'a>(at: At, key: &ServiceKey, line: impl Fn(u32) -> Option<&'a Line>) -> Option<u32> {
    let wanted = Held::new(key, 0);
    let [first, second] = at.lines(key);
    match line(first)?.find(&wanted) {
        None => line(second)?.find(&wanted),
        found => found,
    }
}

/// Whether the directory may know the address: `false` is sure.
#[inline(always)]
pub fn may_know<'a>(at: At, address: &[u8; 16], line: impl Fn(u32) -> Option<&'a Line>) -> bool {
    let (number, bit) = at.filter(address);
    line(number).is_some_and(|line| line.bit(bit))
}

const _: () = assert!(size_of::<Line>() == 64 && align_of::<Line>() == 64);

#[cfg(test)]
mod tests {
    use super::*;

    fn key(last: u8, port: u16) -> ServiceKey {
        ServiceKey::new([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, last], port, 6)
    }

    #[test]
    fn a_place_gives_back_what_was_put_there() {
        let line = Line::default();
        assert_eq!(line.place(0), None);
        let (first, second) =
            (Held::new(&key(1, 80), 7), Held::new(&ServiceKey::of_address([9; 16]), u32::MAX));
        line.set_place(0, first);
        line.set_place(1, second);
        assert_eq!((line.place(0), line.place(1), line.place(2)), (Some(first), Some(second), None));
        assert_eq!((first.key(), first.value()), (key(1, 80), 7));
        assert_eq!((second.key(), second.value()), (ServiceKey::of_address([9; 16]), u32::MAX));
        line.clear();
        assert_eq!((line.place(0), line.place(1)), (None, None));
    }

    #[test]
    fn a_key_is_found_in_either_of_its_lines_and_nothing_like_it_is() {
        for in_second in [false, true] {
            let lines: [Line; 33] = core::array::from_fn(|_| Line::default());
            let at = At::new(0, 32);
            let line = |number: u32| lines.get(number as usize);
            let number = at.lines(&key(1, 80))[usize::from(in_second)];
            lines[number as usize].set_place(usize::from(in_second), Held::new(&key(1, 80), 5));
            assert_eq!(find(at, &key(1, 80), line), Some(5));
            for other in
                [key(1, 81), key(2, 80), key(1, 80).any_port(), ServiceKey::of_address(key(1, 80).address)]
            {
                assert_eq!(find(at, &other, line), None);
            }
            assert_eq!(find(at, &ServiceKey::new([0; 16], 0, 0), line), None, "a free place is no key");
        }
    }

    #[test]
    fn the_filter_lies_right_after_the_table() {
        for lines in [32, 64, 4_096, MOST_LINES] {
            let at = At::new(1_000, lines);
            assert_eq!((at.first(), at.mask(), at.filter_lines()), (1_000, lines - 1, lines / 32));
            for last in 0..=255 {
                let (line, bit) = at.filter(&key(last, 0).address);
                assert!((1_000 + lines..1_000 + lines + lines / 32).contains(&line) && bit < 512);
                assert!(at.lines(&key(last, 80)).iter().all(|line| (1_000..1_000 + lines).contains(line)));
            }
        }
    }

    #[test]
    fn neighbours_fall_into_lines_and_bits_of_their_own() {
        let at = At::new(0, 256);
        let mut bits = [false; 4_096];
        let mut lines = [0u32; 256];
        for last in 0..=255 {
            let (line, bit) = at.filter(&key(last, 0).address);
            bits[((line - 256) << 9 | bit) as usize] = true;
            at.lines(&key(last, 80)).iter().for_each(|line| lines[*line as usize] += 1);
        }
        // Of 256 thrown into 4,096, eight or so share; of 512 into 256, the fullest has seven or so.
        assert!(bits.iter().filter(|set| **set).count() > 230);
        assert!(lines.iter().all(|count| *count < 12), "{lines:?}");
    }
}
