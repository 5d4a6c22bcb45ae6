//! The `lb` plugin of FD.io VPP, since April 2026 and before.
//!
//! # Rule
//! * **Key** of an application server: its address as 16 bytes, for IPv4 twelve zero bytes and the address. The two
//!   halves, read little-endian and XORed, make the word [`address_word`].
//! * **Preferences**: `h = clib_xxhash(word)`; `offset = (h >> 32) mod len`, `skip = ((h mod 2^32) | 1) mod len`: odd,
//!   so that it walks all of a power of two.
//! * **Up to 26.02**: one entry a server, in order of the 16 bytes; one turn each a round.
//! * **Since April 2026**: a server of weight w has w entries, replicas r = 0 … w - 1 with `h = clib_xxhash(word ^ r)`,
//!   in order of (r, 16 bytes); one turn an entry a round.
//!
//! # Limits
//! The table's length is a power of two (1,024 in VPP's examples). Weights go from 0 to 100, default 100; up to 26.02
//! there are none. No server, or all at weight 0: every packet is dropped, here an error.
//!
//! # Known defects
//! Entries beyond the table's length get no turn, so weights above length / servers have no effect. At the default
//! weight 100 the table is another than before April 2026; at weight 1 everywhere it is the same. IPv6 addresses whose
//! halves XOR alike walk alike.
//!
//! # Flow hash
//! [`flow_words`] hashed by [`crc32c_hash`] on machines with a CRC instruction, by [`xxhash_hash`] on others; the two
//! disagree. The slot is the low bits.
//!
//! Source: FD.io VPP, `src/plugins/lb/{lb.c,lb.h,node.c}`, `src/vppinfra/xxhash.h`; commit ca870e99f61.

use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{
    Built, Flow, Input, Profile, ProfileError, Warning, assemble,
    member::Placed,
    primitive::{clib_xxhash::clib_xxhash, crc32c::crc32c_u64},
    warn_of_same_walks,
};
use crate::maglev::{self, Preference, RoundRobin};

const MAX_WEIGHT: u32 = 100;
const TCP: u8 = 6;
const UDP: u8 = 17;

/// The 16 bytes that VPP holds an address in.
#[must_use]
pub fn address_bytes(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(v4) => {
            let mut bytes = [0; 16];
            bytes[12..].copy_from_slice(&v4.octets());
            bytes
        }
        IpAddr::V6(v6) => v6.octets(),
    }
}

/// The word that a server is hashed by.
#[must_use]
pub fn address_word(address: IpAddr) -> u64 {
    let [low, high] = halves(u128::from_le_bytes(address_bytes(address)));
    low ^ high
}

/// The five words of a flow that are hashed. With `src_ip_sticky` the ports stay out, the destination stays in.
///
/// Ports count for TCP and UDP only. Give a fragment without ports as ports 0.
#[must_use]
pub fn flow_words(flow: &Flow, src_ip_sticky: bool) -> [u64; 5] {
    let with_ports = !src_ip_sticky && matches!(flow.protocol, TCP | UDP);
    let ports = if with_ports {
        // The fields of the packet as a little-endian machine loads them.
        u64::from(flow.source_port.swap_bytes()) << 16 | u64::from(flow.destination_port.swap_bytes())
    } else {
        0
    };
    match (flow.source, flow.destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            [u64::from(le_word(destination)) << 32 | u64::from(le_word(source)), ports, 0, 0, 0]
        }
        (source, destination) => {
            let [source, destination] =
                [source, destination].map(|address| halves(u128::from_le_bytes(as_v6(address).octets())));
            [source[0], source[1], destination[0], destination[1], ports]
        }
    }
}

/// The flow hash of machines with a CRC-32C instruction.
#[must_use]
pub fn crc32c_hash(words: [u64; 5]) -> u32 {
    words.into_iter().fold(0, crc32c_u64)
}

/// The flow hash of machines without one.
#[must_use]
pub fn xxhash_hash(words: [u64; 5]) -> u32 {
    clib_xxhash(words.into_iter().fold(0, |all, word| all ^ word)) as u32
}

fn le_word(address: Ipv4Addr) -> u32 {
    u32::from_le_bytes(address.octets())
}

fn as_v6(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    }
}

