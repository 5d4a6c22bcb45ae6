//! The packet's way from its first byte to its verdict.

use guideway_wire::parse::{ParseError, destination};
use guideway_wire::{Fragment, IcmpClass, IpProtocol, Packet, Parsed, parse};

use crate::outcome::{Drop, Event, Pass, Verdict};
use crate::record::FragmentRule;
use crate::service::Target;
use crate::slot::Choice;
use crate::state::Counters;
use crate::{State, answer, fragment, icmp, quic, send, service, slot};

/// Decides what happens to a frame, rewrites it where that is its fate, and counts it: exactly one
/// [`Outcome`](crate::Outcome) a packet, and service and backend for what is forwarded.
///
/// The frame needs 84 bytes of head room for the largest tunnel; without it the packet is dropped and counted.
#[inline(always)]
pub fn process<P: Packet, S: State>(packet: &mut P, state: &S) -> Verdict {
    let bytes = packet.len() as u32;
    let verdict = decide(packet, state);
    state.outcome(verdict.outcome(), bytes);
    if let Verdict::Forward(forward) = verdict {
        Counters::service(state, forward.service, bytes);
        Counters::backend(state, forward.backend, bytes);
    }
    verdict
}

#[inline(always)]
fn decide<P: Packet, S: State>(packet: &mut P, state: &S) -> Verdict {
    let parsed = match parse(packet) {
        Ok(parsed) => parsed,
        Err(error) => return refused(packet, state, error),
    };
    if parsed.fragment.is_later() {
        return fragment::later(packet, &parsed, state);
    }
    if !matches!(parsed.protocol(), IpProtocol::TCP | IpProtocol::UDP) {
        return other_protocol(packet, &parsed, state);
    }
    let Some(target) = service::find(&parsed.key, state) else {
        return unserved(&parsed, state);
    };
    if let Some(reason) = service::refuses(&parsed, state) {
        return Verdict::Drop(reason);
    }
    if let Fragment::First { .. } = parsed.fragment {
        return first_fragment(packet, &parsed, &target, state);
    }
    let Some(place) = slot::place(&target, &parsed.key, state) else {
        return answer::no_backend(packet, &parsed, target.policy, state);
    };
    forward(packet, &parsed, &target, &place, state)
}

/// The way of a whole packet from its slot.
#[inline(always)]
fn forward<P: Packet, S: State>(
    packet: &mut P,
    parsed: &Parsed,
    target: &Target<'_>,
    place: &slot::Place,
    state: &S,
) -> Verdict {
    match choose(packet, parsed, target, place, state) {
        Choice::Backend(local) => send::to_backend(packet, parsed, (target, local), place.hash, state),
        Choice::NoBackend => answer::no_backend(packet, parsed, target.policy, state),
        Choice::Orphan => answer::orphan(packet, parsed),
    }
}

/// QUIC by its server id, everything else by its slot.
#[inline(always)]
fn choose<P: Packet, S: State>(
    packet: &P,
    parsed: &Parsed,
    target: &Target<'_>,
    place: &slot::Place,
    state: &S,
) -> Choice {
    if parsed.protocol() == IpProtocol::TCP {
        return slot::choose_tcp(target, &parsed.key, parsed.tcp_flags, place, state);
    }
    if target.policy.quic().is_some()
        && let Some(local) = quic::backend(packet, parsed, target, state)
    {
        return Choice::Backend(local);
    }
    slot::choose_udp(target, &parsed.key, place, state)
}

