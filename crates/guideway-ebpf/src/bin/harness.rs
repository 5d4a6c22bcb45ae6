//! What the benchmark puts before a program, so that each of its runs sees a fresh packet.
//!
//! `BPF_PROG_TEST_RUN` repeats a program on what it has left: an encapsulating program would meet its own output from
//! the second run on. This program undoes that, chooses flow and destination, and calls the measured program unchanged.
//! The same before [`empty`] is what there is to subtract.
#![no_std]
#![no_main]
#![expect(missing_docs, reason = "the attributes leave the documentation off the function that they make")]

use aya_ebpf::Global;
use aya_ebpf::bindings::BPF_F_MMAPABLE;
use aya_ebpf::bindings::xdp_action::{XDP_ABORTED, XDP_PASS};
use aya_ebpf::btf_maps::{Array, ProgramArray};
use aya_ebpf::macros::{btf_map, xdp};
use aya_ebpf::programs::XdpContext;
use guideway_ebpf::frame::Frame;
use guideway_wire::{Packet, PacketRead};

/// The measured program.
#[btf_map]
pub static NEXT: ProgramArray<1> = ProgramArray::new();

/// Runs so far.
#[btf_map]
pub static TURN: Array<u64, 1, { BPF_F_MMAPABLE as usize }> = Array::new();

/// Length of the fresh packet, bytes.
#[unsafe(no_mangle)]
pub static LENGTH: Global<u32> = Global::new(0);

/// Its Ethernet header, which outer headers overwrite: bytes 0–7, and 8–13.
#[unsafe(no_mangle)]
pub static LINK_FIRST: Global<u64> = Global::new(0);
#[unsafe(no_mangle)]
pub static LINK_LAST: Global<u64> = Global::new(0);

/// Where the last four bytes of the source address are, the first such address, and which of its bits vary; 0 is none.
#[unsafe(no_mangle)]
pub static CLIENT_AT: Global<u32> = Global::new(0);
#[unsafe(no_mangle)]
pub static CLIENT_FIRST: Global<u32> = Global::new(0);
#[unsafe(no_mangle)]
pub static CLIENT_MASK: Global<u32> = Global::new(0);

/// The same of the destination, and how many of them there are; each run takes one at random.
#[unsafe(no_mangle)]
pub static SERVICE_AT: Global<u32> = Global::new(0);
#[unsafe(no_mangle)]
pub static SERVICE_FIRST: Global<u32> = Global::new(0);
#[unsafe(no_mangle)]
pub static SERVICE_COUNT: Global<u32> = Global::new(0);

/// 2^64 over the golden ratio: multiples of it fall evenly.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// Makes the packet fresh and calls the measured program.
#[xdp]
pub fn harness(context: XdpContext) -> u32 {
    let Some(turn) = TURN.get_ptr_mut(0) else {
        return XDP_ABORTED;
    };
    // SAFETY: one CPU runs the benchmark.
    let number = unsafe {
        *turn = (*turn).wrapping_add(1);
        *turn
    };
    // SAFETY: this is the context of this run.
    let mut frame = unsafe { Frame::new(context.ctx) };
    let longer = frame.len().wrapping_sub(LENGTH.load() as usize);
    if freshen(&mut frame, longer, number).is_none() {
        return XDP_ABORTED;
    }
    // SAFETY: it does not return; if there is no program, the run counts as aborted.
    unsafe { NEXT.tail_call(&context, 0) };
    XDP_ABORTED
}

#[inline(always)]
fn freshen(frame: &mut Frame, longer: usize, number: u64) -> Option<()> {
    let spread = number.wrapping_mul(SPREAD) >> 32;
    frame.shrink_head(longer)?;
    let client = CLIENT_AT.load() as usize;
    if client != 0 {
        let address = CLIENT_FIRST.load() | (spread as u32 ^ number as u32) & CLIENT_MASK.load();
        frame.write(client, &address.to_be_bytes())?;
    }
    let service = SERVICE_AT.load() as usize;
    if service != 0 {
        let address = SERVICE_FIRST.load() as u64 + (spread * SERVICE_COUNT.load() as u64 >> 32);
        frame.write(service, &(address as u32).to_be_bytes())?;
    }
    frame.write(0, &LINK_FIRST.load().to_ne_bytes())?;
    let [a, b, c, d, e, f, _, _] = LINK_LAST.load().to_ne_bytes();
    frame.write(8, &[a, b, c, d])?;
    frame.write(12, &[e, f])
}

/// Nothing.
#[xdp]
pub fn empty(_context: XdpContext) -> u32 {
    XDP_PASS
}

/// What the kernel is told of the licence. No helper in use asks for the GPL.
#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 18] = *b"MIT OR Apache-2.0\0";
