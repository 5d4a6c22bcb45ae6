//! The maps of the balancer by name, their shapes, and the records mapped into this process.

use std::sync::atomic::AtomicU32;

use aya::maps::{Map, MapData, MapInfo};
use guideway_forward::record::directory::{self, Line};
use guideway_forward::record::{
    Backend, Books, Bucket, FragmentBucket, Pace, PrefixKey, QuicKey, Service, ServiceId, Settings, Tally,
    Vip, flow, fragment,
};
use guideway_soft::Limits;

use crate::error::Error;
use crate::halves;
use crate::mapped::{Growing, Mapped};

/// Slots in one element of the slot map.
pub(crate) const SLOTS_A_LINE: u32 = 16;

/// One map of the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) key: usize,
    pub(crate) value: usize,
    /// What one element is, for people.
    pub(crate) element: &'static str,
}

/// What kind of map it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Array,
    PerCpu,
    Hash,
    Trie,
}

/// Declares the maps with the sizes of their keys and values.
macro_rules! shapes {
    ($($constant:ident = $kind:ident $name:literal: $key:ty => $value:ty, $element:literal;)*) => {
        $(pub(crate) const $constant: Shape =
            Shape { name: $name, kind: Kind::$kind, key: size_of::<$key>(), value: size_of::<$value>(), element: $element };)*
        /// Every map that outlives a process.
        pub(crate) const ALL: &[Shape] = &[$($constant,)*];
    };
}

shapes! {
    DIRECTORY = Array "DIRECTORY": u32 => Line, "2 places that services listen at";
    PREFIXES = Trie "PREFIXES": PrefixKey => ServiceId, "a prefix that a service listens at";
    VIP_PREFIXES = Trie "VIP_PREFIXES": [u8; 20] => Vip, "a prefix of virtual addresses";
    QUIC = Hash "QUIC": QuicKey => u16, "a server id";
    SERVICES = Array "SERVICES": u32 => Service, "a service";
    BACKENDS = Array "BACKENDS": u32 => Backend, "a backend";
    SLOTS = Array "SLOTS": u32 => [u32; SLOTS_A_LINE as usize], "16 slots";
    FLOWS = Array "FLOWS": u32 => Bucket, "4 flows";
    FRAGMENTS = Array "FRAGMENTS": u32 => FragmentBucket, "4 fragmented datagrams";
    SETTINGS = Array "SETTINGS": u32 => Settings, "what is set";
    PACE = Array "PACE": u32 => Pace, "the pace of answers";
    BOOKS = PerCpu "BOOKS": u32 => Books, "the outcomes, on each CPU";
    SERVED = PerCpu "SERVED": u32 => Tally, "what a service took, on each CPU";
    SENT = PerCpu "SENT": u32 => Tally, "what a backend was sent, on each CPU";
}

// What their elements are said to be.
const _: () = assert!(
    SLOTS_A_LINE == 16 && flow::ENTRIES == 4 && fragment::FRAGMENT_ENTRIES == 4 && directory::PLACES == 2
);

/// The numbers of elements that `limits` ask for.
pub(crate) fn sizes(limits: &Limits) -> Vec<(&'static str, u32)> {
    let services = u32::from(limits.services).max(1);
    let backends = limits.backends.max(1);
    let bindings = services.saturating_mul(LISTENS_A_SERVICE).saturating_mul(KEYS_A_LISTEN);
    vec![
        // A listen is a key, and its address at most another.
        (DIRECTORY.name, halves::lines(bindings)),
        (PREFIXES.name, bindings),
        (VIP_PREFIXES.name, bindings),
        (QUIC.name, backends.saturating_mul(KEYS_A_LISTEN)),
        (SERVICES.name, services),
        (BACKENDS.name, backends),
        (SLOTS.name, limits.slots.div_ceil(SLOTS_A_LINE).max(1)),
        (FLOWS.name, flow_buckets(limits)),
        (FRAGMENTS.name, fragment_buckets(limits)),
        (SERVED.name, services),
        (SENT.name, backends),
    ]
}

/// Addresses and ports that a service may listen on, on average.
const LISTENS_A_SERVICE: u32 = 8;

/// A change adds all new keys before it takes any old one away, so that there is room for two.
pub(crate) const KEYS_A_LISTEN: u32 = 2;

/// Buckets of the flow table: a power of two.
pub(crate) fn flow_buckets(limits: &Limits) -> u32 {
    limits.flows.div_ceil(flow::ENTRIES as u32).next_power_of_two()
}

/// Buckets of the fragment cache: a power of two.
pub(crate) fn fragment_buckets(limits: &Limits) -> u32 {
    limits.fragments.div_ceil(fragment::FRAGMENT_ENTRIES as u32).next_power_of_two()
}

/// The records, mapped.
#[derive(Debug)]
pub(crate) struct Tables {
    pub(crate) directory: Mapped<Line>,
    pub(crate) services: Mapped<Service>,
    pub(crate) backends: Mapped<Backend>,
    pub(crate) slots: Growing<AtomicU32>,
    pub(crate) flows: Mapped<Bucket>,
    pub(crate) fragments: Mapped<FragmentBucket>,
    pub(crate) settings: Mapped<Settings>,
    pub(crate) pace: Mapped<Pace>,
}

impl Tables {
    /// Maps the arrays that `find` hands out.
    pub(crate) fn new(find: impl Fn(Shape) -> Result<MapData, Error>) -> Result<Self, Error> {
        fn mapped<T: zerocopy::FromBytes>(
            shape: Shape,
            find: &impl Fn(Shape) -> Result<MapData, Error>,
        ) -> Result<Mapped<T>, Error> {
            let map = find(shape)?;
            let elements = check(shape, &map)?;
            Mapped::new(shape.name, map.fd(), elements as usize)
        }
        let map = find(SLOTS)?;
        let slots = check(SLOTS, &map)? as usize * SLOTS_A_LINE as usize;
        Ok(Self {
            directory: mapped(DIRECTORY, &find)?,
            services: mapped(SERVICES, &find)?,
            backends: mapped(BACKENDS, &find)?,
            slots: Growing::new(SLOTS.name, map.fd(), slots)?,
            flows: mapped(FLOWS, &find)?,
            fragments: mapped(FRAGMENTS, &find)?,
            settings: mapped(SETTINGS, &find)?,
            pace: mapped(PACE, &find)?,
        })
    }
}

/// That a map has the shape that this version reads; its number of elements.
pub(crate) fn check(shape: Shape, map: &MapData) -> Result<u32, Error> {
    let wrong = |reason: String| Error::Map { map: shape.name, reason };
    let info: MapInfo = map.info().map_err(|error| wrong(error.to_string()))?;
    let (key, value) = (info.key_size() as usize, info.value_size() as usize);
    if (key, value) != (shape.key, shape.value) {
        return Err(wrong(format!(
            "keys of {key} and values of {value} bytes, not {} and {}",
            shape.key, shape.value
        )));
    }
    Ok(info.max_entries())
}

/// The data of a map of any kind that the balancer has.
pub(crate) fn data(shape: Shape, map: Map) -> Result<MapData, Error> {
    match map {
        Map::Array(data) | Map::HashMap(data) | Map::LpmTrie(data) | Map::PerCpuArray(data) => Ok(data),
        other => Err(Error::Map { map: shape.name, reason: format!("it is {other:?}") }),
    }
}
