//! Desired state: what an operator wants a forwarder to hold, free of where it was written.

use std::net::IpAddr;
use std::num::NonZeroU16;
use std::sync::Arc;

use guideway_forward::record::Policy;
use guideway_forward::record::backend::NextHop;
use guideway_wire::Tunnel;
use ipnet::IpNet;

/// A service as it is wanted.
#[derive(Debug, Clone, PartialEq)]
pub struct ServiceSpec {
    /// The operator's name for it, unique.
    pub name: String,
    /// What packets it takes; at least one place, and none that another service has.
    pub listen: Vec<Listen>,
    /// How its table is built.
    pub table: TableSpec,
    /// What it does with its packets.
    pub policy: Policy,
    /// Seconds after which a silent TCP flow is forgotten.
    pub tcp_idle_seconds: u32,
    /// Seconds after which a silent UDP flow is forgotten, and how long a change's grace lasts.
    pub udp_idle_seconds: u32,
    /// Who takes new flows when every check fails.
    pub all_down: AllDown,
    /// Its backends; identities are unique.
    pub backends: Vec<BackendSpec>,
}

/// Where a service listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Listen {
    /// The virtual address, or all addresses of a prefix.
    pub network: IpNet,
    /// The port; `None` is every port that has no service of its own.
    pub port: Option<NonZeroU16>,
    /// The transport protocol.
    pub protocol: Protocol,
}

impl Listen {
    /// One address and one port.
    pub fn on(address: IpAddr, port: NonZeroU16, protocol: Protocol) -> Self {
        Self { network: IpNet::from(address), port: Some(port), protocol }
    }

    /// The single virtual address, if the service has but one.
    pub fn address(&self) -> Option<IpAddr> {
        (self.network.prefix_len() == self.network.max_prefix_len()).then(|| self.network.addr())
    }
}

impl std::fmt::Display for Listen {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.address(), self.network) {
            (Some(IpAddr::V4(address)), _) => write!(out, "{address}:")?,
            (Some(IpAddr::V6(address)), _) => write!(out, "[{address}]:")?,
            (None, network) => write!(out, "[{network}]:")?,
        }
        match self.port {
            Some(port) => write!(out, "{port}/{}", self.protocol),
            None => write!(out, "*/{}", self.protocol),
        }
    }
}

/// A transport protocol that can be balanced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Protocol {
    /// TCP, protocol number 6.
    Tcp,
    /// UDP, protocol number 17; QUIC too.
    Udp,
}

impl Protocol {
    /// The IP protocol number.
    pub const fn number(self) -> u8 {
        match self {
            Self::Tcp => 6,
            Self::Udp => 17,
        }
    }
}

impl std::fmt::Display for Protocol {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        })
    }
}

/// How a service's table is built. Whatever differs here between two balancers makes them answer differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TableSpec {
    /// The rule.
    pub rule: TableRule,
    /// Number of slots, a prime.
    pub size: TableSizeSpec,
    /// The fleet's seed: of the permutations, and of the flow hash.
    pub seed: u64,
}

/// The rule that fills a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum TableRule {
    /// Maglev in Guideway's native form.
    #[default]
    Maglev,
    /// Each slot to its weighted rendezvous winner: no needless churn, shares by chance.
    Rendezvous,
}

/// A wanted table size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TableSizeSpec {
    /// This many slots.
    Slots(u32),
    /// The smallest listed prime of at least 100 slots a backend, over all backends that the service names (so that
    /// health never changes the size).
    Auto,
}

/// Who takes new flows when no backend passes its checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum AllDown {
    /// The backends whose checks fail, as if they passed: the checks may be what is broken.
    #[default]
    LastResort,
    /// Nobody; clients get what the service's policy says of a service without a backend.
    Reject,
}

/// A backend as it is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackendSpec {
    /// What tables are built from and all balancers of a fleet agree on; unique in the service.
    pub identity: Arc<str>,
    /// Where its packets are tunnelled to.
    pub address: IpAddr,
    /// Its share of new flows; 0 takes none.
    pub weight: u32,
    /// What the operator says of it.
    pub admin: Admin,
    /// How its packets get there.
    pub tunnel: TunnelSpec,
    /// Its server id inside QUIC connection ids, at most 8 bytes.
    pub quic_id: Option<u64>,
}

/// The tunnel to a backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TunnelSpec {
    /// Its kind.
    pub kind: Tunnel,
    /// The outer source address, of the backend's own family.
    pub source: IpAddr,
    /// How many of the lowest bits of the source follow the flow, 0 to 32.
    pub source_entropy_bits: u8,
    /// The UDP destination port of GUE.
    pub gue_port: u16,
    /// The largest outer packet, bytes; less where the link of the next hop takes less.
    pub mtu: u16,
    /// Where the frames go on the link.
    pub next_hop: NextHop,
}

/// What the operator wants of a backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Admin {
    /// It takes new flows while its checks pass.
    #[default]
    Active,
    /// It keeps its flows and takes no new ones.
    Draining,
    /// It takes nothing; its flows end at once.
    Disabled,
}

/// What the checks say of a backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Health {
    /// Nothing checks it, so it counts as well.
    #[default]
    Unchecked,
    /// It is checked and has never passed; it takes no flows, not even as a last resort beside others.
    NeverPassed,
    /// Its checks pass.
    Up,
    /// Its checks fail.
    Down,
}
