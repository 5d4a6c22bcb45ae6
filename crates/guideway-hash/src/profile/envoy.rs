//! Envoy's `envoy.load_balancing_policies.maglev`.
//!
//! # Rule
//! * **Key** of a host: its metadata `hash_key` if not empty; else its host name under `use_hostname_for_hashing`;
//!   else its address as text ([`address_key`]), or the path of a unix socket.
//! * **Preferences**: `offset = XXH64(key, 0) mod M`, `skip = XXH64(key, 1) mod (M - 1) + 1`.
//! * **Order**: ascending by key bytes. So the order of input doesn't matter.
//! * **Weights** become floats: `w_i = weight_i * share / sum`, where without localities `share` is 1 and `sum` that of
//!   all weights, and with them `share` is the locality's part of the locality weights and `sum` that of the weights
//!   inside. Localities of weight 0 are left out.
//! * **Turns**: a host's target starts at 0. In iteration 1, 2, … a host takes a turn when `iteration * w_i` is not
//!   below its target, which then grows by the largest `w`. So everybody takes one in iteration 1, and a host with a
//!   third of the largest weight one in three.
//!
//! # Limits
//! M is a prime up to 5,000,011 (default 65,537). A weight is at least 1; the weights of the whole set, of each
//! locality, and of all localities add up to at most 4,294,967,295. No host left, or all localities at weight 0: no
//! table.
//!
//! # Known defects
//! Hosts of one key are ordered by their address in memory: two proxies may differ. Here they keep the order of
//! input, with a warning. Where there are more hosts than slots, the last in key order get none.
//!
//! # Flow hash
//! What the route's hash policies say: [`header_hash`], [`value_hash`] for cookies and query parameters,
//! [`source_ip_hash`], joined by [`combine`]; the slot is the hash modulo M. [`retry_hash`] is for further attempts.
//!
//! Source: Envoy, `source/extensions/load_balancing_policies/maglev/maglev_lb.cc` and
//! `source/extensions/load_balancing_policies/common/thread_aware_lb_impl.cc`.

use alloc::{string::String, string::ToString, vec, vec::Vec};
use core::net::{IpAddr, SocketAddr};

use super::{
    Built, Input, Member, Params, ProfileError, Warning, agenda::Agenda, assemble, member::Placed,
    primitive::xxh64::xxh64, repeated,
};
use crate::maglev::Preference;

/// The text that Envoy hashes for a host at `address`: `a.b.c.d:port`, or `[address]:port` as RFC 5952 writes it.
#[must_use]
pub fn address_key(address: SocketAddr) -> String {
    address.to_string()
}

/// The bytes by which Envoy hashes `member`.
#[must_use]
pub fn hashed_key<'a>(member: &Member<'a>, params: &Params) -> &'a str {
    match (member.hash_key, member.hostname) {
        (Some(hash_key), _) if !hash_key.is_empty() => hash_key,
        (_, Some(hostname)) if params.use_hostname_for_hashing => hostname,
        _ => member.key,
    }
}

/// The hash of a cookie's or query parameter's value.
#[must_use]
pub fn value_hash(value: &[u8]) -> u64 {
    xxh64(value, 0)
}

/// The hash of a header's values, in whatever order they came.
#[must_use]
pub fn header_hash(values: &[&[u8]]) -> u64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    sorted.into_iter().fold(0, |hash, value| xxh64(value, hash))
}

/// The hash of the source-ip policy: of the address as text, without the port.
#[must_use]
pub fn source_ip_hash(source: IpAddr) -> u64 {
    value_hash(source.to_string().as_bytes())
}

/// The hash of one more policy joined to the hash of those before it (0 before the first).
#[must_use]
pub const fn combine(before: u64, policy: u64) -> u64 {
    before.rotate_left(1) ^ policy
}

/// The hash for attempt `attempt` of a request, 0 being the first.
#[must_use]
pub const fn retry_hash(hash: u64, attempt: u32) -> u64 {
    match attempt {
        0 => hash,
        _ => hash ^ (attempt as u64).wrapping_neg(),
    }
}

