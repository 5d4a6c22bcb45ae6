//! The balancer: each packet to where `guideway-forward` says.
#![no_std]
#![no_main]
#![expect(
    missing_docs,
    reason = "the macro that names a program's section writes a function without documentation"
)]

use aya_ebpf::bindings::xdp_action::{XDP_ABORTED, XDP_DROP, XDP_PASS, XDP_REDIRECT, XDP_TX};
use aya_ebpf::helpers::bpf_redirect;
use aya_ebpf::macros::xdp;
use aya_ebpf::programs::XdpContext;
use guideway_ebpf::frame::Frame;
use guideway_ebpf::state::Kernel;
use guideway_forward::{Verdict, process};
use guideway_wire::PacketRead;

/// The program at the XDP hook.
#[xdp]
pub fn balancer(context: XdpContext) -> u32 {
    let Some(state) = Kernel::new() else {
        return XDP_ABORTED;
    };
    // SAFETY: this is the context of this run.
    let mut frame = unsafe { Frame::new(context.ctx) };
    state.received(frame.len() as u32);
    match process(&mut frame, &state) {
        Verdict::Forward(forward) => leave_by(forward.interface, &frame),
        Verdict::Answer(_) => XDP_TX,
        Verdict::Pass(_) => XDP_PASS,
        Verdict::Drop(_) => XDP_DROP,
    }
}

/// Back out of the interface that the packet came by, or over to another.
#[inline(always)]
fn leave_by(interface: u32, frame: &Frame) -> u32 {
    if interface == frame.ingress() {
        return XDP_TX;
    }
    // SAFETY: the helper takes any number; an interface that is gone is an error that the kernel traces.
    match unsafe { bpf_redirect(interface, 0) } as u32 {
        XDP_REDIRECT => XDP_REDIRECT,
        _ => XDP_ABORTED,
    }
}

/// What the kernel is told of the licence. No helper in use asks for the GPL.
#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 18] = *b"MIT OR Apache-2.0\0";
