//! Regions of one fixed array: which part of the slot memory, or of the backend memory, belongs to which service.

use std::collections::BTreeMap;

/// A part of the array: `len` places from `offset` on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Region {
    /// First place.
    pub offset: u32,
    /// Number of places.
    pub len: u32,
}

/// Hands out regions, first fit, and joins neighbours when they come back.
#[derive(Debug, Clone)]
pub(crate) struct Regions {
    free: BTreeMap<u32, u32>,
    capacity: u32,
}

impl Regions {
    /// An array of `capacity` places, all free.
    pub(super) fn new(capacity: u32) -> Self {
        let free = if capacity == 0 { BTreeMap::new() } else { BTreeMap::from([(0, capacity)]) };
        Self { free, capacity }
    }

    /// Takes the first region of `len` places that is free, or tells the longest run there is.
    pub(super) fn take(&mut self, len: u32) -> Result<Region, Full> {
        let found = self.free.iter().find(|&(_, &run)| run >= len).map(|(&offset, &run)| (offset, run));
        let Some((offset, run)) = found else {
            return Err(Full {
                asked: len,
                longest: self.longest(),
                free: self.free(),
                capacity: self.capacity,
            });
        };
        self.free.remove(&offset);
        if run > len {
            self.free.insert(offset + len, run - len);
        }
        Ok(Region { offset, len })
    }

    /// Takes just this region; `false`, and nothing is taken, where it is not free or does not exist.
    pub(super) fn take_at(&mut self, region: Region) -> bool {
        let Region { offset, len } = region;
        let Some(end) = offset.checked_add(len) else { return false };
        if len == 0 {
            return end <= self.capacity;
        }
        let around = self.free.range(..=offset).next_back().map(|(&start, &run)| (start, run));
        let Some((start, run)) = around.filter(|&(start, run)| end <= start + run) else { return false };
        self.free.remove(&start);
        if start < offset {
            self.free.insert(start, offset - start);
        }
        if end < start + run {
            self.free.insert(end, start + run - end);
        }
        true
    }

    /// Gives a region back.
    pub(super) fn give_back(&mut self, region: Region) {
        let Region { mut offset, mut len } = region;
        if len == 0 {
            return;
        }
        if let Some((&before, &run)) = self.free.range(..offset).next_back() {
            debug_assert!(before + run <= offset, "invariant violated: region given back twice");
            if before + run == offset {
                self.free.remove(&before);
                offset = before;
                len += run;
            }
        }
        if let Some(run) = self.free.remove(&(offset + len)) {
            len += run;
        }
        self.free.insert(offset, len);
    }

    /// The longest run of free places.
    pub(super) fn longest(&self) -> u32 {
        self.free.values().copied().max().unwrap_or(0)
    }

    /// Places that are free, in however many runs.
    pub(super) fn free(&self) -> u32 {
        self.free.values().sum()
    }
}

/// No run of free places is long enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Full {
    /// Places asked for.
    pub asked: u32,
    /// The longest free run.
    pub longest: u32,
    /// All free places.
    pub free: u32,
    /// Places of the array.
    pub capacity: u32,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn neighbours_join_when_they_come_back() {
        let mut regions = Regions::new(30);
        let taken: Vec<_> = (0..3).map(|_| regions.take(10).unwrap()).collect();
        assert_eq!(regions.take(1), Err(Full { asked: 1, longest: 0, free: 0, capacity: 30 }));
        for index in [0, 2, 1] {
            regions.give_back(taken[index]);
        }
        assert_eq!(regions.take(30), Ok(Region { offset: 0, len: 30 }));
    }

    #[test]
    fn a_region_is_taken_where_it_lay_and_only_once() {
        let mut regions = Regions::new(30);
        assert!(regions.take_at(Region { offset: 10, len: 5 }));
        for (offset, len) in [(10, 5), (14, 1), (9, 2), (0, 31), (30, 1), (u32::MAX, 2)] {
            assert!(!regions.take_at(Region { offset, len }), "{offset} {len}");
        }
        assert_eq!(regions.free(), 25);
        assert!(
            regions.take_at(Region { offset: 15, len: 15 }) && regions.take_at(Region { offset: 0, len: 10 })
        );
        assert_eq!(regions.free(), 0);
    }

    proptest! {
        #[test]
        fn regions_never_overlap_and_none_is_lost(steps in prop::collection::vec((any::<bool>(), 1u32..40), 1..200)) {
            let mut regions = Regions::new(256);
            let mut held: Vec<Region> = Vec::new();
            for (take, number) in steps {
                if take {
                    if let Ok(region) = regions.take(number) {
                        let apart = held.iter().all(|other| {
                            region.offset + region.len <= other.offset || other.offset + other.len <= region.offset
                        });
                        prop_assert!(apart);
                        held.push(region);
                    }
                } else if !held.is_empty() {
                    let region = held.swap_remove(number as usize % held.len());
                    regions.give_back(region);
                }
                prop_assert_eq!(regions.free() + held.iter().map(|region| region.len).sum::<u32>(), 256);
            }
        }
    }
}
