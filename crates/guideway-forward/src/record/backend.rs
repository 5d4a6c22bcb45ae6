//! A backend: where its packets go, wrapped in what, and whether it takes any, in one cache line.

use guideway_wire::encap::overhead;
use guideway_wire::ready::checksum_base;
use guideway_wire::{IpVersion, ReadyOuter, Tunnel};

use core::sync::atomic::{Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

use crate::word::{AtomicU64, steady};

/// A backend as the forwarder sees it: eight words, one cache line. Addresses lie in it as they do in a packet, so that
/// they are copied by whole words.
#[derive(Debug)]
#[cfg_attr(target_has_atomic = "64", derive(zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::KnownLayout))]
#[repr(C, align(64))]
pub struct Backend {
    /// Bits 0–7 state, 8–9 tunnel, 16–31 GUE destination port, 32–47 MTU, 48–55 bits of entropy in the
    /// outer source, bit 56 IPv4 underlay, 57–63 the length of the outer headers.
    status: AtomicU64,
    /// The neighbour's MAC (all zero is no neighbour), and the first two bytes of the source MAC.
    link: AtomicU64,
    /// The last four bytes of the source MAC, and the interface index.
    exit: AtomicU64,
    address: [AtomicU64; 2],
    source: [AtomicU64; 2],
    /// What the checksums of outer IPv4 headers have in common.
    checksum: AtomicU64,
}

impl Backend {
    /// A free record: no packet goes there.
    pub const fn free() -> Backend {
        Backend {
            status: AtomicU64::new(0),
            link: AtomicU64::new(0),
            exit: AtomicU64::new(0),
            address: [AtomicU64::new(0), AtomicU64::new(0)],
            source: [AtomicU64::new(0), AtomicU64::new(0)],
            checksum: AtomicU64::new(0),
        }
    }

    /// A record that says what `spec` says.
    pub fn new(spec: &BackendSpec) -> Backend {
        let backend = Backend::free();
        backend.store(spec);
        backend
    }

    /// Writes `spec` into the record; the state last, so nobody sees an active backend with half an address.
    ///
    /// Only for a record that no slot and no remembered flow names, or whose address and outer source stay as they are.
    pub fn store(&self, spec: &BackendSpec) {
        store_wide(&self.address, spec.address);
        store_wide(&self.source, spec.outer_source);
        self.checksum.store(checksum_base(zerocopy::transmute!(spec.address)) as u64, Relaxed);
        self.set_next_hop(spec.next_hop);
        let v4 = is_mapped(&spec.address);
        let family = if v4 { IpVersion::V4 } else { IpVersion::V6 };
        let status = spec.state as u64
            | ((spec.tunnel as u64) << 8)
            | ((spec.gue_port as u64) << 16)
            | ((spec.next_hop.limit(spec.mtu) as u64) << 32)
            | ((spec.source_entropy_bits as u64) << 48)
            | ((v4 as u64) << 56)
            | ((overhead(spec.tunnel, family) as u64) << 57);
        self.status.store(status, Release);
    }

    /// Every word that packets read.
    pub const fn words(&self) -> [&AtomicU64; 8] {
        let Backend { status, link, exit, address: [a, b], source: [c, d], checksum } = self;
        [status, link, exit, a, b, c, d, checksum]
    }

    /// Whether, and which, packets go there.
    #[inline(always)]
    pub fn state(&self) -> BackendState {
        self.status().state()
    }

    /// Changes the state alone. The controller is the only writer of a record.
    pub fn set_state(&self, state: BackendState) {
        let status = self.status.load(Relaxed);
        self.status.store((status & !0xff) | state as u64, Release);
    }

    /// Changes the largest outer packet alone. The controller is the only writer of a record.
    pub fn set_mtu(&self, mtu: u16) {
        let status = self.status.load(Relaxed);
        self.status.store((status & !(0xffff << 32)) | ((mtu as u64) << 32), Release);
    }

    /// State, encapsulation and sizes in one load.
    #[inline(always)]
    pub fn status(&self) -> Status {
        Status(self.status.load(Relaxed))
    }

    /// The underlay address; IPv4 as `::ffff:a.b.c.d`.
    pub fn address(&self) -> [u8; 16] {
        zerocopy::transmute!(load_words(&self.address))
    }

    /// The outer source address, before entropy; IPv4 as `::ffff:a.b.c.d`.
    pub fn outer_source(&self) -> [u8; 16] {
        zerocopy::transmute!(load_words(&self.source))
    }

    /// The outer headers that `status` and the rest of the record ask for; `None` while the neighbour is not known.
    #[inline(always)]
    pub fn outer(&self, status: Status) -> Option<(ReadyOuter, u32)> {
        let link = self.link.load(Acquire);
        let [link_last, interface]: [u32; 2] = zerocopy::transmute!(self.exit.load(Acquire));
        // Between the two the way may have changed; see `set_next_hop`.
        if !has_neighbour(link) || self.link.load(Relaxed) != link {
            return None;
        }
        let outer = ReadyOuter {
            tunnel: status.tunnel(),
            version: if status.underlay_is_v4() { IpVersion::V4 } else { IpVersion::V6 },
            overhead: status.overhead(),
            source_entropy_bits: status.source_entropy_bits(),
            gue_port: status.gue_port(),
            link_first: link,
            link_last,
            source: self.source.each_ref().map(steady),
            destination: self.address.each_ref().map(steady),
            checksum_base: steady(&self.checksum) as u16,
        };
        Some((outer, interface))
    }

    /// The neighbour's MAC, if it is known.
    pub fn neighbour(&self) -> Option<[u8; 6]> {
        let link = self.link.load(Relaxed);
        let [a, b, c, d, e, f, ..] = link.to_ne_bytes();
        has_neighbour(link).then_some([a, b, c, d, e, f])
    }

    /// The MAC of the interface that packets leave by.
    pub fn own_mac(&self) -> [u8; 6] {
        let [.., a, b] = self.link.load(Relaxed).to_ne_bytes();
        let [c, d, e, f, ..] = self.exit.load(Relaxed).to_ne_bytes();
        [a, b, c, d, e, f]
    }

    /// The index of the interface that packets leave by.
    pub fn interface(&self) -> u32 {
        let [_, interface]: [u32; 2] = zerocopy::transmute!(self.exit.load(Relaxed));
        interface
    }

    /// Points at another next hop. While interface and source MAC change, the record has no neighbour, so that no
    /// packet leaves by one interface with the addresses of the other.
    pub fn set_next_hop(&self, next_hop: NextHop) {
        let [a, b, c, d, e, f] = next_hop.own_mac;
        let exit: u64 = zerocopy::transmute!([u32::from_ne_bytes([c, d, e, f]), next_hop.interface]);
        let link = |neighbour: [u8; 6]| {
            let [g, h, i, j, k, l] = neighbour;
            u64::from_ne_bytes([g, h, i, j, k, l, a, b])
        };
        if self.exit.load(Relaxed) != exit {
            self.link.store(link([0; 6]), Release);
            self.exit.store(exit, Release);
        }
        self.link.store(link(next_hop.neighbour), Release);
    }
}

impl Default for Backend {
    fn default() -> Backend {
        Backend::free()
    }
}

/// What the controller says of a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackendSpec {
    /// Which packets go there.
    pub state: BackendState,
    /// The underlay address; IPv4 as `::ffff:a.b.c.d`.
    pub address: [u8; 16],
    /// The tunnel.
    pub tunnel: Tunnel,
    /// The outer source address, of the same family as `address`.
    pub outer_source: [u8; 16],
    /// How many of the lowest bits of the outer source follow the flow (0–32), to spread flows over queues and paths.
    pub source_entropy_bits: u8,
    /// The UDP destination port of GUE.
    pub gue_port: u16,
    /// The largest outer IP packet that the way to the backend carries, bytes.
    pub mtu: u16,
    /// Where frames go.
    pub next_hop: NextHop,
}

