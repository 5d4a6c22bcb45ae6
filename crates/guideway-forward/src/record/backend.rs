//! A backend: where its packets go, wrapped in what, and whether it takes any, in one cache line.

use guideway_wire::Tunnel;

use core::sync::atomic::{Ordering::Relaxed, Ordering::Release};

use crate::word::AtomicU64;

/// A backend as the forwarder sees it: eight words, one cache line.
#[derive(Debug)]
#[cfg_attr(target_has_atomic = "64", derive(zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::KnownLayout))]
#[repr(C, align(64))]
pub struct Backend {
    /// Bits 0–7 state, 8–15 tunnel, 16–31 GUE destination port, 32–47 MTU, 48–55 bits of entropy in the
    /// outer source, bit 56 IPv4 underlay.
    status: AtomicU64,
    address: [AtomicU64; 2],
    source: [AtomicU64; 2],
    /// Destination MAC in the low six bytes (native order of the word's bytes); 0 is no neighbour.
    neighbour: AtomicU64,
    /// Source MAC, as `neighbour`.
    own_mac: AtomicU64,
    interface: AtomicU64,
}

impl Backend {
    /// A free record: no packet goes there.
    pub const fn free() -> Backend {
        Backend {
            status: AtomicU64::new(0),
            address: [AtomicU64::new(0), AtomicU64::new(0)],
            source: [AtomicU64::new(0), AtomicU64::new(0)],
            neighbour: AtomicU64::new(0),
            own_mac: AtomicU64::new(0),
            interface: AtomicU64::new(0),
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
        self.set_next_hop(spec.next_hop);
        let v4 = is_mapped(&spec.address) as u64;
        let status = spec.state as u64
            | ((spec.tunnel as u64) << 8)
            | ((spec.gue_port as u64) << 16)
            | ((spec.next_hop.limit(spec.mtu) as u64) << 32)
            | ((spec.source_entropy_bits as u64) << 48)
            | (v4 << 56);
        self.status.store(status, Release);
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
    #[inline(always)]
    pub fn address(&self) -> [u8; 16] {
        load_wide(&self.address)
    }

    /// The outer source address, before entropy; IPv4 as `::ffff:a.b.c.d`.
    #[inline(always)]
    pub fn outer_source(&self) -> [u8; 16] {
        load_wide(&self.source)
    }

    /// The neighbour's MAC, if it is known.
    #[inline(always)]
    pub fn neighbour(&self) -> Option<[u8; 6]> {
        match self.neighbour.load(Relaxed) {
            0 => None,
            word => Some(mac_of(word)),
        }
    }

    /// The MAC of the interface that packets leave by.
    #[inline(always)]
    pub fn own_mac(&self) -> [u8; 6] {
        mac_of(self.own_mac.load(Relaxed))
    }

    /// The index of the interface that packets leave by.
    #[inline(always)]
    pub fn interface(&self) -> u32 {
        self.interface.load(Relaxed) as u32
    }

    /// Points at another next hop. While interface and source MAC change, the record has no neighbour, so that no
    /// packet leaves by one interface with the addresses of the other.
    pub fn set_next_hop(&self, next_hop: NextHop) {
        let neighbour = word_of(next_hop.neighbour);
        let own_mac = word_of(next_hop.own_mac);
        if self.own_mac.load(Relaxed) != own_mac || self.interface() != next_hop.interface {
            self.neighbour.store(0, Release);
            self.own_mac.store(own_mac, Release);
            self.interface.store(next_hop.interface as u64, Release);
        }
        self.neighbour.store(neighbour, Release);
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
        match (self.0 >> 8) & 0xff {
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

// Whole words, not bytes put together: in the kernel's 512 bytes of stack a loose byte takes a place of eight.
#[inline(always)]
fn load_wide(words: &[AtomicU64; 2]) -> [u8; 16] {
    let [first, second] = words;
    zerocopy::transmute!([first.load(Relaxed), second.load(Relaxed)])
}

fn store_wide(words: &[AtomicU64; 2], bytes: [u8; 16]) {
    let [first, second] = words;
    let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = bytes;
    first.store(u64::from_ne_bytes([a, b, c, d, e, f, g, h]), Relaxed);
    second.store(u64::from_ne_bytes([i, j, k, l, m, n, o, p]), Relaxed);
}

#[inline(always)]
const fn mac_of(word: u64) -> [u8; 6] {
    let [low, middle, high, _]: [[u8; 2]; 4] = zerocopy::transmute!(word);
    zerocopy::transmute!([low, middle, high])
}

const fn word_of(mac: [u8; 6]) -> u64 {
    let [a, b, c, d, e, f] = mac;
    u64::from_ne_bytes([a, b, c, d, e, f, 0, 0])
}

const _: () = assert!(size_of::<Backend>() == 64 && align_of::<Backend>() == 64);

#[cfg(test)]
mod tests {
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
    }
}
