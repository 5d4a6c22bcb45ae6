//! A real connection through the tunnel: a socket with a mark, the probe encapsulator, a link, the decapsulator, a server
//! on the virtual address, which answers the client directly.

mod end_frames;

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::Duration;

use guideway_forward::Outcome;
use guideway_forward::record::{BackendSpec, BackendState, NextHop};
use guideway_forward::tunnel_end::{Clamped, EndOutcome, EndSettings, Role};
use guideway_testbed::server::TcpServer;
use guideway_testbed::{Hop, Link, Namespace, Program, Route, privilege, veth_pair};
use guideway_wire::{Address, Tunnel, gue};
use guideway_xdp::Error;
use guideway_xdp::end::{Decapsulator, Hook, Wish};
use guideway_xdp::prober::Prober;
use socket2::{Domain, Socket, Type};

const VIPS: [&str; 2] = ["192.0.2.10", "2001:db8::10"];
const BALANCER: [&str; 2] = ["10.0.0.254", "2001:db8:ffff::fe"];
const BACKEND: [&str; 2] = ["10.0.0.1", "2001:db8:ffff::1"];
const MARK: u32 = 0x6701;
const PORT: u16 = 80;
const MTU: u16 = 1500;
/// More than one segment.
const BODY: usize = 200_000;
const PATIENCE: Duration = Duration::from_secs(5);
const TUNNELS: [Tunnel; 4] = [Tunnel::Ipip, Tunnel::Gre, Tunnel::GueDirect, Tunnel::GueHeader];

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

struct Bed {
    balancer: (Namespace, Link),
    backend: (Namespace, Link),
    _server: TcpServer,
}

impl Bed {
    /// With `offload`, checksums of what is sent are left to the link, as with a real card.
    fn new(offload: bool) -> Bed {
        let (one, other) = (Namespace::new("decap-lb").unwrap(), Namespace::new("decap-be").unwrap());
        let (near, far) = veth_pair((&one, "net0"), (&other, "net0"), u32::from(MTU)).unwrap();
        for (link, addresses) in [(&near, BALANCER), (&far, BACKEND)] {
            link.add_address(format!("{}/24", addresses[0]).parse().unwrap()).unwrap();
            link.add_address(format!("{}/64", addresses[1]).parse().unwrap()).unwrap();
            if offload {
                let on = Program::new("ethtool").args(["-K", "net0", "tx", "on"]);
                on.succeed(link.namespace(), PATIENCE).unwrap();
            }
        }
        let lo = other.link("lo").unwrap();
        for (vip, via) in VIPS.into_iter().zip(BACKEND) {
            let length = if vip.contains(':') { 128 } else { 32 };
            lo.add_address(format!("{vip}/{length}").parse().unwrap()).unwrap();
            one.set_route(&Route::new(
                format!("{vip}/{length}").parse().unwrap(),
                vec![Hop::via(ip(via), &near)],
            ))
            .unwrap();
        }
        let server = TcpServer::start(&other, &VIPS.map(ip), PORT, |stream, _| {
            let mut stream = stream;
            let mut question = [0; 4];
            stream.read_exact(&mut question)?;
            stream.write_all(&vec![b'x'; BODY])
        });
        Bed { balancer: (one, near), backend: (other, far), _server: server.unwrap() }
    }

    fn record(&self, tunnel: Tunnel, family: usize) -> BackendSpec {
        BackendSpec {
            state: BackendState::Active,
            address: Address::from(ip(BACKEND[family])).octets(),
            tunnel,
            outer_source: Address::from(ip(BALANCER[family])).octets(),
            source_entropy_bits: 0,
            gue_port: gue::PORT,
            mtu: MTU,
            next_hop: NextHop {
                interface: self.balancer.1.index(),
                neighbour: self.backend.1.mac(),
                own_mac: self.balancer.1.mac(),
                link_mtu: None,
            },
        }
    }

    /// Fetches the body; what the client may send in one segment.
    fn fetch(&self, vip: &str, mark: u32) -> std::io::Result<u32> {
        let to = SocketAddr::from((ip(vip), PORT));
        self.balancer
            .0
            .run(|| {
                let socket = Socket::new(Domain::for_address(to), Type::STREAM, None)?;
                socket.set_mark(mark)?;
                socket.connect_timeout(&to.into(), PATIENCE)?;
                let segment = socket.tcp_mss()?;
                let mut stream = TcpStream::from(socket);
                stream.set_read_timeout(Some(PATIENCE))?;
                stream.write_all(b"GET ")?;
                let mut body = Vec::new();
                stream.read_to_end(&mut body)?;
                assert_eq!(body.len(), BODY);
                Ok(segment)
            })
            .unwrap()
    }
}

fn decapsulator() -> Decapsulator {
    let mut programs = Decapsulator::load(None).unwrap();
    let settings =
        EndSettings { gue_port: gue::PORT, tunnels: EndSettings::ALL_TUNNELS, mss_v4: 1408, mss_v6: 1388 };
    programs.set(&settings).unwrap();
    let own = BACKEND.into_iter().map(|address| (ip(address), Role::OWN));
    let virtual_ones = VIPS.into_iter().map(|address| (ip(address), Role::VIRTUAL));
    programs.set_addresses(&own.chain(virtual_ones).collect()).unwrap();
    programs
}

