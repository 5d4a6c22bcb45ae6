//! The configuration once it has been checked: only what can be honoured, with every default filled in.
//!
//! The types are `non_exhaustive`: outside this crate the one way to them is [`parse`](super::parse).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::time::Duration;

use guideway_hash::TableSize;
use ipnet::IpNet;
use serde::{Serialize, Serializer};

use super::value::MacAddr;
use super::words::{
    AllDown, BackendState, Encapsulation, Fragments, HashKey, HealthKind, HealthVia, NoBackend, OnExit,
    Orphans, OuterSource, Policy, Protocol, Track, UdpFlows,
};

/// The most backends a service can hold: a slot names one by 15 bits, and the last value means none.
pub const MAX_BACKENDS: usize = 32_767;

/// The most services a configuration can hold: the flow table names one by 16 bits, and two values are taken.
pub const MAX_SERVICES: usize = guideway_forward::record::MAX_SERVICES as usize;

/// Everything that a balancer is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Config {
    /// The key of the flow hash, shared by the fleet.
    pub seed: u64,
    /// Flows that the flow table holds: a power of two.
    pub flow_table_entries: u32,
    /// The daemon itself.
    pub daemon: Daemon,
    /// The network that carries the tunnels.
    pub underlay: Underlay,
    /// The services, in the order of the file.
    pub services: Vec<Service>,
}

/// What the daemon itself is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Daemon {
    /// The interfaces that packets of clients come by, if the configuration names them.
    pub interfaces: Vec<String>,
    /// What becomes of the kernel's forwarder at the end, if the configuration says it.
    pub on_exit: Option<OnExit>,
    /// How long it goes on forwarding after it was asked to end.
    #[serde(serialize_with = "seconds", rename = "shutdown_grace_seconds")]
    pub shutdown_grace: Duration,
    /// From one comparison of the forwarder's state with what it should be to the next; zero: never.
    #[serde(serialize_with = "seconds", rename = "drift_interval_seconds")]
    pub drift_interval: Duration,
}

/// The network that carries the tunnels.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Underlay {
    /// The largest IP packet, in bytes.
    pub mtu: u16,
    /// Outer source towards IPv4 backends; there if the configuration has one.
    pub source_v4: Option<Ipv4Addr>,
    /// Outer source towards IPv6 backends; there if the configuration has one.
    pub source_v6: Option<Ipv6Addr>,
    /// Source MAC address of frames that leave.
    pub mac: MacAddr,
    /// Whether the configuration names it; a daemon otherwise uses that of the interface.
    pub mac_is_set: bool,
    /// Destination MAC address for backends that name none.
    pub next_hop_mac: MacAddr,
    /// Whether the configuration names it.
    pub next_hop_mac_is_set: bool,
}

impl Underlay {
    /// The outer source towards a backend: `Some` for every backend of a valid configuration.
    pub fn source_for(&self, backend: IpAddr) -> Option<IpAddr> {
        match backend {
            IpAddr::V4(_) => self.source_v4.map(IpAddr::V4),
            IpAddr::V6(_) => self.source_v6.map(IpAddr::V6),
        }
    }
}

/// A service and its backends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Service {
    /// Its name, unique in the configuration.
    pub name: String,
    /// Virtual addresses (full-length prefixes) and prefixes; at least one.
    pub vips: Vec<IpNet>,
    /// Which ports.
    pub ports: Ports,
    /// Which protocol.
    pub protocol: Protocol,
    /// How slots are given to backends.
    pub policy: Policy,
    /// Slots of the table: as set, or by the number of backends.
    #[serde(serialize_with = "slots")]
    pub table_size: TableSize,
    /// Whether `table_size` followed from the number of backends.
    pub table_size_auto: bool,
    /// What of a packet chooses its slot.
    pub hash_key: HashKey,
    /// How packets travel.
    pub encapsulation: Encapsulation,
    /// What the outer source is.
    pub outer_source: OuterSource,
    /// What becomes of fragments.
    pub fragments: Fragments,
    /// What orphans get (TCP).
    pub orphans: Orphans,
    /// What clients get where no backend may take them.
    pub no_backend: NoBackend,
    /// What happens when every check fails.
    pub all_down: AllDown,
    /// How long flows of a backend that drains or was removed may last, if there is a limit.
    #[serde(serialize_with = "some_seconds", rename = "drain_timeout_seconds")]
    pub drain_timeout: Option<Duration>,
    /// How long a silent flow is remembered: whole seconds.
    #[serde(serialize_with = "seconds", rename = "idle_seconds")]
    pub idle: Duration,
    /// How UDP flows are kept over changes (UDP).
    pub udp: UdpFlows,
    /// Which flows are remembered (TCP).
    pub track: Track,
    /// Where connection ids name a backend (UDP).
    pub quic: Option<Quic>,
    /// How backends are checked.
    pub health: Option<Health>,
    /// The backends, in the order of the file.
    pub backends: Vec<Backend>,
}

