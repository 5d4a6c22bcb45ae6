//! ICMP errors: they go where the flow goes that they are about.

use guideway_wire::parse::{ParseError, quoted_flow};
use guideway_wire::{Packet, Parsed};

use crate::outcome::{Drop, Pass, Verdict};
use crate::slot::Choice;
use crate::{State, send, service, slot};

/// Forwards an ICMP error that came to a VIP to the backend of the flow that it quotes.
#[inline(never)]
pub fn error<P: Packet, S: State>(packet: &mut P, parsed: &Parsed, state: &S) -> Verdict {
    let flow = match quoted_flow(packet, parsed) {
        Ok(flow) => flow,
        Err(ParseError::QuoteMalformed) => return Verdict::Drop(Drop::Malformed),
        Err(_) => return Verdict::Drop(Drop::ShortIcmpQuote),
    };
    if flow.dst != parsed.key.dst {
        return Verdict::Drop(Drop::Malformed);
    }
    let Some(target) = service::find(&flow, state) else {
        // About a packet of the host's own, an echo reply for one.
        return Verdict::Pass(Pass::Icmp);
    };
    if let Some(reason) = service::refuses(parsed, state) {
        return Verdict::Drop(reason);
    }
    let Some(place) = slot::place(&target, &flow, state) else {
        return Verdict::Drop(Drop::IcmpNoBackend);
    };
    match slot::choose_for_error(&target, &flow, &place, state) {
        Choice::Backend(local) => send::to_backend(packet, parsed, (&target, local), place.hash, state),
        Choice::NoBackend | Choice::Orphan => Verdict::Drop(Drop::IcmpNoBackend),
    }
}
