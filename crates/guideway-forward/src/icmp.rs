//! ICMP errors: they go where the flow goes that they are about.

use guideway_wire::parse::{ParseError, quoted_flow};
use guideway_wire::{FlowKey, Packet, Parsed};

use crate::outcome::{Drop, Outcome, Pass};
use crate::send::Route;
use crate::{State, service, slot};

/// The way of an ICMP error to a VIP: that of the flow that it quotes. Fills `route` where it leads to a backend.
#[inline(never)]
pub(crate) fn error<'a, P: Packet, S: State>(
    packet: &P,
    parsed: &Parsed,
    route: &mut Option<Route<'a>>,
    state: &'a S,
) -> Outcome {
    if state.vip(&parsed.key.dst.octets()).is_none() {
        return Pass::NotVip.outcome();
    }
    let mut flow = parsed.key;
    match quote(packet, parsed, &mut flow) {
        Ok(()) => {}
        Err(ParseError::QuoteMalformed) => return Drop::Malformed.outcome(),
        Err(_) => return Drop::ShortIcmpQuote.outcome(),
    }
    if flow.dst != parsed.key.dst {
        return Drop::Malformed.outcome();
    }
    let Some(target) = service::find(&flow, state) else {
        // About a packet of the host's own, an echo reply for one.
        return Pass::Icmp.outcome();
    };
    if let Some(reason) = service::refuses(parsed, state) {
        return reason.outcome();
    }
    let Some(place) = slot::place(&target, &flow, state) else {
        return Drop::IcmpNoBackend.outcome();
    };
    match slot::choose_for_error(&target, &flow, &place, state).backend() {
        Some(local) => {
            *route = Some(Route::new(&target, local, place.hash));
            Outcome::Forwarded
        }
        None => Drop::IcmpNoBackend.outcome(),
    }
}

/// Reads the quote in a stack frame of its own.
#[inline(never)]
fn quote<P: Packet>(packet: &P, parsed: &Parsed, flow: &mut FlowKey) -> Result<(), ParseError> {
    *flow = quoted_flow(packet, parsed)?;
    Ok(())
}
