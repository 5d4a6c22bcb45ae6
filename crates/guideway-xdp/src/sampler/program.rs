//! The program that samples: a few instructions, written out, before the balancer's own.
//!
//! ```text
//! of one packet in 2^k:  perf_event_output(packet, {interface, length})
//! then:                  tail_call(next, 0)      the balancer itself, unchanged
//! where that fails:      pass
//! ```

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use crate::syscall::{Attributes, Command, open};

/// The most bytes of a packet that are kept: whole packets, but for those that offloads have joined.
pub(super) const KEPT: i32 = 4_096;

/// What stands before a packet's bytes: interface and length, 32 bits each.
pub(super) const HEAD: usize = 8;

/// An instruction, as the kernel's `struct bpf_insn`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Instruction {
    code: u8,
    registers: u8,
    offset: i16,
    immediate: i32,
}

const fn op(code: u8, to: u8, from: u8, offset: i16, immediate: i32) -> Instruction {
    Instruction { code, registers: to | (from << 4), offset, immediate }
}

// Codes of instructions (kernel documentation, "BPF Instruction Set").
const MOVE: u8 = 0xbf;
const SET: u8 = 0xb7;
const ADD: u8 = 0x07;
const AND: u8 = 0x57;
const SHIFT_LEFT: u8 = 0x67;
const SUBTRACT: u8 = 0x1f;
const OR: u8 = 0x4f;
const LOAD_32: u8 = 0x61;
const STORE_32: u8 = 0x63;
const LOAD_WIDE: u8 = 0x18;
const JUMP_IF_NOT: u8 = 0x55;
const JUMP_IF_AT_MOST: u8 = 0xb5;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;

/// The register kind that makes a wide constant a map's address.
const MAP: u8 = 1;

// Helpers by number (`enum bpf_func_id`).
const PRANDOM: i32 = 7;
const TAIL_CALL: i32 = 12;
const EVENT_OUTPUT: i32 = 25;

const XDP_PASS: i32 = 2;

// Offsets in `struct xdp_md`.
const DATA: i16 = 0;
const DATA_END: i16 = 4;
const INTERFACE: i16 = 12;

/// The program: of one packet in `mask + 1`, `mask` one below a power of two.
fn instructions(mask: i32, events: BorrowedFd<'_>, next: BorrowedFd<'_>) -> Vec<Instruction> {
    let end = op(0, 0, 0, 0, 0);
    let (events, next) = (events.as_raw_fd(), next.as_raw_fd());
    vec![
        op(MOVE, 6, 1, 0, 0),
        op(CALL, 0, 0, 0, PRANDOM),
        op(AND, 0, 0, 0, mask),
        // To the tail call.
        op(JUMP_IF_NOT, 0, 0, 19, 0),
        // r3 = the packet's length; the head on the stack.
        op(LOAD_32, 3, 6, DATA_END, 0),
        op(LOAD_32, 4, 6, DATA, 0),
        op(SUBTRACT, 3, 4, 0, 0),
        op(STORE_32, 10, 3, -4, 0),
        op(LOAD_32, 2, 6, INTERFACE, 0),
        op(STORE_32, 10, 2, -8, 0),
        op(JUMP_IF_AT_MOST, 3, 0, 1, KEPT),
        op(SET, 3, 0, 0, KEPT),
        // flags = length << 32 | this CPU.
        op(SHIFT_LEFT, 3, 0, 0, 32),
        op(LOAD_WIDE, 5, 0, 0, -1),
        end,
        op(OR, 3, 5, 0, 0),
        op(MOVE, 1, 6, 0, 0),
        op(LOAD_WIDE, 2, MAP, 0, events),
        end,
        op(MOVE, 4, 10, 0, 0),
        op(ADD, 4, 0, 0, -8),
        op(SET, 5, 0, 0, HEAD as i32),
        op(CALL, 0, 0, 0, EVENT_OUTPUT),
        op(MOVE, 1, 6, 0, 0),
        op(LOAD_WIDE, 2, MAP, 0, next),
        end,
        op(SET, 3, 0, 0, 0),
        op(CALL, 0, 0, 0, TAIL_CALL),
        op(SET, 0, 0, 0, XDP_PASS),
        op(EXIT, 0, 0, 0, 0),
    ]
}

/// What `BPF_PROG_LOAD` is told, as far as it is needed.
#[repr(C)]
struct Load {
    program_type: u32,
    count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
    interface: u32,
    attach_type: u32,
}

// SAFETY: the only addresses are those of instructions and licence, which `load` keeps over the call.
unsafe impl Attributes for Load {}

/// Loads the program.
pub(super) fn load(mask: i32, events: BorrowedFd<'_>, next: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    const XDP: u32 = 6;
    // Programs in an array for tail calls have to agree on it.
    const ATTACH_XDP: u32 = 37;
    let instructions = instructions(mask, events, next);
    // The helper that hands packets out is for programs under the GPL as well.
    let license = c"Dual MIT/GPL";
    let mut name = [0; 16];
    name[..15].copy_from_slice(b"guideway_sample");
    open(
        Command::ProgLoad,
        &Load {
            program_type: XDP,
            count: instructions.len() as u32,
            instructions: instructions.as_ptr() as u64,
            license: license.as_ptr() as u64,
            log_level: 0,
            log_size: 0,
            log: 0,
            kernel_version: 0,
            flags: 0,
            name,
            interface: 0,
            attach_type: ATTACH_XDP,
        },
    )
}

/// What `BPF_MAP_CREATE` is told.
#[repr(C)]
struct Create {
    map_type: u32,
    key_bytes: u32,
    value_bytes: u32,
    entries: u32,
    flags: u32,
}

// SAFETY: it holds no address.
unsafe impl Attributes for Create {}

/// A map for events of so many CPUs.
pub(super) fn events(cpus: u32) -> io::Result<OwnedFd> {
    const PERF_EVENT_ARRAY: u32 = 4;
    map(PERF_EVENT_ARRAY, cpus)
}

/// A map for the program that comes next.
pub(super) fn next() -> io::Result<OwnedFd> {
    const PROG_ARRAY: u32 = 3;
    map(PROG_ARRAY, 1)
}

fn map(map_type: u32, entries: u32) -> io::Result<OwnedFd> {
    open(Command::MapCreate, &Create { map_type, key_bytes: 4, value_bytes: 4, entries, flags: 0 })
}
