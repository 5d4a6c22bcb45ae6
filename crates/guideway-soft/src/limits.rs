//! How much memory a forwarder has: all of it is taken at start, and none later on the packet path.

use guideway_forward::record::flow::ENTRIES;
use guideway_forward::record::fragment::FRAGMENT_ENTRIES;

/// The sizes of a forwarder's memory. Whatever does not fit is refused by the controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Services.
    pub services: u16,
    /// Places for backends, over all services.
    pub backends: u32,
    /// Slots, over all tables of all services; a change of table size needs the old and the new one at once.
    pub slots: u32,
    /// Flows that can be remembered; rounded up so that the number of buckets is a power of two.
    pub flows: u32,
    /// Fragmented datagrams under way; rounded up likewise.
    pub fragments: u32,
    /// Packet threads.
    pub threads: u16,
    /// ICMP messages of our own a second.
    pub icmp_per_second: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            services: 256,
            backends: 8_192,
            slots: 2_097_152,
            flows: 65_536,
            fragments: 4_096,
            threads: 1,
            icmp_per_second: 1_000,
        }
    }
}

impl Limits {
    /// Buckets of the flow table.
    pub(crate) fn flow_buckets(&self) -> usize {
        (self.flows as usize).div_ceil(ENTRIES).next_power_of_two()
    }

    /// Buckets of the fragment cache.
    pub(crate) fn fragment_buckets(&self) -> usize {
        (self.fragments as usize).div_ceil(FRAGMENT_ENTRIES).next_power_of_two()
    }
}

/// Where a forwarder's memory goes, bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryReport {
    /// Slots of all tables.
    pub slots: usize,
    /// The flow table.
    pub flows: usize,
    /// The fragment cache.
    pub fragments: usize,
    /// Records of services and backends.
    pub records: usize,
    /// Counters of all packet threads.
    pub counters: usize,
    /// The look-up of services; the only part that follows the configuration.
    pub lookup: usize,
}

impl MemoryReport {
    /// All of it.
    pub fn total(&self) -> usize {
        self.slots + self.flows + self.fragments + self.records + self.counters + self.lookup
    }
}
