//! The backends of a service, each with the index that slots and remembered flows name it by.

use guideway_forward::record::BackendState;
use guideway_forward::record::backend::BackendSpec as Record;
use guideway_soft::Count;

use super::Removal;
use super::spec::{Admin, BackendSpec, Health};

/// A backend that a service has, or had and still has flows on.
#[derive(Debug, Clone)]
pub(crate) struct Member {
    pub(crate) spec: BackendSpec,
    pub(crate) health: Health,
    /// How it left the desired state; its index stays taken until nothing names it.
    pub(crate) removed: Option<Removal>,
    /// Its last packets, noted from the first tick on after it was removed or began to drain.
    pub(crate) heard: Option<Heard>,
    /// Packets counted before its present place in the forwarder's memory.
    pub(crate) carried: Count,
    /// What the counter of that place said when the backend came there.
    pub(crate) baseline: Count,
}

/// When a backend got packets last. A QUIC connection is known by its id and not remembered, so only this tells that it
/// lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Heard {
    /// The last second in which packets were noticed.
    pub(crate) at: u32,
    /// What the backend's counter said then.
    pub(crate) packets: u64,
}

impl Member {
    pub(crate) fn new(spec: BackendSpec, health: Health) -> Self {
        Self {
            spec,
            health,
            removed: None,
            heard: None,
            carried: Count::default(),
            baseline: Count::default(),
        }
    }

    /// Whether new flows may go there.
    pub(crate) fn is_eligible(&self) -> bool {
        self.may_take_flows() && matches!(self.health, Health::Unchecked | Health::Up)
    }

    /// Whether it takes new flows when every check fails.
    pub(crate) fn is_last_resort(&self) -> bool {
        self.may_take_flows() && self.health == Health::Down
    }

    fn may_take_flows(&self) -> bool {
        self.removed.is_none() && self.spec.admin == Admin::Active && self.spec.weight > 0
    }

    /// Whether its name was lost, so that it goes by its address.
    pub(crate) fn is_nameless(&self) -> bool {
        self.spec.identity.parse() == Ok(self.spec.address)
    }

    /// Whether it gets no new flows, and its packets have to be watched.
    pub(crate) fn is_leaving(&self) -> bool {
        self.removed.is_some() || self.spec.admin == Admin::Draining
    }

    /// Notes what its packet counter says. Packets before the first look count as of now.
    pub(crate) fn note_packets(&mut self, packets: u64, now: u32) {
        if self.heard.is_none_or(|heard| heard.packets != packets) {
            self.heard = Some(Heard { at: now, packets });
        }
    }

    /// Whether it can't have got packets for longer than `seconds`, as far as was looked.
    pub(crate) fn is_quiet_for(&self, seconds: u32, now: u32) -> bool {
        self.heard.is_some_and(|heard| now.saturating_sub(heard.at) > seconds)
    }

    /// What the forwarder is told of it; `last_resort` when it is in use although its checks fail.
    pub(crate) fn state(&self, last_resort: bool) -> BackendState {
        let fails = matches!(self.health, Health::Down | Health::NeverPassed);
        match (self.removed, self.spec.admin) {
            (Some(Removal::AtOnce), _) | (None, Admin::Disabled) => BackendState::Down,
            (None, Admin::Active) if last_resort => BackendState::Active,
            _ if fails => BackendState::Down,
            (Some(Removal::Drain), _) | (None, Admin::Draining) => BackendState::Draining,
            (None, Admin::Active) => BackendState::Active,
        }
    }

    /// The record in the forwarder's terms.
    pub(crate) fn record(&self, state: BackendState) -> Record {
        let tunnel = &self.spec.tunnel;
        Record {
            state,
            address: octets(self.spec.address),
            tunnel: tunnel.kind,
            outer_source: octets(tunnel.source),
            source_entropy_bits: tunnel.source_entropy_bits,
            gue_port: tunnel.gue_port,
            mtu: tunnel.mtu,
            next_hop: tunnel.next_hop,
        }
    }
}

/// An address in sixteen bytes, IPv4 mapped.
pub(crate) fn octets(address: std::net::IpAddr) -> [u8; 16] {
    match address {
        std::net::IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        std::net::IpAddr::V6(v6) => v6.octets(),
    }
}