/// Where the frames to a backend go on the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct NextHop {
    /// The interface index.
    pub interface: u32,
    /// The destination MAC; all zero while the neighbour is not resolved.
    pub neighbour: [u8; 6],
    /// The source MAC.
    pub own_mac: [u8; 6],
    /// The largest IP packet that the interface takes, bytes; `None` where that is not known.
    pub link_mtu: Option<u16>,
}

impl NextHop {
    /// The largest outer packet where up to `mtu` bytes are wanted: what is larger than the link takes, the kernel drops
    /// without a word.
    pub fn limit(&self, mtu: u16) -> u16 {
        self.link_mtu.map_or(mtu, |link| link.min(mtu))
    }
}

/// The word of a backend that tells state, encapsulation and sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status(u64);

impl Status {
    /// Whether, and which, packets go there.
    #[inline(always)]
    pub const fn state(self) -> BackendState {
        match self.0 & 0xff {
            1 => BackendState::Active,
            2 => BackendState::Draining,
            3 => BackendState::Down,
            _ => BackendState::Free,
        }
    }

    /// The tunnel.
    #[inline(always)]
    pub const fn tunnel(self) -> Tunnel {
        match (self.0 >> 8) & 3 {
            1 => Tunnel::Gre,
            2 => Tunnel::GueDirect,
            3 => Tunnel::GueHeader,
            _ => Tunnel::Ipip,
        }
    }

