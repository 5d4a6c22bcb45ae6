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

#[cfg(test)]
mod tests {
    use super::*;
    extern crate std;
    use std::vec;
    use std::vec::Vec;

    use core::net::IpAddr;
    use proptest::prelude::*;

    fn flow(src: &str, dst: &str, src_port: u16, dst_port: u16, protocol: IpProtocol) -> FlowKey {
        match (src.parse().unwrap(), dst.parse().unwrap()) {
            (IpAddr::V4(a), IpAddr::V4(b)) => {
                FlowKey::v4(a.octets(), b.octets(), src_port, dst_port, protocol)
            }
            (IpAddr::V6(a), IpAddr::V6(b)) => {
                FlowKey::v6(a.octets(), b.octets(), src_port, dst_port, protocol)
            }
            _ => panic!("mixed families"),
        }
    }

    /// The definition once more, over a list of words and with arithmetic of 128 bits.
    fn by_the_definition(seed: u64, words: &[u64]) -> u64 {
        let wrap = |value: u128| value as u64;
        let out = |mut z: u64| {
            z ^= z >> 30;
            z = wrap(u128::from(z) * 0xbf58_476d_1ce4_e5b9);
            z ^= z >> 27;
            z = wrap(u128::from(z) * 0x94d0_49bb_1331_11eb);
            z ^ z >> 31
        };
        let mut sum = 0u128;
        for (index, word) in words.iter().enumerate() {
            let state = u128::from(seed) + (index as u128 + 1) * 0x9e37_79b9_7f4a_7c15;
            let key = out(wrap(state)) | 1 << 63;
            let key = key & !(1 << 62);
            let half = |w: u64, k: u64| (u128::from(w) + u128::from(k)) % (1 << 32);
            sum += half(word & 0xffff_ffff, key & 0xffff_ffff) * half(word >> 32, key >> 32);
        }
        out(wrap(sum))
    }

    #[test]
    fn golden_values() {
        let tcp = IpProtocol::TCP;
        let v4 = flow("192.0.2.1", "198.51.100.7", 51234, 443, tcp);
        let v6 = flow("2001:db8::1", "2001:db8:1::443", 51234, 443, IpProtocol::UDP);
        let id = ConnectionId::new(&[0x83, 0x94, 0xc8, 0xf0, 0x3e, 0x51, 0x57, 0x08]).unwrap();
        let hasher = FlowHasher::new(0x0123_4567_89ab_cdef);
        let hashes = [
            hasher.hash(&v4, HashKey::FiveTuple),
            hasher.hash(&v4, HashKey::SourceAddress),
            hasher.hash(&v6, HashKey::FiveTuple),
            hasher.hash(&v6, HashKey::SourceAddress),
            hasher.hash_connection_id(&id),
            FlowHasher::new(0).hash(&v4, HashKey::FiveTuple),
        ];
        // Computed from the definition by a few lines of Python.
        let golden = [
            0xa504_6d0e_8457_7f96,
            0x6b81_0c59_d804_2772,
            0x4b6b_7988_599d_5bfa,
            0x385c_0362_51bc_e2ee,
            0x22c5_160b_c079_4a9f,
            0x2221_9f26_b92d_e46b,
        ];
        assert_eq!(hashes, golden);
    }

    proptest! {
        #[test]
        fn hash_is_as_defined(seed: u64, src: [u8; 16], dst: [u8; 16], ports: (u16, u16), protocol: u8) {
            let (sport, dport) = ports;
            let hasher = FlowHasher::new(seed);
            let word = |bytes: &[u8]| bytes.iter().fold(0u64, |word, byte| word << 8 | u64::from(*byte));
            let ports = u64::from(sport) << 16 | u64::from(dport);
            let v6 = FlowKey::v6(src, dst, sport, dport, IpProtocol(protocol));
            let [a, b, c, d] = [&src[..8], &src[8..], &dst[..8], &dst[8..]].map(word);
            let tail = (6 << 8 | u64::from(protocol)) << 32 | ports;
            prop_assert_eq!(hasher.hash(&v6, HashKey::FiveTuple), by_the_definition(seed, &[a, b, c, d, tail]));
            prop_assert_eq!(
                hasher.hash(&v6, HashKey::SourceAddress),
                by_the_definition(seed, &[a, b, 0, 0, 6 << 40])
            );
            let (src, dst): ([u8; 4], [u8; 4]) = (src[..4].try_into().unwrap(), dst[..4].try_into().unwrap());
            let v4 = FlowKey::v4(src, dst, sport, dport, IpProtocol(protocol));
            let tail = (4 << 8 | u64::from(protocol)) << 32 | word(&dst);
            let first = ports << 32 | word(&src);
            prop_assert_eq!(hasher.hash(&v4, HashKey::FiveTuple), by_the_definition(seed, &[first, tail]));
            prop_assert_eq!(
                hasher.hash(&v4, HashKey::SourceAddress),
                by_the_definition(seed, &[word(&src), 4 << 40])
            );
        }

        #[test]
        fn source_hash_sees_the_source_alone(src: [u8; 4], dst: [u8; 4], other: [u8; 4], ports: (u16, u16)) {
            let hasher = FlowHasher::new(7);
            let a = FlowKey::v4(src, dst, ports.0, ports.1, IpProtocol::TCP);
            let b = FlowKey::v4(src, other, ports.1, ports.0, IpProtocol::UDP);
            let by = HashKey::SourceAddress;
            prop_assert_eq!(hasher.hash(&a, by), hasher.hash(&b, by));
        }

        #[test]
        fn reversing_twice_changes_nothing(src: [u8; 16], dst: [u8; 16], ports: (u16, u16)) {
            let key = FlowKey::v6(src, dst, ports.0, ports.1, IpProtocol::UDP);
            prop_assert_eq!(key.reversed().reversed(), key);
            prop_assert_eq!(key.reversed().src, key.dst);
        }
    }

