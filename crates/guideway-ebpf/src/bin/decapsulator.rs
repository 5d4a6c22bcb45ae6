//! A backend host's programs: the decapsulator, for XDP and for TC, and the clamp of announced segment sizes.
#![no_std]
#![no_main]
#![expect(missing_docs, reason = "the attributes leave the documentation off the function that they make")]

use aya_ebpf::bindings::xdp_action::{XDP_DROP, XDP_PASS};
use aya_ebpf::bindings::{TC_ACT_SHOT, TC_ACT_UNSPEC};
use aya_ebpf::macros::{classifier, xdp};
use aya_ebpf::programs::{TcContext, XdpContext};
use guideway_ebpf::ends::{Host, count, count_clamp};
use guideway_ebpf::frame::Frame;
use guideway_ebpf::skb::SkbFrame;
use guideway_forward::tunnel_end::{Clamped, Fate, clamp, decapsulate};
use guideway_wire::PacketRead;

/// The decapsulator at the XDP hook.
#[xdp]
pub fn decap_xdp(context: XdpContext) -> u32 {
    // SAFETY: this is the context of this run.
    let mut frame = unsafe { Frame::new(context.ctx) };
    let bytes = frame.len();
    let outcome = decapsulate(&mut frame, &Host);
    count(outcome, bytes);
    match outcome.fate() {
        Fate::Inner | Fate::Pass => XDP_PASS,
        Fate::Drop => XDP_DROP,
    }
}

/// The decapsulator at the TC hook, ingress.
#[classifier]
pub fn decap_tc(context: TcContext) -> i32 {
    // SAFETY: this is the context of this run.
    let mut frame = unsafe { SkbFrame::new(context.skb.skb) };
    let bytes = frame.len();
    let outcome = decapsulate(&mut frame, &Host);
    count(outcome, bytes);
    match outcome.fate() {
        // The next program's turn.
        Fate::Inner | Fate::Pass => TC_ACT_UNSPEC,
        Fate::Drop => TC_ACT_SHOT as i32,
    }
}

/// The clamp at the TC hook, egress.
#[classifier]
pub fn clamp_mss(context: TcContext) -> i32 {
    // SAFETY: this is the context of this run.
    let mut frame = unsafe { SkbFrame::new(context.skb.skb) };
    let bytes = frame.len();
    let clamped = clamp(&mut frame, &Host);
    if clamped != Clamped::Untouched {
        count_clamp(clamped, bytes);
    }
    TC_ACT_UNSPEC
}

/// What the kernel is told of the licence. No helper in use asks for the GPL.
#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 18] = *b"MIT OR Apache-2.0\0";
