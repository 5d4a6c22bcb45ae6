//! A packet at the TC hook.
//!
//! Reached by the kernel's copying helpers: they look into all of a packet, also what is not in its first piece, and keep
//! the kernel's own books of checksums right. Each costs a call; the XDP programs are the fast ones.

use core::mem::MaybeUninit;
use core::ptr;

use aya_ebpf::bindings::{
    __sk_buff, BPF_F_ADJ_ROOM_DECAP_L3_IPV4, BPF_F_ADJ_ROOM_DECAP_L3_IPV6, BPF_F_ADJ_ROOM_ENCAP_L3_IPV4,
    BPF_F_ADJ_ROOM_ENCAP_L3_IPV6, BPF_F_ADJ_ROOM_ENCAP_L4_GRE, BPF_F_ADJ_ROOM_ENCAP_L4_UDP,
    BPF_F_ADJ_ROOM_FIXED_GSO, BPF_F_RECOMPUTE_CSUM, bpf_adj_room_mode::BPF_ADJ_ROOM_MAC,
};
use aya_ebpf::helpers::{
    bpf_l4_csum_replace, bpf_skb_adjust_room, bpf_skb_change_tail, bpf_skb_load_bytes, bpf_skb_store_bytes,
};
use guideway_wire::ethernet::EthernetHeader;
use guideway_wire::{EtherType, IpVersion, Packet, PacketRead, Tunnel};
use zerocopy::big_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, Unaligned};

use crate::opaque::settle_registers;

/// No header lies further from the front than this.
const LAST_OFFSET: usize = 0xffff;

/// The packet of a TC context.
#[derive(Debug)]
pub struct SkbFrame {
    context: *mut __sk_buff,
    grow_flags: u64,
}

impl SkbFrame {
    /// The packet of `context`.
    ///
    /// # Safety
    /// `context` is what the kernel handed to this run of the program.
    #[inline(always)]
    pub unsafe fn new(context: *mut __sk_buff) -> SkbFrame {
        SkbFrame { context, grow_flags: 0 }
    }

    /// Tells the kernel what will be put before the packet, so that a card that sums or cuts knows where to begin.
    #[inline(always)]
    pub fn before_encapsulation(mut self, outer: IpVersion, tunnel: Tunnel) -> SkbFrame {
        let family = match outer {
            IpVersion::V4 => BPF_F_ADJ_ROOM_ENCAP_L3_IPV4,
            IpVersion::V6 => BPF_F_ADJ_ROOM_ENCAP_L3_IPV6,
        };
        let transport = match tunnel {
            Tunnel::Ipip => 0,
            Tunnel::Gre => BPF_F_ADJ_ROOM_ENCAP_L4_GRE,
            Tunnel::GueDirect | Tunnel::GueHeader => BPF_F_ADJ_ROOM_ENCAP_L4_UDP,
        };
        self.grow_flags = (family | transport) as u64;
        self
    }

    /// The mark of the socket that the packet comes from.
    #[inline(always)]
    pub fn mark(&self) -> u32 {
        // SAFETY: the context is valid as long as the program runs.
        unsafe { (*self.context).mark }
    }

    /// The interface that the packet is at.
    #[inline(always)]
    pub fn interface(&self) -> u32 {
        // SAFETY: as above.
        unsafe { (*self.context).ifindex }
    }

    /// What the kernel takes the packet for.
    #[inline(always)]
    fn ethertype(&self) -> EtherType {
        // SAFETY: as above.
        EtherType(u16::from_be(unsafe { (*self.context).protocol } as u16))
    }

    #[inline(always)]
    fn adjust_room(&self, by: i32, flags: u64) -> Option<()> {
        // SAFETY: the kernel checks the room and the flags.
        let result = unsafe { bpf_skb_adjust_room(self.context, by, BPF_ADJ_ROOM_MAC, flags) };
        (result == 0).then_some(())
    }