    /// Flips each bit of `samples` flows and returns the smallest and the largest share of flips of any output bit.
    fn avalanche(make: impl Fn(u64) -> FlowKey, bits: &[usize]) -> (f64, f64) {
        let samples = 2000u64;
        let mut counts = vec![[0u32; 64]; bits.len()];
        for sample in 0..samples {
            let hasher = FlowHasher::new(mix(sample ^ 0xabcd));
            let key = make(mix(sample));
            let base = hasher.hash(&key, HashKey::FiveTuple);
            for (bit, count) in bits.iter().zip(&mut counts) {
                let mut changed = key;
                changed.as_mut_bytes()[bit / 8] ^= 1 << (bit % 8);
                let difference = base ^ hasher.hash(&changed, HashKey::FiveTuple);
                for (at, count) in count.iter_mut().enumerate() {
                    *count += (difference >> at & 1) as u32;
                }
            }
        }
        let shares: Vec<f64> = counts.iter().flatten().map(|c| f64::from(*c) / samples as f64).collect();
        (shares.iter().copied().fold(1.0, f64::min), shares.iter().copied().fold(0.0, f64::max))
    }

    #[test]
    fn every_input_bit_reaches_every_output_bit() {
        // 2,000 samples of a fair coin: five standard deviations are 0.056, and there are up to 20,000 coins.
        let ports = 256..288;
        let v4 = |x: u64| {
            let [a, b, c, d, e, f, g, h] = x.to_le_bytes();
            FlowKey::v4([a, b, c, d], [e, f, g, h], x as u16, 443, IpProtocol::TCP)
        };
        let bits: Vec<usize> = (96..128).chain(224..256).chain(ports.clone()).collect();
        let (least, most) = avalanche(v4, &bits);
        assert!(least > 0.44 && most < 0.56, "IPv4: {least} to {most}");
        let v6 = |x: u64| {
            let (a, b) = (mix(x ^ 1), mix(x ^ 2));
            let src = (u128::from(a) << 64 | u128::from(b)).to_be_bytes();
            FlowKey::v6(
                src,
                mix(x ^ 3).to_le_bytes().repeat(2).try_into().unwrap(),
                x as u16,
                80,
                IpProtocol::UDP,
            )
        };
        let bits: Vec<usize> = (0..288).collect();
        let (least, most) = avalanche(v6, &bits);
        assert!(least > 0.44 && most < 0.56, "IPv6: {least} to {most}");
    }

    /// Pearson's statistic of `hashes` over `slots` slots, in standard deviations from what chance gives.
    fn deviation(hashes: impl Iterator<Item = u64>, slots: usize) -> f64 {
        let mut counts = vec![0u32; slots];
        let mut total = 0.0;
        for hash in hashes {
            counts[(hash % slots as u64) as usize] += 1;
            total += 1.0;
        }
        let expected = total / slots as f64;
        let statistic: f64 = counts.iter().map(|c| (f64::from(*c) - expected).powi(2) / expected).sum();
        (statistic - (slots as f64 - 1.0)) / (2.0 * (slots as f64 - 1.0)).sqrt()
    }

    #[test]
    fn regular_traffic_spreads_like_chance() {
        for seed in [0, 1, u64::MAX, 0x0123_4567_89ab_cdef] {
            let hasher = FlowHasher::new(seed);
            let tcp = IpProtocol::TCP;
            let neighbours = (0..400_000u32).map(|i| {
                let key = FlowKey::v4((0x0a00_0000 + i).to_be_bytes(), [192, 0, 2, 1], 1024, 443, tcp);
                hasher.hash(&key, HashKey::FiveTuple)
            });
            let ports = (0..400_000u32).map(|i| {
                let client = [10, 0, 0, (i >> 16) as u8];
                hasher.hash(&FlowKey::v4(client, [192, 0, 2, 1], i as u16, 443, tcp), HashKey::FiveTuple)
            });
            let prefixes = (0..400_000u32).map(|i| {
                let src = (0x2001_0db8u128 << 96 | u128::from(i) << 64 | 1).to_be_bytes();
                hasher.hash(&FlowKey::v6(src, [0x20; 16], 1024, 443, tcp), HashKey::FiveTuple)
            });
            let sources = (0..400_000u32).map(|i| {
                let key = FlowKey::v4((0x0a00_0000 + i).to_be_bytes(), [192, 0, 2, 1], 1024, 443, tcp);
                hasher.hash(&key, HashKey::SourceAddress)
            });
            let found = [
                deviation(neighbours, 65_537),
                deviation(ports, 65_537),
                deviation(prefixes, 65_537),
                deviation(sources, 1021),
            ];
            assert!(found.iter().all(|d| d.abs() < 5.0), "seed {seed:#x}: {found:?}");
        }
    }
}
