//! Services for a capture that nobody wrote a configuration for: each server of it becomes a service with made-up
//! backends.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::num::NonZeroU16;

use guideway_forward::record::Policy;
use guideway_forward::record::backend::NextHop;
use guideway_wire::udp::UdpHeader;
use guideway_wire::{Fragment, IpProtocol, TcpFlags, Tunnel, gue, parse};

use crate::controller::spec::{
    Admin, AllDown, BackendSpec, Listen, Protocol, ServiceSpec, TableRule, TableSizeSpec, TableSpec,
    TunnelSpec,
};

/// Most services that are made up; a port scan would make thousands.
pub const MAX_SERVICES: usize = 4_096;

/// Most guesses that are kept: a bound on memory, above what [`MAX_SERVICES`] can use of them.
const MAX_GUESSES: usize = 1 << 17;

/// The servers of a capture, as far as it was read.
///
/// Who sends SYN with ACK is certain to be a server, and so is whoever gets a SYN, and the side of a QUIC Initial with the
/// lower port (both sides send them). Of other UDP, and of TCP that was caught in the middle, the side with the lower port
/// is a guess, which counts unless the other side is certain. What goes to a group or to all shows no server.
#[derive(Debug, Default, Clone)]
pub struct Servers {
    certain: BTreeSet<Listen>,
    /// Each guess with the other side of the packet that gave rise to it.
    guesses: BTreeSet<(Listen, Listen)>,
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
        let (Some(sender), Some(receiver)) =
            (side(key.src.to_ip(), key.src_port, protocol), side(key.dst.to_ip(), key.dst_port, protocol))
        else {
            return;
        };
        // The receiver when the ports are equal.
        let (lower, higher) =
            if sender.port < receiver.port { (sender, receiver) } else { (receiver, sender) };
        let syn = parsed.tcp_flags.has(TcpFlags::SYN);
        let acknowledges = parsed.tcp_flags.has(TcpFlags::ACK);
        let payload = frame.get(parsed.l4_offset + UdpHeader::LEN..).unwrap_or_default();
        let certain = match protocol {
            Protocol::Tcp if syn && acknowledges => sender,
            Protocol::Tcp if syn => receiver,
            Protocol::Udp if is_quic_initial(payload) => lower,
            _ => {
                if self.guesses.len() < MAX_GUESSES {
                    self.guesses.insert((lower, higher));
                }
                return;
            }
        };
        if self.certain.len() < MAX_SERVICES {
            self.certain.insert(certain);
        }
    }

    /// The servers, in order, at most [`MAX_SERVICES`]: those that are certain before those that are guessed.
    pub fn found(&self) -> Vec<Listen> {
        let guessed = self
            .guesses
            .iter()
            .filter(|(_, other)| !self.certain.contains(other))
            .map(|(server, _)| *server)
            .collect::<BTreeSet<_>>();
        let mut found: BTreeSet<_> = self.certain.iter().copied().take(MAX_SERVICES).collect();
        for server in guessed {
            if found.len() == MAX_SERVICES {
                break;
            }
            found.insert(server);
        }
        found.into_iter().collect()
    }

    /// Whether [`MAX_SERVICES`] were found, so that there may be more servers in the capture.
    pub fn is_full(&self) -> bool {
        self.found().len() == MAX_SERVICES
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
        identity: format!("auto{number}").into(),
        address: IpAddr::V4(Ipv4Addr::new(198, 18, 0, number)),
        weight: 1,
        admin: Admin::Active,
        tunnel: TunnelSpec {
            kind: Tunnel::Ipip,
            source: IpAddr::V4(Ipv4Addr::new(198, 19, 0, 1)),
            source_entropy_bits: 0,
            gue_port: gue::PORT,
            mtu: 1_600,
            next_hop: NextHop {
                interface: 1,
                neighbour: [0x02, 0, 0, 0, 0, 1],
                own_mac: [0x02, 0, 0, 0, 0, 2],
                link_mtu: None,
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
