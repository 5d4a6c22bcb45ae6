//! What a case's forwarder holds: services, backends and tables, said so that any engine can build it.

use std::vec;
use std::vec::Vec;

use guideway_wire::{Address, Tunnel};

use crate::record::{BackendSpec, BackendState, Network, NextHop, Policy, Slot};

/// The virtual address of IPv4.
pub const VIP4: [u8; 4] = [192, 0, 2, 10];
/// The virtual address of IPv6: `2001:db8::10`.
pub const VIP6: [u8; 16] = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10];
/// A client.
pub const CLIENT4: [u8; 4] = [198, 51, 100, 7];
/// A client: `2001:db8:1::7`.
pub const CLIENT6: [u8; 16] = [0x20, 1, 0xd, 0xb8, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7];
/// The router that packets come from.
pub const ROUTER_MAC: [u8; 6] = [2, 0, 0, 0, 1, 1];
/// The balancer.
pub const OWN_MAC: [u8; 6] = [2, 0, 0, 0, 2, 2];
/// The next hop to the backends.
pub const NEXT_MAC: [u8; 6] = [2, 0, 0, 0, 3, 3];
/// The balancer's outer source of IPv4.
pub const OWN4: [u8; 4] = [10, 0, 0, 254];
/// The balancer's outer source of IPv6: `fd00::fe`.
pub const OWN6: [u8; 16] = [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xfe];
/// The interface that frames leave by.
pub const INTERFACE: u32 = 3;

/// Everything that a forwarder holds at the start of a case. Every service has all backends, by their global index.
#[derive(Clone, Debug)]
pub struct World {
    /// Services; their ids count from 0.
    pub services: Vec<ServiceSpec>,
    /// Backends; their indices count from 0.
    pub backends: Vec<BackendSpec>,
    /// Our own outer sources, one a family.
    pub own_sources: Vec<Network>,
    /// ICMP messages that may be sent before the rate limit bites.
    pub icmp_tokens: u32,
}

/// One service.
#[derive(Clone, Debug)]
pub struct ServiceSpec {
    /// The virtual address; IPv4 mapped.
    pub address: [u8; 16],
    /// Significant bits of a virtual prefix (128 bits long addresses), or an exact address.
    pub prefix_bits: Option<u32>,
    /// The port; 0 is any.
    pub port: u16,
    /// 6 or 17.
    pub protocol: u8,
    /// What it does.
    pub policy: Policy,
    /// The active table. Cases give all slots the same word, so that no expectation depends on the flow hash.
    pub table: Vec<Slot>,
    /// The prior table, still consulted; empty for none.
    pub prior: Vec<Slot>,
    /// Whether unknown UDP flows belong to the prior table too.
    pub prior_in_grace: bool,
    /// The fleet's seed.
    pub seed: u64,
    /// Seconds.
    pub tcp_idle_seconds: u32,
    /// Seconds.
    pub udp_idle_seconds: u32,
    /// QUIC server ids and the backends that they name.
    pub quic_servers: Vec<(u64, u16)>,
}

impl ServiceSpec {
    /// A service with default policy whose slots are all `slot`.
    pub fn new(address: Address, port: u16, protocol: u8, slot: Slot) -> ServiceSpec {
        ServiceSpec {
            address: address.octets(),
            prefix_bits: None,
            port,
            protocol,
            policy: Policy::default(),
            table: vec![slot; 13],
            prior: Vec::new(),
            prior_in_grace: false,
            seed: 7,
            tcp_idle_seconds: 900,
            udp_idle_seconds: 30,
            quic_servers: Vec::new(),
        }
    }
}

impl World {
    /// TCP 80 and UDP 443 of both VIPs over four active backends `10.0.0.1` to `.4` by IPIP, all slots with `slot`.
    pub fn usual(slot: Slot) -> World {
        let services = [Address::v4(VIP4), Address::v6(VIP6)]
            .into_iter()
            .flat_map(|vip| [ServiceSpec::new(vip, 80, 6, slot), ServiceSpec::new(vip, 443, 17, slot)])
            .collect();
        World {
            services,
            backends: (1..=4).map(|last| backend(Tunnel::Ipip, true, last)).collect(),
            own_sources: vec![
                Network::new(Address::v4(OWN4).octets(), 128),
                Network::new(Address::v6(OWN6).octets(), 128),
            ],
            icmp_tokens: 100,
        }
    }

    /// With every service's policy changed.
    #[must_use]
    pub fn with_policy(mut self, change: impl Fn(Policy) -> Policy) -> World {
        for service in &mut self.services {
            service.policy = change(service.policy);
        }
        self
    }

    /// With all backends behind another tunnel.
    #[must_use]
    pub fn with_tunnel(mut self, tunnel: Tunnel, underlay_v4: bool) -> World {
        self.backends = (1..=4).map(|last| backend(tunnel, underlay_v4, last)).collect();
        self
    }

    /// With one backend in another state.
    #[must_use]
    pub fn with_state(mut self, backend: usize, state: BackendState) -> World {
        if let Some(backend) = self.backends.get_mut(backend) {
            backend.state = state;
        }
        self
    }
}

/// The backend `10.0.0.last`, or `fd00::last`.
pub fn backend(tunnel: Tunnel, underlay_v4: bool, last: u8) -> BackendSpec {
    let mut v6 = OWN6;
    v6[15] = last;
    let (address, source) = if underlay_v4 {
        (Address::v4([10, 0, 0, last]), Address::v4(OWN4))
    } else {
        (Address::v6(v6), Address::v6(OWN6))
    };
    BackendSpec {
        state: BackendState::Active,
        address: address.octets(),
        tunnel,
        outer_source: source.octets(),
        source_entropy_bits: 0,
        gue_port: guideway_wire::gue::PORT,
        mtu: 1500,
        next_hop: NextHop { interface: INTERFACE, neighbour: NEXT_MAC, own_mac: OWN_MAC, link_mtu: None },
    }
}
