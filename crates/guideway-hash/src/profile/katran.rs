//! Katran's V1 and V2 rings.
//!
//! # Rule
//! * **Key** of a real: its address. [`address_hash`] is folly's hash of it. An IPv4-mapped IPv6 address hashes as the
//!   IPv4 address.
//! * **Preferences**: `offset = M3(hash, 42, 0) mod ring`, `skip = M3(hash, 2718281828, 2307) mod (ring - 1) + 1`,
//!   where M3 is the first word of MurmurHash3 over the two words under that seed. Place k of the walk is
//!   `(offset + k * skip) mod ring` with the sum in 32 bits, wrapping: on rings above 65,536 slots a walk can
//!   jump.
//! * **Order**: ascending by hash. Reals of weight 0 are left out.
//! * A single real owns the whole ring. **Turns** of several, V1: in the first round each real takes as many turns as its weight, from then on one a round. V2: each
//!   round adds a real's weight to its credit; from the largest weight on it takes a turn and pays that.
//!
//! # Limits
//! The ring is prime, 65,537 unless told otherwise. No real left: Katran keeps the ring it had; here there is none to
//! keep, so it is an error.
//!
//! # Known defects
//! V1 honours weights in the first round alone: ten reals of weights 1 to 10 get 6,549 to 6,558 slots each. Equal
//! hashes leave the order open (here: that of the input, with a warning). With a skip of 65,536 on a ring of 65,537 one
//! slot is never reached; whoever needs it looks for ever (here: an error).
//!
//! # Flow hash
//! [`flow_hash`]: jhash of the client's address and of both ports. The VIP's address and the protocol stay out.
//!
//! Source: Katran, `katran/lib/{Vip,MaglevBase,MaglevHash,MaglevHashV2}.cpp`, `katran/lib/bpf/balancer.bpf.c`; folly,
//! `IPAddressV4.h`, `IPAddressV6.h`.

use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{
    Built, Flow, Input, ProfileError, Warning,
    agenda::Agenda,
    assemble,
    member::Placed,
    primitive::{
        city::hash_128_to_64, fnv::folly_fnv32, jhash, murmur3::murmur3_x64_128,
        spooky::spooky_v2_128_of_16_bytes,
    },
    repeated,
    walk::{self, Walk},
};
use crate::maglev::{Preference, RoundRobin, Turns};

/// folly's `IPAddress::hash()`, as Katran takes it for a real.
#[must_use]
pub fn address_hash(address: IpAddr) -> u64 {
    const AF_INET: u64 = 2;
    const AF_INET6: u64 = 10;
    match address.to_canonical() {
        IpAddr::V4(v4) => hash_128_to_64(AF_INET, folly_fnv32(&v4.octets()).into()),
        IpAddr::V6(v6) => {
            let (h1, h2) = spooky_v2_128_of_16_bytes(&v6.octets());
            hash_128_to_64(AF_INET6, hash_128_to_64(h1, h2))
        }
    }
}

/// The offset and skip of a real with this hash, on a ring of `size` slots (2 or more).
#[must_use]
pub fn preference(hash: u64, size: u32) -> Preference {
    let size = u64::from(size);
    Preference {
        offset: (murmur_pair(hash, 42, 0) % size) as u32,
        skip: (murmur_pair(hash, 2_718_281_828, 2_307) % (size - 1) + 1) as u32,
    }
}

fn murmur_pair(a: u64, b: u64, seed: u32) -> u64 {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&a.to_le_bytes());
    bytes[8..].copy_from_slice(&b.to_le_bytes());
    murmur3_x64_128(&bytes, seed).0
}

/// The flags of a VIP that change which ports and addresses are hashed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortRules {
    /// The VIP was found through its entry for port 0.
    pub port_0_vip: bool,
    /// `HASH_NO_SRC_PORT`: the client's port counts as 0.
    pub no_source_port: bool,
    /// `HASH_DPORT_ONLY`: only the destination port is hashed, twice, and no address.
    pub destination_port_only: bool,
    /// `HASH_SRC_DST_PORT`: a VIP of port 0 hashes the destination port all the same.
    pub source_and_destination_port: bool,
}

