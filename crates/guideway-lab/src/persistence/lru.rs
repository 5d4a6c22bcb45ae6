//! A map of fixed size that forgets what was used least recently.

use std::collections::HashMap;
use std::hash::Hash;

/// The map.
#[derive(Debug)]
pub(crate) struct Lru<K, V> {
    places: HashMap<K, usize>,
    entries: Vec<Entry<K, V>>,
    capacity: usize,
    newest: usize,
    oldest: usize,
}

#[derive(Debug)]
struct Entry<K, V> {
    key: K,
    value: V,
    newer: usize,
    older: usize,
}

const NONE: usize = usize::MAX;

impl<K: Copy + Eq + Hash, V: Copy> Lru<K, V> {
    /// A map of at most `capacity` entries, at least one.
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            places: HashMap::new(),
            entries: Vec::new(),
            capacity: capacity.max(1),
            newest: NONE,
            oldest: NONE,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The value of a key, which is thereby used.
    pub(crate) fn get(&mut self, key: &K) -> Option<V> {
        let place = *self.places.get(key)?;
        self.unlink(place);
        self.link(place);
        Some(self.entries[place].value)
    }

    /// Stores a value, in place of the least recently used one when the map is full.
    pub(crate) fn insert(&mut self, key: K, value: V) {
        if let Some(&place) = self.places.get(&key) {
            self.entries[place].value = value;
            self.unlink(place);
            self.link(place);
            return;
        }
        let entry = Entry { key, value, newer: NONE, older: NONE };
        let place = if self.entries.len() < self.capacity {
            self.entries.push(entry);
            self.entries.len() - 1
        } else {
            let place = self.oldest;
            self.unlink(place);
            self.places.remove(&self.entries[place].key);
            self.entries[place] = entry;
            place
        };
        self.places.insert(key, place);
        self.link(place);
    }

    fn unlink(&mut self, place: usize) {
        let (newer, older) = (self.entries[place].newer, self.entries[place].older);
        match newer {
            NONE => self.newest = older,
            newer => self.entries[newer].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.entries[older].newer = newer,
        }
    }

    fn link(&mut self, place: usize) {
        let before = self.newest;
        self.entries[place].newer = NONE;
        self.entries[place].older = before;
        match before {
            NONE => self.oldest = place,
            before => self.entries[before].newer = place,
        }
        self.newest = place;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_was_used_least_recently_is_forgotten_first() {
        let mut lru = Lru::new(2);
        lru.insert('a', 1);
        lru.insert('b', 2);
        assert_eq!(lru.get(&'a'), Some(1));
        lru.insert('c', 3);
        assert_eq!((lru.get(&'a'), lru.get(&'b'), lru.get(&'c')), (Some(1), None, Some(3)));
        assert_eq!(lru.len(), 2);
    }

    proptest! {
        #[test]
        fn it_agrees_with_a_list_in_order_of_use(
            steps in prop::collection::vec((any::<bool>(), 0u8..12, any::<u16>()), 1..200),
            capacity in 1usize..8,
        ) {
            let mut lru = Lru::new(capacity);
            let mut list: Vec<(u8, u16)> = Vec::new();
            for (insert, key, value) in steps {
                let at = list.iter().position(|(other, _)| *other == key);
                if insert {
                    at.map(|at| list.remove(at));
                    list.push((key, value));
                    if list.len() > capacity {
                        list.remove(0);
                    }
                    lru.insert(key, value);
                } else {
                    let found = at.map(|at| list.remove(at));
                    list.extend(found);
                    prop_assert_eq!(lru.get(&key), found.map(|(_, value)| value));
                }
                prop_assert_eq!(lru.len(), list.len());
            }
        }
    }
}
