//! The file as it is written: every key, its kind and its bounds, with nothing yet checked against anything else.
//!
//! The doc comments here are the descriptions of the published JSON schema.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use toml::Spanned;
use toml::de::DeValue;

use super::problem::Problem;
use super::raw_daemon::RawDaemon;
use super::raw_health::RawHealth;
use super::reader::{At, Field, FromSection, FromValue, Section};
use super::server_id::RawServerId;
use super::value::{AddressOrPrefix, Bounded, MacAddr, OneOrMany, Time};
use super::words::{
    AllDown, BackendState, Encapsulation, Fragments, HashKey, NoBackend, Orphans, OuterSource, Policy,
    Protocol, Track, UdpFlows,
};

/// The highest weight of a backend.
pub const MAX_WEIGHT: u64 = 65_535;

/// The longest QUIC server id, in bytes: what the forwarder looks up in one step.
pub const MAX_SERVER_ID: u64 = 8;

/// From a second to a week.
pub(crate) type IdleTime = Time<1_000, 604_800_000>;

/// The configuration of a Guideway load balancer.
#[derive(Debug, JsonSchema)]
#[schemars(deny_unknown_fields, rename = "Guideway")]
pub(crate) struct RawConfig {
    /// What all balancers of a fleet must share.
    pub(crate) fleet: Option<At<RawFleet>>,
    /// The daemon itself.
    pub(crate) daemon: Option<At<RawDaemon>>,
    /// The memory for flows that the slot table alone would send elsewhere.
    pub(crate) flow_table: Option<At<RawFlowTable>>,
    /// The network that carries the tunnels.
    pub(crate) underlay: Option<At<RawUnderlay>>,
    /// Settings that services inherit unless they say otherwise.
    pub(crate) defaults: Option<At<RawSettings>>,
    /// Backends that several services share.
    #[schemars(default)]
    pub(crate) pool: Vec<At<RawPool>>,
    /// The services.
    #[schemars(default)]
    pub(crate) service: Vec<At<RawService>>,
}

impl FromSection for RawConfig {
    fn from_section(section: &mut Section<'_, '_>) -> Self {
        section.elsewhere(&[
            ("backend", "[[service.backend]]"),
            ("health", "[service.health]"),
            ("quic", "[service.quic]"),
        ]);
        Self {
            fleet: section.table("fleet"),
            daemon: section.table("daemon"),
            flow_table: section.table("flow_table"),
            underlay: section.table("underlay"),
            defaults: section.table("defaults"),
            pool: section.tables("pool"),
            service: section.tables("service"),
        }
    }
}

/// What all balancers of a fleet must share.
#[derive(Debug, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct RawFleet {
    /// The key of the flow hash: an integer or up to 16 hexadecimal digits in quotes. Balancers with one seed and the
    /// same backends send a flow to the same backend. Default 0, which anybody can know: choose your own to keep
    /// clients from aiming at a backend.
    pub(crate) seed: Option<At<Seed>>,
}

impl FromSection for RawFleet {
    fn from_section(section: &mut Section<'_, '_>) -> Self {
        Self { seed: section.field("seed") }
    }
}

/// The memory for flows that the slot table alone would send elsewhere.
#[derive(Debug, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct RawFlowTable {
    /// How many flows it holds at most, at 16 bytes each; rounded up to a power of two. Default 1,048,576.
    pub(crate) entries: Option<At<Bounded<64, 268_435_456>>>,
}

impl FromSection for RawFlowTable {
    fn from_section(section: &mut Section<'_, '_>) -> Self {
        Self { entries: section.field("entries") }
    }
}

/// The network that carries the tunnels.
#[derive(Debug, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct RawUnderlay {
    /// The largest IP packet that it carries, in bytes. Default 1500.
    pub(crate) mtu: Option<At<Bounded<576, 65_535>>>,
    /// The outer source address of tunnels to IPv4 backends.
    #[schemars(with = "Option<Ipv4Addr>")]
    pub(crate) source_v4: Field<Ipv4Addr>,
    /// The outer source address of tunnels to IPv6 backends.
    #[schemars(with = "Option<Ipv6Addr>")]
    pub(crate) source_v6: Field<Ipv6Addr>,
    /// The MAC address that frames leave with. Default: that of the interface that they leave by; a replay uses
    /// 02:00:00:00:00:01.
    pub(crate) mac: Option<At<MacAddr>>,
    /// The MAC address of the next hop of each backend that names none of its own: no neighbour is asked then, and
    /// only the interface follows from the routes. Default: what routes and neighbours say; a replay uses
    /// 02:00:00:00:00:02.
    pub(crate) next_hop_mac: Option<At<MacAddr>>,
}

