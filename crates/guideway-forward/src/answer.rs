//! Answers in place of a backend's, from the VIP.

use guideway_wire::{IpProtocol, Packet, Parsed, reply};

use crate::State;
use crate::outcome::{Answer, Drop, Event, Outcome, Pass};
use crate::record::{NoBackendRule, Policy};

/// The service has no backend: a reset or "port unreachable", or silence, as it says.
#[inline(never)]
pub fn no_backend<P: Packet, S: State>(
    packet: &mut P,
    parsed: &Parsed,
    policy: Policy,
    state: &S,
) -> Outcome {
    if policy.no_backend() == NoBackendRule::Drop {
        return Drop::NoBackend.outcome();
    }
    if parsed.protocol() == IpProtocol::TCP {
        return match reply::tcp_reset(packet, parsed) {
            Ok(()) => Answer::Reset.outcome(),
            Err(_) => Drop::NoBackendUnanswered.outcome(),
        };
    }
    if !state.allow_icmp() {
        state.event(Event::IcmpRateLimited);
        return Drop::NoBackendUnanswered.outcome();
    }
    match reply::port_unreachable(packet, parsed) {
        Ok(()) => Answer::Unreachable.outcome(),
        Err(_) => Drop::NoBackendUnanswered.outcome(),
    }
}

/// A TCP packet whose connection is lost: a reset, so that the client does not wait. Never a reset for a reset.
#[inline(never)]
pub fn orphan<P: Packet>(packet: &mut P, parsed: &Parsed) -> Outcome {
    match reply::tcp_reset(packet, parsed) {
        Ok(()) => Answer::Reset.outcome(),
        Err(_) => Drop::Orphan.outcome(),
    }
}

/// An echo request to a VIP. One that comes in fragments is left to the host.
#[inline(never)]
pub fn echo<P: Packet, S: State>(packet: &mut P, parsed: &Parsed, state: &S) -> Outcome {
    if parsed.fragment.datagram_id().is_some() {
        return Pass::Icmp.outcome();
    }
    if !state.allow_icmp() {
        state.event(Event::IcmpRateLimited);
        return Drop::EchoRateLimited.outcome();
    }
    match reply::echo_reply(packet, parsed) {
        Ok(()) => Answer::Echo.outcome(),
        Err(_) => Drop::BadSource.outcome(),
    }
}

/// Tells the client the largest packet that fits: `mtu` bytes.
#[inline(never)]
pub fn too_big<P: Packet, S: State>(packet: &mut P, parsed: &Parsed, mtu: u32, state: &S) -> Outcome {
    if !state.allow_icmp() {
        state.event(Event::IcmpRateLimited);
        return Drop::TooBigRateLimited.outcome();
    }
    match reply::too_big(packet, parsed, mtu) {
        Ok(()) => Answer::TooBig.outcome(),
        Err(_) => Drop::TooBig.outcome(),
    }
}
