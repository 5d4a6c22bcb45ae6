//! From the file as written to a configuration that can be honoured: defaults, and all checks of one key against others.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

use super::build_service::ServiceBuilder;
use super::model::{Config, MAX_SERVICES, Service, Underlay};
use super::problem::{Problem, nearest, one_of};
use super::raw::{RawBackend, RawConfig, RawPool, RawSettings, RawUnderlay};
use super::reader::{At, Field};
use super::source::Span;
use super::value::{Bounded, MacAddr};
use super::words::Protocol;
use super::{build_daemon, build_health, build_service};

/// Flows that are remembered at most where the configuration does not say.
pub const DEFAULT_FLOW_TABLE_ENTRIES: u32 = 1 << 20;
const DEFAULT_MTU: u64 = 1500;
const DEFAULT_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const DEFAULT_NEXT_HOP_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);

/// Checks the whole file. Every problem goes to `problems`; the result means something only if there were none.
pub(super) fn build(raw: RawConfig, problems: &mut Vec<Problem>) -> Config {
    let underlay = underlay(raw.underlay.as_ref().map(|at| &at.value), problems);
    let defaults = raw.defaults.map(|at| at.value).unwrap_or_default();
    let pools = pools(&raw.pool, problems);
    if raw.service.len() > MAX_SERVICES {
        let first_too_many = &raw.service[MAX_SERVICES];
        problems.push(
            Problem::new(first_too_many.span.clone(), format!("{} services are too many", raw.service.len()))
                .label(format!("the forwarder holds {MAX_SERVICES}"))
                .help("let services that share their backends share one `[[service]]` with a list of ports"),
        );
    }

    let mut names = Unique::new("service");
    let mut listeners = Listeners::default();
    let mut next_hops = NextHops::default();
    let mut services = Vec::with_capacity(raw.service.len());
    for service in &raw.service {
        if let Some(name) = &service.value.name {
            names.add(&name.value.0, &name.span, problems);
        }
        let backends = match &service.value.pool {
            Some(pool) => {
                if !service.value.backend.is_empty() {
                    problems.push(
                        Problem::new(
                            pool.span.clone(),
                            "a service has a pool or backends of its own, not both",
                        )
                        .label("the pool")
                        .related(service.value.backend[0].span.clone(), "the first of its own")
                        .help("move the backends into the pool, or leave the pool out"),
                    );
                }
                match pools.get(pool.value.0.as_str()) {
                    Some(pool) => Some(pool.backend.as_slice()),
                    // It may be the one whose name could not be read.
                    None if raw.pool.iter().any(|pool| pool.value.name.is_none()) => None,
                    None => {
                        let known = pools.keys().copied();
                        let help = match nearest(&pool.value.0, known) {
                            Some(near) => format!("did you mean `{near}`?"),
                            None if pools.is_empty() => "the file has no `[[pool]]`".to_owned(),
                            None => format!("the file has {}", one_of(pools.keys().copied())),
                        };
                        problems.push(
                            Problem::new(pool.span.clone(), format!("there is no pool `{}`", pool.value.0))
                                .label("not found")
                                .help(help),
                        );
                        None
                    }
                }
            }
            None => Some(service.value.backend.as_slice()),
        };
        if service.value.pool.is_none() {
            check_names(&service.value.backend, problems);
        }
        let builder = ServiceBuilder {
            raw: &service.value,
            head: &service.span,
            defaults: &defaults,
            underlay: &underlay,
            backends: backends.unwrap_or_default(),
            shared: service.value.pool.is_some(),
        };
        let (built, places) = builder.build(problems);
        // A protocol or port that is missing was reported; whose place the service takes is not known without.
        if service.value.protocol.is_some() && service.value.port.is_some() {
            listeners.add(&built, &places, problems);
        }
        next_hops.add(backends.unwrap_or_default(), problems);
        services.push(built);
    }
    check_defaults(&defaults, problems);

    Config {
        seed: raw.fleet.and_then(|fleet| fleet.value.seed).map_or(0, |seed| seed.value.0),
        flow_table_entries: flow_table_entries(raw.flow_table.and_then(|table| table.value.entries)),
        daemon: build_daemon::build(raw.daemon.as_ref().map(|at| &at.value), problems),
        underlay,
        services,
    }
}