/// The first and the last eight bytes of a little-endian load.
const fn halves(word: u128) -> [u64; 2] {
    [word as u64, (word >> 64) as u64]
}

fn preference(word: u64, size: u32) -> Preference {
    let hash = clib_xxhash(word);
    let mask = size - 1;
    Preference { offset: (hash >> 32) as u32 & mask, skip: (hash as u32 | 1) & mask }
}

/// A server and what VPP sorts and hashes it by.
struct Server<'a> {
    placed: Placed<'a>,
    bytes: [u8; 16],
    word: u64,
}

/// The active servers in order of their bytes.
fn servers<'a>(input: &Input<'_>, members: Vec<Placed<'a>>) -> Result<Vec<Server<'a>>, ProfileError> {
    let mut servers = Vec::with_capacity(members.len());
    for placed in members {
        let address = placed.address()?;
        servers.push(Server { placed, bytes: address_bytes(address), word: address_word(address) });
    }
    servers.sort_by_key(|server| server.bytes);
    let members: Vec<Placed<'_>> = servers.iter().map(|server| server.placed).collect();
    input.check_distinct(&members, |index| servers[index].bytes)?;
    Ok(servers)
}

fn warn_of_folds(servers: &[Server<'_>], warnings: &mut Vec<Warning>) {
    let members: Vec<Placed<'_>> = servers.iter().map(|server| server.placed).collect();
    warn_of_same_walks(
        &members,
        |index| servers[index].word,
        "the halves of their IPv6 addresses XOR alike",
        warnings,
    );
}

pub(super) fn build_26_02(input: &Input<'_>) -> Result<Built, ProfileError> {
    let mut warnings = Vec::new();
    let active = input.active_unweighted(&mut warnings, "VPP has none up to release 26.02");
    let servers = servers(input, active)?;
    if servers.is_empty() {
        return Err(ProfileError::NoMember("give at least one active server"));
    }
    warn_of_folds(&servers, &mut warnings);
    input.warn_of_starved(
        servers.len(),
        "there are more servers than slots; take a larger table",
        &mut warnings,
    );
    let preferences: Vec<Preference> =
        servers.iter().map(|server| preference(server.word, input.size)).collect();
    let filled = maglev::fill(input.size, &preferences, RoundRobin::new(servers.len() as u32))?;
    let table = assemble::relabel(input, filled.iter(), |index| servers[index as usize].placed.place)?;
    Ok(Built { table, secondary: None, warnings })
}

pub(super) fn build(input: &Input<'_>) -> Result<Built, ProfileError> {
    let mut warnings = Vec::new();
    let active = input.active();
    if let Some(placed) = active.iter().find(|placed| placed.member.weight > MAX_WEIGHT) {
        return Err(placed.bad_weight("VPP's weights go from 0 to 100"));
    }
    let mut servers = servers(input, active)?;
    servers.retain(|server| server.placed.member.weight > 0);
    if servers.is_empty() {
        return Err(ProfileError::NoMember(
            "give at least one active server of positive weight (VPP would drop every packet)",
        ));
    }
    warn_of_folds(&servers, &mut warnings);
    warn_of_cap(input, &servers, &mut warnings);

    // What lies behind the first `size` entries never has a turn.
    let heaviest = servers.iter().map(|server| server.placed.member.weight).max().unwrap_or(0);
    let entries: Vec<(u32, usize)> = (0..heaviest)
        .flat_map(|replica| (0..servers.len()).map(move |index| (replica, index)))
        .filter(|&(replica, index)| replica < servers[index].placed.member.weight)
        .take(input.size as usize)
        .collect();
    let preferences: Vec<Preference> = entries
        .iter()
        .map(|&(replica, index)| preference(servers[index].word ^ u64::from(replica), input.size))
        .collect();
    let filled = maglev::fill(input.size, &preferences, RoundRobin::new(entries.len() as u32))?;
    let table =
        assemble::relabel(input, filled.iter(), |entry| servers[entries[entry as usize].1].placed.place)?;
    Ok(Built { table, secondary: None, warnings })
}

fn warn_of_cap(input: &Input<'_>, servers: &[Server<'_>], warnings: &mut Vec<Warning>) {
    let weight = |server: &Server<'_>| server.placed.member.weight;
    let sum: u64 = servers.iter().map(|server| u64::from(weight(server))).sum();
    let alike = servers.iter().all(|server| weight(server) == weight(&servers[0]));
    if sum > input.size.into() && !alike {
        warnings.push(Warning::WeightsDistorted(
            "they add up to more than the table's length, so those above length / servers have no effect; take a longer table",
        ));
    }
    if servers.iter().any(|server| weight(server) != 1) {
        warnings.push(Warning::NotReproducible(
            "releases up to 26.02 build this set otherwise; only weight 1 everywhere agrees with them",
        ));
    }
    debug_assert_eq!(input.profile, Profile::Vpp);
    input.warn_of_starved(servers.len(), "there are more servers than slots; take a longer table", warnings);
}

