//! Cilium's Maglev tables.
//!
//! # Rule
//! * **Key** of a backend: the agent's text for it, [`backend_key`]; its bytes are hashed.
//! * **Preferences**: MurmurHash3 x64 128 with the first seed word gives `(h1, h2)`; `offset = h1 mod M`,
//!   `skip = h2 mod (M - 1) + 1`.
//! * **Order**: ascending by key bytes.
//! * **Turns**: slot n (0, 1, … M - 1) is offered to backend `n mod N`. Weights count only when their sum divided by
//!   N, as integers, exceeds 1. Then each backend has a counter, at first `weight / N` as a float; a backend with
//!   `(n + 1) * weight` below its counter's whole part is passed over for the next one in key order, and whoever takes
//!   the turn adds the sum of all weights to its counter.
//!
//! # Limits
//! M is one of [`SIZES`], 16,381 unless told otherwise. Weights are 16 bits; a backend without one has 100.
//! The agent leaves weight 0 out before it builds; a backend that comes in with weight 0 all the same takes its first
//! turn, so it owns one slot. Seeds are 12 bytes in base64.
//!
//! # Known defects
//! A set whose mean weight is below 2 is split evenly: {1, 2}, {1, 2, 1}. A turn that is passed over goes to the
//! neighbour in key order, not to everybody. Nodes of different byte order hash differently; here blocks are read
//! as little-endian nodes read them. The key text has changed between releases.
//!
//! # Flow hash
//! [`flow_hash`]: jhash of client address, ports and protocol. The service's address stays out.
//!
//! Source: Cilium, `pkg/maglev/maglev.go`, `pkg/loadbalancer`, `bpf/lib/lb.h`.

use alloc::{format, string::String, vec::Vec};
use core::net::{IpAddr, SocketAddr};

use super::{
    Built, Flow, Input, ProfileError, Warning, assemble,
    member::Placed,
    primitive::{jhash, murmur3::murmur3_x64_128},
};
use crate::maglev::{Preference, RoundRobin, Turns};

/// The table sizes that an agent can be given, one for all its services.
pub const SIZES: [u32; 10] = [251, 509, 1_021, 2_039, 4_093, 8_191, 16_381, 32_749, 65_521, 131_071];

/// The three seeds that all agents of a cluster share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Seeds {
    /// For the backends' permutations.
    pub murmur: u32,
    /// For IPv4 flows.
    pub jhash_v4: u32,
    /// For IPv6 flows.
    pub jhash_v6: u32,
}

impl Seeds {
    /// The seeds of an agent that is told none: `JLfvgnHc2kaSUFaI`.
    pub const DEFAULT: Self = Self { murmur: 0x24b7_ef82, jhash_v4: 0x71dc_da46, jhash_v6: 0x9250_5688 };

    /// The seeds in the agent's `hashSeed` setting: base64 of exactly 12 bytes. `None` for any other text.
    #[must_use]
    pub fn from_base64(text: &str) -> Option<Self> {
        // Twelve bytes fill sixteen digits, so there is no padding.
        let digits: &[u8; 16] = text.as_bytes().try_into().ok()?;
        let mut bits = 0_u128;
        for &digit in digits {
            let value = match digit {
                b'A'..=b'Z' => digit - b'A',
                b'a'..=b'z' => digit - b'a' + 26,
                b'0'..=b'9' => digit - b'0' + 52,
                b'+' => 62,
                b'/' => 63,
                _ => return None,
            };
            bits = bits << 6 | u128::from(value);
        }
        Some(Self { murmur: (bits >> 64) as u32, jhash_v4: (bits >> 32) as u32, jhash_v6: bits as u32 })
    }
}

/// The text that the agent hashes for an active backend: `[10.0.0.1:8080/TCP,State:active]`.
///
/// `protocol` is its name in capitals, `internal` the scope, and `cluster` the cluster id, 0 for one's own.
#[must_use]
pub fn backend_key(address: SocketAddr, protocol: &str, internal: bool, cluster: u32) -> String {
    let id = if cluster == 0 { String::new() } else { format!("@{cluster}") };
    let scope = if internal { "/i" } else { "" };
    let (ip, port) = (address.ip(), address.port());
    let ip = if ip.is_ipv6() { format!("[{ip}{id}]") } else { format!("{ip}{id}") };
    format!("[{ip}:{port}/{protocol}{scope},State:active]")
}

