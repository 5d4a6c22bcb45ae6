//! The probe encapsulator's maps, and [`guideway_forward::probe::Probes`] over them.
//!
//! The backends and the virtual addresses are the balancer's own maps where it runs on the same host: a probe goes where
//! a client's packet would go.

use aya_ebpf::bindings::{BPF_F_MMAPABLE, BPF_F_NO_PREALLOC, BPF_F_RDONLY_PROG};
use aya_ebpf::btf_maps::{Array, HashMap, PerCpuArray};
use aya_ebpf::macros::btf_map;
use guideway_forward::Outcome;
use guideway_forward::outcome::Drop;
use guideway_forward::probe::{Home, Probes};
use guideway_forward::record::{Backend, Tally, Vip};

use crate::opaque::opaque;

/// Backend records: of the type, and where a balancer runs the very map, of `maps::BACKENDS`.
#[btf_map]
pub static BACKENDS: Array<Backend, 1, { (BPF_F_MMAPABLE | BPF_F_RDONLY_PROG) as usize }> = Array::new();

/// Virtual addresses, as `maps::VIPS`.
#[btf_map]
pub static VIPS: HashMap<[u8; 16], Vip, 1, { BPF_F_RDONLY_PROG as usize }> = HashMap::new();

/// Which backend, by its index in [`BACKENDS`], a socket's mark names.
#[btf_map]
pub static MARKS: HashMap<u32, u32, 65_536, { (BPF_F_RDONLY_PROG | BPF_F_NO_PREALLOC) as usize }> =
    HashMap::new();

/// Where probes leave.
#[btf_map]
pub static HOME: Array<Home, 1, { BPF_F_RDONLY_PROG as usize }> = Array::new();

/// Probes, by [`Outcome`].
#[btf_map]
pub static PROBE_COUNTS: PerCpuArray<[Tally; Outcome::COUNT], 1> = PerCpuArray::new();

/// The maps.
#[derive(Debug)]
pub struct Kernel;

impl Kernel {
    /// Where probes leave.
    #[inline(always)]
    pub fn home(&self) -> Option<Home> {
        HOME.get(0).copied()
    }
}

impl Probes for Kernel {
    #[inline(always)]
    fn backend(&self, mark: u32) -> Option<&Backend> {
        // SAFETY: elements are changed by whole words only.
        let index = unsafe { MARKS.get(mark) }.copied()?;
        BACKENDS.get(index)
    }

    #[inline(always)]
    fn is_vip(&self, address: &[u8; 16]) -> bool {
        VIPS.get_ptr(address).is_some()
    }
}

/// Counts a probe: encapsulated, or dropped for a reason.
#[inline(always)]
pub fn count(dropped: Option<Drop>, bytes: usize) {
    let outcome = match dropped {
        None => Outcome::Forwarded,
        Some(reason) => reason.outcome(),
    };
    let index = opaque(outcome.index() as usize);
    if index < Outcome::COUNT
        && let Some(counts) = PROBE_COUNTS.get_ptr_mut(0)
    {
        // SAFETY: the value is this CPU's own, and the index was checked.
        unsafe { (*counts).get_unchecked_mut(index).add(bytes as u32) };
    }
}
