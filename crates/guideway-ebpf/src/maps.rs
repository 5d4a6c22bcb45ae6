//! The balancer's maps. Their sizes here are the least ones; the loader sets what the configuration asks for.
//!
//! The arrays are mapped into the controller (`BPF_F_MMAPABLE`): it changes a record by a plain store, and reads the
//! flow table without a system call. Mapped arrays begin at a page, so records keep their alignment.

use aya_ebpf::bindings::{BPF_F_MMAPABLE, BPF_F_RDONLY_PROG};
use aya_ebpf::btf_maps::{Array, ArrayOfMaps, HashMap, LpmTrie, PerCpuArray};
use aya_ebpf::macros::btf_map;
use guideway_forward::record::directory::Line;
use guideway_forward::record::{
    Backend, Books, Bucket, FragmentBucket, Pace, QuicKey, Service, ServiceId, Settings, Tally, Vip,
};

const MAPPED: usize = BPF_F_MMAPABLE as usize;
/// Programs only read. Not for mapped maps: one that programs only read cannot be mapped for writing.
const FIXED: usize = BPF_F_RDONLY_PROG as usize;

/// Slots an array element: the kernel rounds elements up to eight bytes, so one slot alone would take two's place.
pub const SLOTS_A_LINE: usize = 16;

/// One cache line of slots. The target has no atomic of four bytes; a volatile load is one instruction all the same.
pub type SlotLine = [u32; SLOTS_A_LINE];

/// Services by address, port and protocol, and the virtual addresses.
#[btf_map]
pub static DIRECTORY: Array<Line, 1, MAPPED> = Array::new();

/// Services of virtual prefixes; the key is what follows the first word of a
/// [`PrefixKey`](guideway_forward::record::PrefixKey).
#[btf_map]
pub static PREFIXES: LpmTrie<[u8; 20], ServiceId, 1> = LpmTrie::new();

/// Virtual prefixes.
#[btf_map]
pub static VIP_PREFIXES: LpmTrie<[u8; 16], Vip, 1> = LpmTrie::new();

/// Backends by QUIC server id.
#[btf_map]
pub static QUIC: HashMap<QuicKey, u16, 1, FIXED> = HashMap::new();

/// Service records.
#[btf_map]
pub static SERVICES: Array<Service, 1, MAPPED> = Array::new();

/// Backend records.
#[btf_map]
pub static BACKENDS: Array<Backend, 1, MAPPED> = Array::new();

/// All slots of all tables.
#[btf_map]
pub static SLOTS: Array<SlotLine, 1, MAPPED> = Array::new();

/// The flow table; the number of buckets is a power of two.
#[btf_map]
pub static FLOWS: Array<Bucket, 1, MAPPED> = Array::new();

/// The fragment cache; the number of buckets is a power of two.
#[btf_map]
pub static FRAGMENTS: Array<FragmentBucket, 1, MAPPED> = Array::new();

/// What holds for the whole machine.
#[btf_map]
pub static SETTINGS: Array<Settings, 1, MAPPED> = Array::new();

/// The ICMP rate limit, the sizes of the tables, and the clock.
#[btf_map]
pub static PACE: Array<Pace, 1, MAPPED> = Array::new();

/// Outcomes and events.
#[btf_map]
pub static BOOKS: PerCpuArray<Books, 1> = PerCpuArray::new();

/// Packets forwarded, by service.
#[btf_map]
pub static SERVED: PerCpuArray<Tally, 1> = PerCpuArray::new();

/// Packets forwarded, by backend.
#[btf_map]
pub static SENT: PerCpuArray<Tally, 1> = PerCpuArray::new();

/// Nothing: the kernel returns from a change of a map of maps only when every program that ran before has ended, and
/// so the loader waits for programs.
#[btf_map]
pub static GRACE: ArrayOfMaps<Array<u32, 1>, 1> = ArrayOfMaps::new();
