//! What a decision says, and the one counter that each packet belongs to.

use crate::record::ServiceId;

/// What happens to a packet.
///
/// For [`Forward`](Verdict::Forward) and [`Answer`](Verdict::Answer) the packet has been rewritten in place; for
/// [`Pass`](Verdict::Pass) it is byte for byte what came in; what is left of a dropped one does not matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The packet is now the frame to send to a backend.
    Forward(Forward),
    /// The packet is now the answer; it leaves by the interface it came from.
    Answer(Answer),
    /// The packet belongs to the host.
    Pass(Pass),
    /// The packet ends here.
    Drop(Drop),
}

/// Where a forwarded frame goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forward {
    /// The interface that the frame leaves by.
    pub interface: u32,
    /// The service that it was for.
    pub service: ServiceId,
    /// The global index of the backend.
    pub backend: u32,
}

impl Verdict {
    /// The counter of this verdict.
    #[inline(always)]
    pub const fn outcome(self) -> Outcome {
        match self {
            Verdict::Forward(_) => Outcome::Forwarded,
            Verdict::Answer(answer) => answer.outcome(),
            Verdict::Pass(pass) => pass.outcome(),
            Verdict::Drop(drop) => drop.outcome(),
        }
    }
}

/// Builds the reasons and the flat [`Outcome`] from one list, so that no reason is without a counter.
macro_rules! outcomes {
    (
        $(#[$answer_doc:meta])* Answer { $(#[doc = $ad:literal] $a:ident => $aout:ident = $an:literal,)* }
        $(#[$pass_doc:meta])* Pass { $(#[doc = $pd:literal] $p:ident => $pout:ident = $pn:literal,)* }
        $(#[$drop_doc:meta])* Drop { $(#[doc = $dd:literal] $d:ident => $dout:ident = $dn:literal,)* }
    ) => {
        $(#[$answer_doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Answer { $(#[doc = $ad] $a,)* }

        $(#[$pass_doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Pass { $(#[doc = $pd] $p,)* }

        $(#[$drop_doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Drop { $(#[doc = $dd] $d,)* }

        /// Every verdict with its reason, flat: the index of exactly one counter a packet.
        ///
        /// Received = forwarded + answered + passed + Σ dropped, by construction.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u32)]
        pub enum Outcome {
            /// Sent to a backend.
            Forwarded,
            $(#[doc = $ad] $aout,)*
            $(#[doc = $pd] $pout,)*
            $(#[doc = $dd] $dout,)*
        }

        impl Answer {
            /// The counter of this answer.
            #[inline(always)]
            pub const fn outcome(self) -> Outcome { match self { $(Answer::$a => Outcome::$aout,)* } }
        }

        impl Pass {
            /// The counter of this reason.
            #[inline(always)]
            pub const fn outcome(self) -> Outcome { match self { $(Pass::$p => Outcome::$pout,)* } }
        }

        impl Drop {
            /// The counter of this reason.
            #[inline(always)]
            pub const fn outcome(self) -> Outcome { match self { $(Drop::$d => Outcome::$dout,)* } }
        }

        impl Outcome {
            /// All outcomes, in the order of their counters.
            pub const ALL: &'static [Outcome] = &[
                Outcome::Forwarded,
                $(Outcome::$aout,)*
                $(Outcome::$pout,)*
                $(Outcome::$dout,)*
            ];

            /// The verdict on a packet that was not forwarded; `None` for [`Outcome::Forwarded`].
            #[inline(always)]
            pub const fn ending(self) -> Option<Verdict> {
                match self {
                    Outcome::Forwarded => None,
                    $(Outcome::$aout => Some(Verdict::Answer(Answer::$a)),)*
                    $(Outcome::$pout => Some(Verdict::Pass(Pass::$p)),)*
                    $(Outcome::$dout => Some(Verdict::Drop(Drop::$d)),)*
                }
            }

            /// What happened to the packet.
            pub const fn kind(self) -> Kind {
                match self {
                    Outcome::Forwarded => Kind::Forwarded,
                    $(Outcome::$aout => Kind::Answered,)*
                    $(Outcome::$pout => Kind::Passed,)*
                    $(Outcome::$dout => Kind::Dropped,)*
                }
            }

            /// A stable name for metrics and JSON.
            pub const fn as_str(self) -> &'static str {
                match self {
                    Outcome::Forwarded => "forwarded",
                    $(Outcome::$aout => $an,)*
                    $(Outcome::$pout => $pn,)*
                    $(Outcome::$dout => $dn,)*
                }
            }

            /// What it means, in one sentence: the text of its documentation.
            pub const fn meaning(self) -> &'static str {
                match self {
                    Outcome::Forwarded => "Sent to a backend.",
                    $(Outcome::$aout => $ad.trim_ascii(),)*
                    $(Outcome::$pout => $pd.trim_ascii(),)*
                    $(Outcome::$dout => $dd.trim_ascii(),)*
                }
            }
        }
    };
}

outcomes! {
    /// What was sent back to the client, in place of its packet.
    Answer {
        /// ICMP fragmentation needed, or ICMPv6 packet too big.
        TooBig => AnsweredTooBig = "answered_too_big",
        /// A TCP reset from the VIP.
        Reset => AnsweredReset = "answered_reset",
        /// An echo reply from the VIP.
        Echo => AnsweredEcho = "answered_echo",
        /// ICMP or ICMPv6 port unreachable from the VIP.
        Unreachable => AnsweredUnreachable = "answered_unreachable",
    }
    /// Why a packet was left to the host.
    Pass {
        /// Neither IPv4 nor IPv6: ARP, LLDP and the rest.
        NotIp => PassedNotIp = "passed_not_ip",
        /// IP, but its destination is no VIP; or so broken that the destination cannot be read.
        NotVip => PassedNotVip = "passed_not_vip",
        /// To a VIP, but no service has this protocol and port.
        NoService => PassedNoService = "passed_no_service",
        /// A tunnel packet (IP in IP, GRE) to a VIP.
        Tunnel => PassedTunnel = "passed_tunnel",
        /// An ICMP or ICMPv6 message to a VIP that is neither an error nor an echo request.
        Icmp => PassedIcmp = "passed_icmp",
    }
    /// Why a packet to a VIP was dropped.
    Drop {
        /// The frame ends before the headers or the length that they announce.
        Truncated => DroppedTruncated = "dropped_truncated",
        /// A length or version field contradicts itself.
        Malformed => DroppedMalformed = "dropped_malformed",
        /// More IPv6 extension headers, or other ones, than the bounded walk follows.
        ExtensionHeaders => DroppedExtensionHeaders = "dropped_extension_headers",
        /// The packet came with TTL or hop limit 0.
        Ttl => DroppedTtl = "dropped_ttl",
        /// Source address equal to the VIP (a land attack), multicast, or broadcast.
        BadSource => DroppedBadSource = "dropped_bad_source",
        /// The source is one of our own outer sources: a loop.
        OwnSource => DroppedOwnSource = "dropped_own_source",
        /// Encapsulated already: to the port of GUE, and the service's backends are behind GUE too.
        AlreadyEncapsulated => DroppedAlreadyEncapsulated = "dropped_already_encapsulated",
        /// The service does not take fragments.
        Fragment => DroppedFragment = "dropped_fragment",
        /// A first fragment too short for its transport header (RFC 1858).
        TinyFragment => DroppedTinyFragment = "dropped_tiny_fragment",
        /// A TCP fragment at offset 8 that would overwrite flags (RFC 3128).
        OverlappingFragment => DroppedOverlappingFragment = "dropped_overlapping_fragment",
        /// A later fragment whose datagram is not known and cannot be placed without ports.
        UnknownFragment => DroppedUnknownFragment = "dropped_unknown_fragment",
        /// An ICMP error that quotes too little of the packet it is about.
        ShortIcmpQuote => DroppedShortIcmpQuote = "dropped_short_icmp_quote",
        /// An ICMP error about a flow of this VIP for which there is no backend.
        IcmpNoBackend => DroppedIcmpNoBackend = "dropped_icmp_no_backend",
        /// The service has no backend, and says to drop.
        NoBackend => DroppedNoBackend = "dropped_no_backend",
        /// The service has no backend, and its answer was over the rate limit or may not be given.
        NoBackendUnanswered => DroppedNoBackendUnanswered = "dropped_no_backend_unanswered",
        /// An orphan that must not be answered: a reset or a fragment.
        Orphan => DroppedOrphan = "dropped_orphan",
        /// The slot names a backend that does not exist.
        StaleSlot => DroppedStaleSlot = "dropped_stale_slot",
        /// Too big for the tunnel, and an answer may not be given (ICMP errors, later fragments).
        TooBig => DroppedTooBig = "dropped_too_big",
        /// Too big for the tunnel, and the answer was over the rate limit.
        TooBigRateLimited => DroppedTooBigRateLimited = "dropped_too_big_rate_limited",
        /// An echo request over the rate limit.
        EchoRateLimited => DroppedEchoRateLimited = "dropped_echo_rate_limited",
        /// No room before the packet for the outer headers.
        NoHeadRoom => DroppedNoHeadRoom = "dropped_no_head_room",
        /// The next hop's MAC is not known.
        NoNeighbour => DroppedNoNeighbour = "dropped_no_neighbour",
    }
}

impl Outcome {
    /// The number of outcomes.
    pub const COUNT: usize = Outcome::ALL.len();

    /// The index of the counter.
    #[inline(always)]
    pub const fn index(self) -> u32 {
        self as u32
    }
}

/// The four terms of the books.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Sent to a backend.
    Forwarded,
    /// Answered to the client.
    Answered,
    /// Left to the host.
    Passed,
    /// Dropped.
    Dropped,
}

impl Kind {
    /// A stable name for metrics and JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Kind::Forwarded => "forwarded",
            Kind::Answered => "answered",
            Kind::Passed => "passed",
            Kind::Dropped => "dropped",
        }
    }
}

/// Builds [`Event`] with its names.
macro_rules! events {
    ($(#[doc = $doc:literal] $event:ident = $name:literal,)*) => {
        /// Something worth counting that is not a packet's fate; a packet may raise none or several.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u32)]
        pub enum Event { $(#[doc = $doc] $event,)* }

        impl Event {
            /// All events, in the order of their counters.
            pub const ALL: &'static [Event] = &[$(Event::$event,)*];

            /// A stable name for metrics and JSON.
            pub const fn as_str(self) -> &'static str { match self { $(Event::$event => $name,)* } }

            /// What it means, in one sentence: the text of its documentation.
            pub const fn meaning(self) -> &'static str {
                match self { $(Event::$event => $doc.trim_ascii(),)* }
            }
        }
    };
}

events! {
    /// The flow table was consulted and knew the flow.
    FlowHit = "flow_hit",
    /// The flow table was consulted and did not know the flow.
    FlowMiss = "flow_miss",
    /// A flow was remembered.
    FlowInserted = "flow_inserted",
    /// A flow that was remembered before was pointed at another backend.
    FlowRewritten = "flow_rewritten",
    /// An older flow was remembered when it was seen.
    FlowAdopted = "flow_adopted",
    /// A live flow was forgotten to remember another.
    FlowEvicted = "flow_evicted",
    /// A flow could not be remembered: nothing in its bucket could be evicted. The packet follows its slot.
    FlowInsertFailed = "flow_insert_failed",
    /// A remembered flow's backend is down or gone: the entry is void.
    FlowVoid = "flow_void",
    /// A TCP packet in the middle of a flow whose backend is not known or gone.
    MidflowNoEntry = "midflow_no_entry",
    /// A QUIC connection id names a server that the service does not have.
    QuicUnknownId = "quic_unknown_id",
    /// A QUIC packet is too short for its connection id, or a connection id for the server id.
    QuicShort = "quic_short",
    /// A datagram's fragments were placed.
    FragmentInserted = "fragment_inserted",
    /// A fragment followed the others of its datagram.
    FragmentHit = "fragment_hit",
    /// A datagram's place could not be remembered, or pushed a live one out.
    FragmentEvicted = "fragment_evicted",
    /// An ICMP message was not sent because of the rate limit.
    IcmpRateLimited = "icmp_rate_limited",
}

impl Event {
    /// The number of events.
    pub const COUNT: usize = Event::ALL.len();

    /// The index of the counter.
    #[inline(always)]
    pub const fn index(self) -> u32 {
        self as u32
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_outcome_has_its_own_index_and_name() {
        let names: BTreeSet<_> = Outcome::ALL.iter().map(|outcome| outcome.as_str()).collect();
        assert_eq!(names.len(), Outcome::COUNT);
        for (index, outcome) in Outcome::ALL.iter().enumerate() {
            assert_eq!(outcome.index() as usize, index);
            assert!(outcome.as_str().starts_with(outcome.kind().as_str()), "{}", outcome.as_str());
            assert_eq!(outcome.ending().map_or(Outcome::Forwarded, Verdict::outcome), *outcome);
            assert!(outcome.meaning().ends_with('.') && !outcome.meaning().starts_with(' '));
        }
    }

    #[test]
    fn every_event_has_its_own_index_and_name() {
        let names: BTreeSet<_> = Event::ALL.iter().map(|event| event.as_str()).collect();
        assert_eq!(names.len(), Event::COUNT);
        for (index, event) in Event::ALL.iter().enumerate() {
            assert_eq!(event.index() as usize, index);
        }
    }
}
