//! The `Maglev` policy of the crate `poise-core` 0.1, with its default hasher.
//!
//! # Rule
//! The hash of a name in a domain is FNV-1a-64 over the domain byte, the name's bytes and 0xff (as Rust hashes a
//! `str`), finished with the SplitMix64 mix. Domain 6 modulo M is the offset, domain 7 modulo M - 1, plus 1, the skip;
//! the hashes of domains 8 and 9 are the order, a tie falling back to the place in the input. One turn each a round.
//!
//! # Limits
//! M is a prime from 2 to 5,000,011; 65,537 unless told otherwise. More backends than slots, and two of one name, are
//! refused. There are no weights: weight 0 leaves a backend out, other differences are warned of.
//!
//! # Flow hash
//! [`request_hash`] of the request's key; the slot is this modulo M.
//!
//! Source: the crate `poise-core`, `policy::Maglev` and `hash`.

use alloc::vec::Vec;

use super::{
    Built, Input, ProfileError, assemble,
    primitive::{
        fnv::{BASIS_64, fnv1a_64},
        splitmix64,
    },
};
use crate::maglev::{Preference, RoundRobin};

const OFFSET: u8 = 6;
const SKIP: u8 = 7;
const ORDER_MAJOR: u8 = 8;
const ORDER_MINOR: u8 = 9;
const REQUEST: u8 = 10;

/// The hash of a request's key.
#[must_use]
pub fn request_hash(key: &str) -> u64 {
    hash(REQUEST, key)
}

fn hash(domain: u8, name: &str) -> u64 {
    let state = fnv1a_64(BASIS_64, &[domain]);
    let state = fnv1a_64(state, name.as_bytes());
    splitmix64::mix(fnv1a_64(state, &[0xff]))
}

pub(super) fn build(input: &Input<'_>) -> Result<Built, ProfileError> {
    let mut warnings = Vec::new();
    let mut members = input.active_unweighted(&mut warnings, "this policy knows none");
    if members.is_empty() {
        return Err(ProfileError::NoMember("give at least one active backend of positive weight"));
    }
    input.check_room(members.len())?;
    input.check_distinct(&members, |index| members[index].member.key)?;
    members.sort_by_cached_key(|placed| {
        (hash(ORDER_MAJOR, placed.member.key), hash(ORDER_MINOR, placed.member.key), placed.place)
    });
    let size = u64::from(input.size);
    let preferences: Vec<Preference> = members
        .iter()
        .map(|placed| Preference {
            offset: (hash(OFFSET, placed.member.key) % size) as u32,
            skip: (hash(SKIP, placed.member.key) % (size - 1) + 1) as u32,
        })
        .collect();
    let table = assemble::fill(input, &members, &preferences, RoundRobin::new(members.len() as u32))?;
    Ok(Built { table, secondary: None, warnings })
}