fn flow_table_entries(entries: Option<At<Bounded<64, 268_435_456>>>) -> u32 {
    let entries = entries.map_or(DEFAULT_FLOW_TABLE_ENTRIES.into(), |entries| entries.value.0);
    // Both bounds are powers of two, so that rounding stays within them and within 32 bits.
    u32::try_from(entries.next_power_of_two()).unwrap_or(1 << 28)
}

fn underlay(raw: Option<&RawUnderlay>, problems: &mut Vec<Problem>) -> Underlay {
    if let Some(source) = raw.and_then(|raw| raw.source_v4.as_ref()) {
        check_source(source.value.into(), &source.span, source.value == Ipv4Addr::BROADCAST, problems);
    }
    if let Some(source) = raw.and_then(|raw| raw.source_v6.as_ref()) {
        check_source(source.value.into(), &source.span, false, problems);
    }
    let mtu = raw.and_then(|raw| raw.mtu.as_ref()).map_or(DEFAULT_MTU, |mtu| mtu.value.0);
    Underlay {
        mtu: u16::try_from(mtu).unwrap_or(u16::MAX),
        source_v4: raw.and_then(|raw| source(&raw.source_v4, Ipv4Addr::UNSPECIFIED)),
        source_v6: raw.and_then(|raw| source(&raw.source_v6, Ipv6Addr::UNSPECIFIED)),
        mac: raw.and_then(|raw| raw.mac.as_ref()).map_or(DEFAULT_MAC, |at| at.value),
        mac_is_set: raw.is_some_and(|raw| raw.mac.is_some()),
        next_hop_mac_is_set: raw.is_some_and(|raw| raw.next_hop_mac.is_some()),
        next_hop_mac: raw
            .and_then(|raw| raw.next_hop_mac.as_ref())
            .map_or(DEFAULT_NEXT_HOP_MAC, |at| at.value),
    }
}

/// One that cannot be read is there all the same: tunnels do not lack it.
fn source<T: Copy>(written: &Field<T>, stand_in: T) -> Option<T> {
    written.as_ref().map(|at| at.value).or(written.is_unreadable().then_some(stand_in))
}

fn check_source(source: IpAddr, span: &Span, broadcast: bool, problems: &mut Vec<Problem>) {
    if source.is_unspecified() || source.is_multicast() || source.is_loopback() || broadcast {
        problems.push(
            Problem::new(span.clone(), format!("`{source}` cannot be the source of a tunnel"))
                .label("not the address of one host")
                .help("give an address of this machine that backends can answer errors to"),
        );
    }
    if matches!(source, IpAddr::V6(address) if address.is_unicast_link_local()) {
        problems.push(
            Problem::new(span.clone(), format!("`{source}` cannot be the source of a tunnel"))
                .label("known on one link only, and no backend's route leads back to it")
                .help("give a global or unique local address of this machine"),
        );
    }
    if let IpAddr::V6(address) = source
        && let Some(v4) = address.to_ipv4_mapped()
    {
        problems.push(
            Problem::new(span.clone(), format!("`{address}` is an IPv4 address in IPv6 form"))
                .label("IPv4-mapped")
                .help(format!("write `source_v4 = \"{v4}\"`")),
        );
    }
}

fn pools<'a>(raw: &'a [At<RawPool>], problems: &mut Vec<Problem>) -> HashMap<&'a str, &'a RawPool> {
    let mut names = Unique::new("pool");
    let mut pools = HashMap::new();
    for pool in raw {
        if let Some(name) = &pool.value.name {
            names.add(&name.value.0, &name.span, problems);
            pools.entry(name.value.0.as_str()).or_insert(&pool.value);
        }
        check_names(&pool.value.backend, problems);
    }
    pools
}

