//! The algorithm as its specification documents give it.
//!
//! # Rule
//! The hash is 64-bit FNV-1a whose offset basis is XORed with a seed; the result is folded, `h ^ (h >> 32)`.
//! `offset = hash(0x9e3779b9, name) mod M`, `skip = hash(0x85ebca6b, name) mod (M - 1) + 1`. Names are sorted
//! ascending, and each takes one turn a round. M is any prime from 2 to 5,000,011; 65,537 unless told otherwise.
//!
//! There are no weights: weight 0 leaves a backend out, other differences are warned of. More backends than slots,
//! and equal names, are refused.
//!
//! # Flow hash
//! [`flow_hash`]: the same hash with seed 0 over source address, destination address, source port, destination
//! port (network order) and protocol; 13 bytes for IPv4, and for IPv6 the same with 16-byte addresses.
//!
//! Source: Eisenbud et al., "Maglev: A Fast and Reliable Software Network Load Balancer", NSDI 2016, section 3.4.

use alloc::vec::Vec;
use core::net::IpAddr;

use super::{
    Built, Flow, Input, ProfileError, assemble,
    primitive::fnv::{BASIS_64, fnv1a_64},
};
use crate::maglev::{Preference, RoundRobin};

const OFFSET_SEED: u64 = 0x9e37_79b9;
const SKIP_SEED: u64 = 0x85eb_ca6b;

/// The reference hash of `bytes` under `seed`.
#[must_use]
pub fn hash(seed: u64, bytes: &[u8]) -> u64 {
    let hash = fnv1a_64(BASIS_64 ^ seed, bytes);
    hash ^ hash >> 32
}

/// The offset and skip of a backend with this name, in a table of `size` slots (2 or more).
#[must_use]
pub fn preference(name: &[u8], size: u32) -> Preference {
    let size = u64::from(size);
    Preference {
        offset: (hash(OFFSET_SEED, name) % size) as u32,
        skip: (hash(SKIP_SEED, name) % (size - 1) + 1) as u32,
    }
}

/// The hash of a flow; its slot is this modulo M.
#[must_use]
pub fn flow_hash(flow: &Flow) -> u64 {
    let mut bytes = Vec::with_capacity(37);
    for address in [flow.source, flow.destination] {
        match address {
            IpAddr::V4(v4) => bytes.extend_from_slice(&v4.octets()),
            IpAddr::V6(v6) => bytes.extend_from_slice(&v6.octets()),
        }
    }
    bytes.extend_from_slice(&flow.source_port.to_be_bytes());
    bytes.extend_from_slice(&flow.destination_port.to_be_bytes());
    bytes.push(flow.protocol);
    hash(0, &bytes)
}

pub(super) fn build(input: &Input<'_>) -> Result<Built, ProfileError> {
    let mut warnings = Vec::new();
    let mut members = input.active_unweighted(&mut warnings, "the reference algorithm knows none");
    if members.is_empty() {
        return Err(ProfileError::NoMember("give at least one active backend of positive weight"));
    }
    input.check_room(members.len())?;
    members.sort_by(|a, b| a.member.key.cmp(b.member.key));
    input.check_distinct(&members, |index| members[index].member.key)?;
    let preferences: Vec<Preference> =
        members.iter().map(|placed| preference(placed.member.key.as_bytes(), input.size)).collect();
    let table = assemble::fill(input, &members, &preferences, RoundRobin::new(members.len() as u32))?;
    Ok(Built { table, secondary: None, warnings })
}

#[cfg(test)]
mod tests {
    use alloc::{format, string::String};

    use super::*;
    use crate::profile::{Member, Params, Profile, build};

    #[test]
    fn a_hundred_backends_own_655_or_656_slots_and_removal_moves_few_others() {
        let keys: Vec<String> = (1..=100).map(|i| format!("10.0.0.{i}:443")).collect();
        let members: Vec<_> = keys.iter().map(|key| Member::new(key, 1)).collect();
        let before = build(Profile::Reference, 65_537, &members, &Params::default()).unwrap().table;
        assert!(before.counts(100).iter().all(|count| (655..=656).contains(count)));
        let after = build(Profile::Reference, 65_537, &members[..99], &Params::default()).unwrap().table;
        let moved = before.iter().zip(after.iter()).filter(|&(old, new)| old != 99 && old != new).count();
        assert!(moved * 50 < 65_537, "{moved} slots moved needlessly");
    }

    #[test]
    fn names_are_sorted_and_checked() {
        let names = ["c", "a", "b"].map(|key| Member::new(key, 1));
        let sorted = ["a", "b", "c"].map(|key| Member::new(key, 1));
        let table =
            |members: &[Member<'_>]| build(Profile::Reference, 7, members, &Params::default()).unwrap().table;
        let renamed: Vec<u32> = table(&sorted).iter().map(|owner| [1, 2, 0][owner as usize]).collect();
        assert_eq!(table(&names).iter().collect::<Vec<_>>(), renamed);
        let twice = [names[0], names[1], names[0]];
        let refused = build(Profile::Reference, 7, &twice, &Params::default()).unwrap_err();
        assert!(matches!(refused, ProfileError::Duplicate { first: 0, second: 2, .. }), "{refused}");
    }
}
