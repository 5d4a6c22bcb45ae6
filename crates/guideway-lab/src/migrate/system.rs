//! The two ends of a migration: how each of them sends a flow to a backend.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use guideway_hash::hash::native::DEFAULT_SEED;
use guideway_hash::policy::{Candidate, ReconcileError};
use guideway_hash::profile::{self, Flow, FlowError, Member, Params, Profile, ProfileError, cilium};
use guideway_hash::{Table, TableSize};
use guideway_wire::{FlowHasher, FlowKey, HashKey, IpProtocol};

use crate::Contender;
use crate::contender::Built;

/// A backend on both sides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backend {
    /// Address and port where a side needs them, else any name. Each side hashes what its system would: of an address and port some
    /// hash the address alone, and Cilium hashes a text that has both in it.
    pub name: String,
    /// Its weight.
    pub weight: u32,
}

/// One side: how a flow finds its backend.
#[derive(Debug, Clone)]
pub enum System {
    /// Guideway with one of its policies.
    Native {
        /// The policy.
        contender: Contender,
        /// Slots of its table, if it has one.
        slots: TableSize,
        /// The seed that the fleet shares.
        seed: u64,
        /// Whether a client's flows go together: the hash is of its address alone.
        by_source: bool,
    },
    /// Another system, bit for bit.
    Profile {
        /// Which.
        profile: Profile,
        /// Slots of its table.
        slots: u32,
        /// What else it was told.
        params: Box<Params>,
    },
}

/// Why a side does not take the backends, or the flows.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SystemError {
    /// A profile refused the backends, as its system would.
    #[error("{0}")]
    Profile(#[from] ProfileError),
    /// A policy refused the backends.
    #[error("{0}")]
    Policy(#[from] ReconcileError),
    /// The profile hashes an address and port, and a name is none.
    #[error(
        "backend {name:?} is no address and port; {profile} hashes those, so name backends like 10.0.0.1:443"
    )]
    NotAnAddress {
        /// The backend.
        name: String,
        /// The profile.
        profile: Profile,
    },
    /// The profile has no rule for such flows.
    #[error("{0}")]
    Flow(#[from] FlowError),
}

impl System {
    /// Whether it heeds weights at all.
    pub(super) fn is_weighted(&self) -> bool {
        use Profile as P;
        match self {
            Self::Native { contender, .. } => contender.is_weighted(),
            Self::Profile { profile, .. } => {
                !matches!(profile, P::Reference | P::Vpp2602 | P::GoMaglev | P::Poise | P::Glb)
            }
        }
    }

    /// What its packet path hashes.
    pub(super) fn flow_hash(&self) -> &'static str {
        match self {
            Self::Native { by_source: false, .. } => "Guideway's flow hash of addresses, ports and protocol",
            Self::Native { by_source: true, .. } => "Guideway's flow hash of the client's address",
            Self::Profile { profile: Profile::GoMaglev, .. } => {
                "a hash that its caller brings: here Guideway's flow hash under the default seed"
            }
            Self::Profile { profile: Profile::Poise, .. } => {
                "a key that its caller brings: here the client's address and port as text"
            }
            Self::Profile { profile, .. } => profile.flow_hash(),
        }
    }

    /// This system with `backends`.
    pub(super) fn resolver(&self, backends: &[Backend], protocol: u8) -> Result<Resolver, SystemError> {
        match self {
            Self::Native { contender, slots, seed, by_source } => {
                let mut policy = contender.policy(*slots, *seed);
                let candidate = |backend: &'_ Backend| (backend.name.clone(), backend.weight);
                let named: Vec<(String, u32)> = backends.iter().map(candidate).collect();
                let candidates: Vec<Candidate<'_>> =
                    named.iter().map(|(name, weight)| Candidate::new(name).with_weight(*weight)).collect();
                policy.reconcile(&candidates)?;
                let by = if *by_source { HashKey::SourceAddress } else { HashKey::FiveTuple };
                let rule = Answer::Native { policy, hasher: FlowHasher::new(*seed), by };
                Ok(Resolver { answer: rule, warnings: Vec::new() })
            }
            Self::Profile { profile, slots, params } => {
                let keys = backends.iter().map(|backend| key(*profile, &backend.name, protocol));
                let keys = keys.collect::<Result<Vec<String>, SystemError>>()?;
                let members: Vec<Member<'_>> = keys
                    .iter()
                    .zip(backends)
                    .map(|(key, backend)| Member::new(key, backend.weight))
                    .collect();
                let built = profile::build(*profile, *slots, &members, params)?;
                let warnings = built.warnings.iter().map(ToString::to_string).collect();
                let answer =
                    Answer::Profile { profile: *profile, params: params.clone(), table: built.table };
                Ok(Resolver { answer, warnings })
            }
        }
    }
}