impl Service {
    /// The addresses that outer sources towards a backend can have; `None` where the underlay has none of its family.
    pub fn outer_sources(&self, underlay: &Underlay, backend: IpAddr) -> Option<IpNet> {
        let source = IpNet::from(underlay.source_for(backend)?);
        let bits = source.max_prefix_len() - self.source_entropy_bits(backend);
        Some(IpNet::new(source.addr(), bits).unwrap_or(source).trunc())
    }

    /// How many of the lowest bits of the outer source towards a backend follow the flow.
    ///
    /// GUE needs none: its UDP source port follows the flow whatever the address does.
    pub fn source_entropy_bits(&self, backend: IpAddr) -> u8 {
        let by_address = matches!(self.encapsulation, Encapsulation::Ipip | Encapsulation::Gre);
        match backend {
            _ if self.outer_source == OuterSource::Fixed || !by_address => 0,
            IpAddr::V4(_) => ENTROPY_BITS_V4,
            IpAddr::V6(_) => ENTROPY_BITS_V6,
        }
    }
}

/// Bits of an IPv4 outer source that follow the flow: a /16 belongs to the balancer.
const ENTROPY_BITS_V4: u8 = 16;

/// Bits of an IPv6 outer source that follow the flow: a /96 belongs to the balancer.
const ENTROPY_BITS_V6: u8 = 32;

/// The ports of a service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Ports {
    /// All ports that no other service of the address and protocol has.
    Any,
    /// These: at least one, none twice.
    List(Vec<u16>),
}

impl Ports {
    /// The ports one by one; `None` stands for all.
    pub fn iter(&self) -> impl Iterator<Item = Option<u16>> {
        let (any, list) = match self {
            Self::Any => (Some(None), [].as_slice()),
            Self::List(list) => (None, list.as_slice()),
        };
        any.into_iter().chain(list.iter().copied().map(Some))
    }
}

/// Where QUIC connection ids carry the id of a backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Quic {
    /// Bytes of the connection id before it.
    pub server_id_offset: u8,
    /// Its bytes: 1 to 8.
    pub server_id_length: u8,
}

/// A real server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Backend {
    /// Its name, unique in the service.
    pub name: String,
    /// Where the tunnel ends, unique in the service.
    pub address: IpAddr,
    /// Its share of new flows: 0 to 65,535.
    pub weight: u32,
    /// What it may take.
    pub state: BackendState,
    /// Its QUIC server id, big-endian, of the length that the service says.
    pub server_id: Option<u64>,
    /// The next hop to it.
    pub next_hop_mac: MacAddr,
    /// Whether the configuration names it; a daemon otherwise follows routes and neighbours.
    pub next_hop_mac_is_set: bool,
}

/// How backends are checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Health {
    /// What is asked and which answer is fine.
    pub probe: Probe,
    /// The way to the backend.
    pub via: HealthVia,
    /// From one check to the next while nothing changes.
    #[serde(serialize_with = "seconds", rename = "interval_seconds")]
    pub interval: Duration,
    /// The same while results contradict the verdict; no more than the interval.
    #[serde(serialize_with = "seconds", rename = "recheck_seconds")]
    pub recheck: Duration,
    /// How long an answer may take.
    #[serde(serialize_with = "seconds", rename = "timeout_seconds")]
    pub timeout: Duration,
    /// Successes in a row that bring a backend up.
    pub rise: u8,
    /// Failures in a row that take it down.
    pub fall: u8,
    /// The port that is asked; `exec` may do without.
    pub port: Option<u16>,
    /// How long it takes, after a recovery, to the full weight; zero: at once.
    #[serde(serialize_with = "seconds", rename = "slow_start_seconds")]
    pub slow_start: Duration,
    /// `https`: certificates of which one must have signed the backend's.
    pub ca_file: Option<PathBuf>,
}

/// What a check asks.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Probe {
    /// A connection: that the backend's kernel takes it is enough.
    Tcp,
    /// An HTTP GET.
    Http {
        /// Over TLS.
        tls: bool,
        /// The host, where it is not the address.
        host: Option<String>,
        /// The path.
        path: String,
        /// Statuses that are fine.
        status: Vec<u16>,
        /// A text that the body must hold.
        body: Option<String>,
    },
    /// A datagram.
    Udp {
        /// What is sent.
        send: String,
        /// What the answer must begin with.
        expect: Option<String>,
    },
    /// A program.
    Exec {
        /// The program and its arguments; never empty.
        command: Vec<String>,
    },
}

impl Probe {
    /// The word that stands for it in a configuration.
    pub fn kind(&self) -> HealthKind {
        match self {
            Self::Tcp => HealthKind::Tcp,
            Self::Http { tls: false, .. } => HealthKind::Http,
            Self::Http { tls: true, .. } => HealthKind::Https,
            Self::Udp { .. } => HealthKind::Udp,
            Self::Exec { .. } => HealthKind::Exec,
        }
    }
}

fn seconds<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.as_secs_f64())
}

fn some_seconds<S: Serializer>(time: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    time.map(|time| time.as_secs_f64()).serialize(serializer)
}

fn slots<S: Serializer>(size: &TableSize, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u32(size.get())
}
