//! The books of all CPUs together.

use aya::maps::{Map, MapData, PerCpuArray};
use guideway_forward::record::{Books, Tally};
use guideway_soft::{Count, Totals};

use crate::error::Error;
use crate::tables::{self, Shape};

const BOOKS_WORDS: usize = size_of::<Books>() / 8;
const TALLY_WORDS: usize = size_of::<Tally>() / 8;

/// The per-CPU maps.
pub(crate) struct Counters {
    books: PerCpuArray<MapData, [u64; BOOKS_WORDS]>,
    served: PerCpuArray<MapData, [u64; TALLY_WORDS]>,
    sent: PerCpuArray<MapData, [u64; TALLY_WORDS]>,
}

impl std::fmt::Debug for Counters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Counters").finish_non_exhaustive()
    }
}

impl Counters {
    /// Over the maps that `find` hands out.
    pub(crate) fn new(find: impl Fn(Shape) -> Result<Map, Error>) -> Result<Self, Error> {
        let wrong = |shape: Shape| {
            move |error: aya::maps::MapError| Error::Map { map: shape.name, reason: error.to_string() }
        };
        Ok(Self {
            books: PerCpuArray::try_from(find(tables::BOOKS)?).map_err(wrong(tables::BOOKS))?,
            served: PerCpuArray::try_from(find(tables::SERVED)?).map_err(wrong(tables::SERVED))?,
            sent: PerCpuArray::try_from(find(tables::SENT)?).map_err(wrong(tables::SENT))?,
        })
    }

    /// All outcomes and events. A map that cannot be read counts nothing.
    pub(crate) fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        if let Ok(values) = self.books.get(&0, 0) {
            for words in values.iter() {
                let books: Books = zerocopy::transmute!(*words);
                totals.add(&books);
            }
        }
        totals
    }

    pub(crate) fn service(&self, index: u32) -> Count {
        sum(&self.served, index)
    }

    pub(crate) fn backend(&self, index: u32) -> Count {
        sum(&self.sent, index)
    }
}

fn sum(map: &PerCpuArray<MapData, [u64; TALLY_WORDS]>, index: u32) -> Count {
    let mut count = Count::default();
    if let Ok(values) = map.get(&index, 0) {
        for [packets, bytes] in values.iter() {
            count += Count { packets: *packets, bytes: *bytes };
        }
    }
    count
}