impl fmt::Display for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Native { contender, slots, seed, by_source } => {
                write!(f, "Guideway's {contender}")?;
                if contender.has_table() {
                    write!(f, " of {slots} slots")?;
                }
                // The default seed is every fleet's until it takes another.
                if *seed != DEFAULT_SEED {
                    write!(f, ", seed {seed:#x}")?;
                }
                if *by_source { f.write_str(", by source address") } else { Ok(()) }
            }
            Self::Profile { profile, slots, .. } => write!(f, "{profile} of {slots} slots"),
        }
    }
}

/// What `profile`'s system hashes of a backend.
fn key(profile: Profile, name: &str, protocol: u8) -> Result<String, SystemError> {
    use Profile as P;
    let address = || {
        let socket: Option<SocketAddr> = name.parse().ok();
        socket.ok_or_else(|| SystemError::NotAnAddress { name: name.to_owned(), profile })
    };
    match profile {
        P::Native | P::Reference | P::Envoy | P::GoMaglev | P::Poise | P::IpvsMh => Ok(name.to_owned()),
        P::Cilium => {
            let transport = if protocol == IpProtocol::UDP.0 { "UDP" } else { "TCP" };
            Ok(cilium::backend_key(address()?, transport, false, 0))
        }
        P::KatranV1 | P::KatranV2 | P::Vpp | P::Vpp2602 | P::Glb => match name.parse::<IpAddr>() {
            Ok(address) => Ok(address.to_string()),
            Err(_) => Ok(address()?.ip().to_string()),
        },
    }
}

/// A system with its backends.
pub(super) struct Resolver {
    answer: Answer,
    /// What the system's rule does that its user may not want.
    pub(super) warnings: Vec<String>,
}

enum Answer {
    Native { policy: Built, hasher: FlowHasher, by: HashKey },
    Profile { profile: Profile, params: Box<Params>, table: Table },
}

impl Resolver {
    /// The place of the backend that gets `flow`.
    pub(super) fn owner(&self, flow: &Flow) -> u32 {
        match &self.answer {
            // Something is committed, so there is an answer.
            Answer::Native { policy, hasher, by } => {
                policy.pick_hash(hasher.hash(&flow_key(flow), *by)).unwrap_or_default() as u32
            }
            Answer::Profile { profile, params, table } => {
                let size = table.size();
                let located = match profile {
                    Profile::Native => {
                        return table
                            .pick(FlowHasher::new(params.seed).hash(&flow_key(flow), HashKey::FiveTuple));
                    }
                    Profile::GoMaglev => {
                        let hash = FlowHasher::new(DEFAULT_SEED).hash(&flow_key(flow), HashKey::FiveTuple);
                        profile.locate_key(&hash.to_string(), size, params)
                    }
                    Profile::Poise => {
                        let client = SocketAddr::new(flow.source, flow.source_port);
                        profile.locate_key(&client.to_string(), size, params)
                    }
                    _ => profile.locate_flow(flow, size, params),
                };
                // All others hash flows, and these two the keys that they are given.
                table.owner(located.map_or(0, |located| located.slot))
            }
        }
    }

    /// Slots of the table, if there is one.
    pub(super) fn slots(&self) -> Option<u32> {
        match &self.answer {
            Answer::Native { policy, .. } => policy.slots(),
            Answer::Profile { table, .. } => Some(table.size()),
        }
    }
}

/// The flow as Guideway's packet path keys it.
pub(super) fn flow_key(flow: &Flow) -> FlowKey {
    let (source_port, destination_port) = (flow.source_port, flow.destination_port);
    let protocol = IpProtocol(flow.protocol);
    match (flow.source, flow.destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            FlowKey::v4(source.octets(), destination.octets(), source_port, destination_port, protocol)
        }
        (source, destination) => {
            let wide = |address: IpAddr| match address {
                IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
                IpAddr::V6(address) => address.octets(),
            };
            FlowKey::v6(wide(source), wide(destination), source_port, destination_port, protocol)
        }
    }
}
