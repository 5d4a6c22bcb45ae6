//! For the other end of a veth pair: passes every packet. The driver takes frames from a program at one end only where
//! there is one at the other.
#![no_std]
#![no_main]
#![expect(
    missing_docs,
    reason = "the macro that names a program's section writes a function without documentation"
)]

use aya_ebpf::bindings::xdp_action::XDP_PASS;
use aya_ebpf::macros::xdp;
use aya_ebpf::programs::XdpContext;
use guideway_ebpf as _;

/// The program at the XDP hook.
#[xdp]
pub fn pass(_: XdpContext) -> u32 {
    XDP_PASS
}

/// What the kernel is told of the licence. No helper in use asks for the GPL.
#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 18] = *b"MIT OR Apache-2.0\0";