fn every_tunnel_carries_a_connection(hook: Hook, offload: bool) {
    if !privilege::granted() || !privilege::installed("ethtool") {
        return;
    }
    let bed = Bed::new(offload);
    let mut programs = decapsulator();
    let attached =
        bed.backend.0.run(|| programs.attach("net0", "net0", Wish::Exactly(hook))).unwrap().unwrap();
    assert_eq!((attached.hook, attached.replaced), (hook, false));
    let mut prober = Prober::load(1, 2, None).unwrap();
    prober.set_vips(&VIPS.map(ip).into()).unwrap();
    let _probes = bed.balancer.0.run(|| prober.attach("net0")).unwrap().unwrap();
    for tunnel in TUNNELS {
        for family in [0, 1] {
            prober.set_tunnels(&[(MARK, bed.record(tunnel, family))].into()).unwrap();
            for (inner, (vip, most)) in VIPS.into_iter().zip([1408, 1388]).enumerate() {
                if hook == Hook::Tc && inner != family && !end_frames::crosses_families_at_tc() {
                    continue;
                }
                let name = format!("{tunnel:?} to {vip} over {}", BACKEND[family]);
                let before = (
                    programs.count(EndOutcome::Decapsulated).unwrap().packets,
                    programs.clamped(Clamped::Lowered).unwrap().packets,
                    prober.count(Outcome::Forwarded).unwrap().packets,
                );
                let segment = bed.fetch(vip, MARK);
                let refused: Vec<_> =
                    programs.counts().unwrap().into_iter().filter(|(_, tally)| tally.packets > 0).collect();
                let segment = segment.unwrap_or_else(|error| panic!("{name}: {error}; {refused:?}"));
                // Time stamps take twelve bytes of each segment.
                assert_eq!(segment, most - 12, "{name}");
                let came = programs.count(EndOutcome::Decapsulated).unwrap().packets - before.0;
                let left = prober.count(Outcome::Forwarded).unwrap().packets - before.2;
                // Handshake, question, acknowledgements: all of them in the tunnel.
                assert!(came >= 4, "{name}: {came} packets");
                assert!(left >= came, "{name}: {left} sent, {came} came");
                assert_eq!(programs.clamped(Clamped::Lowered).unwrap().packets, before.1 + 1, "{name}");
            }
        }
    }
}

#[test]
fn native_xdp() {
    every_tunnel_carries_a_connection(Hook::Native, false);
}

#[test]
fn native_xdp_with_checksums_left_to_the_card() {
    every_tunnel_carries_a_connection(Hook::Native, true);
}

#[test]
fn generic_xdp() {
    every_tunnel_carries_a_connection(Hook::Generic, false);
}

#[test]
fn generic_xdp_with_checksums_left_to_the_card() {
    every_tunnel_carries_a_connection(Hook::Generic, true);
}

#[test]
fn tc() {
    every_tunnel_carries_a_connection(Hook::Tc, false);
}

#[test]
fn tc_with_checksums_left_to_the_card() {
    every_tunnel_carries_a_connection(Hook::Tc, true);
}

#[test]
fn a_socket_without_a_mark_goes_its_ordinary_way() {
    if !privilege::granted() {
        return;
    }
    let bed = Bed::new(false);
    let mut programs = decapsulator();
    let _attached = bed.backend.0.run(|| programs.attach("net0", "net0", Wish::Auto)).unwrap().unwrap();
    let mut prober = Prober::load(2, 2, None).unwrap();
    prober.set_tunnels(&[(MARK, bed.record(Tunnel::Ipip, 0))].into()).unwrap();
    prober.set_vips(&[ip(VIPS[0])].into()).unwrap();
    let _probes = bed.balancer.0.run(|| prober.attach("net0")).unwrap().unwrap();
    for mark in [0, MARK + 1] {
        bed.fetch(VIPS[0], mark).unwrap();
    }
    // A virtual address that is not probed.
    bed.fetch(VIPS[1], MARK).unwrap();
    assert_eq!(programs.count(EndOutcome::Decapsulated).unwrap().packets, 0);
    assert_eq!(prober.count(Outcome::Forwarded).unwrap().packets, 0);
    bed.fetch(VIPS[0], MARK).unwrap();
    let came = programs.count(EndOutcome::Decapsulated).unwrap().packets;
    assert!(came > 0);
    // And what is no longer asked for is as if it had never been.
    prober.set_tunnels(&[].into()).unwrap();
    bed.fetch(VIPS[0], MARK).unwrap();
    assert_eq!(programs.count(EndOutcome::Decapsulated).unwrap().packets, came);
}

#[test]
fn there_are_as_many_tunnels_as_the_prober_was_loaded_for() {
    if !privilege::granted() {
        return;
    }
    let bed = Bed::new(false);
    let mut prober = Prober::load(2, 2, None).unwrap();
    let tunnels = |marks: &[u32], tunnel: Tunnel| {
        marks.iter().map(|mark| (*mark, bed.record(tunnel, 0))).collect::<BTreeMap<_, _>>()
    };
    // Each changes to and fro without the others' leave.
    for tunnel in TUNNELS {
        prober.set_tunnels(&tunnels(&[1, 2], tunnel)).unwrap();
    }
    for marks in [[2, 3], [4, 5]] {
        prober.set_tunnels(&tunnels(&marks, Tunnel::Gre)).unwrap();
    }
    assert!(matches!(prober.set_tunnels(&tunnels(&[4, 5, 6, 7], Tunnel::Gre)), Err(Error::Full { .. })));
    prober.set_tunnels(&tunnels(&[6, 7], Tunnel::Gre)).unwrap();
}
