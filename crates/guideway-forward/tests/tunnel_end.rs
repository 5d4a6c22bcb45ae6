//! The backend's side, and a probe's way to it, over plain memory.

use guideway_forward::outcome::Drop;
use guideway_forward::probe::{self, ProbeOutcome, Probes};
use guideway_forward::record::{Backend, BackendSpec, BackendState, NextHop};
use guideway_forward::tunnel_end::{EndOutcome, EndSettings, Fate, Role, TunnelEnd, decapsulate};
use guideway_wire::encap::overhead;
use guideway_wire::{Address, IpVersion, SliceFrame, Tunnel};
use proptest::prelude::*;

const OWN: Address = Address::v4([10, 0, 0, 1]);
const VIP: Address = Address::v4([192, 0, 2, 10]);
const BALANCER: Address = Address::v4([10, 0, 1, 1]);
const MARK: u32 = 7;
const ROOM: usize = 64;
const TUNNELS: [Tunnel; 4] = [Tunnel::Ipip, Tunnel::Gre, Tunnel::GueDirect, Tunnel::GueHeader];

struct Host {
    own: Address,
    vip: Address,
    tunnels: u16,
}

const HOST: Host = Host { own: OWN, vip: VIP, tunnels: EndSettings::ALL_TUNNELS };

impl TunnelEnd for Host {
    fn settings(&self) -> EndSettings {
        EndSettings { gue_port: 6080, tunnels: self.tunnels, mss_v4: 0, mss_v6: 0 }
    }

    fn role(&self, address: &[u8; 16]) -> Role {
        let address = Address::v6(*address);
        if address == self.own {
            Role::OWN
        } else if address == self.vip {
            Role::VIRTUAL
        } else {
            Role::NONE
        }
    }

    fn is_known_source(&self, address: &[u8; 16]) -> bool {
        *address == BALANCER.octets()
    }
}

struct Prober(Backend);

impl Prober {
    fn new(tunnel: Tunnel, mtu: u16, state: BackendState) -> Prober {
        Prober(Backend::new(&BackendSpec {
            state,
            address: OWN.octets(),
            tunnel,
            outer_source: BALANCER.octets(),
            source_entropy_bits: 0,
            gue_port: 6080,
            mtu,
            next_hop: NextHop {
                interface: 3,
                neighbour: [2, 0, 0, 0, 0, 1],
                own_mac: [2, 0, 0, 0, 0, 2],
                link_mtu: None,
            },
        }))
    }

    /// What becomes of a frame of a socket with this mark.
    fn send(&self, frame: &[u8], mark: u32) -> (ProbeOutcome, Vec<u8>) {
        let mut buffer = vec![0xa5; ROOM];
        buffer.extend_from_slice(frame);
        let mut packet = SliceFrame::new(&mut buffer, ROOM, frame.len()).unwrap();
        let outcome = probe::encapsulate(&mut packet, mark, self);
        (outcome, packet.bytes().to_vec())
    }
}

impl Probes for Prober {
    fn backend(&self, mark: u32) -> Option<&Backend> {
        (mark == MARK).then_some(&self.0)
    }

    fn is_vip(&self, address: &[u8; 16]) -> bool {
        *address == VIP.octets()
    }
}

fn question(payload: &[u8]) -> Vec<u8> {
    let builder =
        etherparse::PacketBuilder::ethernet2([4; 6], [5; 6]).ipv4([10, 0, 1, 1], [192, 0, 2, 10], 64);
    let mut frame = Vec::new();
    builder.tcp(40_000, 80, 1, 65_000).ack(2).write(&mut frame, payload).unwrap();
    frame
}

fn receive(host: &Host, frame: &[u8]) -> (EndOutcome, Vec<u8>) {
    let mut buffer = frame.to_vec();
    let mut packet = SliceFrame::new(&mut buffer, 0, frame.len()).unwrap();
    let outcome = decapsulate(&mut packet, host);
    (outcome, packet.bytes().to_vec())
}