/// Names of backends are unique within the list that has them.
fn check_names(backends: &[At<RawBackend>], problems: &mut Vec<Problem>) {
    let mut names = Unique::new("backend");
    let mut addresses = HashMap::new();
    for backend in backends {
        if let Some(name) = &backend.value.name {
            names.add(&name.value.0, &name.span, problems);
        }
        if let Some(address) = &backend.value.address {
            match addresses.entry(address.value) {
                Entry::Vacant(vacant) => {
                    vacant.insert(address.span.clone());
                }
                Entry::Occupied(first) => problems.push(
                    Problem::new(
                        address.span.clone(),
                        format!("two backends have the address `{}`", address.value),
                    )
                    .label("the second")
                    .related(first.get().clone(), "the first")
                    .help("one of them is enough; for a larger share give it more `weight`"),
                ),
            }
        }
    }
}

/// Names that must not occur twice.
struct Unique<'a> {
    what: &'static str,
    seen: HashMap<&'a str, Span>,
}

impl<'a> Unique<'a> {
    fn new(what: &'static str) -> Self {
        Self { what, seen: HashMap::new() }
    }

    fn add(&mut self, name: &'a str, span: &Span, problems: &mut Vec<Problem>) {
        match self.seen.entry(name) {
            Entry::Vacant(vacant) => {
                vacant.insert(span.clone());
            }
            Entry::Occupied(first) => problems.push(
                Problem::new(span.clone(), format!("two {}s are named `{name}`", self.what))
                    .label("the second")
                    .related(first.get().clone(), "the first")
                    .help("name one of them differently"),
            ),
        }
    }
}

/// One address has one next hop, in whatever services it is.
#[derive(Default)]
struct NextHops {
    seen: HashMap<IpAddr, At<MacAddr>>,
}

impl NextHops {
    fn add(&mut self, backends: &[At<RawBackend>], problems: &mut Vec<Problem>) {
        for backend in backends {
            let (Some(address), Some(mac)) = (&backend.value.address, &backend.value.next_hop_mac) else {
                continue;
            };
            match self.seen.entry(address.value) {
                Entry::Vacant(vacant) => {
                    vacant.insert(mac.clone());
                }
                Entry::Occupied(first) if first.get().value != mac.value => problems.push(
                    Problem::new(
                        mac.span.clone(),
                        format!("`{}` has another next hop elsewhere", address.value),
                    )
                    .label("the second")
                    .related(first.get().span.clone(), "the first")
                    .help("frames to one address go one way: give it the same next hop everywhere"),
                ),
                Entry::Occupied(_) => {}
            }
        }
    }
}

/// Who answers for which address, port and protocol.
#[derive(Default)]
struct Listeners {
    seen: HashMap<(IpNet, Option<u16>, Protocol), (Span, String)>,
}

impl Listeners {
    fn add(&mut self, service: &Service, vips: &[Span], problems: &mut Vec<Problem>) {
        for (vip, span) in service.vips.iter().zip(vips) {
            for port in service.ports.iter() {
                match self.seen.entry((*vip, port, service.protocol)) {
                    Entry::Vacant(vacant) => {
                        vacant.insert((span.clone(), service.name.clone()));
                    }
                    Entry::Occupied(first) => {
                        let (first_span, first_name) = first.get();
                        let vip = shown(vip);
                        let port = port.map_or("any".to_owned(), |port| port.to_string());
                        let message = if *first_name == service.name {
                            format!("{} `{vip}` port {port} occurs twice in `{first_name}`", service.protocol)
                        } else {
                            format!(
                                "{} `{vip}` port {port} belongs to `{first_name}` already",
                                service.protocol
                            )
                        };
                        problems.push(
                            Problem::new(span.clone(), message)
                                .label("the second")
                                .related(first_span.clone(), "the first")
                                .help("an address, port and protocol can have one service"),
                        );
                        // One report for a pair of services, not one for each of many ports.
                        break;
                    }
                }
            }
        }
    }
}

/// An address as it was written: without a prefix length that says nothing.
pub(super) fn shown(vip: &IpNet) -> String {
    if vip.prefix_len() == vip.max_prefix_len() { vip.addr().to_string() } else { vip.to_string() }
}

/// What `[defaults]` says is checked even when each service has its own, so that a mistake does not wait there.
fn check_defaults(defaults: &RawSettings, problems: &mut Vec<Problem>) {
    if let Some(health) = &defaults.health {
        build_health::check(health, problems);
    }
    build_service::check_settings(defaults, problems);
}