/// The hash of a flow; its slot is this modulo the ring's size.
///
/// For an ICMP error give the flow that its inner packet belongs to, as the client sends it.
#[must_use]
pub fn flow_hash(flow: &Flow, rules: PortRules) -> u32 {
    const MAX_VIPS: u32 = 512;
    const RING: u32 = 65_537;
    let (mut source, mut source_port, mut destination_port) =
        (flow.source, flow.source_port, flow.destination_port);
    if rules.port_0_vip && !rules.destination_port_only && !rules.source_and_destination_port {
        destination_port = 0;
    }
    if rules.no_source_port {
        source_port = 0;
    }
    if rules.destination_port_only {
        source_port = destination_port;
        source = match source {
            IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        };
    }
    let address = match source {
        IpAddr::V4(v4) => u32::from_le_bytes(v4.octets()),
        IpAddr::V6(v6) => jhash::jhash(&v6.octets(), MAX_VIPS),
    };
    // Both ports as one load from the wire.
    let ports = u32::from(destination_port.swap_bytes()) << 16 | u32::from(source_port.swap_bytes());
    jhash::jhash_2words(address, ports, MAX_VIPS * RING)
}

pub(super) fn build_v1(input: &Input<'_>) -> Result<Built, ProfileError> {
    let (reals, mut warnings) = reals(input)?;
    if !alike(&reals) {
        let sum: u64 = reals.iter().map(|real| u64::from(real.placed.member.weight)).sum();
        if sum < u64::from(input.size) / 10 * 9 {
            warnings.push(Warning::WeightsIgnored(
                "V1 honours them in the first round only; make them add up to about the ring size, or take katran-v2",
            ));
        } else if sum > u64::from(input.size) {
            warnings.push(Warning::WeightsDistorted(
                "they add up to more than the ring, which is full before the last real's turn",
            ));
        }
    }
    let weights = reals.iter().map(|real| real.placed.member.weight).collect();
    fill(input, &reals, FirstRound::new(weights), warnings)
}

pub(super) fn build_v2(input: &Input<'_>) -> Result<Built, ProfileError> {
    let (reals, warnings) = reals(input)?;
    if alike(&reals) {
        return fill(input, &reals, RoundRobin::new(reals.len() as u32), warnings);
    }
    let weights: Vec<u64> = reals.iter().map(|real| real.placed.member.weight.into()).collect();
    let heaviest = weights.iter().copied().max().unwrap_or(1);
    let crowding = weights.len() as f64 * heaviest as f64 / weights.iter().sum::<u64>() as f64;
    fill(input, &reals, Agenda::new(weights, heaviest, heaviest, crowding), warnings)
}

struct Real<'a> {
    placed: Placed<'a>,
    hash: u64,
}

fn alike(reals: &[Real<'_>]) -> bool {
    reals.windows(2).all(|pair| pair[0].placed.member.weight == pair[1].placed.member.weight)
}

/// The reals that take turns, in the ring's order.
fn reals<'a>(input: &Input<'a>) -> Result<(Vec<Real<'a>>, Vec<Warning>), ProfileError> {
    let mut warnings = Vec::new();
    let members = input.active();
    let addresses = members.iter().map(Placed::address).collect::<Result<Vec<IpAddr>, _>>()?;
    input.check_distinct(&members, |index| addresses[index])?;
    let hashed = members.into_iter().zip(&addresses);
    let mut reals: Vec<Real<'a>> = hashed
        .filter(|(placed, _)| placed.member.weight > 0)
        .map(|(placed, &address)| Real { placed, hash: address_hash(address) })
        .collect();
    if reals.is_empty() {
        return Err(ProfileError::NoMember(
            "give at least one active real of positive weight (Katran would keep its last ring)",
        ));
    }
    reals.sort_by_key(|real| real.hash);
    let ties = repeated(reals.len(), |index| reals[index].hash);
    if !ties.is_empty() {
        warnings.push(Warning::NotReproducible(
            "two reals have one hash, and the system leaves their order open",
        ));
    }
    input.warn_of_starved(
        reals.len(),
        "there are more reals than slots, and those last in hash order get none",
        &mut warnings,
    );
    Ok((reals, warnings))
}

