//! The probe encapsulator: health probes leave through the tunnel of the backend that their socket's mark names, and what
//! backends answer at other interfaces is brought to the one that the socket belongs to.
#![no_std]
#![no_main]
#![expect(missing_docs, reason = "the attributes leave the documentation off the function that they make")]

use aya_ebpf::bindings::{BPF_F_INGRESS, TC_ACT_SHOT, TC_ACT_UNSPEC};
use aya_ebpf::helpers::bpf_redirect;
use aya_ebpf::macros::classifier;
use aya_ebpf::programs::TcContext;
use guideway_ebpf::probes::{Kernel, count};
use guideway_ebpf::skb::SkbFrame;
use guideway_forward::probe::{ProbeOutcome, Probes, encapsulate, is_answer};
use guideway_wire::{IpVersion, Packet, PacketRead};

/// The program at the TC hook, egress.
#[classifier]
pub fn encap_probe(context: TcContext) -> i32 {
    // SAFETY: this is the context of this run.
    let mut frame = unsafe { SkbFrame::new(context.skb.skb) };
    let mark = frame.mark();
    let Some(backend) = Kernel.backend(mark) else {
        return TC_ACT_UNSPEC;
    };
    let status = backend.status();
    let outer = if status.underlay_is_v4() { IpVersion::V4 } else { IpVersion::V6 };
    frame = frame.before_encapsulation(outer, status.tunnel());
    let bytes = frame.len();
    match encapsulate(&mut frame, mark, &Kernel) {
        ProbeOutcome::NoProbe => TC_ACT_UNSPEC,
        ProbeOutcome::Encapsulated(interface) => {
            count(None, bytes);
            if interface == frame.interface() {
                return TC_ACT_UNSPEC;
            }
            // SAFETY: the helper takes any number; an interface that is gone is an error that the kernel traces.
            unsafe { bpf_redirect(interface, 0) as i32 }
        }
        ProbeOutcome::Dropped(reason) => {
            count(Some(reason), bytes);
            TC_ACT_SHOT as i32
        }
    }
}

/// The program at the TC hook, ingress, of interfaces that backends answer by beside the one that probes leave by.
#[classifier]
pub fn bring_answer(context: TcContext) -> i32 {
    // SAFETY: this is the context of this run.
    let mut frame = unsafe { SkbFrame::new(context.skb.skb) };
    let Some(home) = Kernel.home().filter(|home| home.interface != 0 && home.interface != frame.interface())
    else {
        return TC_ACT_UNSPEC;
    };
    if !is_answer(&frame, &Kernel) || frame.write(0, &home.mac).is_none() {
        return TC_ACT_UNSPEC;
    }
    // SAFETY: as above.
    unsafe { bpf_redirect(home.interface, BPF_F_INGRESS as u64) as i32 }
}

/// What the kernel is told of the licence. No helper in use asks for the GPL.
#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 18] = *b"MIT OR Apache-2.0\0";
