//! Step one: which service a packet is for, and whether it may be for one at all.

use guideway_wire::{FlowKey, IpProtocol, Parsed};

use crate::State;
use crate::outcome::{Drop, Pass};
use crate::record::{Active, NO_SERVICE, Policy, Service, ServiceId, ServiceKey};
use crate::state::Services;

/// A service as one packet sees it: the words that a change could replace are read once.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// Its id.
    pub id: ServiceId,
    /// Its record.
    pub service: &'a Service,
    /// Which table is active.
    pub active: Active,
    /// What to do.
    pub policy: Policy,
}

impl<'a> Target<'a> {
    /// The service with this id.
    #[inline(always)]
    pub fn of<S: State>(id: ServiceId, state: &'a S) -> Option<Target<'a>> {
        let service = Services::service(state, id)?;
        Some(Target { id, service, active: service.active(), policy: service.policy() })
    }
}

/// The service of a flow's destination: its exact port, then any port of its address, then a virtual prefix.
#[inline(always)]
pub fn find<'a, S: State>(flow: &FlowKey, state: &'a S) -> Option<Target<'a>> {
    let key = ServiceKey::new(flow.dst.octets(), flow.dst_port, flow.protocol.0);
    match state.exact(&key) {
        Some(id) => Target::of(id, state),
        None => match wider(&key, state) {
            NO_SERVICE => None,
            id => Target::of(id, state),
        },
    }
}

#[inline(never)]
fn wider<S: State>(key: &ServiceKey, state: &S) -> ServiceId {
    let settings = state.settings();
    let any = key.any_port();
    if settings.has_any_port()
        && let Some(id) = state.exact(&any)
    {
        return id;
    }
    if !settings.has_prefixes() {
        return NO_SERVICE;
    }
    state.prefix(key).or_else(|| state.prefix(&any)).unwrap_or(NO_SERVICE)
}

/// Why a packet without a service is left to the host.
#[inline(never)]
pub fn missing<S: State>(flow: &FlowKey, state: &S) -> Pass {
    if state.vip(&flow.dst.octets()).is_some() { Pass::NoService } else { Pass::NotVip }
}

/// Why a packet to a VIP, of a protocol that services do not have, is left to the host.
#[inline(always)]
pub const fn unserved(protocol: IpProtocol) -> Pass {
    match protocol {
        IpProtocol::IPV4 | IpProtocol::IPV6 | IpProtocol::GRE => Pass::Tunnel,
        IpProtocol::ICMP | IpProtocol::ICMPV6 => Pass::Icmp,
        _ => Pass::NoService,
    }
}

/// Why a packet may not be forwarded whatever its service.
#[inline(always)]
pub fn refuses<S: State>(parsed: &Parsed, state: &S) -> Option<Drop> {
    if parsed.ttl == 0 {
        return Some(Drop::Ttl);
    }
    if parsed.key.src == parsed.key.dst || is_group(&parsed.key) {
        return Some(Drop::BadSource);
    }
    if state.settings().is_own_source(&parsed.key.src.octets()) {
        return Some(Drop::OwnSource);
    }
    None
}

/// Whether the source is multicast, reserved or broadcast: no client.
#[inline(always)]
const fn is_group(flow: &FlowKey) -> bool {
    if flow.is_v4() {
        let [first, ..] = flow.src.low_v4();
        first >= 224
    } else {
        let [first, ..] = flow.src.octets();
        first == 0xff
    }
}