/// A first fragment decides as a whole packet does, unless a later one of its datagram came before it.
#[inline(never)]
fn first_fragment<P: Packet, S: State>(
    packet: &mut P,
    parsed: &Parsed,
    target: &Target<'_>,
    state: &S,
) -> Verdict {
    let Some(id) = parsed.fragment.datagram_id() else {
        return Verdict::Drop(Drop::Malformed);
    };
    let Some(place) = &slot::place(target, &parsed.key, state) else {
        return answer::no_backend(packet, parsed, target.policy, state);
    };
    if target.policy.fragments() == FragmentRule::Drop {
        return Verdict::Drop(Drop::Fragment);
    }
    let now = state.now_seconds();
    let hash = fragment::datagram_hash(parsed, id, state);
    if let Some(known) = fragment::known(hash, now, state)
        && known.service() == target.id
        && slot::usable(target, known.backend(), place.slot, state)
    {
        state.event(Event::FragmentHit);
        return send::to_backend(packet, parsed, (target, known.backend()), place.hash, state);
    }
    match choose(packet, parsed, target, place, state) {
        Choice::Backend(local) => {
            fragment::remember(hash, target.id, local, now, state);
            send::to_backend(packet, parsed, (target, local), place.hash, state)
        }
        Choice::NoBackend => answer::no_backend(packet, parsed, target.policy, state),
        Choice::Orphan => answer::orphan(packet, parsed),
    }
}

/// What no service is for. If it is the first fragment of a datagram to a VIP, the others are the host's as well.
#[inline(never)]
fn unserved<S: State>(parsed: &Parsed, state: &S) -> Verdict {
    let reason = service::missing(&parsed.key, state);
    if reason == Pass::NoService {
        fragment::leave(parsed, state);
    }
    Verdict::Pass(reason)
}

/// What is neither TCP nor UDP: ICMP, tunnels, and what no service can be for.
#[inline(never)]
fn other_protocol<P: Packet, S: State>(packet: &mut P, parsed: &Parsed, state: &S) -> Verdict {
    if state.vip(&parsed.key.dst.octets()).is_none() {
        return Verdict::Pass(Pass::NotVip);
    }
    match parsed.icmp {
        IcmpClass::Error => icmp::error(packet, parsed, state),
        IcmpClass::EchoRequest => answer::echo(packet, parsed, state),
        IcmpClass::EchoReply | IcmpClass::Other => Verdict::Pass(Pass::Icmp),
        IcmpClass::None => Verdict::Pass(service::unserved(parsed.protocol())),
    }
}

/// What the parser refused: the host's business unless it is for a VIP.
#[inline(never)]
fn refused<P: Packet, S: State>(packet: &P, state: &S, error: ParseError) -> Verdict {
    let reason = match error {
        ParseError::NotIp => return Verdict::Pass(Pass::NotIp),
        ParseError::TruncatedEthernet | ParseError::TruncatedVlan | ParseError::TooManyVlanTags => {
            return Verdict::Pass(Pass::NotVip);
        }
        ParseError::TruncatedIpv4
        | ParseError::TruncatedIpv6
        | ParseError::LengthBeyondFrame
        | ParseError::TruncatedExtension
        | ParseError::TruncatedTransport => Drop::Truncated,
        ParseError::TooManyExtensions | ParseError::MisplacedHopByHop | ParseError::NestedFragment => {
            Drop::ExtensionHeaders
        }
        ParseError::TinyFirstFragment => Drop::TinyFragment,
        ParseError::OverlappingFragment => Drop::OverlappingFragment,
        ParseError::QuoteTruncated | ParseError::QuoteWithoutPorts => Drop::ShortIcmpQuote,
        ParseError::BadVersion
        | ParseError::BadHeaderLength
        | ParseError::MappedAddress
        | ParseError::FragmentBeyondDatagram
        | ParseError::BadTcpHeaderLength
        | ParseError::BadUdpLength
        | ParseError::QuoteMalformed => Drop::Malformed,
    };
    match destination(packet) {
        // An IPv6 packet to a mapped address reads like one to an IPv4 VIP, and is none.
        Some(address) if error == ParseError::MappedAddress && address.is_v4() => Verdict::Pass(Pass::NotVip),
        Some(address) if state.vip(&address.octets()).is_some() => Verdict::Drop(reason),
        _ => Verdict::Pass(Pass::NotVip),
    }
}
