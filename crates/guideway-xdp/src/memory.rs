//! What the balancer's maps take of the kernel's memory: all of it when they are made, and nothing later.

use guideway_soft::Limits;

use crate::tables;

/// One map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapMemory {
    /// Its name.
    pub map: &'static str,
    /// How many elements it can have.
    pub entries: u32,
    /// What one of them is.
    pub element: &'static str,
    /// Bytes that it takes, from the sizes of keys and values and of what the kernel adds.
    pub bytes: u64,
}

/// What the maps take that `limits` ask for, on a machine with so many CPUs.
///
/// Hash maps are counted with the elements that they have in store (one a key, and some a CPU) and their buckets; tries
/// take memory only with the prefixes that are in them, and are counted as if they were full.
pub fn report(limits: &Limits, cpus: u32) -> Vec<MapMemory> {
    let sizes = tables::sizes(limits);
    let entries_of =
        |name: &str| sizes.iter().find(|(map, _)| *map == name).map_or(1, |(_, entries)| *entries);
    let bytes = |shape: &tables::Shape| {
        let entries = entries_of(shape.name);
        let (key, value) = (round(shape.key as u64), round(shape.value as u64));
        let bytes = match shape.kind {
            tables::Kind::Array => page(u64::from(entries) * value),
            tables::Kind::PerCpu => u64::from(entries) * (value * u64::from(cpus) + POINTER),
            tables::Kind::Hash => {
                let buckets = u64::from(entries.next_power_of_two()) * BUCKET;
                u64::from(entries + cpus) * (ELEMENT + key + value) + buckets
            }
            tables::Kind::Trie => u64::from(entries) * 2 * (NODE + key + value),
        };
        MapMemory { map: shape.name, entries, element: shape.element, bytes }
    };
    tables::ALL.iter().map(bytes).collect()
}

/// CPUs that this machine may have: what the kernel keeps per-CPU values for.
pub fn possible_cpus() -> u32 {
    aya::util::nr_cpus().map_or(1, |cpus| cpus as u32)
}

/// A pointer, and what the kernel puts before a key in a hash map, around a bucket, and before a prefix in a trie, in
/// whose worst case there is a node between for each prefix (kernel/bpf/hashtab.c and lpm_trie.c).
const POINTER: u64 = 8;
const ELEMENT: u64 = 48;
const BUCKET: u64 = 16;
const NODE: u64 = 40;

const fn round(bytes: u64) -> u64 {
    bytes.next_multiple_of(8)
}

const fn page(bytes: u64) -> u64 {
    bytes.next_multiple_of(4_096)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str, maps: &[MapMemory]) -> u64 {
        maps.iter().find(|map| map.map == name).map_or(0, |map| map.bytes)
    }

    #[test]
    fn a_slot_takes_four_bytes_and_a_remembered_flow_sixteen() {
        for flows in [65_536, 1_048_576] {
            let limits = Limits { flows, ..Limits::default() };
            let maps = report(&limits, 4);
            assert_eq!(of("SLOTS", &maps), u64::from(limits.slots) * 4);
            assert_eq!(of("FLOWS", &maps), u64::from(flows) * 16);
        }
    }
}
