//! Settings that are one word out of a few.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::Serialize;
use toml::Spanned;
use toml::de::DeValue;

use super::problem::{Problem, nearest, one_of};
use super::reader::FromValue;
use super::value::string;

/// A word that is none of those a setting takes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown {setting} `{word}`; {}", self.remedy())]
pub struct UnknownWord {
    /// The setting.
    pub setting: &'static str,
    /// What was written.
    pub word: String,
    /// The words that it takes.
    pub known: Vec<&'static str>,
}

impl UnknownWord {
    fn remedy(&self) -> String {
        match nearest(&self.word, self.known.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("it is one of {}", one_of(self.known.iter().copied())),
        }
    }
}

/// An enum whose variants are words of the configuration.
macro_rules! words {
    ($(#[doc = $doc:literal])* $name:ident, $setting:literal, { $($(#[doc = $vdoc:literal])* $variant:ident = $word:literal,)* }) => {
        $(#[doc = $doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, JsonSchema)]
        pub enum $name {
            $($(#[doc = $vdoc])* #[serde(rename = $word)] $variant,)*
        }

        impl $name {
            /// Every one of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The word that stands for it in a configuration.
            pub const fn word(self) -> &'static str {
                match self { $(Self::$variant => $word),* }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.pad(self.word())
            }
        }

        impl FromStr for $name {
            type Err = UnknownWord;

            fn from_str(word: &str) -> Result<Self, UnknownWord> {
                Self::ALL.iter().copied().find(|known| known.word() == word).ok_or_else(|| UnknownWord {
                    setting: $setting,
                    word: word.to_owned(),
                    known: Self::ALL.iter().map(|known| known.word()).collect(),
                })
            }
        }

        impl FromValue for $name {
            fn from_value(value: &Spanned<DeValue<'_>>, problems: &mut Vec<Problem>) -> Option<Self> {
                read_word(value, $setting, problems)
            }
        }
    };
}

fn read_word<T: FromStr<Err = UnknownWord>>(
    value: &Spanned<DeValue<'_>>,
    setting: &str,
    problems: &mut Vec<Problem>,
) -> Option<T> {
    let text = string(value, "a word in quotes", problems)?;
    text.parse()
        .map_err(|error: UnknownWord| {
            problems.push(
                Problem::new(value.span(), format!("unknown {setting} `{text}`"))
                    .label("not one of them")
                    .help(error.remedy()),
            );
        })
        .ok()
}

words! {
    /// What becomes of the kernel's forwarder when the daemon is asked to end.
    OnExit, "on_exit", {
        /// It is taken away, with all it remembers.
        Detach = "detach",
        /// It goes on forwarding as it is.
        Keep = "keep",
    }
}

words! {
    /// The protocol that a service balances.
    Protocol, "protocol", {
        /// TCP.
        Tcp = "tcp",
        /// UDP, QUIC included.
        Udp = "udp",
    }
}

words! {
    /// How slots are given to backends.
    Policy, "policy", {
        /// Maglev hashing with integer weights: even shares, very few needless moves.
        Maglev = "maglev",
        /// Each slot goes to the backend of its highest score: no needless moves, shares even only by chance.
        RendezvousTable = "rendezvous-table",
    }
}

words! {
    /// How packets travel to a backend.
    Encapsulation, "encapsulation", {
        /// IP in IP: 4in4, 4in6, 6in4 or 6in6 as the addresses ask (RFC 2003, RFC 2473). Overhead 20 or 40 bytes.
        Ipip = "ipip",
        /// GRE without key or checksum (RFC 2784). 4 bytes more than `ipip`.
        Gre = "gre",
        /// GUE variant 1: IP directly in UDP. 8 bytes more than `ipip`.
        Gue = "gue",
        /// GUE variant 0: UDP and the 4-byte GUE header. 12 bytes more than `ipip`.
        GueHeader = "gue-header",
    }
}

impl Encapsulation {
    /// Bytes that the tunnel adds in front of the packet, the outer IP header of that family included.
    pub const fn overhead(self, outer_v6: bool) -> u16 {
        let ip = if outer_v6 { 40 } else { 20 };
        ip + match self {
            Self::Ipip => 0,
            Self::Gre => 4,
            Self::Gue => 8,
            Self::GueHeader => 12,
        }
    }
}

words! {
    /// What the outer source address and port are.
    OuterSource, "outer source", {
        /// The address is always that of `[underlay]`. (The UDP source port of `gue` and `gue-header` and the flow label
        /// of an outer IPv6 header follow the flow all the same: equal within one, spread over many.)
        Fixed = "fixed",
        /// With `ipip` and `gre` the low 16 bits of the IPv4 address, or 32 of the IPv6 one, follow the flow too, so that
        /// routers and receive queues spread the tunnels: the /16 or /96 around the address of `[underlay]` must be
        /// the balancer's. With `gue` and `gue-header` as `fixed`: the port is enough.
        Entropy = "entropy",
    }
}

words! {
    /// What of a packet chooses its slot.
    HashKey, "hash key", {
        /// Source and destination address, ports and protocol: connections of one client spread.
        FiveTuple = "5-tuple",
        /// The source address alone: one client, one backend.
        Source = "source",
    }
}

words! {
    /// What becomes of fragments.
    Fragments, "fragments policy", {
        /// The fragments of a datagram go to one backend, in whichever order they come.
        Cache = "cache",
        /// They are dropped and counted.
        Drop = "drop",
    }
}

words! {
    /// What a packet in the middle of a connection gets when the backend of that connection is gone.
    Orphans, "orphans policy", {
        /// A reset from the service's address, so that the client knows at once.
        Reset = "reset",
        /// The backend that new connections get.
        Rehash = "rehash",
    }
}

words! {
    /// What a client gets when a service has no backend that may take it.
    NoBackend, "no-backend policy", {
        /// A TCP reset or ICMP port unreachable.
        Reject = "reject",
        /// Nothing.
        Drop = "drop",
    }
}

words! {
    /// What happens when every health check of a service fails.
    AllDown, "all-down policy", {
        /// All backends are used as if they were up: a broken check should not take a service away.
        LastResort = "last-resort",
        /// The service has no backend.
        Reject = "reject",
    }
}

words! {
    /// How UDP flows are kept where a slot changes owner.
    UdpFlows, "UDP policy", {
        /// For one idle time after the change, unknown flows count as old and stay with the old owner: so do new ones until then.
        Grace = "grace",
        /// Every flow is remembered always, for drains that are strict, once an idle time of it has passed.
        Track = "track",
        /// Every flow follows the change at once.
        Rehash = "rehash",
    }
}

words! {
    /// Which TCP flows are remembered.
    Track, "tracking policy", {
        /// Those of slots that have changed owner lately.
        Unsettled = "unsettled",
        /// All, for those who want connection counts all the time.
        Always = "always",
    }
}

words! {
    /// What a backend may take.
    BackendState, "backend state", {
        /// New flows and old.
        Active = "active",
        /// Old flows only.
        Draining = "draining",
        /// Nothing: it is broken, and flows to it are void.
        Down = "down",
        /// Nothing: it is kept in the file for later, as if it were not there.
        Maintenance = "maintenance",
    }
}

words! {
    /// How a check asks a backend.
    HealthKind, "health check", {
        /// A connection opens.
        Tcp = "tcp",
        /// A GET is answered with an expected status and body.
        Http = "http",
        /// The same over TLS.
        Https = "https",
        /// A datagram is answered.
        Udp = "udp",
        /// A program exits with 0.
        Exec = "exec",
    }
}

words! {
    /// The way a check takes to a backend.
    HealthVia, "way of a health check", {
        /// Through the tunnel, to the service's address: what clients' packets do.
        Tunnel = "tunnel",
        /// To the backend's own address.
        Direct = "direct",
        /// Both must succeed, and a failure says which did not.
        Both = "both",
    }
}

words! {
    /// What a scripted event does.
    EventKind, "event", {
        /// The backend takes no new flows.
        Drain = "drain",
        /// The backend is broken: flows to it are void.
        Down = "down",
        /// The backend takes new flows again.
        Up = "up",
        /// A backend joins.
        Add = "add",
        /// The backend's weight changes.
        Weight = "weight",
        /// The backend leaves at once, without a drain.
        Remove = "remove",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_read_back_as_written() {
        for &kind in Encapsulation::ALL {
            assert_eq!(kind.to_string().parse(), Ok(kind));
        }
        let error = "ipipp".parse::<Encapsulation>().unwrap_err();
        assert_eq!(error.to_string(), "unknown encapsulation `ipipp`; did you mean `ipip`?");
    }
}
