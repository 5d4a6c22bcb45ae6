//! Answers in place of a backend's, from the VIP.

use guideway_wire::reply::Complaint;
use guideway_wire::{IpProtocol, Packet, Parsed, reply};

use crate::State;
use crate::outcome::{Answer, Drop, Event, Outcome, Pass};

/// What is to be answered, in one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question(u64);

impl Question {
    /// The service has no backend: a reset or "port unreachable".
    pub const NO_BACKEND: Question = Question(0);
    /// A TCP packet whose connection is lost: a reset, so that the client does not wait. Never a reset for a reset.
    pub const ORPHAN: Question = Question(1);
    /// An echo request to a VIP. One that comes in fragments is left to the host.
    pub const ECHO: Question = Question(2);
    const TOO_BIG: u64 = 3;

    /// The largest packet that fits has `mtu` bytes.
    #[inline(always)]
    pub const fn too_big(mtu: u32) -> Question {
        Question(Self::TOO_BIG | ((mtu as u64) << 32))
    }

    /// The number, to hand it over; see [`Question::from_word`].
    #[inline(always)]
    pub const fn word(self) -> u64 {
        self.0
    }

    /// The question whose number this is.
    #[inline(always)]
    pub const fn from_word(word: u64) -> Question {
        Question(word)
    }

    /// Whether the answer is a reset.
    #[inline(always)]
    pub fn asks_for_reset(self, parsed: &Parsed) -> bool {
        self == Question::ORPHAN || self == Question::NO_BACKEND && parsed.protocol() == IpProtocol::TCP
    }

    #[inline(always)]
    const fn mtu(self) -> Option<u32> {
        if self.0 as u32 as u64 == Self::TOO_BIG { Some((self.0 >> 32) as u32) } else { None }
    }
}

/// Turns the packet into its answer, or says why it gets none. What is ICMP is subject to the rate limit.
#[inline(always)]
pub fn give<P: Packet, S: State>(packet: &mut P, parsed: &Parsed, question: Question, state: &S) -> Outcome {
    if question.asks_for_reset(parsed) {
        reset(packet, parsed, question)
    } else {
        give_icmp(packet, parsed, question, state)
    }
}

/// Turns the packet into the ICMP message that answers it; otherwise as [`give`].
#[inline(always)]
pub fn give_icmp<P: Packet, S: State>(
    packet: &mut P,
    parsed: &Parsed,
    question: Question,
    state: &S,
) -> Outcome {
    match question {
        Question::ECHO => echo(packet, parsed, state),
        _ => complain(packet, parsed, question.mtu(), state),
    }
}

/// Turns the packet into a reset of its connection; otherwise as [`give`].
#[inline(always)]
pub fn reset<P: Packet>(packet: &mut P, parsed: &Parsed, question: Question) -> Outcome {
    let otherwise = if question == Question::ORPHAN { Drop::Orphan } else { Drop::NoBackendUnanswered };
    match reply::tcp_reset(packet, parsed) {
        Ok(()) => Answer::Reset.outcome(),
        Err(_) => otherwise.outcome(),
    }
}

#[inline(never)]
fn echo<P: Packet, S: State>(packet: &mut P, parsed: &Parsed, state: &S) -> Outcome {
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

#[inline(always)]
fn complain<P: Packet, S: State>(packet: &mut P, parsed: &Parsed, mtu: Option<u32>, state: &S) -> Outcome {
    if !state.allow_icmp() {
        state.event(Event::IcmpRateLimited);
        return if mtu.is_some() {
            Drop::TooBigRateLimited.outcome()
        } else {
            Drop::NoBackendUnanswered.outcome()
        };
    }
    let complaint = mtu.map_or(Complaint::PortUnreachable, |mtu| Complaint::TooBig { mtu });
    match (reply::icmp_error(packet, parsed, complaint), mtu) {
        (Ok(()), Some(_)) => Answer::TooBig.outcome(),
        (Ok(()), None) => Answer::Unreachable.outcome(),
        (Err(_), Some(_)) => Drop::TooBig.outcome(),
        (Err(_), None) => Drop::NoBackendUnanswered.outcome(),
    }
}