impl FromSection for RawUnderlay {
    fn from_section(section: &mut Section<'_, '_>) -> Self {
        Self {
            mtu: section.field("mtu"),
            source_v4: section.told("source_v4"),
            source_v6: section.told("source_v6"),
            mac: section.field("mac"),
            next_hop_mac: section.field("next_hop_mac"),
        }
    }
}

/// Settings of a service that `[defaults]` can give too.
#[derive(Debug, Default, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct RawSettings {
    /// How slots are given to backends. Default `maglev`.
    pub(crate) policy: Option<At<Policy>>,
    /// Slots of the table: a prime up to 5,000,011, or `auto`: the smallest listed prime of at least 100 slots a
    /// backend that the configuration names, whatever it was before, so that all balancers of a fleet have the same.
    /// Another size moves new flows between all backends; `check` and `plan` tell where one more or fewer would change
    /// it. Default `auto`.
    pub(crate) table_size: Option<At<RawTableSize>>,
    /// What of a packet chooses its slot. Default `5-tuple`.
    pub(crate) hash_key: Option<At<HashKey>>,
    /// How packets travel to a backend. Default `ipip`.
    #[schemars(with = "Option<Encapsulation>")]
    pub(crate) encapsulation: Field<Encapsulation>,
    /// What the outer source is. Default `fixed`.
    pub(crate) outer_source: Option<At<OuterSource>>,
    /// What becomes of fragments. Default `cache`.
    pub(crate) fragments: Option<At<Fragments>>,
    /// What a TCP packet in the middle of a connection gets when the connection's backend is gone. Default `reset`.
    pub(crate) orphans: Option<At<Orphans>>,
    /// What a client gets when no backend may take it. Default `reject`.
    pub(crate) no_backend: Option<At<NoBackend>>,
    /// What happens when every health check fails. A backend that has never passed takes no flows as a last resort
    /// either: nothing says that it ever served. Once a check passes again, flows on those that still fail end. Default
    /// `last-resort`.
    pub(crate) all_down: Option<At<AllDown>>,
    /// How long flows of a backend that drains or was removed may last; then they end, and what still comes gets what
    /// `orphans` says. A drain that an operator gives another deadline has that. Default: until they end by themselves.
    pub(crate) drain_timeout: Option<At<IdleTime>>,
    /// How long a silent TCP connection is remembered. Default `15m`.
    pub(crate) idle_tcp: Option<At<IdleTime>>,
    /// How long a silent UDP flow is remembered. Default `30s`.
    pub(crate) idle_udp: Option<At<IdleTime>>,
    /// How UDP flows are kept where a slot changes owner. Default `grace`.
    pub(crate) udp: Option<At<UdpFlows>>,
    /// Which TCP flows are remembered. Default `unsettled`.
    pub(crate) track: Option<At<Track>>,
    /// How backends are checked. Replay of a capture checks nothing: events say there what goes down.
    pub(crate) health: Option<At<RawHealth>>,
}

impl FromSection for RawSettings {
    fn from_section(section: &mut Section<'_, '_>) -> Self {
        Self {
            policy: section.field("policy"),
            table_size: section.field("table_size"),
            hash_key: section.field("hash_key"),
            encapsulation: section.told("encapsulation"),
            outer_source: section.field("outer_source"),
            fragments: section.field("fragments"),
            orphans: section.field("orphans"),
            no_backend: section.field("no_backend"),
            all_down: section.field("all_down"),
            drain_timeout: section.field("drain_timeout"),
            idle_tcp: section.field("idle_tcp"),
            idle_udp: section.field("idle_udp"),
            udp: section.field("udp"),
            track: section.field("track"),
            health: section.table("health"),
        }
    }
}