pub(super) fn build(input: &Input<'_>) -> Result<Built, ProfileError> {
    let mut warnings = Vec::new();
    let mut hosts = weigh(input)?;
    hosts.sort_by(|a, b| a.key.cmp(b.key));

    if !repeated(hosts.len(), |index| hosts[index].key).is_empty() {
        warnings.push(Warning::NotReproducible(
            "hosts with one key are ordered by address in memory; give each host a key of its own",
        ));
    }
    input.warn_of_starved(
        hosts.len(),
        "there are more hosts than slots, and those last in key order get none",
        &mut warnings,
    );

    let size = u64::from(input.size);
    let preferences: Vec<Preference> = hosts
        .iter()
        .map(|host| {
            let bytes = host.key.as_bytes();
            // Remainders of a size that fits 32 bits.
            Preference {
                offset: (xxh64(bytes, 0) % size) as u32,
                skip: (xxh64(bytes, 1) % (size - 1) + 1) as u32,
            }
        })
        .collect();
    let weights: Vec<f64> = hosts.iter().map(|host| host.weight).collect();
    let heaviest = weights.iter().copied().fold(0.0, f64::max);
    let crowding = weights.len() as f64 * heaviest / weights.iter().sum::<f64>();
    let turns = Agenda::new(weights, 0.0, heaviest, crowding);
    let members: Vec<Placed<'_>> = hosts.into_iter().map(|host| host.placed).collect();
    let table = assemble::fill(input, &members, &preferences, turns)?;
    Ok(Built { table, secondary: None, warnings })
}

struct Host<'a> {
    placed: Placed<'a>,
    /// What is hashed.
    key: &'a str,
    /// Its part of the whole.
    weight: f64,
}

const LIMIT: u64 = u32::MAX as u64;

/// The hosts that take part, with their weights as Envoy normalises them.
fn weigh<'a>(input: &Input<'a>) -> Result<Vec<Host<'a>>, ProfileError> {
    let active = input.active();
    if let Some(placed) = active.iter().find(|placed| placed.member.weight == 0) {
        return Err(placed.bad_weight("Envoy takes weights from 1; leave the host out instead"));
    }
    if active.is_empty() {
        return Err(ProfileError::NoMember("give at least one active host"));
    }
    match input.params.locality_weights.as_deref() {
        None | Some([]) => {
            let sum = checked_sum("all hosts", active.iter().map(|placed| placed.member.weight))?;
            Ok(active.into_iter().map(|placed| host(placed, input.params, 1.0, sum)).collect())
        }
        Some(locality_weights) => weigh_by_locality(active, locality_weights, input.params),
    }
}

fn weigh_by_locality<'a>(
    active: Vec<Placed<'a>>,
    locality_weights: &[u32],
    params: &Params,
) -> Result<Vec<Host<'a>>, ProfileError> {
    let total = checked_sum("all localities", locality_weights.iter().copied())?;
    let mut localities: Vec<Vec<Placed<'a>>> = vec![Vec::new(); locality_weights.len()];
    for placed in active {
        let locality = placed.member.locality.and_then(|locality| localities.get_mut(locality as usize));
        let Some(locality) = locality else {
            let (place, key) = (placed.place, placed.member.key.into());
            return Err(ProfileError::Locality { place, key, last: locality_weights.len() - 1 });
        };
        locality.push(placed);
    }
    let mut hosts = Vec::new();
    for (members, &weight) in localities.into_iter().zip(locality_weights) {
        if weight == 0 {
            continue;
        }
        let share = f64::from(weight) / total as f64;
        let sum = checked_sum("a locality", members.iter().map(|placed| placed.member.weight))?;
        hosts.extend(members.into_iter().map(|placed| host(placed, params, share, sum)));
    }
    if hosts.is_empty() {
        return Err(ProfileError::NoMember(
            "every host is in a locality of weight 0; raise a locality's weight",
        ));
    }
    Ok(hosts)
}

fn host<'a>(placed: Placed<'a>, params: &Params, share: f64, sum: u64) -> Host<'a> {
    // One multiplication, then one division: another order rounds differently.
    let weight = f64::from(placed.member.weight) * share / sum as f64;
    Host { placed, key: hashed_key(&placed.member, params), weight }
}

