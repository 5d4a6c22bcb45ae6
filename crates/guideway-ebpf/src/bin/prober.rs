//! The probe encapsulator: health probes leave through the tunnel of the backend that their socket's mark names.
#![no_std]
#![no_main]
#![expect(missing_docs, reason = "the attributes leave the documentation off the function that they make")]

use aya_ebpf::bindings::{TC_ACT_SHOT, TC_ACT_UNSPEC};
use aya_ebpf::helpers::bpf_redirect;
use aya_ebpf::macros::classifier;
use aya_ebpf::programs::TcContext;
use guideway_ebpf::probes::{Kernel, count};
use guideway_ebpf::skb::SkbFrame;
use guideway_forward::probe::{ProbeOutcome, Probes, encapsulate};
use guideway_wire::{IpVersion, PacketRead};

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

/// What the kernel is told of the licence. No helper in use asks for the GPL.
#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 18] = *b"MIT OR Apache-2.0\0";
