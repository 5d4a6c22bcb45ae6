//! The packet's way from its first byte to its verdict.

use guideway_wire::parse::{ParseError, destination, parse_into};
use guideway_wire::{Fragment, IcmpClass, IpProtocol, Packet, Parsed};

use crate::answer::Question;
use crate::outcome::{Drop, Forward, Outcome, Pass, Verdict};
use crate::record::{FragmentRule, NO_SERVICE, NoBackendRule};
use crate::send::Route;
use crate::service::Target;
use crate::slot::Choice;
use crate::state::{Answers, Counters};
use crate::{State, fragment, icmp, quic, send, service, slot};

/// Decides what happens to a frame, rewrites it where that is its fate, and counts it: exactly one
/// [`Outcome`](crate::Outcome) a packet, and service and backend for what is forwarded.
///
/// The frame needs 84 bytes of head room for the largest tunnel; without it the packet is dropped and counted.
#[inline(always)]
pub fn process<P: Packet, S: Answers<P>>(packet: &mut P, state: &S) -> Verdict {
    let bytes = packet.len() as u32;
    let (verdict, outcome) = match decide(packet, state) {
        Ok(forward) => {
            Counters::service(state, forward.service, bytes);
            Counters::backend(state, forward.backend, bytes);
            (Verdict::Forward(forward), Outcome::Forwarded)
        }
        Err(outcome) => (outcome.ending().unwrap_or(Verdict::Drop(Drop::StaleSlot)), outcome),
    };
    state.outcome(outcome, bytes);
    verdict
}

/// Each kind of packet finds its way in a function of its own, and all ways meet again here, so that the deep part of
/// one is not under the deep part of another: the kernel gives all frames of a call chain 512 bytes together.
#[inline(always)]
fn decide<P: Packet, S: Answers<P>>(packet: &mut P, state: &S) -> Result<Forward, Outcome> {
    let parsed = &mut { Parsed::EMPTY };
    if let Err(error) = parse_into(packet, parsed) {
        return Err(refused(packet, state, error));
    }
    let mut route = None;
    let outcome = if parsed.fragment.is_later() {
        fragment::later(parsed, &mut route, state)
    } else if matches!(parsed.protocol(), IpProtocol::TCP | IpProtocol::UDP) {
        flow(packet, parsed, &mut route, state)
    } else if parsed.icmp == IcmpClass::Error {
        icmp::error(packet, parsed, &mut route, state)
    } else {
        other_protocol(packet, parsed, state)
    };
    match &route {
        Some(route) => send::to_backend(packet, parsed, route, state),
        None => Err(outcome),
    }
}

/// Parses in a stack frame of its own, for programs that do not count each nanosecond: whatever the compiler makes of
/// what is returned, the kernel's verifier has less to follow.
#[inline(never)]
pub(crate) fn layers<P: Packet>(packet: &P, parsed: &mut Parsed) -> Result<(), ParseError> {
    parse_into(packet, parsed)
}

/// The way of a packet with ports: service, slot, backend. A first fragment goes it too, unless a later one of its
/// datagram came before it.
#[inline(always)]
fn flow<'a, P: Packet, S: Answers<P>>(
    packet: &mut P,
    parsed: &Parsed,
    route: &mut Option<Route<'a>>,
    state: &'a S,
) -> Outcome {
    if !state.may_be_vip(&parsed.key.dst.octets()) {
        return Pass::NotVip.outcome();
    }
    let Some(target) = service::find(&parsed.key, state) else {
        return unserved(parsed, state);
    };
    if let Some(reason) = service::refuses(parsed, state) {
        return reason.outcome();
    }
    let Some(place) = slot::place(&target, &parsed.key, state) else {
        return no_backend(packet, parsed, &target, state);
    };
    let first = matches!(parsed.fragment, Fragment::First { .. });
    if first && target.policy.fragments() == FragmentRule::Drop {
        return Drop::Fragment.outcome();
    }
    let mut choice = if first { fragment::first(parsed, &target, place.slot, state) } else { Choice::OPEN };
    if choice == Choice::OPEN {
        choice = choose(packet, parsed, &target, &place, state);
    }
    if first && let Some(local) = choice.backend() {
        fragment::place(parsed, target.id, local, state);
    }
    match choice.backend() {
        Some(local) => {
            *route = Some(Route::new(&target, local, place.hash));
            Outcome::Forwarded
        }
        None if choice == Choice::ORPHAN => state.answer(packet, parsed, Question::ORPHAN),
        None => no_backend(packet, parsed, &target, state),
    }
}

#[inline(always)]
fn no_backend<P: Packet, S: Answers<P>>(
    packet: &mut P,
    parsed: &Parsed,
    target: &Target<'_>,
    state: &S,
) -> Outcome {
    match target.policy.no_backend() {
        NoBackendRule::Drop => Drop::NoBackend.outcome(),
        NoBackendRule::Reject => state.answer(packet, parsed, Question::NO_BACKEND),
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
        return slot::choose_tcp(target, parsed, place, state);
    }
    if target.policy.quic().is_some() {
        let choice = quic::backend(packet, parsed, target, state);
        if choice != Choice::OPEN {
            return choice;
        }
    }
    slot::choose_udp(target, parsed, place, state)
}

/// What no service is for. If it is the first fragment of a datagram to a VIP, the others are the host's as well.
#[inline(never)]
fn unserved<S: State>(parsed: &Parsed, state: &S) -> Outcome {
    let reason = service::missing(&parsed.key, state);
    if reason == Pass::NoService && parsed.fragment.datagram_id().is_some() {
        fragment::place(parsed, NO_SERVICE, 0, state);
    }
    reason.outcome()
}

/// What is neither TCP nor UDP nor an ICMP error: echo requests, tunnels, and what no service can be for.
#[inline(always)]
fn other_protocol<P: Packet, S: Answers<P>>(packet: &mut P, parsed: &Parsed, state: &S) -> Outcome {
    if state.vip(&parsed.key.dst.octets()).is_none() {
        return Pass::NotVip.outcome();
    }
    match parsed.icmp {
        IcmpClass::EchoRequest => state.answer(packet, parsed, Question::ECHO),
        IcmpClass::EchoReply | IcmpClass::Other | IcmpClass::Error => Pass::Icmp.outcome(),
        IcmpClass::None => service::unserved(parsed.protocol()).outcome(),
    }
}

/// What the parser refused: the host's business unless it is for a VIP.
#[inline(never)]
fn refused<P: Packet, S: State>(packet: &P, state: &S, error: ParseError) -> Outcome {
    let reason = match error {
        ParseError::NotIp => return Pass::NotIp.outcome(),
        ParseError::TruncatedEthernet | ParseError::TruncatedVlan | ParseError::TooManyVlanTags => {
            return Pass::NotVip.outcome();
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
        Some(address) if error == ParseError::MappedAddress && address.is_v4() => Pass::NotVip.outcome(),
        Some(address) if state.vip(&address.octets()).is_some() => reason.outcome(),
        _ => Pass::NotVip.outcome(),
    }
}
