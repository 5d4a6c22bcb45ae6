//! One service: its own settings over the defaults, checked against its address, protocol and backends.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use guideway_hash::TableSize;
use ipnet::IpNet;

use super::build::shown;
use super::build_health;
use super::build_tunnel::TunnelCheck;
use super::model::{Backend, MAX_BACKENDS, Ports, Quic, Service, Underlay};
use super::problem::Problem;
use super::raw::{RawBackend, RawPort, RawQuic, RawService, RawSettings, RawTableSize};
use super::reader::At;
use super::server_id::RawServerId;
use super::source::Span;
use super::value::Bounded;
use super::words::{
    AllDown, BackendState, Encapsulation, Fragments, HashKey, NoBackend, Orphans, OuterSource, Policy,
    Protocol, Track, UdpFlows,
};

/// The longest connection id of QUIC version 1 (RFC 9000 section 17.2).
const MAX_CONNECTION_ID: u64 = 20;

const DEFAULT_IDLE_TCP: Duration = Duration::from_secs(900);
const DEFAULT_IDLE_UDP: Duration = Duration::from_secs(30);
const DEFAULT_WEIGHT: u64 = 1;
const DEFAULT_SERVER_ID_OFFSET: u64 = 1;

/// What a service is built from.
pub(super) struct ServiceBuilder<'a> {
    pub(super) raw: &'a RawService,
    pub(super) head: &'a Span,
    pub(super) defaults: &'a RawSettings,
    pub(super) underlay: &'a Underlay,
    pub(super) backends: &'a [At<RawBackend>],
    /// Whether other services may have these backends too.
    pub(super) shared: bool,
}

