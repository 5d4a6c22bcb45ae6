//! Random numbers that are the same on every machine: SplitMix64.

/// A generator; the seed decides everything that follows.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    /// The stream number `stream` of `seed`. Streams are independent, so drawing more from one changes no other.
    pub(crate) fn stream(seed: u64, stream: u64) -> Self {
        let mut random = Self(seed ^ stream.wrapping_mul(0xd6e8_feb8_6659_fd93));
        random.0 = random.word();
        random
    }

    /// 64 random bits.
    pub(crate) fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    /// A number from `low` up to, and without, `high`; `low` when the range is empty.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        let span = high.saturating_sub(low);
        // The high half of the product: without the bias towards small numbers that a remainder has.
        low + ((u128::from(self.word()) * u128::from(span)) >> 64) as u64
    }

    /// True in `percent` of a hundred cases.
    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.between(0, 100) < percent
    }

    /// An index into a list of `len`; 0 when it is empty.
    pub(crate) fn index(&mut self, len: usize) -> usize {
        self.between(0, len as u64) as usize
    }

    /// Puts a list into random order.
    pub(crate) fn shuffle<T>(&mut self, list: &mut [T]) {
        for last in (1..list.len()).rev() {
            list.swap(last, self.index(last + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_gives_one_sequence_and_streams_differ() {
        let words = |seed, stream| {
            let mut random = Random::stream(seed, stream);
            [random.word(), random.word()]
        };
        assert_eq!(words(1, 2), words(1, 2));
        assert_ne!(words(1, 2), words(1, 3));
        assert_ne!(words(1, 2), words(2, 2));
    }

    #[test]
    fn numbers_keep_to_their_range_and_reach_its_ends() {
        let mut random = Random::stream(7, 0);
        let drawn: Vec<u64> = (0..1000).map(|_| random.between(3, 6)).collect();
        assert!(drawn.iter().all(|number| (3..6).contains(number)));
        assert!((3..6).all(|number| drawn.contains(&number)));
        assert_eq!(random.between(4, 4), 4);
    }
}
