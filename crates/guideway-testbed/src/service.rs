//! Services of a [`Network`] in the controller's terms.

use std::net::IpAddr;
use std::num::NonZeroU16;

use guideway_control::controller::spec::{
    Admin, AllDown, BackendSpec, Listen, Protocol, ServiceSpec, TableRule, TableSizeSpec, TableSpec,
    TunnelSpec,
};
use guideway_forward::record::backend::NextHop;
use guideway_forward::record::{Policy, service};
use guideway_wire::Tunnel;
use guideway_wire::gue::PORT as GUE_PORT;

use crate::topology::{Network, VIPS};

/// The fleet's seed: the same on all balancers.
const SEED: u64 = 0x5f0c_9d2a_e81b_7634;

/// A service on both virtual addresses, the same for every balancer of a network.
#[derive(Debug, Clone)]
pub struct Service {
    /// Its name.
    pub name: String,
    /// Its port.
    pub port: NonZeroU16,
    /// Its protocol.
    pub protocol: Protocol,
    /// Numbers of its backends, from 0.
    pub backends: Vec<usize>,
    /// The kind of its tunnels.
    pub tunnel: Tunnel,
    /// The family of its tunnels' addresses.
    pub underlay: Family,
    /// The largest tunnel packet, bytes; the link's MTU when it is `None`.
    pub tunnel_mtu: Option<u16>,
    /// What it does with its packets.
    pub policy: Policy,
    /// Slots of its table.
    pub slots: u32,
    /// Seconds after which a silent TCP flow is forgotten.
    pub tcp_idle_seconds: u32,
    /// Seconds after which a silent UDP flow is forgotten.
    pub udp_idle_seconds: u32,
    /// Who takes new flows when every check fails.
    pub all_down: AllDown,
}

/// An address family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Service {
    /// A service with the first `backends` backends, IP in IP over IPv4, and defaults for the rest.
    pub fn new(name: &str, port: NonZeroU16, protocol: Protocol, backends: usize) -> Self {
        Self {
            name: name.to_owned(),
            port,
            protocol,
            backends: (0..backends).collect(),
            tunnel: Tunnel::Ipip,
            underlay: Family::V4,
            tunnel_mtu: None,
            policy: Policy::default(),
            slots: 1009,
            tcp_idle_seconds: service::DEFAULT_TCP_IDLE_SECONDS,
            udp_idle_seconds: service::DEFAULT_UDP_IDLE_SECONDS,
            all_down: AllDown::default(),
        }
    }
}

impl Network {
    /// What the balancer with this number, from 0, is to hold for a service.
    ///
    /// # Panics
    /// When the network has no such balancer or backend.
    pub fn service(&self, balancer: usize, service: &Service) -> ServiceSpec {
        ServiceSpec {
            name: service.name.clone(),
            listen: VIPS.iter().map(|&vip| Listen::on(vip, service.port, service.protocol)).collect(),
            table: TableSpec {
                rule: TableRule::Maglev,
                size: TableSizeSpec::Slots(service.slots),
                seed: SEED,
            },
            policy: service.policy,
            tcp_idle_seconds: service.tcp_idle_seconds,
            udp_idle_seconds: service.udp_idle_seconds,
            all_down: service.all_down,
            backends: service
                .backends
                .iter()
                .map(|&backend| self.backend(balancer, backend, service))
                .collect(),
        }
    }

    /// A backend of a service, by numbers from 0.
    ///
    /// # Panics
    /// When the network has no such balancer or backend.
    pub fn backend(&self, balancer: usize, backend: usize, service: &Service) -> BackendSpec {
        let (from, to) = (&self.balancers[balancer], &self.backends[backend]);
        let pick = |v4: IpAddr, v6: IpAddr| if service.underlay == Family::V4 { v4 } else { v6 };
        BackendSpec {
            identity: to.name.as_str().into(),
            address: pick(to.v4, to.v6),
            weight: 1,
            admin: Admin::Active,
            tunnel: TunnelSpec {
                kind: service.tunnel,
                source: pick(from.v4, from.v6),
                source_entropy_bits: 0,
                gue_port: GUE_PORT,
                mtu: service.tunnel_mtu.unwrap_or(self.plan.underlay_mtu),
                next_hop: NextHop {
                    interface: from.link.index(),
                    neighbour: to.link.mac(),
                    own_mac: from.link.mac(),
                    link_mtu: None,
                },
            },
            quic_id: None,
        }
    }
}