#[cfg(test)]
mod tests {
    use alloc::{format, string::String};

    use super::*;
    use crate::profile::{Member, Params, build};

    fn members(keys: &[String], weight: impl Fn(usize) -> u32) -> Vec<Member<'_>> {
        keys.iter().enumerate().map(|(i, key)| Member::new(key, weight(i))).collect()
    }

    fn keys(count: usize) -> Vec<String> {
        (1..=count).map(|i| format!("10.0.0.{i}")).collect()
    }

    #[test]
    fn weight_one_everywhere_is_the_old_table_and_weight_100_is_not() {
        let keys = keys(10);
        let table = |profile, weight| {
            build(profile, 1_024, &members(&keys, |_| weight), &Params::default()).unwrap().table
        };
        let old = table(Profile::Vpp2602, 100);
        assert_eq!(table(Profile::Vpp, 1), old);
        assert_ne!(table(Profile::Vpp, 100), old);
    }

    #[test]
    fn weights_beyond_the_tables_length_have_no_effect() {
        let keys = keys(100);
        let built = |first| {
            let members = members(&keys, |i| if i == 0 { first } else { 100 });
            build(Profile::Vpp, 1_024, &members, &Params::default()).unwrap()
        };
        assert_eq!(built(100).table, built(50).table);
        assert!(built(50).warnings.iter().any(|warning| matches!(warning, Warning::WeightsDistorted(_))));
    }

    #[test]
    fn more_servers_than_slots() {
        let keys = keys(3);
        let built = build(Profile::Vpp, 1, &members(&keys, |_| 1), &Params::default()).unwrap();
        assert_eq!(built.table.counts(3), [1, 0, 0]);
        assert!(built.warnings.iter().any(|warning| matches!(warning, Warning::Starved { members: 2, .. })));
    }

    #[test]
    fn refuses_what_vpp_refuses() {
        let one = Member::new("10.0.0.1", 1);
        for profile in [Profile::Vpp, Profile::Vpp2602] {
            let error =
                |size, members: &[Member<'_>]| build(profile, size, members, &Params::default()).unwrap_err();
            for size in [0, 3, 251, 65_537] {
                assert!(matches!(error(size, &[one]), ProfileError::Size { .. }), "{size}");
            }
            assert!(matches!(error(16, &[one, one]), ProfileError::Duplicate { .. }));
            assert!(matches!(error(16, &[]), ProfileError::NoMember(_)));
            assert!(matches!(error(16, &[Member { weight: 0, ..one }]), ProfileError::NoMember(_)));
        }
        let heavy =
            build(Profile::Vpp, 16, &[Member { weight: 101, ..one }], &Params::default()).unwrap_err();
        assert!(matches!(heavy, ProfileError::Weight { .. }));
    }

    #[test]
    fn flow_words_as_the_packet_has_them() {
        let flow = Flow {
            source: [192, 0, 2, 1].into(),
            destination: [198, 51, 100, 2].into(),
            source_port: 0x1234,
            destination_port: 0x0050,
            protocol: TCP,
        };
        let addresses = u64::from_le_bytes([192, 0, 2, 1, 198, 51, 100, 2]);
        assert_eq!(flow_words(&flow, false), [addresses, 0x3412_5000, 0, 0, 0]);
        assert_eq!(flow_words(&flow, true), [addresses, 0, 0, 0, 0]);
        assert_eq!(flow_words(&Flow { protocol: 1, ..flow }, false), [addresses, 0, 0, 0, 0]);
    }
}