fn checked_sum(of: &'static str, weights: impl Iterator<Item = u32>) -> Result<u64, ProfileError> {
    let sum = weights.map(u64::from).sum();
    if sum > LIMIT {
        return Err(ProfileError::WeightSum { of, sum, limit: LIMIT });
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Profile, build};

    fn owners(size: u32, members: &[Member<'_>], params: &Params) -> Vec<u32> {
        build(Profile::Envoy, size, members, params).unwrap().table.iter().collect()
    }

    #[test]
    fn tables_that_envoys_own_tests_expect() {
        let keys: Vec<String> = (90..96).map(|port| alloc::format!("127.0.0.1:{port}")).collect();
        let names: Vec<String> = (90..96).map(|name| alloc::format!("{name}")).collect();
        let members: Vec<_> = keys
            .iter()
            .zip(&names)
            .map(|(key, name)| Member { hostname: Some(name), ..Member::new(key, 1) })
            .collect();
        let hostnames = Params { use_hostname_for_hashing: true, ..Params::default() };
        assert_eq!(owners(7, &members, &Params::default()), [2, 4, 0, 1, 5, 0, 3]);
        assert_eq!(owners(7, &members, &hostnames), [2, 5, 0, 3, 4, 1, 0]);
        let weighted = [Member::new(&keys[0], 1), Member::new(&keys[1], 2)];
        assert_eq!(
            owners(17, &weighted, &Params::default()),
            [1, 0, 0, 1, 0, 1, 1, 0, 1, 1, 1, 1, 1, 0, 1, 0, 1]
        );
    }

    #[test]
    fn refuses_what_envoy_refuses() {
        let error = |size, members: &[Member<'_>], params: &Params| {
            build(Profile::Envoy, size, members, params).unwrap_err()
        };
        let plain = Params::default();
        let one = [Member::new("a:1", 1)];
        for size in [0, 1, 4, 65_536, 5_000_021] {
            assert!(matches!(error(size, &one, &plain), ProfileError::Size { .. }), "{size}");
        }
        assert!(matches!(error(7, &[], &plain), ProfileError::NoMember(_)));
        assert!(matches!(error(7, &[Member::new("a:1", 0)], &plain), ProfileError::Weight { .. }));
        let heavy = [Member::new("a:1", u32::MAX), Member::new("b:1", 1)];
        assert!(matches!(error(7, &heavy, &plain), ProfileError::WeightSum { .. }));
        let localities =
            |weights: &[u32]| Params { locality_weights: Some(weights.to_vec()), ..Params::default() };
        assert!(matches!(error(7, &one, &localities(&[1])), ProfileError::Locality { .. }));
        let placed = [one[0].in_locality(0), Member::new("b:1", 1).in_locality(1)];
        assert!(matches!(error(7, &placed, &localities(&[0, 0])), ProfileError::NoMember(_)));
        assert!(matches!(error(7, &placed, &localities(&[u32::MAX, 1])), ProfileError::WeightSum { .. }));
        assert_eq!(owners(7, &placed, &localities(&[0, 1])), [1; 7]);
    }

    #[test]
    fn more_hosts_than_slots_serve_the_first_in_key_order() {
        let members = ["d:1", "c:1", "b:1", "a:1"].map(|key| Member::new(key, 1));
        let built = build(Profile::Envoy, 3, &members, &Params::default()).unwrap();
        assert_eq!(built.table.counts(4), [0, 1, 1, 1]);
        assert!(matches!(built.warnings[..], [Warning::Starved { members: 1, .. }]));
    }

    #[test]
    fn request_hashes() {
        assert_eq!(header_hash(&[b"b", b"a"]), xxh64(b"b", xxh64(b"a", 0)));
        assert_eq!(retry_hash(5, 0), 5);
        assert_eq!(retry_hash(5, 1), !5);
        assert_eq!(combine(0, 9), 9);
        assert_eq!(combine(1 << 63, 0), 1);
        assert_eq!(source_ip_hash([10, 0, 0, 1].into()), xxh64(b"10.0.0.1", 0));
    }
}