    #[inline(always)]
    fn store<T: IntoBytes + Immutable>(&self, offset: usize, value: &T) -> Option<()> {
        if offset > LAST_OFFSET {
            return None;
        }
        // A card's sum over the whole packet begins after the Ethernet header.
        let flags = if offset < EthernetHeader::LEN { 0 } else { BPF_F_RECOMPUTE_CSUM as u64 };
        let mut words = Words(MaybeUninit::<T>::uninit());
        let from = if cfg!(feature = "prober") {
            // SAFETY: both are a `T`, and neither is part of the other.
            unsafe { ptr::copy_nonoverlapping(value, words.0.as_mut_ptr(), 1) };
            words.0.as_ptr().cast()
        } else {
            (&raw const *value).cast()
        };
        // SAFETY: the kernel checks the place; `from` is as long as said.
        let result =
            unsafe { bpf_skb_store_bytes(self.context, offset as u32, from, size_of::<T>() as u32, flags) };
        (result == 0).then_some(())
    }
}

/// A value at a multiple of eight: the prober's outer headers are put together from whole words, and the verifier wants those
/// aligned on the stack. The decapsulator writes what it has read, which may lie anywhere.
#[repr(C, align(8))]
struct Words<T>(MaybeUninit<T>);

impl PacketRead for SkbFrame {
    #[inline(always)]
    fn len(&self) -> usize {
        // SAFETY: the context is valid as long as the program runs.
        unsafe { (*self.context).len as usize }
    }

    #[inline(always)]
    fn read<T: FromBytes + Unaligned + Copy>(&self, offset: usize) -> Option<T> {
        if offset > LAST_OFFSET {
            return None;
        }
        let mut value = MaybeUninit::<T>::uninit();
        let (to, size) = (value.as_mut_ptr().cast(), size_of::<T>() as u32);
        // SAFETY: the kernel checks the place, and `value` has room for as much.
        let result = unsafe { bpf_skb_load_bytes(self.context.cast(), offset as u32, to, size) };
        settle_registers();
        // SAFETY: all of it was written, and any bytes are a `T`.
        if result == 0 { Some(unsafe { value.assume_init() }) } else { None }
    }
}

impl Packet for SkbFrame {
    #[inline(always)]
    fn write<T: IntoBytes + Immutable + Unaligned>(&mut self, offset: usize, value: &T) -> Option<()> {
        self.store(offset, value)
    }

    /// The room opens behind the Ethernet header, which moves to the new front.
    #[inline(always)]
    fn grow_head(&mut self, bytes: usize) -> Option<()> {
        self.adjust_room(bytes as i32, self.grow_flags)
    }

    /// The bytes behind the Ethernet header go, and that moves to the new front. A packet that was put together from
    /// several keeps the size of its parts: that is of the payload.
    #[inline(always)]
    fn shrink_head(&mut self, bytes: usize) -> Option<()> {
        let first: u8 = self.read(EthernetHeader::LEN.wrapping_add(bytes))?;
        // Kernels before 6.3 refuse the flags of another family, and with them the packet.
        let family = match (IpVersion::of_first_byte(first)?, self.ethertype()) {
            (IpVersion::V4, EtherType::IPV6) => BPF_F_ADJ_ROOM_DECAP_L3_IPV4,
            (IpVersion::V6, EtherType::IPV4) => BPF_F_ADJ_ROOM_DECAP_L3_IPV6,
            _ => 0,
        };
        self.adjust_room((bytes as i32).wrapping_neg(), (family | BPF_F_ADJ_ROOM_FIXED_GSO) as u64)
    }

    #[inline(always)]
    fn truncate(&mut self, len: usize) -> Option<()> {
        if len > self.len() {
            return None;
        }
        // SAFETY: the kernel checks the length.
        let result = unsafe { bpf_skb_change_tail(self.context, len as u32, 0) };
        (result == 0).then_some(())
    }

    /// The helper knows whether the checksum is still to be computed by the card.
    #[inline(always)]
    fn replace_summed(&mut self, at: usize, checksum: usize, odd: bool, words: [U16; 2]) -> Option<()> {
        if checksum > LAST_OFFSET {
            return None;
        }
        let place = |word: U16| {
            let native = u16::from_ne_bytes(word.to_bytes());
            (if odd { native.swap_bytes() } else { native }) as u64
        };
        let [old, new] = words;
        let size = size_of::<U16>() as u64;
        // SAFETY: the kernel checks the place.
        let result =
            unsafe { bpf_l4_csum_replace(self.context, checksum as u32, place(old), place(new), size) };
        if result != 0 {
            return None;
        }
        self.store(at, &new)
    }
}
