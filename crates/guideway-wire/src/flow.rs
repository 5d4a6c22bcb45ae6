//! Flow keys and the flow hash.
//!
//! # Definition of the flow hash
//! Every balancer of a fleet must compute the same hash, so it is written down here and pinned by golden values.
//! All arithmetic is unsigned and wraps at 2^64 unless it says otherwise.
//!
//! *Keys.* From the fleet's 64-bit seed come five 64-bit keys: the first five outputs of SplitMix64
//! (Steele, Lea, Flood 2014: state += `0x9e3779b97f4a7c15`, output = `mix(state)`) begun at the seed. In each key bit
//! 63 is then set and bit 62 cleared. `mix(z)` is `z ^= z >> 30; z *= 0xbf58476d1ce4e5b9; z ^= z >> 27;
//! z *= 0x94d049bb133111eb; z ^= z >> 31`.
//!
//! *Input.* A list of 64-bit words. Addresses are read in network order (big-endian), 4 bytes as u32, 16 bytes as two
//! u64 `hi`, `lo`. `ports` is the u32 `source port << 16 | destination port`; `tail` is the u32 `family << 8 | protocol`
//! with family 4 or 6.
//! - five-tuple, IPv4: `ports << 32 | source`, `tail << 32 | destination`
//! - five-tuple, IPv6: `source.hi`, `source.lo`, `destination.hi`, `destination.lo`, `tail << 32 | ports`
//! - source address: the same with destination, ports, protocol and their words left out: IPv4 `source`, `4 << 40`;
//!   IPv6 `source.hi`, `source.lo`, `0`, `0`, `6 << 40`. (Words of zero still meet their key.)
//! - connection id, padded with zeros to 24 bytes and read as three u64 `a`, `b`, `c`: `a`, `b`, `c`, `length`.
//!
//! *Sum.* NH of UMAC (Black, Halevi, Krawczyk, Krovetz, Rogaway 1999): the sum over words i of
//! `((w.lo + k.lo) mod 2^32) * ((w.hi + k.hi) mod 2^32)`, where lo and hi are the lower and upper 32 bits of word i and
//! of key i. The products do not wait for one another, so a long key costs little more than a short one, and for random
//! keys two inputs collide with a chance near 2^-30. The forced bits see to it that a small upper half never cancels
//! its lower half.
//!
//! *Hash.* `mix(sum)`.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::address::Address;
use crate::ip::{IpProtocol, IpVersion};
use crate::quic::ConnectionId;

/// What identifies a flow: the 5-tuple, in one fixed shape for both families.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(8))]
pub struct FlowKey {
    /// Source address; IPv4 in mapped form.
    pub src: Address,
    /// Destination address; IPv4 in mapped form.
    pub dst: Address,
    /// Source port in host order; 0 where there are no ports.
    pub src_port: u16,
    /// Destination port in host order; 0 where there are no ports.
    pub dst_port: u16,
    /// Transport protocol.
    pub protocol: IpProtocol,
    /// 4 or 6.
    pub family: u8,
    /// Always zero.
    pub reserved: [u8; 2],
}

const _: () = assert!(size_of::<FlowKey>() == 40);

impl FlowKey {
    /// The key of an IPv4 flow.
    #[inline(always)]
    pub const fn v4(src: [u8; 4], dst: [u8; 4], src_port: u16, dst_port: u16, protocol: IpProtocol) -> Self {
        Self {
            src: Address::v4(src),
            dst: Address::v4(dst),
            src_port,
            dst_port,
            protocol,
            family: IpVersion::V4 as u8,
            reserved: [0; 2],
        }
    }

    /// The key of an IPv6 flow.
    #[inline(always)]
    pub const fn v6(
        src: [u8; 16],
        dst: [u8; 16],
        src_port: u16,
        dst_port: u16,
        protocol: IpProtocol,
    ) -> Self {
        Self {
            src: Address::v6(src),
            dst: Address::v6(dst),
            src_port,
            dst_port,
            protocol,
            family: IpVersion::V6 as u8,
            reserved: [0; 2],
        }
    }

    /// The key of the same flow seen from the other side.
    #[inline(always)]
    pub const fn reversed(&self) -> Self {
        Self { src: self.dst, dst: self.src, src_port: self.dst_port, dst_port: self.src_port, ..*self }
    }

    /// Whether this is an IPv4 flow.
    #[inline(always)]
    pub const fn is_v4(&self) -> bool {
        self.family == IpVersion::V4 as u8
    }
}

/// Which part of a flow key decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum HashKey {
    /// Addresses, ports and protocol: each connection by itself.
    FiveTuple = 0,
    /// The source address alone: all connections of a client together, whatever the service.
    SourceAddress = 1,
}

/// The flow hash with the keys of a fleet's seed, as the module's documentation defines it.
///
/// Plain data of 40 bytes in machine order: derived once from the seed, then shared with the kernel as it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct FlowHasher {
    keys: [u64; 5],
}

impl FlowHasher {
    /// The hasher of a fleet's seed.
    pub const fn new(seed: u64) -> Self {
        let (a, state) = next_key(seed);
        let (b, state) = next_key(state);
        let (c, state) = next_key(state);
        let (d, state) = next_key(state);
        let (e, _) = next_key(state);
        Self { keys: [a, b, c, d, e] }
    }

    /// The hash of a flow.
    #[inline(always)]
    pub const fn hash(&self, flow: &FlowKey, by: HashKey) -> u64 {
        let (ports, tail, dst) = match by {
            HashKey::FiveTuple => (ports(flow), (flow.family as u64) << 8 | flow.protocol.0 as u64, flow.dst),
            HashKey::SourceAddress => (0, (flow.family as u64) << 8, Address::UNSPECIFIED),
        };
        let [a, b, c, d, e] = self.keys;
        let (src_hi, src_lo) = flow.src.halves();
        let (dst_hi, dst_lo) = dst.halves();
        let sum = if flow.is_v4() {
            product(ports << 32 | src_lo & LOW, a).wrapping_add(product(tail << 32 | dst_lo & LOW, b))
        } else {
            product(src_hi, a)
                .wrapping_add(product(src_lo, b))
                .wrapping_add(product(dst_hi, c))
                .wrapping_add(product(dst_lo, d))
                .wrapping_add(product(tail << 32 | ports, e))
        };
        mix(sum)
    }

    /// The hash of a QUIC connection id: the same for a connection wherever its client moves.
    #[inline(always)]
    pub const fn hash_connection_id(&self, id: &ConnectionId) -> u64 {
        let [w0, w1, w2] = id.words();
        let [a, b, c, d, _] = self.keys;
        mix(product(w0, a)
            .wrapping_add(product(w1, b))
            .wrapping_add(product(w2, c))
            .wrapping_add(product(id.len() as u64, d)))
    }
}

/// The lower half of a word.
const LOW: u64 = 0xffff_ffff;

#[inline(always)]
const fn ports(flow: &FlowKey) -> u64 {
    (flow.src_port as u64) << 16 | flow.dst_port as u64
}

/// One term of NH.
#[inline(always)]
const fn product(word: u64, key: u64) -> u64 {
    let low = word.wrapping_add(key) & LOW;
    let high = (word >> 32).wrapping_add(key >> 32) & LOW;
    low.wrapping_mul(high)
}

/// The output function of SplitMix64.
#[inline(always)]
const fn mix(z: u64) -> u64 {
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A key and the next state.
const fn next_key(state: u64) -> (u64, u64) {
    let state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    (mix(state) & !(1 << 62) | 1 << 63, state)
}
