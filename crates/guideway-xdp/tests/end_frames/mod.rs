//! Frames for a backend host, and what user space makes of them.
#![allow(dead_code, unreachable_pub, reason = "each test binary uses its part of a module that none exports")]

use std::collections::BTreeMap;
use std::net::IpAddr;

use etherparse::PacketBuilder;
use guideway_forward::tunnel_end::{EndOutcome, EndSettings, Role, TunnelEnd, decapsulate};
use guideway_wire::encap::encapsulate;
use guideway_wire::{Address, EncapSpec, MacAddr, Outer, SliceFrame, Tunnel, parse};

pub const GUE_PORT: u16 = 6080;
pub const OWN: [&str; 2] = ["10.0.0.1", "2001:db8:ffff::1"];
pub const VIPS: [&str; 2] = ["192.0.2.10", "2001:db8::10"];
/// What [`wrapped`] sends from.
pub const SOURCES: [&str; 2] = ["10.0.1.1", "fdfd:fdfd:fdfd:fdfd:fdfd:fdfd:fdfd:fdfd"];
pub const CLIENT: [&str; 2] = ["198.51.100.7", "2001:db8:100::7"];
pub const TUNNELS: [Tunnel; 4] = [Tunnel::Ipip, Tunnel::Gre, Tunnel::GueDirect, Tunnel::GueHeader];

/// Whether this kernel takes outer headers of another family off at TC: Linux 6.3 and newer.
pub fn crosses_families_at_tc() -> bool {
    let release = nix::sys::utsname::uname().unwrap().release().to_string_lossy().into_owned();
    let mut numbers = release.split('.').map_while(|number| number.parse::<u32>().ok());
    (numbers.next(), numbers.next()) >= (Some(6), Some(3))
}

/// What becomes at TC of a frame of which user space makes this.
pub fn at_tc(frame: &[u8], (outcome, inner): (EndOutcome, &[u8])) -> EndOutcome {
    let crosses = outcome == EndOutcome::Decapsulated && frame[12..14] != inner[12..14];
    if crosses && !crosses_families_at_tc() { EndOutcome::Immovable } else { outcome }
}

/// A host over plain memory.
pub struct Host {
    pub settings: EndSettings,
    pub roles: BTreeMap<IpAddr, Role>,
}

impl Host {
    pub fn new() -> Host {
        let role = |addresses: [&str; 2], role: Role| addresses.map(|text| (text.parse().unwrap(), role));
        Host {
            settings: EndSettings {
                gue_port: GUE_PORT,
                tunnels: EndSettings::ALL_TUNNELS,
                mss_v4: 1408,
                mss_v6: 1388,
            },
            roles: role(OWN, Role::OWN).into_iter().chain(role(VIPS, Role::VIRTUAL)).collect(),
        }
    }

    /// What user space makes of a frame.
    pub fn decapsulate(&self, frame: &[u8]) -> (EndOutcome, Vec<u8>) {
        let mut buffer = frame.to_vec();
        let mut packet = SliceFrame::new(&mut buffer, 0, frame.len()).unwrap();
        let outcome = decapsulate(&mut packet, self);
        (outcome, packet.bytes().to_vec())
    }
}

impl TunnelEnd for Host {
    fn settings(&self) -> EndSettings {
        self.settings
    }

    fn role(&self, address: &[u8; 16]) -> Role {
        self.roles.get(&Address::v6(*address).to_ip()).copied().unwrap_or(Role::NONE)
    }

    fn is_known_source(&self, address: &[u8; 16]) -> bool {
        SOURCES.iter().any(|source| Address::from(source.parse::<IpAddr>().unwrap()).octets() == *address)
    }
}

/// A TCP segment of a client to `destination`, with this DSCP and ECN.
pub fn plain(destination: &str, class: u8) -> Vec<u8> {
    let link = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
    let ip = match destination.parse().unwrap() {
        IpAddr::V4(to) => {
            link.ipv4("198.51.100.7".parse::<std::net::Ipv4Addr>().unwrap().octets(), to.octets(), 64)
        }
        IpAddr::V6(to) => {
            link.ipv6("2001:db8:100::7".parse::<std::net::Ipv6Addr>().unwrap().octets(), to.octets(), 64)
        }
    };
    let mut frame = Vec::new();
    ip.tcp(40_000, 80, 7, 65_000).ack(9).write(&mut frame, b"an upload's segment").unwrap();
    if frame[12] == 8 {
        let header = etherparse::Ipv4HeaderSlice::from_slice(&frame[14..]).unwrap();
        let mut header = header.to_header();
        header.dscp = etherparse::IpDscp::try_new(class >> 2).unwrap();
        header.ecn = etherparse::IpEcn::try_new(class & 3).unwrap();
        header.header_checksum = header.calc_header_checksum();
        frame[14..34].copy_from_slice(&header.to_bytes());
    } else {
        frame[14] |= class >> 4;
        frame[15] |= class << 4;
    }
    frame
}

/// The frame in a tunnel to `end`.
pub fn wrapped(frame: &[u8], tunnel: Tunnel, end: &str) -> Vec<u8> {
    let outer = match end.parse().unwrap() {
        IpAddr::V4(to) => Outer::V4 { source: [10, 0, 1, 1], destination: to.octets() },
        IpAddr::V6(to) => Outer::V6 { source: [0xfd; 16], destination: to.octets() },
    };
    let spec = EncapSpec {
        tunnel,
        outer,
        source_entropy_bits: 0,
        gue_port: GUE_PORT,
        source_mac: MacAddr([2, 0, 0, 0, 0, 0xa]),
        destination_mac: MacAddr([2, 0, 0, 0, 0, 0xb]),
    };
    const ROOM: usize = 64;
    let mut buffer = vec![0xa5; ROOM];
    buffer.extend_from_slice(frame);
    let mut packet = SliceFrame::new(&mut buffer, ROOM, frame.len()).unwrap();
    let parsed = parse(&packet).unwrap();
    encapsulate(&mut packet, &parsed, &spec, 0x0123_4567_89ab_cdef).unwrap();
    packet.bytes().to_vec()
}

/// Where the outer header ends.
pub fn outer_end(end: &str) -> usize {
    if end.contains(':') { 14 + 40 } else { 14 + 20 }
}