impl ServiceBuilder<'_> {
    /// The service, and the places of its virtual addresses.
    pub(super) fn build(&self, problems: &mut Vec<Problem>) -> (Service, Vec<Span>) {
        let own = &self.raw.settings;
        check_settings(own, problems);
        let protocol = self.raw.protocol.as_ref().map(|at| at.value);
        if let Some(protocol) = protocol {
            self.check_protocol(protocol, problems);
        }
        let protocol = protocol.unwrap_or(Protocol::Tcp);
        let (vips, vip_places) = self.vips(problems);
        let ports = self.ports(problems);
        let quic = self.raw.quic.as_ref().and_then(|quic| self.quic(quic, protocol, problems));
        let backends = self.backends(ports.as_ref(), quic, problems);
        let (table_size, table_size_auto) = self.table_size(&backends, problems);
        let idle = match protocol {
            Protocol::Tcp => {
                self.pick(|settings| settings.idle_tcp.as_ref()).map_or(DEFAULT_IDLE_TCP, |idle| idle.0)
            }
            Protocol::Udp => {
                self.pick(|settings| settings.idle_udp.as_ref()).map_or(DEFAULT_IDLE_UDP, |idle| idle.0)
            }
        };
        let health = own.health.as_ref().or(self.defaults.health.as_ref());
        let health = health.and_then(|health| {
            build_health::build(health, own.health.is_some(), ports.as_ref(), self.head, problems)
        });
        let service = Service {
            name: self.raw.name.as_ref().map(|at| at.value.0.clone()).unwrap_or_default(),
            vips,
            ports: ports.unwrap_or(Ports::Any),
            protocol,
            policy: self.pick(|settings| settings.policy.as_ref()).unwrap_or(Policy::Maglev),
            table_size,
            table_size_auto,
            hash_key: self.pick(|settings| settings.hash_key.as_ref()).unwrap_or(HashKey::FiveTuple),
            encapsulation: self
                .pick(|settings| settings.encapsulation.as_ref())
                .unwrap_or(Encapsulation::Ipip),
            outer_source: self.outer_source(),
            fragments: self.pick(|settings| settings.fragments.as_ref()).unwrap_or(Fragments::Cache),
            orphans: self.pick(|settings| settings.orphans.as_ref()).unwrap_or(Orphans::Reset),
            no_backend: self.pick(|settings| settings.no_backend.as_ref()).unwrap_or(NoBackend::Reject),
            all_down: self.pick(|settings| settings.all_down.as_ref()).unwrap_or(AllDown::LastResort),
            drain_timeout: self.pick(|settings| settings.drain_timeout.as_ref()).map(|timeout| timeout.0),
            idle,
            udp: self.pick(|settings| settings.udp.as_ref()).unwrap_or(UdpFlows::Grace),
            track: self.pick(|settings| settings.track.as_ref()).unwrap_or(Track::Unsettled),
            quic,
            health,
            backends,
        };
        TunnelCheck {
            service: &service,
            vips: &vip_places,
            ports: self.raw.port.as_ref(),
            backends: self.backends,
            underlay: self.underlay,
        }
        .run(problems);
        (service, vip_places)
    }

    /// Which range outer sources vary in depends on the encapsulation; where that cannot be read, they meet nobody's.
    fn outer_source(&self) -> OuterSource {
        let (own, default) = (&self.raw.settings.encapsulation, &self.defaults.encapsulation);
        if own.is_unreadable() || own.as_ref().is_none() && default.is_unreadable() {
            return OuterSource::Fixed;
        }
        self.pick(|settings| settings.outer_source.as_ref()).unwrap_or(OuterSource::Fixed)
    }

    /// The service's own setting, else the default one.
    fn pick<T: Copy>(&self, setting: impl Fn(&RawSettings) -> Option<&At<T>>) -> Option<T> {
        setting(&self.raw.settings).or_else(|| setting(self.defaults)).map(|at| at.value)
    }

    /// Settings that mean nothing for the protocol are refused: whoever wrote them expects something of them.
    fn check_protocol(&self, protocol: Protocol, problems: &mut Vec<Problem>) {
        let own = &self.raw.settings;
        let misplaced: &[(&str, Option<&Span>)] = match protocol {
            Protocol::Tcp => &[
                ("udp", own.udp.as_ref().map(|at| &at.span)),
                ("idle_udp", own.idle_udp.as_ref().map(|at| &at.span)),
                ("quic", self.raw.quic.as_ref().map(|at| &at.span)),
            ],
            Protocol::Udp => &[
                ("track", own.track.as_ref().map(|at| &at.span)),
                ("orphans", own.orphans.as_ref().map(|at| &at.span)),
                ("idle_tcp", own.idle_tcp.as_ref().map(|at| &at.span)),
            ],
        };
        for (key, span) in misplaced {
            let Some(span) = span else { continue };
            let mut problem =
                Problem::new((*span).clone(), format!("`{key}` means nothing for a {protocol} service"))
                    .label("cannot be honoured")
                    .help("leave it out; `[defaults]` may have it for services of the other protocol");
            if let Some(place) = &self.raw.protocol {
                problem = problem.related(place.span.clone(), "the protocol");
            }
            problems.push(problem);
        }
    }

    fn vips(&self, problems: &mut Vec<Problem>) -> (Vec<IpNet>, Vec<Span>) {
        let written = self.raw.vip.as_ref().map_or(&[][..], |vips| &vips.value.0);
        for vip in written {
            let address = vip.value.0.addr();
            let whole_family = vip.value.0.prefix_len() == 0;
            let broadcast = address == Ipv4Addr::BROADCAST;
            let refused = Problem::new(
                vip.span.clone(),
                format!("`{}` cannot be a virtual address", shown(&vip.value.0)),
            );
            if whole_family
                || broadcast
                || address.is_unspecified()
                || address.is_multicast()
                || address.is_loopback()
            {
                problems.push(
                    refused
                        .label("no address that clients can reach")
                        .help("give a unicast address or a prefix of them"),
                );
            } else if is_link_local(address) {
                problems.push(
                    refused
                        .label("known on one link only, and no router passes its packets on")
                        .help("give a routable one"),
                );
            } else if let IpAddr::V6(v6) = address
                && let Some(v4) = v6.to_ipv4_mapped()
            {
                problems.push(
                    refused
                        .label("how sockets of IPv6 write an IPv4 address; no packet bears it")
                        .help(format!("write `{v4}`")),
                );
            }
        }
        (
            written.iter().map(|vip| vip.value.0).collect(),
            written.iter().map(|vip| vip.span.clone()).collect(),
        )
    }

    /// `None` where they are missing or cannot be read, which was reported.
    fn ports(&self, problems: &mut Vec<Problem>) -> Option<Ports> {
        let written = &self.raw.port.as_ref()?.value.0;
        let mut seen: HashMap<u16, Span> = HashMap::new();
        let mut list = Vec::with_capacity(written.len());
        let mut any = None;
        for port in written {
            match port.value {
                RawPort::Any => any = Some(port.span.clone()),
                RawPort::Port(number) => match seen.insert(number, port.span.clone()) {
                    None => list.push(number),
                    Some(first) => problems.push(
                        Problem::new(port.span.clone(), format!("port {number} occurs twice"))
                            .label("the second")
                            .related(first, "the first"),
                    ),
                },
            }
        }
        if let Some(any) = &any
            && written.len() > 1
        {
            problems.push(
                Problem::new(any.clone(), "`any` stands for all ports, so no other can be listed beside it")
                    .label("all ports")
                    .help("leave the others out, or give them a service of their own: exact ports win over `any`"),
            );
        }
        Some(if any.is_some() { Ports::Any } else { Ports::List(list) })
    }

    fn quic(&self, quic: &At<RawQuic>, protocol: Protocol, problems: &mut Vec<Problem>) -> Option<Quic> {
        let offset = quic.value.server_id_offset.as_ref();
        let length = quic.value.server_id_length.as_ref()?;
        let offset_value = offset.map_or(DEFAULT_SERVER_ID_OFFSET, |offset| offset.value.0);
        if offset_value + length.value.0 > MAX_CONNECTION_ID {
            problems.push(
                Problem::new(
                    offset.map_or_else(|| length.span.clone(), |offset| offset.span.clone()),
                    format!(
                        "a server id at {offset_value} of {} bytes ends beyond the connection id",
                        length.value.0
                    ),
                )
                .label(format!("a connection id has {MAX_CONNECTION_ID} bytes at most"))
                .help(format!("use an offset of {} or less", MAX_CONNECTION_ID - length.value.0)),
            );
        }
        if protocol != Protocol::Udp {
            return None;
        }
        Some(Quic {
            server_id_offset: u8::try_from(offset_value).unwrap_or(u8::MAX),
            server_id_length: u8::try_from(length.value.0).unwrap_or(u8::MAX),
        })
    }

    fn backends(
        &self,
        ports: Option<&Ports>,
        quic: Option<Quic>,
        problems: &mut Vec<Problem>,
    ) -> Vec<Backend> {
        if let Some(first_too_many) = self.backends.get(MAX_BACKENDS) {
            problems.push(
                Problem::new(
                    first_too_many.span.clone(),
                    format!("{} backends are too many for one service", self.backends.len()),
                )
                .label(format!("a slot can name {MAX_BACKENDS}")),
            );
        }
        let mut server_ids = HashMap::new();
        let mut built = Vec::with_capacity(self.backends.len());
        for backend in self.backends {
            let raw = &backend.value;
            if let (Some(port), Some(ports)) = (&raw.port, ports) {
                check_port(port, ports, problems);
            }
            let server_id = raw.server_id.as_ref().and_then(|id| self.server_id(id, quic, problems));
            if let (Some(id), Some(place)) = (server_id, &raw.server_id)
                && let Some(first) = server_ids.insert(id, place.span.clone())
            {
                problems.push(
                    Problem::new(place.span.clone(), "two backends have this server id")
                        .label("the second")
                        .related(first, "the first"),
                );
            }
            let (Some(name), Some(address)) = (&raw.name, &raw.address) else { continue };
            let weight = raw.weight.as_ref().map_or(DEFAULT_WEIGHT, |weight| weight.value.0);
            built.push(Backend {
                name: name.value.0.clone(),
                address: address.value,
                weight: u32::try_from(weight).unwrap_or(u32::MAX),
                state: raw.state.as_ref().map_or(BackendState::Active, |state| state.value),
                server_id,
                next_hop_mac: raw.next_hop_mac.as_ref().map_or(self.underlay.next_hop_mac, |mac| mac.value),
                next_hop_mac_is_set: raw.next_hop_mac.is_some() || self.underlay.next_hop_mac_is_set,
            });
        }
        built
    }

    fn server_id(
        &self,
        id: &At<RawServerId>,
        quic: Option<Quic>,
        problems: &mut Vec<Problem>,
    ) -> Option<u64> {
        let Some(quic) = quic else {
            // A pool may serve a QUIC service and another; a service's own backends have nobody else to read the id.
            if !self.shared && self.raw.quic.is_none() {
                problems.push(
                    Problem::new(id.span.clone(), "a server id needs a service that reads it")
                        .label("cannot be honoured")
                        .help("add `[service.quic]` with `server_id_length` to the service, or leave the id out"),
                );
            }
            return None;
        };
        RawServerId::read(id, quic, problems)
    }

    fn table_size(&self, backends: &[Backend], problems: &mut Vec<Problem>) -> (TableSize, bool) {
        let eligible = backends
            .iter()
            .filter(|backend| backend.weight > 0 && backend.state == BackendState::Active)
            .count();
        let written = self.raw.settings.table_size.as_ref().or(self.defaults.table_size.as_ref());
        let Some((place, size)) = written.and_then(|at| Some((at, slots(at).ok()??))) else {
            return (TableSize::auto(backends.len()), true);
        };
        if eligible > size.get() as usize {
            problems.push(
                Problem::new(
                    self.raw.name.as_ref().map_or_else(|| self.head.clone(), |name| name.span.clone()),
                    format!("{eligible} backends cannot share {size} slots"),
                )
                .label("more backends than slots")
                .related(place.span.clone(), "the table size")
                .help(format!(
                    "with this many backends, `{}` slots keep shares even",
                    TableSize::auto(eligible)
                )),
            );
        }
        (size, false)
    }
}

