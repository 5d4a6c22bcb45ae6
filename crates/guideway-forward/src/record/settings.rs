//! What holds for the whole machine.

use guideway_wire::{FlowHasher, FlowKey, HashKey};

use super::directory::At;
use super::key::ServiceId;
use core::sync::atomic::{Ordering::Relaxed, Ordering::Release};

use crate::word::{AtomicU64, steady};

/// Settings of one balancer: two cache lines.
#[derive(Debug)]
#[cfg_attr(target_has_atomic = "64", derive(zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::KnownLayout))]
#[repr(C, align(64))]
pub struct Settings {
    flow_key: [AtomicU64; 2],
    /// Bits 0–1 [`ANY_PORT`] and [`PREFIXES`], bits 4–63 [`At`].
    lookups: AtomicU64,
    own: [OwnSource; 2],
    /// The flow hash keyed by the first word of `flow_key`.
    keys: [AtomicU64; 5],
}

const ANY_PORT: u64 = 1;
const PREFIXES: u64 = 2;
/// The bits of the word that tell which look-ups are worth making.
const FLAGS: u64 = 0xf;

impl Settings {
    /// Settings with the given secret key of flow table and fragment cache, and nothing else set.
    ///
    /// The key is random per machine, so that nobody outside can aim at a bucket.
    pub fn new(flow_key: [u64; 2]) -> Settings {
        let [first, second] = flow_key;
        let keys: [u64; 5] = zerocopy::transmute!(FlowHasher::new(first));
        Settings {
            flow_key: [AtomicU64::new(first), AtomicU64::new(second)],
            lookups: AtomicU64::new(0),
            keys: keys.map(AtomicU64::new),
            own: [OwnSource::none(), OwnSource::none()],
        }
    }

    /// Every word that packets read, and the key that those of the hash follow from.
    pub const fn words(&self) -> [&AtomicU64; 16] {
        let Settings { flow_key: [first, second], lookups, own: [one, two], keys: [a, b, c, d, e] } = self;
        let (OwnSource { address: [f, g], mask: [h, i] }, OwnSource { address: [j, k], mask: [l, m] }) =
            (one, two);
        [first, second, lookups, a, b, c, d, e, f, g, h, i, j, k, l, m]
    }

    /// Replaces the secret key. Whatever is remembered under another one is not found again.
    pub fn set_flow_key(&self, flow_key: [u64; 2]) {
        let keys: [u64; 5] = zerocopy::transmute!(FlowHasher::new(flow_key[0]));
        for (word, key) in self.flow_key.iter().zip(flow_key).chain(self.keys.iter().zip(keys)) {
            word.store(key, Release);
        }
    }

    /// The secret key of flow table and fragment cache.
    pub fn flow_key(&self) -> [u64; 2] {
        let [first, second] = &self.flow_key;
        [first.load(Relaxed), second.load(Relaxed)]
    }

    /// The secret hash that picks bucket (its low bits) and fingerprint (its high bits) of a flow of `service`.
    ///
    /// The service is part of it: a backend's local index means nothing to another service.
    #[inline(always)]
    pub fn keyed_hash(&self, flow: &FlowKey, service: ServiceId) -> u64 {
        let [a, b, c, d, e] = &self.keys;
        let hasher: FlowHasher =
            zerocopy::transmute!([steady(a), steady(b), steady(c), steady(d), steady(e)]);
        let [_, second] = &self.flow_key;
        let word = hasher.hash(flow, HashKey::FiveTuple) ^ steady(second) ^ ((service.0 as u64) << 24);
        let word = (word ^ (word >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
        word ^ (word >> 32)
    }

    /// Whether any service takes every port; without one the look-up is skipped.
    #[inline(always)]
    pub fn has_any_port(&self) -> bool {
        self.lookups.load(Relaxed) & ANY_PORT != 0
    }

    /// Whether any service has a virtual prefix; without one the look-up is skipped.
    #[inline(always)]
    pub fn has_prefixes(&self) -> bool {
        self.lookups.load(Relaxed) & PREFIXES != 0
    }

    /// Says which look-ups are worth making. Switch on before such a service is added, off after the last is gone.
    pub fn set_lookups(&self, any_port: bool, prefixes: bool) {
        let flags = if any_port { ANY_PORT } else { 0 } | if prefixes { PREFIXES } else { 0 };
        self.lookups.store(self.lookups.load(Relaxed) & !FLAGS | flags, Release);
    }

    /// Which directory of single addresses is in use.
    #[inline(always)]
    pub fn directory(&self) -> At {
        At(self.lookups.load(Relaxed) & !FLAGS)
    }

    /// Puts another directory in use; everything stored in it before is visible to whoever sees that. The controller is
    /// the only writer.
    pub fn set_directory(&self, at: At) {
        self.lookups.store(self.lookups.load(Relaxed) & FLAGS | at.0 & !FLAGS, Release);
    }

    /// Sets what counts as our own outer source addresses: one network an address family.
    pub fn set_own_sources(&self, first: Option<Network>, second: Option<Network>) {
        let [one, two] = &self.own;
        one.set(first);
        two.set(second);
    }

    /// Whether a packet with this source was encapsulated by us.
    #[inline(always)]
    pub fn is_own_source(&self, address: &[u8; 16]) -> bool {
        let [one, two] = &self.own;
        one.holds(address) || two.holds(address)
    }
}

/// An address with the mask of the bits that count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    /// The address; IPv4 as `::ffff:a.b.c.d`.
    pub address: [u8; 16],
    /// Ones where the address must match.
    pub mask: [u8; 16],
}

impl Network {
    /// The first `bits` (0–128) of `address`; for IPv4, mapped, 96 more than its own length.
    pub const fn new(address: [u8; 16], bits: u32) -> Network {
        // Byte by byte: the BPF target has no 128-bit shift.
        let mut mask = [0; 16];
        let mut byte = 0;
        while byte < 16 {
            mask[byte] = match bits.saturating_sub(byte as u32 * 8) {
                0 => 0,
                left @ 1..8 => !(0xff >> left),
                _ => 0xff,
            };
            byte += 1;
        }
        Network { address, mask }
    }
}

#[derive(Debug)]
#[cfg_attr(target_has_atomic = "64", derive(zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::KnownLayout))]
#[repr(C)]
struct OwnSource {
    address: [AtomicU64; 2],
    /// All zero while it is not set.
    mask: [AtomicU64; 2],
}

impl OwnSource {
    const fn none() -> OwnSource {
        OwnSource {
            address: [AtomicU64::new(0), AtomicU64::new(0)],
            mask: [AtomicU64::new(0), AtomicU64::new(0)],
        }
    }

