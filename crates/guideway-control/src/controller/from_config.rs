//! From the configuration file's terms to desired state.

use std::net::IpAddr;
use std::num::NonZeroU16;

use guideway_forward::record::Policy;
use guideway_forward::record::backend::NextHop;
use guideway_forward::record::service::{FragmentRule, NoBackendRule, OrphanRule, UdpRule};
use guideway_wire::{HashKey, Tunnel, gue};

use super::spec::{
    Admin, AllDown, BackendSpec, Listen, Protocol, ServiceSpec, TableRule, TableSizeSpec, TableSpec,
    TunnelSpec,
};
use crate::config::{self, Config, MacAddr};

/// The index that frames towards backends carry as their interface, where there is but one.
const ONLY_INTERFACE: u32 = 1;

/// The services of a configuration as desired state.
pub fn services(config: &Config) -> Vec<ServiceSpec> {
    config.services.iter().map(|service| self::service(config, service)).collect()
}

/// A backend that joins a service at run time, with everything that the configuration does not say of it left at the
/// service's own settings. `None` when the underlay has no source address of its family.
pub fn joining_backend(
    config: &Config,
    service: &config::Service,
    name: &str,
    address: IpAddr,
    weight: u32,
    quic_id: Option<u64>,
) -> Option<BackendSpec> {
    Some(BackendSpec {
        identity: name.into(),
        address,
        weight,
        admin: Admin::Active,
        tunnel: tunnel(config, service, address, config.underlay.next_hop_mac)?,
        quic_id,
    })
}

fn service(config: &Config, service: &config::Service) -> ServiceSpec {
    let protocol = match service.protocol {
        config::Protocol::Tcp => Protocol::Tcp,
        config::Protocol::Udp => Protocol::Udp,
    };
    let listen = service.vips.iter().flat_map(|&network| {
        service.ports.iter().map(move |port| Listen {
            network,
            port: port.and_then(NonZeroU16::new),
            protocol,
        })
    });
    let idle_seconds = u32::try_from(service.idle.as_secs()).unwrap_or(u32::MAX);
    let backends = service.backends.iter().filter_map(|backend| {
        Some(BackendSpec {
            identity: backend.name.as_str().into(),
            address: backend.address,
            weight: backend.weight,
            admin: match backend.state {
                config::BackendState::Active => Admin::Active,
                config::BackendState::Draining => Admin::Draining,
                config::BackendState::Down | config::BackendState::Maintenance => Admin::Disabled,
            },
            tunnel: tunnel(config, service, backend.address, backend.next_hop_mac)?,
            quic_id: backend.server_id,
        })
    });
    ServiceSpec {
        name: service.name.clone(),
        listen: listen.collect(),
        table: TableSpec {
            rule: match service.policy {
                config::Policy::Maglev => TableRule::Maglev,
                config::Policy::RendezvousTable => TableRule::Rendezvous,
            },
            size: TableSizeSpec::Slots(service.table_size.get()),
            seed: config.seed,
        },
        policy: policy(service),
        tcp_idle_seconds: idle_seconds,
        udp_idle_seconds: idle_seconds,
        all_down: match service.all_down {
            config::AllDown::LastResort => AllDown::LastResort,
            config::AllDown::Reject => AllDown::Reject,
        },
        backends: backends.collect(),
    }
}

fn policy(service: &config::Service) -> Policy {
    Policy::default()
        .with_hash_key(match service.hash_key {
            config::HashKey::FiveTuple => HashKey::FiveTuple,
            config::HashKey::Source => HashKey::SourceAddress,
        })
        .with_udp(match service.udp {
            config::UdpFlows::Grace => UdpRule::Grace,
            config::UdpFlows::Track => UdpRule::Track,
            config::UdpFlows::Rehash => UdpRule::Rehash,
        })
        .with_track_tcp(service.track == config::Track::Always)
        .with_orphans(match service.orphans {
            config::Orphans::Reset => OrphanRule::Reset,
            config::Orphans::Rehash => OrphanRule::Rehash,
        })
        .with_no_backend(match service.no_backend {
            config::NoBackend::Reject => NoBackendRule::Reject,
            config::NoBackend::Drop => NoBackendRule::Drop,
        })
        .with_fragments(match service.fragments {
            config::Fragments::Cache => FragmentRule::Cache,
            config::Fragments::Drop => FragmentRule::Drop,
        })
        .with_quic(service.quic.map(|quic| (quic.server_id_offset, quic.server_id_length)))
}

/// `None` cannot happen for backends of a valid configuration: each has an outer source of its family.
fn tunnel(
    config: &Config,
    service: &config::Service,
    backend: IpAddr,
    next_hop: MacAddr,
) -> Option<TunnelSpec> {
    Some(TunnelSpec {
        kind: match service.encapsulation {
            config::Encapsulation::Ipip => Tunnel::Ipip,
            config::Encapsulation::Gre => Tunnel::Gre,
            config::Encapsulation::Gue => Tunnel::GueDirect,
            config::Encapsulation::GueHeader => Tunnel::GueHeader,
        },
        source: config.underlay.source_for(backend)?,
        source_entropy_bits: service.source_entropy_bits(backend),
        gue_port: gue::PORT,
        mtu: config.underlay.mtu,
        next_hop: NextHop {
            interface: ONLY_INTERFACE,
            neighbour: next_hop.0,
            own_mac: config.underlay.mac.0,
            link_mtu: None,
        },
    })
}
