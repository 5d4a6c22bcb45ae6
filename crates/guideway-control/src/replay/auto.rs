//! Services for a capture that nobody wrote a configuration for: each server of it becomes a service with made-up
//! backends.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::num::NonZeroU16;

use guideway_forward::record::Policy;
use guideway_forward::record::backend::NextHop;
use guideway_wire::{Fragment, IpProtocol, TcpFlags, Tunnel, parse};

use crate::controller::spec::{
    Admin, AllDown, BackendSpec, Listen, Protocol, ServiceSpec, TableRule, TableSizeSpec, TableSpec,
    TunnelSpec,
};

/// Most services that are made up; a port scan would make thousands.
pub const MAX_SERVICES: usize = 4_096;

/// The servers of a capture, as far as it was read.
///
/// Who sends SYN with ACK is a server, and whoever gets a SYN or a QUIC Initial is one. Of other UDP the side with a
/// port below 1024, or else the lower one, and of TCP that was caught in the middle likewise.
#[derive(Debug, Default, Clone)]
pub struct Servers {
    certain: BTreeSet<Listen>,
    likely: BTreeSet<Listen>,
}

impl Servers {
    /// Learns from one Ethernet frame; frames that can't be parsed teach nothing.
    pub fn observe(&mut self, frame: &[u8]) {
        let Ok(parsed) = parse(frame) else { return };
        if matches!(parsed.fragment, Fragment::Later { .. }) {
            return;
        }
        let key = parsed.key;
        let protocol = match key.protocol {
            IpProtocol::TCP => Protocol::Tcp,
            IpProtocol::UDP => Protocol::Udp,
            _ => return,
        };
        let sender = side(key.src.to_ip(), key.src_port, protocol);
        let receiver = side(key.dst.to_ip(), key.dst_port, protocol);
        let syn = parsed.tcp_flags.has(TcpFlags::SYN);
        let acknowledges = parsed.tcp_flags.has(TcpFlags::ACK);
        let (server, is_certain) = match protocol {
            Protocol::Tcp if syn && acknowledges => (sender, true),
            Protocol::Tcp if syn => (receiver, true),
            Protocol::Udp if is_quic_initial(frame.get(parsed.l4_offset + 8..).unwrap_or_default()) => {
                // Both sides send Initials; the server's port is the lower one.
                (lower(sender, receiver), true)
            }
            _ => (lower(sender, receiver), false),
        };
        if let Some(server) = server {
            let set = if is_certain { &mut self.certain } else { &mut self.likely };
            if set.len() < MAX_SERVICES {
                set.insert(server);
            }
        }
    }

    /// The servers, in order. A guess is left out when its other side is certain to be the server.
    pub fn found(&self) -> Vec<Listen> {
        self.certain.union(&self.likely).copied().take(MAX_SERVICES).collect()
    }

    /// A service of each server, over `backends` (1 to 250) made-up backends each: IPIP to 198.18.0.0/15, the addresses
    /// that are kept for tests (RFC 2544), whatever the family of the service.
    pub fn services(&self, backends: u8) -> Vec<ServiceSpec> {
        let backends = backends.clamp(1, 250);
        self.found().into_iter().map(|listen| service(listen, backends)).collect()
    }
}

fn service(listen: Listen, backends: u8) -> ServiceSpec {
    ServiceSpec {
        name: listen.to_string(),
        listen: vec![listen],
        table: TableSpec { rule: TableRule::Maglev, size: TableSizeSpec::Auto, seed: 0 },
        policy: Policy::default(),
        tcp_idle_seconds: 300,
        udp_idle_seconds: 30,
        all_down: AllDown::LastResort,
        backends: (1..=backends).map(backend).collect(),
    }
}

fn backend(number: u8) -> BackendSpec {
    BackendSpec {
        identity: format!("auto{number}"),
        address: IpAddr::V4(Ipv4Addr::new(198, 18, 0, number)),
        weight: 1,
        admin: Admin::Active,
        tunnel: TunnelSpec {
            kind: Tunnel::Ipip,
            source: IpAddr::V4(Ipv4Addr::new(198, 19, 0, 1)),
            source_entropy_bits: 0,
            gue_port: crate::controller::from_config::GUE_PORT,
            mtu: 1_600,
            next_hop: NextHop {
                interface: 1,
                neighbour: [0x02, 0, 0, 0, 0, 1],
                own_mac: [0x02, 0, 0, 0, 0, 2],
            },
        },
        quic_id: None,
    }
}

fn side(address: IpAddr, port: u16, protocol: Protocol) -> Option<Listen> {
    let is_unicast = match address {
        IpAddr::V4(v4) => !v4.is_multicast() && !v4.is_broadcast() && !v4.is_unspecified(),
        IpAddr::V6(v6) => !v6.is_multicast() && v6 != Ipv6Addr::UNSPECIFIED,
    };
    let port = NonZeroU16::new(port)?;
    is_unicast.then(|| Listen::on(address, port, protocol))
}

/// The side with the lower port; the receiver when they are equal.
fn lower(sender: Option<Listen>, receiver: Option<Listen>) -> Option<Listen> {
    match (sender, receiver) {
        (Some(sender), Some(receiver)) if sender.port < receiver.port => Some(sender),
        (sender, None) => sender,
        (_, receiver) => receiver,
    }
}

/// Whether a UDP payload begins like an Initial: long header, fixed bit, type 0 in version 1 (RFC 9000 §17.2.2) or 1 in
/// version 2 (RFC 9369 §3.2).
fn is_quic_initial(payload: &[u8]) -> bool {
    let [first, a, b, c, d, ..] = payload else { return false };
    let kind = (first >> 4) & 3;
    first & 0xc0 == 0xc0
        && match u32::from_be_bytes([*a, *b, *c, *d]) {
            1 => kind == 0,
            0x6b33_43cf => kind == 1,
            _ => false,
        }
}
