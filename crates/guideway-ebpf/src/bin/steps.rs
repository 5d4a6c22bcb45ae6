//! The balancer's way cut short after each step, for the benchmark to tell where the time goes. Over the balancer's own
//! maps, for TCP of an address and a port that have a service.
#![no_std]
#![no_main]
#![expect(missing_docs, reason = "the attributes leave the documentation off the function that they make")]

use aya_ebpf::bindings::xdp_action::{XDP_ABORTED, XDP_DROP, XDP_PASS, XDP_TX};
use aya_ebpf::macros::xdp;
use aya_ebpf::programs::XdpContext;
use guideway_ebpf::frame::Frame;
use guideway_ebpf::opaque::opaque;
use guideway_ebpf::state::Kernel;
use guideway_forward::send::{Route, to_backend};
use guideway_forward::state::Services;
use guideway_forward::{service, slot};
use guideway_wire::parse::parse_into;
use guideway_wire::{PacketRead, Parsed};

/// How far a packet goes.
const ENTER: u32 = 0;
const PARSE: u32 = 1;
const SERVICE: u32 = 2;
const SLOT: u32 = 3;
const SEND: u32 = 4;

#[inline(always)]
fn way(context: &XdpContext, last: u32) -> u32 {
    let Some(state) = Kernel::new() else {
        return XDP_ABORTED;
    };
    // SAFETY: this is the context of this run.
    let mut frame = unsafe { Frame::new(context.ctx) };
    state.received(frame.len() as u32);
    if last == ENTER {
        return XDP_PASS;
    }
    let parsed = &mut { Parsed::EMPTY };
    if !layers(&frame, parsed) {
        return XDP_DROP;
    }
    if last == PARSE {
        return XDP_PASS;
    }
    if !state.may_be_vip(&parsed.key.dst.octets()) {
        return XDP_DROP;
    }
    let Some(target) = service::find(&parsed.key, &state) else {
        return XDP_DROP;
    };
    if service::refuses(parsed, &state).is_some() {
        return XDP_DROP;
    }
    if last == SERVICE {
        opaque(target.active.0 as usize ^ target.policy.0 as usize);
        return XDP_PASS;
    }
    let Some(place) = slot::place(&target, &parsed.key, &state) else {
        return XDP_DROP;
    };
    let choice = slot::choose_tcp(&target, parsed, &place, &state);
    if last == SLOT {
        opaque(choice.word() as usize);
        return XDP_PASS;
    }
    let Some(local) = choice.backend() else {
        return XDP_DROP;
    };
    let route = Route::new(&target, local, place.hash);
    match to_backend(&mut frame, parsed, &route, &state) {
        Ok(_) => XDP_TX,
        Err(_) => XDP_DROP,
    }
}

#[inline(always)]
fn layers(frame: &Frame, parsed: &mut Parsed) -> bool {
    parse_into(frame, parsed).is_ok()
}

/// The books, and the count of what came in.
#[xdp]
pub fn step_enter(context: XdpContext) -> u32 {
    way(&context, ENTER)
}

/// And the headers.
#[xdp]
pub fn step_parse(context: XdpContext) -> u32 {
    way(&context, PARSE)
}

/// And the service.
#[xdp]
pub fn step_service(context: XdpContext) -> u32 {
    way(&context, SERVICE)
}

/// And the flow hash, the slot and its owner.
#[xdp]
pub fn step_slot(context: XdpContext) -> u32 {
    way(&context, SLOT)
}

/// And the backend and the outer headers; only the counts of service, backend and outcome are missing.
#[xdp]
pub fn step_send(context: XdpContext) -> u32 {
    way(&context, SEND)
}

/// What the kernel is told of the licence. No helper in use asks for the GPL.
#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 18] = *b"MIT OR Apache-2.0\0";
