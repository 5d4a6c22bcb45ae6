//! Things by number: a number is used again once its thing is gone.

/// Things, each at its number.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    places: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { places: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    /// Puts a thing at a number that is free.
    pub(crate) fn insert(&mut self, thing: T) -> u32 {
        let number = self.free.pop().unwrap_or_else(|| {
            // By an eighth, as there may be thousands: twice as many places would lie idle up to half.
            if self.places.len() == self.places.capacity() {
                self.places.reserve_exact(self.places.len() / 8 + 8);
            }
            self.places.push(None);
            // Far fewer than memory would hold of them.
            self.places.len() as u32 - 1
        });
        self.places[number as usize] = Some(thing);
        number
    }

    pub(crate) fn get(&self, number: u32) -> Option<&T> {
        self.places.get(number as usize)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        self.places.get_mut(number as usize)?.as_mut()
    }

    pub(crate) fn remove(&mut self, number: u32) -> Option<T> {
        let thing = self.places.get_mut(number as usize)?.take()?;
        self.free.push(number);
        Some(thing)
    }

    /// All of them with their numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        (0..).zip(&self.places).filter_map(|(number, place)| Some((number, place.as_ref()?)))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.free.len() == self.places.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_free_again_when_its_thing_is_gone_and_not_before() {
        let mut slab = Slab::default();
        let [a, b] = ["a", "b"].map(|thing| slab.insert(thing));
        assert_eq!((slab.remove(a), slab.remove(a), slab.get(a)), (Some("a"), None, None));
        let c = slab.insert("c");
        assert_eq!((c, slab.get(b), slab.get(c)), (a, Some(&"b"), Some(&"c")));
        assert_eq!(slab.iter().collect::<Vec<_>>(), [(a, &"c"), (b, &"b")]);
        assert!(!slab.is_empty());
        slab.remove(b);
        slab.remove(c);
        assert!(slab.is_empty() && slab.get(9).is_none());
    }
}