/// A virtual address, port and protocol, and its backends.
#[derive(Debug, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct RawService {
    /// Its name: letters, digits, `.`, `_` and `-`, 63 at most.
    #[schemars(required, with = "Name")]
    pub(crate) name: Option<At<Name>>,
    /// Virtual address or prefix, or a list of them.
    #[schemars(required, with = "OneOrMany<AddressOrPrefix>")]
    pub(crate) vip: Option<At<OneOrMany<AddressOrPrefix>>>,
    /// Port, a list of ports, or `any`.
    #[schemars(required, with = "OneOrMany<RawPort>")]
    pub(crate) port: Option<At<OneOrMany<RawPort>>>,
    /// `tcp` or `udp`.
    #[schemars(required, with = "Protocol")]
    pub(crate) protocol: Option<At<Protocol>>,
    /// Settings that override `[defaults]`.
    #[schemars(flatten)]
    pub(crate) settings: RawSettings,
    /// Where QUIC connection ids carry the id of a backend.
    pub(crate) quic: Option<At<RawQuic>>,
    /// The `[[pool]]` whose backends it uses, in place of its own.
    pub(crate) pool: Option<At<Name>>,
    /// Its backends.
    #[schemars(default)]
    pub(crate) backend: Vec<At<RawBackend>>,
}

impl FromSection for RawService {
    fn from_section(section: &mut Section<'_, '_>) -> Self {
        Self {
            name: section.required("name", "\"web\""),
            vip: section.required("vip", "\"192.0.2.10\""),
            port: section.required("port", "443"),
            protocol: section.required("protocol", "\"tcp\""),
            settings: RawSettings::from_section(section),
            quic: section.table("quic"),
            pool: section.field("pool"),
            backend: section.tables("backend"),
        }
    }
}

/// Where QUIC connection ids carry the id of a backend (QUIC-LB, plaintext form).
#[derive(Debug, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct RawQuic {
    /// Bytes of the connection id before the server id. Default 1: the octet with the configuration's number.
    pub(crate) server_id_offset: Option<At<Bounded<0, 19>>>,
    /// Bytes of the server id.
    #[schemars(required, with = "Bounded<1, MAX_SERVER_ID>")]
    pub(crate) server_id_length: Option<At<Bounded<1, MAX_SERVER_ID>>>,
}

impl FromSection for RawQuic {
    fn from_section(section: &mut Section<'_, '_>) -> Self {
        Self {
            server_id_offset: section.field("server_id_offset"),
            server_id_length: section.required("server_id_length", "2"),
        }
    }
}

/// Backends that several services share.
#[derive(Debug, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct RawPool {
    /// The name that services give as `pool`.
    #[schemars(required, with = "Name")]
    pub(crate) name: Option<At<Name>>,
    /// Its backends.
    #[schemars(default)]
    pub(crate) backend: Vec<At<RawBackend>>,
}

impl FromSection for RawPool {
    fn from_section(section: &mut Section<'_, '_>) -> Self {
        Self { name: section.required("name", "\"web\""), backend: section.tables("backend") }
    }
}

/// A real server.
#[derive(Debug, Clone, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct RawBackend {
    /// Its name, unique within the service.
    #[schemars(required, with = "Name")]
    pub(crate) name: Option<At<Name>>,
    /// The address that the tunnel ends at.
    #[schemars(required, with = "IpAddr")]
    pub(crate) address: Option<At<IpAddr>>,
    /// Its share of new flows beside the others'. 0 takes none. Default 1.
    pub(crate) weight: Option<At<Bounded<0, MAX_WEIGHT>>>,
    /// What it may take. Default `active`.
    pub(crate) state: Option<At<BackendState>>,
    /// The id that it puts into QUIC connection ids: hexadecimal digits in quotes, or an integer.
    pub(crate) server_id: Option<At<RawServerId>>,
    /// Only the service's own port works: backends answer clients directly, so nothing rewrites ports.
    pub(crate) port: Option<At<Bounded<1, 65_535>>>,
    /// The MAC address of the next hop to it, in place of what `[underlay]` or its neighbours say.
    pub(crate) next_hop_mac: Option<At<MacAddr>>,
}

impl FromSection for RawBackend {
    fn from_section(section: &mut Section<'_, '_>) -> Self {
        Self {
            name: section.required("name", "\"be1\""),
            address: section.required("address", "\"10.0.0.1\""),
            weight: section.field("weight"),
            state: section.field("state"),
            server_id: section.field("server_id"),
            port: section.field("port"),
            next_hop_mac: section.field("next_hop_mac"),
        }
    }
}

