//! A packet at the XDP hook.
//!
//! The verifier follows one register from the bounds check to the access, and `data` and `data_end` are worth nothing
//! after the packet's ends have moved. So each access reads both anew, in assembly, which keeps the optimiser from sharing
//! or rearranging the sums.

use core::ptr;

use aya_ebpf::bindings::xdp_md;
use aya_ebpf::helpers::{bpf_xdp_adjust_head, bpf_xdp_adjust_tail};
use guideway_wire::{Packet, PacketRead};
use zerocopy::{FromBytes, Immutable, IntoBytes, Unaligned};

use crate::opaque::{length, opaque, place_and_end};

/// The verifier wants a bound for a variable offset. A frame of one page, all that this hook gets, is far below it.
const LAST_OFFSET: usize = 0x3fff;

/// The packet of an XDP context.
#[derive(Debug)]
pub struct Frame {
    context: *mut xdp_md,
}

impl Frame {
    /// The packet of `context`.
    ///
    /// # Safety
    /// `context` is what the kernel handed to this run of the program.
    #[inline(always)]
    pub unsafe fn new(context: *mut xdp_md) -> Frame {
        Frame { context }
    }

    /// The context, to hand it to a function that is checked apart.
    #[inline(always)]
    pub fn context(&self) -> *mut xdp_md {
        self.context
    }

    /// The interface that the packet came in by.
    #[inline(always)]
    pub fn ingress(&self) -> u32 {
        // SAFETY: the context is valid as long as the program runs.
        unsafe { (*self.context).ingress_ifindex }
    }

    /// The address of `size` bytes at `offset`, if the packet has them.
    #[inline(always)]
    fn at(&self, offset: usize, size: usize) -> Option<usize> {
        let offset = opaque(offset);
        if offset > LAST_OFFSET {
            return None;
        }
        // SAFETY: the context is valid as long as the program runs.
        let (place, end) = unsafe { place_and_end(self.context, offset) };
        if place.wrapping_add(size) > end { None } else { Some(place) }
    }
}

impl PacketRead for Frame {
    #[inline(always)]
    fn len(&self) -> usize {
        // SAFETY: as above.
        unsafe { length(self.context) }
    }

    #[inline(always)]
    fn read<T: FromBytes + Unaligned + Copy>(&self, offset: usize) -> Option<T> {
        let place = self.at(offset, size_of::<T>())?;
        // SAFETY: `at` has checked that the packet has these bytes, and any bytes are a `T`.
        Some(unsafe { ptr::read_unaligned(place as *const T) })
    }
}

impl Packet for Frame {
    #[inline(always)]
    fn write<T: IntoBytes + Immutable + Unaligned>(&mut self, offset: usize, value: &T) -> Option<()> {
        let place = self.at(offset, size_of::<T>())?;
        // SAFETY: `at` has checked that the packet has these bytes, and `value` is not part of it.
        unsafe { ptr::copy_nonoverlapping(ptr::from_ref(value), place as *mut T, 1) };
        Some(())
    }

    #[inline(always)]
    fn grow_head(&mut self, bytes: usize) -> Option<()> {
        // SAFETY: the context is valid; the kernel checks the room.
        let result = unsafe { bpf_xdp_adjust_head(self.context, (bytes as i32).wrapping_neg()) };
        (result == 0).then_some(())
    }

    #[inline(always)]
    fn shrink_head(&mut self, bytes: usize) -> Option<()> {
        // SAFETY: as above.
        let result = unsafe { bpf_xdp_adjust_head(self.context, bytes as i32) };
        (result == 0).then_some(())
    }

    #[inline(always)]
    fn truncate(&mut self, len: usize) -> Option<()> {
        let present = self.len();
        if len > present {
            return None;
        }
        // SAFETY: as above.
        let result = unsafe { bpf_xdp_adjust_tail(self.context, (len as i32).wrapping_sub(present as i32)) };
        (result == 0).then_some(())
    }
}
