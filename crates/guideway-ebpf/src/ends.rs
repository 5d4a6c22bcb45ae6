//! A backend host's maps, and [`guideway_forward::tunnel_end::TunnelEnd`] over them.

use aya_ebpf::bindings::{BPF_F_NO_PREALLOC, BPF_F_RDONLY_PROG};
use aya_ebpf::btf_maps::{Array, HashMap, LpmTrie, PerCpuArray};
use aya_ebpf::macros::btf_map;
use guideway_forward::record::Tally;
use guideway_forward::tunnel_end::{Clamped, EndOutcome, EndSettings, Role, TunnelEnd};

use crate::opaque::opaque;
use crate::trie::AddressKey;

/// How many addresses a backend host may have, its own and virtual ones.
const MAX_ADDRESSES: usize = 16_384;

/// The host's addresses.
#[btf_map]
pub static ADDRESSES: HashMap<
    [u8; 16],
    Role,
    MAX_ADDRESSES,
    { (BPF_F_RDONLY_PROG | BPF_F_NO_PREALLOC) as usize },
> = HashMap::new();

/// How many prefixes of sources there may be.
const MAX_SOURCES: usize = 1_024;

/// Where tunnels may come from, if not from everywhere.
#[btf_map]
pub static SOURCES: LpmTrie<[u8; 16], u32, MAX_SOURCES> = LpmTrie::new();

/// What the host is set to.
#[btf_map]
pub static END_SETTINGS: Array<EndSettings, 1, { BPF_F_RDONLY_PROG as usize }> = Array::new();

/// Packets that came, by [`EndOutcome`].
#[btf_map]
pub static END_COUNTS: PerCpuArray<[Tally; EndOutcome::COUNT], 1> = PerCpuArray::new();

/// Packets that left, by [`Clamped`].
#[btf_map]
pub static CLAMP_COUNTS: PerCpuArray<[Tally; Clamped::COUNT], 1> = PerCpuArray::new();

/// The maps.
#[derive(Debug)]
pub struct Host;

impl TunnelEnd for Host {
    #[inline(always)]
    fn settings(&self) -> EndSettings {
        END_SETTINGS.get(0).copied().unwrap_or_default()
    }

    #[inline(always)]
    fn role(&self, address: &[u8; 16]) -> Role {
        // SAFETY: elements are changed by whole words only.
        unsafe { ADDRESSES.get(address) }.copied().unwrap_or(Role::NONE)
    }

    #[inline(always)]
    fn is_known_source(&self, address: &[u8; 16]) -> bool {
        SOURCES.get(&AddressKey::new(address).key).is_some()
    }
}

/// Counts a packet that came.
#[inline(always)]
pub fn count(outcome: EndOutcome, bytes: usize) {
    let index = opaque(outcome.index() as usize);
    if index < EndOutcome::COUNT
        && let Some(counts) = END_COUNTS.get_ptr_mut(0)
    {
        // SAFETY: the value is this CPU's own, and the index was checked.
        unsafe { (*counts).get_unchecked_mut(index).add(bytes as u32) };
    }
}

/// Counts a packet that leaves.
#[inline(always)]
pub fn count_clamp(clamped: Clamped, bytes: usize) {
    let index = opaque(clamped.index() as usize);
    if index < Clamped::COUNT
        && let Some(counts) = CLAMP_COUNTS.get_ptr_mut(0)
    {
        // SAFETY: as above.
        unsafe { (*counts).get_unchecked_mut(index).add(bytes as u32) };
    }
}