/// The name of a service, pool or backend.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Name(pub(crate) String);

impl FromValue for Name {
    fn from_value(value: &Spanned<DeValue<'_>>, problems: &mut Vec<Problem>) -> Option<Self> {
        let text = String::from_value(value, problems)?;
        let fits = (1..=63).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
        if !fits {
            problems.push(
                Problem::new(value.span(), format!("`{text}` cannot be a name"))
                    .label("1 to 63 of letters, digits, `.`, `_` and `-`"),
            );
            return None;
        }
        // Clients of the API resolve `/backends/../weight` before they send it.
        if matches!(text.as_str(), "." | "..") {
            problems.push(
                Problem::new(value.span(), format!("`{text}` cannot be a name"))
                    .label("in a URL this is the way to another place")
                    .help("give it a name with a letter or a digit: the API names services and backends in its paths"),
            );
            return None;
        }
        Some(Self(text))
    }
}

impl JsonSchema for Name {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Name".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": "^(?!\\.\\.?$)[A-Za-z0-9._-]{1,63}$" })
    }
}

/// The key of the flow hash.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seed(pub(crate) u64);

impl FromValue for Seed {
    fn from_value(value: &Spanned<DeValue<'_>>, problems: &mut Vec<Problem>) -> Option<Self> {
        let read = match value.get_ref() {
            DeValue::String(text) => {
                let digits = text.strip_prefix("0x").unwrap_or(text);
                let hex = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
                hex.then(|| u64::from_str_radix(digits, 16).ok()).flatten()
            }
            DeValue::Integer(_) => u64::try_from(i128::from_value(value, problems)?).ok(),
            _ => None,
        };
        if read.is_none() {
            problems.push(
                Problem::new(value.span(), "the seed is not a number of 64 bits")
                    .label("expected up to 16 hexadecimal digits in quotes, or an integer from 0")
                    .help("write it like `\"5f0c9d2ae81b7634\"`, the same on every balancer of the fleet"),
            );
        }
        read.map(Self)
    }
}

impl JsonSchema for Seed {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Seed".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [
            { "type": "integer", "minimum": 0 },
            { "type": "string", "pattern": "^(0x)?[0-9A-Fa-f]{1,16}$" },
        ] })
    }
}

/// A table size as written.
#[derive(Debug, Clone, Copy)]
pub(crate) enum RawTableSize {
    Auto,
    Slots(i128),
}

impl FromValue for RawTableSize {
    fn from_value(value: &Spanned<DeValue<'_>>, problems: &mut Vec<Problem>) -> Option<Self> {
        match value.get_ref() {
            DeValue::String(text) if text == "auto" => Some(Self::Auto),
            DeValue::Integer(_) => i128::from_value(value, problems).map(Self::Slots),
            _ => {
                problems.push(
                    Problem::new(value.span(), "a table size is a prime number or `\"auto\"`")
                        .label("neither")
                        .help("leave it to `\"auto\"`, or write `65537`"),
                );
                None
            }
        }
    }
}

impl JsonSchema for RawTableSize {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "TableSize".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [
            { "const": "auto" },
            { "type": "integer", "minimum": 2, "maximum": 5_000_011, "description": "A prime." },
        ] })
    }
}

/// A port as written.
#[derive(Debug, Clone, Copy)]
pub(crate) enum RawPort {
    Any,
    Port(u16),
}

impl FromValue for RawPort {
    fn from_value(value: &Spanned<DeValue<'_>>, problems: &mut Vec<Problem>) -> Option<Self> {
        match value.get_ref() {
            DeValue::String(text) if text == "any" => Some(Self::Any),
            DeValue::Integer(_) => {
                let Bounded(port) = Bounded::<1, 65_535>::from_value(value, problems)?;
                u16::try_from(port).ok().map(Self::Port)
            }
            _ => {
                problems.push(
                    Problem::new(value.span(), "a port is a number or `\"any\"`")
                        .label("neither")
                        .help("write `443`, `[80, 443]` or `\"any\"`"),
                );
                None
            }
        }
    }
}

impl JsonSchema for RawPort {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Port".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [{ "const": "any" }, { "type": "integer", "minimum": 1, "maximum": 65_535 }] })
    }
}
