//! A value that the controller replaces whole while packet threads read it.
//!
//! A reader holds its own reference and looks for a newer one between batches; it never waits, and it never frees: the
//! publisher keeps every replaced value until no reader holds it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The place where the newest value lies.
#[derive(Debug)]
pub(crate) struct Published<T> {
    generation: AtomicU64,
    values: Mutex<Values<T>>,
}

#[derive(Debug)]
struct Values<T> {
    current: Arc<T>,
    replaced: Vec<Arc<T>>,
}

impl<T> Published<T> {
    /// Publishes a first value.
    pub(crate) fn new(value: T) -> Self {
        let values = Values { current: Arc::new(value), replaced: Vec::new() };
        Self { generation: AtomicU64::new(0), values: Mutex::new(values) }
    }

    /// Replaces the value, and frees those that no reader holds any more.
    pub(crate) fn publish(&self, value: T) {
        let mut values = self.lock();
        let before = std::mem::replace(&mut values.current, Arc::new(value));
        values.replaced.push(before);
        values.replaced.retain(|value| Arc::strong_count(value) > 1);
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// The newest value.
    pub(crate) fn current(&self) -> Arc<T> {
        Arc::clone(&self.lock().current)
    }

    /// A reader of this place.
    pub(crate) fn reader(&self) -> Reader<T> {
        let generation = self.generation.load(Ordering::Acquire);
        Reader { held: self.current(), generation }
    }

    fn lock(&self) -> MutexGuard<'_, Values<T>> {
        // Nothing inside the lock can leave the values half changed, so a panic elsewhere does not spoil them.
        self.values.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A packet thread's hold on the newest value that it has seen.
#[derive(Debug)]
pub(crate) struct Reader<T> {
    held: Arc<T>,
    generation: u64,
}

impl<T> Reader<T> {
    /// Takes the newest value, unless the publisher is at work this very moment; then the next call does.
    #[inline]
    pub(crate) fn refresh(&mut self, place: &Published<T>) {
        let generation = place.generation.load(Ordering::Acquire);
        if generation != self.generation
            && let Ok(values) = place.values.try_lock()
        {
            self.held = Arc::clone(&values.current);
            self.generation = generation;
        }
    }

    /// Whether a newer value waits.
    pub(crate) fn is_behind(&self, place: &Published<T>) -> bool {
        place.generation.load(Ordering::Acquire) != self.generation
    }
}

impl<T> std::ops::Deref for Reader<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.held
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_keeps_its_value_until_it_refreshes() {
        let place = Published::new(1);
        let mut reader = place.reader();
        place.publish(2);
        assert_eq!((*reader, reader.is_behind(&place)), (1, true));
        reader.refresh(&place);
        assert_eq!((*reader, reader.is_behind(&place)), (2, false));
    }

    #[test]
    fn the_publisher_frees_what_nobody_holds() {
        let place = Published::new(Arc::new(1));
        let first = Arc::downgrade(&place.current());
        let mut reader = place.reader();
        place.publish(Arc::new(2));
        assert!(first.upgrade().is_some());
        reader.refresh(&place);
        place.publish(Arc::new(3));
        assert!(first.upgrade().is_none());
    }
}
