//! An immutable hash index from small keys to service numbers: built once for each published generation, read for
//! every packet.
//!
//! Open addressing with linear probing at a load of at most one half. The keys come from the configuration, so
//! nobody outside can make them collide; a look-up of a key that is absent ends at the first free place.

/// A key of two words that says how to spread itself.
pub(crate) trait Key: Copy + Eq {
    /// A well-mixed 64-bit hash. It never leaves the process.
    fn spread(&self) -> u64;
}

/// The index.
#[derive(Debug, Clone)]
pub(crate) struct Index<K, V> {
    places: Box<[Option<(K, V)>]>,
    len: usize,
}

impl<K: Key, V: Copy> Index<K, V> {
    /// Builds the index; of two entries with one key the later wins.
    pub(crate) fn build(entries: impl ExactSizeIterator<Item = (K, V)>) -> Self {
        let capacity = (entries.len() * 2).next_power_of_two().max(2);
        let mut index = Self { places: vec![None; capacity].into_boxed_slice(), len: 0 };
        for (key, value) in entries {
            let place = index.place(&key);
            index.len += usize::from(index.places[place].is_none());
            index.places[place] = Some((key, value));
        }
        index
    }

    /// The value of a key.
    #[inline]
    pub(crate) fn find(&self, key: &K) -> Option<V> {
        self.places[self.place(key)].map(|(_, value)| value)
    }

    /// Whether there is no key at all, which spares the caller a look-up.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes held.
    pub(crate) fn memory_bytes(&self) -> usize {
        size_of_val(&*self.places)
    }

    /// The place of the key, or the free place where its search ends. Ends because at least half is free.
    #[inline]
    fn place(&self, key: &K) -> usize {
        let mask = self.places.len() - 1;
        let mut place = (key.spread() as usize) & mask;
        while let Some((other, _)) = &self.places[place] {
            if other == key {
                break;
            }
            place = (place + 1) & mask;
        }
        place
    }
}

/// Mixes three words; the multipliers are the odd constants of the 64-bit golden ratio and of its successors.
#[inline]
pub(crate) fn mix(high: u64, low: u64, rest: u64) -> u64 {
    let mut x = high.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ low.rotate_left(29);
    x = (x ^ (x >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93) ^ rest;
    x = (x ^ (x >> 29)).wrapping_mul(0xa5a3_5643_27b6_9b27);
    x ^ (x >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Key for u64 {
        fn spread(&self) -> u64 {
            mix(*self, 0, 0)
        }
    }

    #[test]
    fn every_key_is_found_and_no_other() {
        let index = Index::build((0..1000u32).map(|key| (u64::from(key) * 3, u64::from(key))));
        assert_eq!(index.len, 1000);
        for key in 0..3000u64 {
            assert_eq!(index.find(&key), (key % 3 == 0).then_some(key / 3));
        }
    }

    #[test]
    fn an_empty_index_answers_nothing() {
        let index = Index::<u64, u64>::build(std::iter::empty());
        assert!(index.is_empty());
        assert_eq!(index.find(&0), None);
    }

    #[test]
    fn the_later_of_two_equal_keys_wins() {
        let index = Index::build([(7u64, 1u8), (7, 2)].into_iter());
        assert_eq!((index.len, index.find(&7)), (1, Some(2)));
    }
}