/// The hash of a flow; its slot is this modulo M. With session affinity the client's port counts as 0.
#[must_use]
pub fn flow_hash(flow: &Flow, seeds: Seeds, session_affinity: bool) -> u32 {
    // The datapath loads fields of network order as little-endian machines do.
    let source_port = if session_affinity { 0 } else { flow.source_port.swap_bytes() };
    let ports = u32::from(flow.destination_port.swap_bytes()) << 16 | u32::from(source_port);
    match flow.source {
        IpAddr::V4(source) => {
            let source = u32::from_le_bytes(source.octets());
            jhash::jhash_3words(source, ports, flow.protocol.into(), seeds.jhash_v4)
        }
        IpAddr::V6(source) => {
            let [a, b, c, d] = super::flow::le_words(source);
            let mut state = [a, b, c];
            jhash::mix(&mut state);
            state[0] = state[0].wrapping_add(d);
            state[1] = state[1].wrapping_add(ports);
            state[2] = state[2].wrapping_add(flow.protocol.into());
            jhash::mix(&mut state);
            state[0] = state[0].wrapping_add(seeds.jhash_v6);
            jhash::finish(&mut state);
            state[2]
        }
    }
}

pub(super) fn build(input: &Input<'_>) -> Result<Built, ProfileError> {
    let mut members = input.active();
    if members.is_empty() {
        return Err(ProfileError::NoMember("give at least one active backend"));
    }
    if let Some(placed) = members.iter().find(|placed| placed.member.weight > u16::MAX.into()) {
        return Err(placed.bad_weight("Cilium's weights go from 0 to 65535"));
    }
    members.sort_by(|a, b| a.member.key.cmp(b.member.key));
    input.check_distinct(&members, |index| members[index].member.key)?;

    let weights: Vec<u32> = members.iter().map(|placed| placed.member.weight).collect();
    let sum: u64 = weights.iter().copied().map(u64::from).sum();
    let weighted = sum / weights.len() as u64 > 1;
    let warnings = warn(input, &members, weighted);

    let size = u64::from(input.size);
    let preferences: Vec<Preference> = members
        .iter()
        .map(|placed| {
            let (h1, h2) = murmur3_x64_128(placed.member.key.as_bytes(), input.params.seeds.murmur);
            Preference { offset: (h1 % size) as u32, skip: (h2 % (size - 1) + 1) as u32 }
        })
        .collect();
    let table = if weighted {
        assemble::fill(input, &members, &preferences, Counters::new(weights, sum))?
    } else {
        assemble::fill(input, &members, &preferences, RoundRobin::new(members.len() as u32))?
    };
    Ok(Built { table, secondary: None, warnings })
}

fn warn(input: &Input<'_>, members: &[Placed<'_>], weighted: bool) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let agents_form = |key: &str| key.starts_with('[') && key.ends_with(']');
    if !members.iter().all(|placed| agents_form(placed.member.key)) {
        warnings.push(Warning::NotReproducible(
            "a key is not in the form that Cilium's agents hash, such as [10.0.0.1:8080/TCP,State:active]",
        ));
    }
    let differ = members.iter().any(|placed| placed.member.weight != members[0].member.weight);
    if differ && !weighted {
        warnings.push(Warning::WeightsIgnored(
            "the integer mean of the weights is below 2; multiply them all by 100",
        ));
    }
    if differ && weighted {
        warnings.push(Warning::WeightsDistorted(
            "a turn that is passed over goes to the next backend in key order",
        ));
    }
    for placed in members.iter().filter(|placed| placed.member.weight == 0) {
        warnings.push(Warning::ZeroWeightOwnsSlots { place: placed.place });
    }
    input.warn_of_starved(
        members.len(),
        "there are more backends than slots, and those last in key order get none",
        &mut warnings,
    );
    warnings
}

