//! The heavy steps as global functions: the verifier checks each once, for any arguments, and not again with all that it
//! knows at each call. So their arguments are numbers, the context, and plain data; the maps are looked up anew.

use aya_ebpf::bindings::xdp_md;
use guideway_forward::Outcome;
use guideway_forward::answer::{self, Question};
use guideway_forward::flow::{self, Memo};
use guideway_forward::outcome::Drop;
use guideway_forward::record::{ServiceId, Slot, TableRef};
use guideway_forward::slot::{self, Choice, Spot};
use guideway_wire::{FlowKey, HashKey, Parsed};

use crate::frame::Frame;
use crate::maps::SETTINGS;
use crate::state::Kernel;

/// [`answer::give_icmp`]: the number of the outcome.
#[inline(never)]
#[unsafe(no_mangle)]
pub extern "C" fn answer(context: *mut xdp_md, parsed: *const Parsed, question: u64) -> u32 {
    // SAFETY: the verifier sees to it that a pointer that is not null points to a whole `Parsed`; it is filled by `parse`.
    let (Some(state), Some(parsed)) = (Kernel::new(), unsafe { parsed.as_ref() }) else {
        return Drop::Malformed.outcome().index();
    };
    // SAFETY: the caller's context.
    let mut frame = unsafe { Frame::new(context) };
    answer::give_icmp(&mut frame, parsed, Question::from_word(question), &state).index()
}

/// [`answer::reset`]: the number of the outcome. Beside [`answer()`], not below it, so that their stacks do not add up.
#[inline(never)]
#[unsafe(no_mangle)]
pub extern "C" fn reset(context: *mut xdp_md, parsed: *const Parsed, question: u64) -> u32 {
    // SAFETY: as in `answer`.
    let Some(parsed) = (unsafe { parsed.as_ref() }) else {
        return Drop::Malformed.outcome().index();
    };
    // SAFETY: the caller's context.
    let mut frame = unsafe { Frame::new(context) };
    answer::reset(&mut frame, parsed, Question::from_word(question)).index()
}

/// [`flow::remember`]: 1 if the flow is remembered.
#[inline(never)]
#[unsafe(no_mangle)]
pub extern "C" fn remember(hash: u64, service: u16, memo: u64) -> u32 {
    let Some(state) = Kernel::new() else {
        return 0;
    };
    flow::remember(hash, ServiceId(service), Memo(memo), &state) as u32
}

/// [`TableRef::hash`]; `by` is a [`HashKey`].
#[inline(never)]
#[unsafe(no_mangle)]
pub extern "C" fn flow_hash(table: *const TableRef, flow: *const FlowKey, by: u8) -> u64 {
    // SAFETY: the verifier sees to it that a pointer that is not null points to a whole value, of plain numbers.
    let (Some(table), Some(flow)) = (unsafe { table.as_ref() }, unsafe { flow.as_ref() }) else {
        return 0;
    };
    table.hash(flow, if by == 0 { HashKey::FiveTuple } else { HashKey::SourceAddress })
}

/// [`Settings::keyed_hash`](guideway_forward::record::Settings::keyed_hash).
#[inline(never)]
#[unsafe(no_mangle)]
pub extern "C" fn keyed_hash(flow: *const FlowKey, service: u16) -> u64 {
    // SAFETY: as in `flow_hash`.
    let (Some(settings), Some(flow)) = (SETTINGS.get(0), unsafe { flow.as_ref() }) else {
        return 0;
    };
    settings.keyed_hash(flow, ServiceId(service))
}

/// [`slot::consult`]: the word of the choice.
#[inline(never)]
#[unsafe(no_mangle)]
pub extern "C" fn consult(service: u16, parsed: *const Parsed, spot: u64) -> u32 {
    // SAFETY: as in `answer`.
    let (Some(state), Some(parsed)) = (Kernel::new(), unsafe { parsed.as_ref() }) else {
        return Choice::NO_BACKEND.word();
    };
    slot::consult(ServiceId(service), parsed, Spot(spot), &state).word()
}

/// [`slot::belonging`]: the word of the choice.
#[inline(never)]
#[unsafe(no_mangle)]
pub extern "C" fn belonging(service: u16, flow: *const FlowKey, slot: u32) -> u32 {
    // SAFETY: as in `flow_hash`.
    let (Some(state), Some(flow)) = (Kernel::new(), unsafe { flow.as_ref() }) else {
        return Choice::OPEN.word();
    };
    slot::belonging(ServiceId(service), flow, Slot(slot), &state).word()
}

/// The outcome with this number.
#[inline(always)]
pub fn outcome(number: u32) -> Outcome {
    if number as usize >= Outcome::COUNT {
        return Drop::Malformed.outcome();
    }
    // SAFETY: outcomes are numbered from 0 without a gap, and the number is below their count.
    unsafe { core::mem::transmute::<u32, Outcome>(number) }
}