    /// The UDP destination port of GUE.
    #[inline(always)]
    pub const fn gue_port(self) -> u16 {
        (self.0 >> 16) as u16
    }

    /// The largest outer packet, bytes.
    #[inline(always)]
    pub const fn mtu(self) -> u16 {
        (self.0 >> 32) as u16
    }

    /// How many of the lowest bits of the outer source follow the flow.
    #[inline(always)]
    pub const fn source_entropy_bits(self) -> u8 {
        (self.0 >> 48) as u8
    }

    /// Whether the underlay is IPv4.
    #[inline(always)]
    pub const fn underlay_is_v4(self) -> bool {
        self.0 & (1 << 56) != 0
    }

    /// Bytes that the outer headers add to the IP packet.
    #[inline(always)]
    pub const fn overhead(self) -> usize {
        (self.0 >> 57) as usize
    }

    /// The largest IP packet that fits into the tunnel, bytes.
    #[inline(always)]
    pub const fn room(self) -> usize {
        (self.mtu() as usize).saturating_sub(self.overhead())
    }
}

/// Which packets a backend takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Hash)]
#[repr(u8)]
pub enum BackendState {
    /// The index names nobody.
    #[default]
    Free = 0,
    /// Takes new flows and keeps its own.
    Active = 1,
    /// Keeps its flows, takes no new ones.
    Draining = 2,
    /// Its flows are orphans. A slot may still name it when the policy is to forward to the last ones known.
    Down = 3,
}

impl BackendState {
    /// Whether flows that are on this backend stay there.
    #[inline(always)]
    pub const fn keeps_flows(self) -> bool {
        matches!(self, BackendState::Active | BackendState::Draining)
    }

    /// A stable name for metrics and JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            BackendState::Free => "free",
            BackendState::Active => "active",
            BackendState::Draining => "draining",
            BackendState::Down => "down",
        }
    }
}

#[inline(always)]
const fn is_mapped(address: &[u8; 16]) -> bool {
    matches!(address, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, _, _, _, _])
}

fn load_words(words: &[AtomicU64; 2]) -> [u64; 2] {
    let [first, second] = words;
    [first.load(Relaxed), second.load(Relaxed)]
}

fn store_wide(words: &[AtomicU64; 2], bytes: [u8; 16]) {
    let [first, second]: [u64; 2] = zerocopy::transmute!(bytes);
    words[0].store(first, Relaxed);
    words[1].store(second, Relaxed);
}

#[inline(always)]
fn has_neighbour(link: u64) -> bool {
    let [a, b, c, _]: [u16; 4] = zerocopy::transmute!(link);
    a | b | c != 0
}