/// Turns by counters, one offer a slot.
struct Counters {
    weights: Vec<u64>,
    counters: Vec<f64>,
    sum: f64,
    /// Slots offered so far.
    offered: u64,
    /// The backend that the next slot is offered to first.
    first: usize,
}

impl Counters {
    fn new(weights: Vec<u32>, sum: u64) -> Self {
        let count = weights.len() as f64;
        Self {
            counters: weights.iter().map(|&weight| f64::from(weight) / count).collect(),
            weights: weights.into_iter().map(u64::from).collect(),
            sum: sum as f64,
            offered: 0,
            first: 0,
        }
    }
}

impl Turns for Counters {
    fn next(&mut self) -> u32 {
        self.offered += 1;
        let mut who = self.first;
        self.first = self.next_after(who);
        // Somebody takes it: the counters of all add up to less than `offered` times all weights.
        while self.offered * self.weights[who] < self.counters[who] as u64 {
            who = self.next_after(who);
        }
        self.counters[who] += self.sum;
        who as u32
    }
}

impl Counters {
    fn next_after(&self, who: usize) -> usize {
        if who + 1 == self.weights.len() { 0 } else { who + 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Member, Params, Profile, build};

    #[test]
    fn seeds_and_keys_as_the_agent_has_them() {
        assert_eq!(Seeds::from_base64("JLfvgnHc2kaSUFaI"), Some(Seeds::DEFAULT));
        assert_eq!(Seeds::from_base64("JLfvgnHc2kaSUFa="), None);
        assert_eq!(Seeds::from_base64("JLfvgnHc2kaS"), None);
        let v4 = "10.0.0.1:8080".parse().unwrap();
        let v6 = "[2001:db8::1]:8080".parse().unwrap();
        assert_eq!(backend_key(v4, "TCP", false, 0), "[10.0.0.1:8080/TCP,State:active]");
        assert_eq!(backend_key(v6, "TCP", false, 0), "[[2001:db8::1]:8080/TCP,State:active]");
        assert_eq!(backend_key(v4, "UDP", true, 3), "[10.0.0.1@3:8080/UDP/i,State:active]");
    }

    #[test]
    fn weights_below_a_mean_of_two_are_ignored_with_a_warning() {
        let members = |weights: [u32; 3]| {
            [("[a]", 0), ("[b]", 1), ("[c]", 2)].map(|(key, i)| Member::new(key, weights[i]))
        };
        let built = |weights| build(Profile::Cilium, 251, &members(weights), &Params::default()).unwrap();
        let ignored = built([1, 2, 1]);
        assert_eq!(ignored.table, built([1, 1, 1]).table);
        assert!(matches!(ignored.warnings[..], [Warning::WeightsIgnored(_)]));
        assert_eq!(built([100; 3]).table, built([1; 3]).table);
        assert!(built([100; 3]).warnings.is_empty());
        assert_ne!(built([100, 200, 100]).table, ignored.table);
        let bare = build(Profile::Cilium, 251, &[Member::new("10.0.0.1:80", 1)], &Params::default()).unwrap();
        assert!(matches!(bare.warnings[..], [Warning::NotReproducible(_)]));
    }

    #[test]
    fn weight_zero_owns_one_slot_with_a_warning() {
        let members = [Member::new("a", 0), Member::new("b", 10)];
        let built = build(Profile::Cilium, 251, &members, &Params::default()).unwrap();
        assert_eq!(built.table.counts(2), [1, 250]);
        assert!(built.warnings.contains(&Warning::ZeroWeightOwnsSlots { place: 0 }));
    }

    #[test]
    fn refuses_what_cilium_refuses() {
        let error = |size, members: &[Member<'_>]| {
            build(Profile::Cilium, size, members, &Params::default()).unwrap_err()
        };
        assert!(matches!(error(65_537, &[Member::new("a", 1)]), ProfileError::Size { .. }));
        assert!(matches!(error(251, &[Member::new("a", 65_536)]), ProfileError::Weight { .. }));
        assert!(matches!(error(251, &[]), ProfileError::NoMember(_)));
        let twice = [Member::new("a", 1), Member::new("a", 2)];
        assert!(matches!(error(251, &twice), ProfileError::Duplicate { .. }));
    }
}