fn fill(
    input: &Input<'_>,
    reals: &[Real<'_>],
    turns: impl Turns,
    warnings: Vec<Warning>,
) -> Result<Built, ProfileError> {
    let preferences: Vec<Preference> = reals.iter().map(|real| preference(real.hash, input.size)).collect();
    let members: Vec<Placed<'_>> = reals.iter().map(|real| real.placed).collect();
    let table = if let [only] = members[..] {
        // Katran doesn't walk for a single real, so none can get stuck.
        assemble::relabel(input, core::iter::repeat_n(only.place, input.size as usize), |place| place)?
    } else if preferences.iter().any(|preference| wraps(*preference, input.size)) {
        let mut walks: Vec<Wrapping> =
            preferences.iter().map(|&preference| Wrapping::new(preference, input.size)).collect();
        let owners = walk::fill(input.size, &mut walks, turns).map_err(|stuck| {
            let placed = members[stuck.backend];
            let remedy = "take a smaller ring, or 65537 slots with other reals";
            ProfileError::Endless {
                place: placed.place,
                key: placed.member.key.into(),
                free: stuck.free,
                remedy,
            }
        })?;
        assemble::relabel(input, owners.into_iter(), |index| members[index as usize].place)?
    } else {
        assemble::fill(input, &members, &preferences, turns)?
    };
    Ok(Built { table, secondary: None, warnings })
}

/// Whether the walk reaches 2^32 within one tour of the ring. From there on it is no longer a permutation.
fn wraps(preference: Preference, size: u32) -> bool {
    let last = u64::from(preference.offset) + u64::from(size - 1) * u64::from(preference.skip);
    last > u64::from(u32::MAX)
}

/// A walk whose sum wraps at 2^32 before the remainder is taken.
struct Wrapping {
    sum: u32,
    slot: u32,
    skip: u32,
    size: u32,
}

impl Wrapping {
    fn new(preference: Preference, size: u32) -> Self {
        Self { sum: preference.offset, slot: preference.offset, skip: preference.skip, size }
    }
}

impl Walk for Wrapping {
    fn advance(&mut self) -> u32 {
        let here = self.slot;
        let (sum, wrapped) = self.sum.overflowing_add(self.skip);
        self.sum = sum;
        self.slot = if wrapped { sum % self.size } else { walk::step(here, self.skip, self.size) };
        here
    }

    fn period(&self) -> u64 {
        // Multiples of the skip modulo 2^32 repeat after 2^32 / gcd(skip, 2^32).
        1 << (32 - self.skip.trailing_zeros())
    }
}

/// V1's turns: by weight in the first round, one each from then on.
struct FirstRound {
    weights: Vec<u32>,
    who: usize,
    left: u32,
    rest: RoundRobin,
}

impl FirstRound {
    fn new(weights: Vec<u32>) -> Self {
        Self {
            left: weights.first().copied().unwrap_or(0),
            rest: RoundRobin::new(weights.len() as u32),
            weights,
            who: 0,
        }
    }
}

impl Turns for FirstRound {
    fn next(&mut self) -> u32 {
        let Some(_) = self.weights.get(self.who) else {
            return self.rest.next();
        };
        let who = self.who as u32;
        self.left -= 1;
        if self.left == 0 {
            self.who += 1;
            self.left = self.weights.get(self.who).copied().unwrap_or(0);
        }
        who
    }
}

#[cfg(test)]
mod tests {
    use alloc::{format, string::String};

    use super::*;
    use crate::profile::{Member, Params, Profile, build};

    #[test]
    fn address_hashes() {
        for (address, want) in [
            ("10.0.0.1", 0xd671_359d_baa1_5954),
            ("10.0.0.2", 0x2cd4_26d0_08b9_0279),
            ("10.0.0.200", 0x28b0_13f8_9f94_d00d),
            ("fc00::1", 0x64e7_4a25_b986_d744),
            ("fc00::2", 0x87d2_4783_5b02_295b),
            ("::ffff:10.0.0.1", 0xd671_359d_baa1_5954_u64),
        ] {
            assert_eq!(address_hash(address.parse().unwrap()), want, "{address}");
        }
    }

    fn counts(profile: Profile, size: u32, weights: &[u32]) -> (Vec<u32>, Vec<Warning>) {
        let keys: Vec<String> = (1..=weights.len()).map(|i| format!("10.0.0.{i}")).collect();
        let members: Vec<_> =
            keys.iter().zip(weights).map(|(key, &weight)| Member::new(key, weight)).collect();
        let built = build(profile, size, &members, &Params::default()).unwrap();
        (built.table.counts(weights.len()), built.warnings)
    }

    #[test]
    fn v1_honours_weights_in_the_first_round_only() {
        let weights: Vec<u32> = (1..=10).collect();
        let (slots, warnings) = counts(Profile::KatranV1, 65_537, &weights);
        assert!(slots.iter().all(|count| (6_549..=6_558).contains(count)), "{slots:?}");
        assert!(matches!(warnings[..], [Warning::WeightsIgnored(_)]));
        let (slots, warnings) = counts(Profile::KatranV1, 65_537, &[16_384, 49_153]);
        assert_eq!((&slots[..], &warnings[..]), (&[16_384, 49_153][..], &[][..]));
    }

    #[test]
    fn v2_honours_weights() {
        let weights: Vec<u32> = (1..=10).collect();
        let (slots, warnings) = counts(Profile::KatranV2, 65_537, &weights);
        assert!(
            slots.iter().zip(&weights).all(|(&count, &weight)| count.abs_diff(65_537 * weight / 55) <= 2),
            "{slots:?}"
        );
        assert!(warnings.is_empty());
        assert_eq!(
            counts(Profile::KatranV2, 251, &[7, 7, 7]).0,
            counts(Profile::KatranV1, 251, &[1, 1, 1]).0
        );
    }

    #[test]
    fn a_wrapping_walk_is_followed_literally() {
        let preference = Preference { offset: 4_000_000, skip: 4_999_999 };
        let size = 5_000_011;
        assert!(wraps(preference, size));
        let mut walk = Wrapping::new(preference, size);
        for k in 0..3_000_u32 {
            let literal = preference.offset.wrapping_add(k.wrapping_mul(preference.skip)) % size;
            assert_eq!(walk.advance(), literal, "step {k}");
        }
        assert!(wraps(Preference { offset: 0, skip: 65_536 }, 65_537));
        assert!(wraps(Preference { offset: 65_536, skip: 65_535 }, 65_537));
        assert!(!wraps(Preference { offset: 65_535, skip: 65_535 }, 65_537));
    }

    #[test]
    fn a_walk_that_misses_a_slot_is_found_endless() {
        // Its skip is 65,536, so on a ring of 65,537 it never comes to the slot after its offset.
        let stuck = (0_u32..)
            .map(|n| Ipv4Addr::from_bits(0x0a00_0000 + n))
            .find(|&address| preference(address_hash(address.into()), 65_537).skip == 65_536);
        let stuck = format!("{}", stuck.unwrap());
        let built = |weight| {
            let members = [Member::new(&stuck, weight), Member::new("192.0.2.1", 1)];
            build(Profile::KatranV2, 65_537, &members, &Params::default())
        };
        // An equal real takes that slot in time; one that has two turns does not.
        assert_eq!(built(1).unwrap().table.counts(2).iter().sum::<u32>(), 65_537);
        let refused = built(30_000).unwrap_err();
        assert!(matches!(refused, ProfileError::Endless { place: 0, free: 1, .. }), "{refused}");
        let alone = build(Profile::KatranV2, 65_537, &[Member::new(&stuck, 1)], &Params::default()).unwrap();
        assert_eq!(alone.table.counts(1), [65_537]);
    }

    #[test]
    fn keys_are_addresses_and_differ() {
        let error = |keys: &[&str]| {
            let members: Vec<_> = keys.iter().map(|key| Member::new(key, 1)).collect();
            build(Profile::KatranV2, 7, &members, &Params::default()).unwrap_err()
        };
        assert!(matches!(error(&["10.0.0.1:80"]), ProfileError::Key { place: 0, .. }));
        assert!(matches!(error(&["fc00::1", "fc00:0::1"]), ProfileError::Duplicate { .. }));
        assert!(matches!(error(&[]), ProfileError::NoMember(_)));
    }
}