const _: () = assert!(size_of::<Backend>() == 64 && align_of::<Backend>() == 64);

#[cfg(test)]
mod tests {
    use guideway_wire::{EncapSpec, MacAddr, Outer};

    use super::*;

    fn spec() -> BackendSpec {
        BackendSpec {
            state: BackendState::Active,
            address: [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1],
            tunnel: Tunnel::GueHeader,
            outer_source: [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 254],
            source_entropy_bits: 16,
            gue_port: 6080,
            mtu: 1500,
            next_hop: NextHop {
                interface: 7,
                neighbour: [2, 0, 0, 0, 0, 1],
                own_mac: [2, 0, 0, 0, 0, 2],
                link_mtu: None,
            },
        }
    }

    #[test]
    fn a_record_says_what_was_stored() {
        let backend = Backend::new(&spec());
        let status = backend.status();
        assert_eq!(status.state(), BackendState::Active);
        assert_eq!(status.tunnel(), Tunnel::GueHeader);
        assert_eq!((status.gue_port(), status.mtu()), (6080, 1500));
        assert!(status.source_entropy_bits() == 16 && status.underlay_is_v4());
        assert_eq!(backend.address(), spec().address);
        assert_eq!(backend.outer_source(), spec().outer_source);
        assert_eq!(backend.neighbour(), Some([2, 0, 0, 0, 0, 1]));
        assert_eq!((backend.own_mac(), backend.interface()), ([2, 0, 0, 0, 0, 2], 7));
    }

    #[test]
    fn a_change_of_state_leaves_the_rest() {
        let backend = Backend::new(&spec());
        backend.set_state(BackendState::Draining);
        assert_eq!(backend.state(), BackendState::Draining);
        assert_eq!(backend.status().mtu(), 1500);
    }

    #[test]
    fn the_largest_packet_is_what_way_and_link_both_take() {
        for (link_mtu, limit) in [(None, 1500), (Some(1400), 1400), (Some(9000), 1500)] {
            let next_hop = NextHop { link_mtu, ..spec().next_hop };
            assert_eq!(Backend::new(&BackendSpec { next_hop, ..spec() }).status().mtu(), limit);
        }
        let backend = Backend::new(&spec());
        backend.set_mtu(1400);
        let expected = Backend::new(&BackendSpec { mtu: 1400, ..spec() });
        assert_eq!(backend.status(), expected.status());
    }

    #[test]
    fn a_zero_mac_is_no_neighbour() {
        let backend = Backend::new(&spec());
        backend.set_next_hop(NextHop { neighbour: [0; 6], ..spec().next_hop });
        assert_eq!(backend.neighbour(), None);
        assert!(backend.outer(backend.status()).is_none());
        assert_eq!(backend.own_mac(), [2, 0, 0, 0, 0, 2], "the own address stays");
    }

    #[test]
    fn the_ready_headers_are_those_of_the_spec() {
        let six = BackendSpec {
            address: [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1],
            outer_source: [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2],
            tunnel: Tunnel::Ipip,
            ..spec()
        };
        for spec in [spec(), six] {
            let low = |address: [u8; 16]| *address.last_chunk().unwrap();
            let (source, destination) = (spec.outer_source, spec.address);
            let outer = if is_mapped(&spec.address) {
                Outer::V4 { source: low(source), destination: low(destination) }
            } else {
                Outer::V6 { source, destination }
            };
            let wanted = ReadyOuter::new(&EncapSpec {
                tunnel: spec.tunnel,
                outer,
                source_entropy_bits: spec.source_entropy_bits,
                gue_port: spec.gue_port,
                source_mac: MacAddr(spec.next_hop.own_mac),
                destination_mac: MacAddr(spec.next_hop.neighbour),
            });
            let backend = Backend::new(&spec);
            assert_eq!(backend.outer(backend.status()), Some((wanted, 7)));
            assert_eq!(backend.status().room(), 1500 - wanted.overhead);
        }
    }
}