/// Checks what needs no more than the setting itself.
pub(super) fn check_settings(settings: &RawSettings, problems: &mut Vec<Problem>) {
    for idle in [&settings.idle_tcp, &settings.idle_udp].into_iter().flatten() {
        if idle.value.0.subsec_nanos() != 0 {
            problems.push(
                Problem::new(idle.span.clone(), "idle times are whole seconds")
                    .label("has a fraction")
                    .help(format!("write `\"{}s\"`", idle.value.0.as_secs().max(1))),
            );
        }
    }
    if let Some(size) = &settings.table_size
        && let Err(problem) = slots(size)
    {
        problems.push(problem);
    }
}

/// The table size that is set; `None` for `auto`.
fn slots(size: &At<RawTableSize>) -> Result<Option<TableSize>, Problem> {
    let RawTableSize::Slots(slots) = size.value else { return Ok(None) };
    let clamped = u32::try_from(slots.clamp(0, i128::from(u32::MAX))).unwrap_or(u32::MAX);
    TableSize::new(clamped).map(Some).map_err(|error| {
        let nearest: Vec<String> =
            [error.below, error.above].into_iter().flatten().map(|size| format!("`{size}`")).collect();
        Problem::new(size.span.clone(), format!("a table cannot have {slots} slots"))
            .label("not a prime from 2 to 5000011")
            .help(format!("use {}, or `\"auto\"`", nearest.join(" or ")))
    })
}

/// Direct server return leaves ports alone, so a backend can only listen where the service does.
fn check_port(port: &At<Bounded<1, 65_535>>, ports: &Ports, problems: &mut Vec<Problem>) {
    let same = matches!(ports, Ports::List(list) if matches!(list.as_slice(), [one] if u64::from(*one) == port.value.0));
    if !same {
        problems.push(
            Problem::new(port.span.clone(), format!("a backend cannot listen on port {} of its own", port.value.0))
                .label("not the service's port")
                .help("backends answer clients directly and nothing rewrites ports: let the backend listen on the service's port and leave `port` out"),
        );
    }
}

/// Whether an address is good on one link alone (RFC 3927, RFC 4291).
fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    }
}
