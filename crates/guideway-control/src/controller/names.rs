//! Backends by their names.

use std::cell::{Cell, OnceCell};
use std::collections::{HashMap, HashSet};

use super::spec::BackendSpec;

/// Finds backends by name.
///
/// Who asks does so mostly in the order in which they are listed, since most changes keep it; then no name is hashed.
pub(super) struct Names<'a> {
    backends: &'a [BackendSpec],
    next: Cell<usize>,
    places: OnceCell<HashMap<&'a str, usize>>,
}

impl<'a> Names<'a> {
    pub(super) fn of(backends: &'a [BackendSpec]) -> Self {
        Self { backends, next: Cell::new(0), places: OnceCell::new() }
    }

    pub(super) fn backends(&self) -> &'a [BackendSpec] {
        self.backends
    }

    /// The place of the backend of this name; of several, the last.
    pub(super) fn find(&self, name: &str) -> Option<usize> {
        let next = self.next.get();
        let place = match self.backends.get(next) {
            Some(backend) if *backend.identity == *name => next,
            _ => *self.places().get(name)?,
        };
        self.next.set(place + 1);
        Some(place)
    }

    fn places(&self) -> &HashMap<&'a str, usize> {
        let named = |(place, backend): (usize, &'a BackendSpec)| (backend.identity.as_ref(), place);
        self.places.get_or_init(|| self.backends.iter().enumerate().map(named).collect())
    }
}

/// The first backend whose name another before it has; none is looked for where all names are those of `before`, which are
/// known to differ.
pub(super) fn twice<'a>(backends: &'a [BackendSpec], before: &[BackendSpec]) -> Option<&'a BackendSpec> {
    let names = |backends: &'a [BackendSpec]| backends.iter().map(|backend| &backend.identity);
    if names(backends).eq(before.iter().map(|backend| &backend.identity)) {
        return None;
    }
    let mut seen = HashSet::new();
    backends.iter().find(|backend| !seen.insert(&backend.identity))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::tests::of;

    #[test]
    fn backends_are_found_by_name_in_whatever_order_they_are_asked_for() {
        let backends = of(1..=4);
        let names = Names::of(&backends);
        let asked = [("be1", 0), ("be2", 1), ("be4", 3), ("be1", 0), ("be3", 2), ("be3", 2), ("be4", 3)];
        for (name, place) in asked {
            assert_eq!(names.find(name), Some(place), "{name}");
            assert_eq!(names.find("be9"), None);
        }
    }

    #[test]
    fn a_name_that_two_have_is_told_unless_the_names_are_known_to_differ() {
        let backends = of([1, 2, 1, 2]);
        assert_eq!(twice(&backends, &[]), Some(&backends[2]));
        assert_eq!(twice(&backends, &backends[..2]), Some(&backends[2]));
        assert_eq!(twice(&backends[..2], &backends[..2]), None);
        assert_eq!(twice(&backends[..2], &[]), None);
    }
}
