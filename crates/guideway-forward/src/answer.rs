//! Answers in place of a backend's, from the VIP.

use guideway_wire::{IpProtocol, Packet, Parsed, reply};

use crate::State;
use crate::outcome::{Answer, Drop, Event, Pass, Verdict};
use crate::record::{NoBackendRule, Policy};

/// The service has no backend: a reset or "port unreachable", or silence, as it says.
#[inline(never)]
pub fn no_backend<P: Packet, S: State>(
    packet: &mut P,
    parsed: &Parsed,
    policy: Policy,
    state: &S,
) -> Verdict {
    if policy.no_backend() == NoBackendRule::Drop {
        return Verdict::Drop(Drop::NoBackend);
    }
    if parsed.protocol() == IpProtocol::TCP {
        return match reply::tcp_reset(packet, parsed) {
            Ok(()) => Verdict::Answer(Answer::Reset),
            Err(_) => Verdict::Drop(Drop::NoBackendUnanswered),
        };
    }
    if !state.allow_icmp() {
        state.event(Event::IcmpRateLimited);
        return Verdict::Drop(Drop::NoBackendUnanswered);
    }
    match reply::port_unreachable(packet, parsed) {
        Ok(()) => Verdict::Answer(Answer::Unreachable),
        Err(_) => Verdict::Drop(Drop::NoBackendUnanswered),
    }
}

/// A TCP packet whose connection is lost: a reset, so that the client does not wait. Never a reset for a reset.
#[inline(never)]
pub fn orphan<P: Packet>(packet: &mut P, parsed: &Parsed) -> Verdict {
    match reply::tcp_reset(packet, parsed) {
        Ok(()) => Verdict::Answer(Answer::Reset),
        Err(_) => Verdict::Drop(Drop::Orphan),
    }
}

/// An echo request to a VIP. One that comes in fragments is left to the host.
#[inline(never)]
pub fn echo<P: Packet, S: State>(packet: &mut P, parsed: &Parsed, state: &S) -> Verdict {
    if parsed.fragment.datagram_id().is_some() {
        return Verdict::Pass(Pass::Icmp);
    }
    if !state.allow_icmp() {
        state.event(Event::IcmpRateLimited);
        return Verdict::Drop(Drop::EchoRateLimited);
    }
    match reply::echo_reply(packet, parsed) {
        Ok(()) => Verdict::Answer(Answer::Echo),
        Err(_) => Verdict::Drop(Drop::BadSource),
    }
}

/// Tells the client the largest packet that fits: `mtu` bytes.
#[inline(never)]
pub fn too_big<P: Packet, S: State>(packet: &mut P, parsed: &Parsed, mtu: u32, state: &S) -> Verdict {
    if !state.allow_icmp() {
        state.event(Event::IcmpRateLimited);
        return Verdict::Drop(Drop::TooBigRateLimited);
    }
    match reply::too_big(packet, parsed, mtu) {
        Ok(()) => Verdict::Answer(Answer::TooBig),
        Err(_) => Verdict::Drop(Drop::TooBig),
    }
}