    fn set(&self, network: Option<Network>) {
        let (address, mask) = match network {
            Some(network) => (split(&network.address), split(&network.mask)),
            None => ([0, 0], [0, 0]),
        };
        let [first, second] = &self.mask;
        first.store(0, Release);
        second.store(0, Release);
        let [high, low] = &self.address;
        high.store(address[0] & mask[0], Release);
        low.store(address[1] & mask[1], Release);
        second.store(mask[1], Release);
        first.store(mask[0], Release);
    }

    #[inline(always)]
    fn holds(&self, address: &[u8; 16]) -> bool {
        let [first, second] = &self.mask;
        let (first, second) = (first.load(Relaxed), second.load(Relaxed));
        let [high, low] = split(address);
        let [own_high, own_low] = &self.address;
        first | second != 0 && high & first == own_high.load(Relaxed) && low & second == own_low.load(Relaxed)
    }
}

#[inline(always)]
const fn split(bytes: &[u8; 16]) -> [u64; 2] {
    let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = *bytes;
    [u64::from_ne_bytes([a, b, c, d, e, f, g, h]), u64::from_ne_bytes([i, j, k, l, m, n, o, p])]
}

const _: () = assert!(size_of::<Settings>() == 128 && align_of::<Settings>() == 64);

#[cfg(test)]
mod tests {
    use super::*;

    fn v4(last: [u8; 4]) -> [u8; 16] {
        let mut address = [0; 16];
        address[10..12].copy_from_slice(&[0xff, 0xff]);
        address[12..].copy_from_slice(&last);
        address
    }

    #[test]
    fn nothing_is_our_own_until_it_is_set() {
        let settings = Settings::new([1, 2]);
        assert!(!settings.is_own_source(&[0; 16]));
        assert!(!settings.is_own_source(&v4([10, 0, 0, 1])));
    }

    #[test]
    fn own_sources_match_by_their_mask() {
        let settings = Settings::new([1, 2]);
        settings.set_own_sources(Some(Network::new(v4([172, 16, 0, 0]), 112)), None);
        assert!(settings.is_own_source(&v4([172, 16, 200, 7])));
        assert!(!settings.is_own_source(&v4([172, 17, 0, 7])));
        assert!(!settings.is_own_source(&[0; 16]));
    }

    #[test]
    fn look_ups_and_directory_change_without_each_other() {
        let settings = Settings::new([1, 2]);
        let at = At::new(77, 1 << 24);
        settings.set_lookups(true, false);
        settings.set_directory(at);
        assert!(settings.has_any_port() && !settings.has_prefixes() && settings.directory() == at);
        settings.set_lookups(false, true);
        assert!(!settings.has_any_port() && settings.has_prefixes() && settings.directory() == at);
    }

    #[test]
    fn a_network_of_all_bits_is_one_address() {
        assert_eq!(Network::new([9; 16], 128).mask, [0xff; 16]);
        assert_eq!(Network::new([9; 16], 0).mask, [0; 16]);
        assert_eq!(Network::new([9; 16], 113).mask[13..], [0xff, 0x80, 0]);
    }
}