#[test]
fn what_a_prober_sends_a_backend_takes_out() {
    for tunnel in TUNNELS {
        let probe = question(b"GET / HTTP/1.1");
        let prober = Prober::new(tunnel, 1500, BackendState::Active);
        let (sent, wrapped) = prober.send(&probe, MARK);
        assert_eq!(sent, ProbeOutcome::Encapsulated(3));
        assert_eq!(wrapped.len(), probe.len() + overhead(tunnel, IpVersion::V4));
        let (received, out) = receive(&HOST, &wrapped);
        assert_eq!(received, EndOutcome::Decapsulated);
        // The Ethernet header is that of the last link.
        assert_eq!(out[14..], probe[14..]);
        assert_eq!(out[..12], [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2]);
    }
}

#[test]
fn what_is_for_others_stays_as_it_came() {
    let prober = Prober::new(Tunnel::Gre, 1500, BackendState::Active);
    let (_, wrapped) = prober.send(&question(b""), MARK);
    let stranger = Address::v4([10, 9, 9, 9]);
    for (host, expected) in [
        (Host { own: stranger, ..HOST }, EndOutcome::NotOwn),
        (Host { vip: stranger, ..HOST }, EndOutcome::NotVirtual),
        (Host { tunnels: EndSettings::bit(Tunnel::Ipip), ..HOST }, EndOutcome::OtherTunnel),
        // The roles are not each other's: a tunnel does not end at a virtual address.
        (Host { own: VIP, vip: OWN, ..HOST }, EndOutcome::NotOwn),
    ] {
        let (outcome, after) = receive(&host, &wrapped);
        assert_eq!((outcome, outcome.fate()), (expected, Fate::Pass));
        assert_eq!(after, wrapped);
    }
}

#[test]
fn a_probe_that_cannot_get_there_is_told_apart() {
    let probe = question(&[b'x'; 100]);
    let with = |mtu, state| Prober::new(Tunnel::Ipip, mtu, state).send(&probe, MARK);
    assert_eq!(with(159, BackendState::Active).0, ProbeOutcome::Dropped(Drop::TooBig));
    assert_eq!(with(160, BackendState::Active).0, ProbeOutcome::Encapsulated(3));
    // Who is down is probed above all.
    assert_eq!(with(160, BackendState::Down).0, ProbeOutcome::Encapsulated(3));
    assert_eq!(with(160, BackendState::Free).0, ProbeOutcome::Dropped(Drop::StaleSlot));
    let unresolved = Prober::new(Tunnel::Ipip, 1500, BackendState::Active);
    unresolved.0.set_next_hop(NextHop { neighbour: [0; 6], ..NextHop::default() });
    assert_eq!(unresolved.send(&probe, MARK).0, ProbeOutcome::Dropped(Drop::NoNeighbour));
    for mark in [0, MARK + 1] {
        let (outcome, after) = Prober::new(Tunnel::Ipip, 1500, BackendState::Active).send(&probe, mark);
        assert_eq!((outcome, after), (ProbeOutcome::NoProbe, probe.clone()));
    }
}

proptest! {
    #[test]
    fn only_the_inner_packet_or_the_very_frame_comes_out(
        tunnel in (0usize..4).prop_map(|number| TUNNELS[number]),
        damage in prop::collection::vec((14usize..90, any::<u8>()), 0..4),
    ) {
        let (_, mut frame) = Prober::new(tunnel, 1500, BackendState::Active).send(&question(b"GET /"), MARK);
        for (at, byte) in damage {
            let length = frame.len();
            frame[at % length] = byte;
        }
        let (outcome, after) = receive(&HOST, &frame);
        match outcome.fate() {
            Fate::Inner => {
                prop_assert!(after.len() <= frame.len() - 20);
                prop_assert_eq!(&after[14 + 16..14 + 20], &[192, 0, 2, 10]);
            }
            Fate::Pass | Fate::Drop => prop_assert_eq!(after, frame),
        }
    }
}
