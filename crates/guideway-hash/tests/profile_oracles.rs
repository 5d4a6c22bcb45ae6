//! Each profile's table equals a slow, literal transcription of its system's rule, for random members and sizes.
//!
//! The transcriptions share nothing with the library but the hash functions, which have vectors of their own: they
//! compute every place of a walk by multiplication, keep all state in plain arrays, and never take a short cut.

use std::net::IpAddr;

use guideway_hash::profile::{
    self, Member, Params, Profile, ProfileError, cilium, ipvs, katran,
    primitive::{clib_xxhash::clib_xxhash, murmur3::murmur3_x64_128, siphash::siphash, xxh64::xxh64},
};
use proptest::prelude::*;

const FREE: u32 = u32::MAX;

/// The table, or `None` where there are no members to own it.
fn table(profile: Profile, size: u32, members: &[Member<'_>], params: &Params) -> Option<Vec<u32>> {
    match profile::build(profile, size, members, params) {
        Ok(built) => Some(built.table.iter().collect()),
        Err(ProfileError::NoMember(_)) => None,
        Err(other) => panic!("{profile}, {size} slots, {members:?}: {other}"),
    }
}

/// A table under construction, with each backend's place on its walk.
struct Filling {
    owners: Vec<u32>,
    walks: Vec<(u64, u64)>,
    next: Vec<u64>,
    left: u32,
}

impl Filling {
    fn new(size: u32, walks: Vec<(u64, u64)>) -> Self {
        Self { owners: vec![FREE; size as usize], next: vec![0; walks.len()], walks, left: size }
    }

    /// One turn; whether slots are left.
    fn turn(&mut self, who: usize, place: u32) -> bool {
        let size = self.owners.len() as u64;
        loop {
            let (offset, skip) = self.walks[who];
            let slot = ((offset + self.next[who] * skip) % size) as usize;
            self.next[who] += 1;
            if self.owners[slot] == FREE {
                self.owners[slot] = place;
                self.left -= 1;
                return self.left > 0;
            }
        }
    }

    /// Turns in rounds until the table is full.
    fn rounds(mut self, places: &[u32]) -> Vec<u32> {
        'full: loop {
            for (who, &place) in places.iter().enumerate() {
                if !self.turn(who, place) {
                    break 'full;
                }
            }
        }
        self.owners
    }
}

fn places_sorted_by<K: Ord>(count: usize, key: impl Fn(usize) -> K) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by_key(|&i| key(i));
    order
}

/// Envoy: `weights` are the normalised floats.
fn envoy(size: u32, keys: &[String], weights: &[f64]) -> Vec<u32> {
    let order = places_sorted_by(keys.len(), |i| keys[i].as_bytes());
    let m = u64::from(size);
    let walk = |&i: &usize| (xxh64(keys[i].as_bytes(), 0) % m, xxh64(keys[i].as_bytes(), 1) % (m - 1) + 1);
    let mut filling = Filling::new(size, order.iter().map(walk).collect());
    let mut heaviest = 0.0;
    for &weight in weights {
        heaviest = if weight > heaviest { weight } else { heaviest };
    }
    let mut targets = vec![0.0_f64; keys.len()];
    for iteration in 1_u32.. {
        for (who, &i) in order.iter().enumerate() {
            if f64::from(iteration) * weights[i] < targets[who] {
                continue;
            }
            targets[who] += heaviest;
            if !filling.turn(who, i as u32) {
                return filling.owners;
            }
        }
    }
    unreachable!("the table is full before the iterations run out")
}

fn cilium(size: u32, keys: &[String], weights: &[u32], seed: u32) -> Vec<u32> {
    let order = places_sorted_by(keys.len(), |i| keys[i].as_bytes());
    let m = u64::from(size);
    let walk = |&i: &usize| {
        let (h1, h2) = murmur3_x64_128(keys[i].as_bytes(), seed);
        (h1 % m, h2 % (m - 1) + 1)
    };
    let mut filling = Filling::new(size, order.iter().map(walk).collect());
    let n_backends = keys.len() as u64;
    let sum: u64 = weights.iter().map(|&w| u64::from(w)).sum();
    let used = sum / n_backends > 1;
    let mut counters: Vec<f64> = order.iter().map(|&i| f64::from(weights[i]) / n_backends as f64).collect();
    for n in 0..m {
        let mut who = (n % n_backends) as usize;
        loop {
            if used {
                if (n + 1) * u64::from(weights[order[who]]) < counters[who] as u64 {
                    who = (who + 1) % keys.len();
                    continue;
                }
                counters[who] += sum as f64;
            }
            filling.turn(who, order[who] as u32);
            break;
        }
    }
    filling.owners
}

/// Katran, both versions: walks wrap at 32 bits.
fn katran(version: Profile, size: u32, keys: &[String], weights: &[u32]) -> Option<Vec<u32>> {
    let hash = |i: usize| katran::address_hash(keys[i].parse().unwrap());
    let mut order = places_sorted_by(keys.len(), hash);
    order.retain(|&i| weights[i] > 0);
    if order.is_empty() {
        return None;
    }
    let murmur = |a: u64, b: u64, seed| murmur3_x64_128(&[a.to_le_bytes(), b.to_le_bytes()].concat(), seed).0;
    let walks: Vec<(u32, u32)> = order
        .iter()
        .map(|&i| {
            let offset = murmur(hash(i), 42, 0) % u64::from(size);
            let skip = murmur(hash(i), 2_718_281_828, 2_307) % u64::from(size - 1) + 1;
            (offset as u32, skip as u32)
        })
        .collect();
    let mut owners = vec![FREE; size as usize];
    let mut next = vec![0_u32; order.len()];
    let mut left = size;
    let mut place = |who: usize| {
        let (offset, skip) = walks[who];
        loop {
            let slot = offset.wrapping_add(next[who].wrapping_mul(skip)) % size;
            next[who] = next[who].wrapping_add(1);
            if owners[slot as usize] == FREE {
                owners[slot as usize] = order[who] as u32;
                left -= 1;
                return left > 0;
            }
        }
    };
    let mut turns: Vec<u64> = order.iter().map(|&i| weights[i].into()).collect();
    let heaviest = turns.iter().copied().max().unwrap();
    let mut credit = vec![0; order.len()];
    'full: loop {
        for who in 0..order.len() {
            if version == Profile::KatranV1 {
                for _ in 0..turns[who] {
                    if !place(who) {
                        break 'full;
                    }
                }
                turns[who] = 1;
            } else {
                credit[who] += turns[who];
                if credit[who] >= heaviest {
                    credit[who] -= heaviest;
                    if !place(who) {
                        break 'full;
                    }
                }
            }
        }
    }
    Some(owners)
}

fn ipvs(tab_index: u32, keys: &[String], weights: &[u32]) -> Option<Vec<u32>> {
    let size = ipvs::SIZES[tab_index as usize - 8];
    let fold = |i: usize| {
        let (ip, port) = keys[i].rsplit_once(':').unwrap();
        let address = match ip.trim_matches(['[', ']']).parse().unwrap() {
            IpAddr::V4(v4) => u32::from_be_bytes(v4.octets()),
            IpAddr::V6(v6) => v6
                .octets()
                .chunks(4)
                .map(|word| u32::from_be_bytes(word.try_into().unwrap()))
                .fold(0, |a, b| a ^ b),
        };
        address.wrapping_add(port.parse().unwrap())
    };
    let hash = |key: u64, i: usize| siphash::<1, 3>(key, key, &fold(i).to_le_bytes()) as u32;
    // The head of the list is what was added last.
    let list: Vec<usize> = (0..keys.len()).rev().collect();
    let walk = |&i: &usize| {
        (u64::from(hash(2_654_435_761, i) % size), u64::from(hash(2_654_446_892, i) % (size - 1) + 1))
    };
    let mut filling = Filling::new(size, list.iter().map(walk).collect());
    let divisor = (1..=weights.iter().copied().max()?).rev().find(|d| weights.iter().all(|w| w % d == 0))?;
    let mut bits = 0;
    while (weights.iter().max()? / divisor) >> bits > 0 {
        bits += 1;
    }
    let shift = u32::saturating_sub(bits, tab_index / 2);
    loop {
        for (who, &i) in list.iter().enumerate() {
            let mut turns = (weights[i] / divisor) >> shift;
            if turns == 0 && weights[i] != 0 {
                turns = 1;
            }
            for _ in 0..turns {
                if !filling.turn(who, i as u32) {
                    return Some(filling.owners);
                }
            }
        }
    }
}

/// VPP: weights are replicas; all of them 1 before April 2026.
fn vpp(size: u32, keys: &[String], weights: &[u32]) -> Option<Vec<u32>> {
    let bytes = |i: usize| match keys[i].parse().unwrap() {
        IpAddr::V4(v4) => [&[0; 12], &v4.octets()[..]].concat(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    };
    let mut entries = Vec::new();
    for (i, &weight) in weights.iter().enumerate() {
        for replica in 0..weight {
            entries.push((replica, bytes(i), i as u32));
        }
    }
    entries.sort();
    if entries.is_empty() {
        return None;
    }
    let half = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
    let walks = entries.iter().map(|(replica, bytes, _)| {
        let hash = clib_xxhash(half(&bytes[..8]) ^ half(&bytes[8..]) ^ u64::from(*replica));
        let mask = u64::from(size - 1);
        ((hash >> 32) & mask, ((hash & 0xffff_ffff) | 1) & mask)
    });
    let filling = Filling::new(size, walks.collect());
    Some(filling.rounds(&entries.iter().map(|entry| entry.2).collect::<Vec<_>>()))
}

fn go_maglev(size: u32, keys: &[String], dead: &[u32]) -> Option<Vec<u32>> {
    if dead.len() == keys.len() {
        return None;
    }
    let m = u64::from(size);
    let walk = |key: &String| {
        let hash = siphash::<2, 4>(0xdead_beef_cafe_babe, 0, key.as_bytes());
        ((hash >> 32) % m, (hash & 0xffff_ffff) % (m - 1) + 1)
    };
    let mut filling = Filling::new(size, keys.iter().map(walk).collect());
    loop {
        let mut rest = dead;
        for i in 0..keys.len() {
            if rest.first() == Some(&(i as u32)) {
                rest = &rest[1..];
                continue;
            }
            if !filling.turn(i, i as u32) {
                return Some(filling.owners);
            }
        }
    }
}

fn reference(size: u32, keys: &[String]) -> Vec<u32> {
    let hash = |seed: u64, key: &str| {
        let mut hash = 0xcbf2_9ce4_8422_2325 ^ seed;
        for byte in key.bytes() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        hash ^ (hash >> 32)
    };
    let order = places_sorted_by(keys.len(), |i| keys[i].as_str());
    let m = u64::from(size);
    let walk = |&i: &usize| (hash(0x9e37_79b9, &keys[i]) % m, hash(0x85eb_ca6b, &keys[i]) % (m - 1) + 1);
    let filling = Filling::new(size, order.iter().map(walk).collect());
    filling.rounds(&order.iter().map(|&i| i as u32).collect::<Vec<_>>())
}

fn members<'a>(keys: &'a [String], weights: &[u32]) -> Vec<Member<'a>> {
    keys.iter().zip(weights).map(|(key, &weight)| Member::new(key, weight)).collect()
}

fn distinct<S: Strategy<Value = String>>(key: S, most: usize) -> impl Strategy<Value = Vec<String>> {
    prop::collection::hash_set(key, 1..=most).prop_map(|keys| keys.into_iter().collect())
}

fn name() -> impl Strategy<Value = String> {
    "[a-z0-9.:é-]{0,40}"
}

fn ip() -> impl Strategy<Value = IpAddr> {
    prop_oneof![
        any::<[u8; 4]>().prop_map(IpAddr::from),
        any::<[u8; 16]>().prop_map(IpAddr::from),
        (0..40_u8).prop_map(|last| IpAddr::from([10, 0, 0, last])),
        (0..40_u8).prop_map(|last| IpAddr::from([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last])),
    ]
}

fn address() -> impl Strategy<Value = String> {
    ip().prop_map(|ip| ip.to_string())
}

fn destination() -> impl Strategy<Value = String> {
    (ip(), prop_oneof![Just(80), any::<u16>()])
        .prop_map(|(ip, port)| std::net::SocketAddr::new(ip, port).to_string())
}

/// Weights of all sizes: small ones, equal ones, and such as differ by orders of magnitude.
fn weights(least: u32, most: u32) -> impl Strategy<Value = Vec<u32>> {
    let small = most.min(least + 9);
    prop_oneof![
        (least..=most).prop_map(|weight| vec![weight; 40]),
        prop::collection::vec(least..=small, 40),
        prop::collection::vec(least..=most, 40),
        prop::collection::vec(prop_oneof![9 => least..=small, 1 => least..=most], 40),
    ]
}

fn prime() -> impl Strategy<Value = u32> {
    prop::sample::select(vec![2, 3, 5, 7, 11, 13, 31, 101, 251, 1_021, 4_093])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn envoy_without_localities(size in prime(), keys in distinct(name(), 40), weights in weights(1, u32::MAX / 40)) {
        let weights = &weights[..keys.len()];
        let sum: u64 = weights.iter().map(|&w| u64::from(w)).sum();
        let parts: Vec<f64> = weights.iter().map(|&w| f64::from(w) * 1.0 / sum as f64).collect();
        let got = table(Profile::Envoy, size, &members(&keys, weights), &Params::default());
        prop_assert_eq!(got, Some(envoy(size, &keys, &parts)));
    }

    #[test]
    fn envoy_with_localities(
        size in prime(),
        keys in distinct(name(), 40),
        weights in weights(1, 100_000),
        locality_weights in prop::collection::vec(prop_oneof![0..4_u32, 0..u32::MAX / 4], 4),
    ) {
        let members: Vec<Member<'_>> = members(&keys, &weights[..keys.len()])
            .into_iter().enumerate().map(|(i, member)| member.in_locality(i as u32 % 4)).collect();
        let params = Params { locality_weights: Some(locality_weights.clone()), ..Params::default() };
        let total: u64 = locality_weights.iter().map(|&w| u64::from(w)).sum();
        let (mut places, mut names, mut parts) = (vec![], vec![], vec![]);
        for (i, key) in keys.iter().enumerate() {
            let share = f64::from(locality_weights[i % 4]) / total as f64;
            let sum: u64 = (0..keys.len()).filter(|j| j % 4 == i % 4).map(|j| u64::from(weights[j])).sum();
            if locality_weights[i % 4] > 0 {
                places.push(i as u32);
                names.push(key.clone());
                parts.push(f64::from(weights[i]) * share / sum as f64);
            }
        }
        let want = (!names.is_empty())
            .then(|| envoy(size, &names, &parts).into_iter().map(|owner| places[owner as usize]).collect());
        prop_assert_eq!(table(Profile::Envoy, size, &members, &params), want);
    }

    #[test]
    fn cilium_by_weights(index in 0..6_usize, keys in distinct(name(), 40), weights in weights(0, 65_535), seed: u32) {
        let (size, weights) = (cilium::SIZES[index], &weights[..keys.len()]);
        let seeds = cilium::Seeds { murmur: seed, ..cilium::Seeds::DEFAULT };
        let got = table(Profile::Cilium, size, &members(&keys, weights), &Params { seeds, ..Params::default() });
        prop_assert_eq!(got, Some(cilium(size, &keys, weights, seed)));
    }

    #[test]
    fn katran_both_versions(size in prime(), keys in distinct(address(), 40), weights in weights(0, 100_000)) {
        let weights = &weights[..keys.len()];
        for version in [Profile::KatranV1, Profile::KatranV2] {
            let got = table(version, size, &members(&keys, weights), &Params::default());
            prop_assert_eq!(got, katran(version, size, &keys, weights));
        }
    }

    #[test]
    fn ipvs_by_weights(tab_index in 8..14_u32, keys in distinct(destination(), 40), weights in weights(0, 5_000), unit in 1..200_u32) {
        let weights: Vec<u32> = weights[..keys.len()].iter().map(|w| w * unit).collect();
        let size = ipvs::SIZES[tab_index as usize - 8];
        let got = table(Profile::IpvsMh, size, &members(&keys, &weights), &Params::default());
        prop_assert_eq!(got, ipvs(tab_index, &keys, &weights));
    }

    #[test]
    fn vpp_both_rules(exponent in 0..13_u32, keys in distinct(address(), 40), weights in weights(0, 100)) {
        let (size, weights) = (1 << exponent, &weights[..keys.len()]);
        let got = table(Profile::Vpp, size, &members(&keys, weights), &Params::default());
        prop_assert_eq!(got, vpp(size, &keys, weights));
        let ones = vec![1; keys.len()];
        let got = table(Profile::Vpp2602, size, &members(&keys, &vec![100; keys.len()]), &Params::default());
        prop_assert_eq!(got, vpp(size, &keys, &ones));
    }

    #[test]
    fn go_maglev_with_dead(size in prime(), keys in prop::collection::vec(name(), 1..40), dead in prop::collection::btree_set(0..40_u32, 0..40)) {
        let dead: Vec<u32> = dead.into_iter().filter(|&place| (place as usize) < keys.len()).collect();
        let params = Params { dead: dead.clone(), ..Params::default() };
        let got = table(Profile::GoMaglev, size, &members(&keys, &vec![1; keys.len()]), &params);
        prop_assert_eq!(got, go_maglev(size, &keys, &dead));
    }

    #[test]
    fn reference_and_poise(size in prime(), keys in distinct(name(), 40)) {
        prop_assume!(keys.len() <= size as usize);
        let members = members(&keys, &vec![1; keys.len()]);
        prop_assert_eq!(table(Profile::Reference, size, &members, &Params::default()), Some(reference(size, &keys)));

        // poise-core shows single picks only, so a request key is looked for every slot that a small table has.
        let got = profile::build(Profile::Poise, size, &members, &Params::default()).unwrap().table;
        let mut policy = poise_core::policy::Maglev::new(poise_core::policy::MaglevConfig::new(size as usize).unwrap());
        let backends: Vec<_> = keys.iter().map(|key| poise_core::Backend::new(key.as_str())).collect();
        for request in 0..(4 * size).min(2_000) {
            let request = request.to_string();
            let want = poise_core::Policy::pick(&mut policy, &backends, request.as_str()).unwrap().index();
            let slot = Profile::Poise.locate_key(&request, size, &Params::default()).unwrap().slot;
            prop_assert_eq!(got.owner(slot) as usize, want);
        }
    }

    #[test]
    fn xxh64_is_the_one_of_xxhash_rust(bytes in prop::collection::vec(any::<u8>(), 0..200), seed: u64) {
        prop_assert_eq!(xxh64(&bytes, seed), xxhash_rust::xxh64::xxh64(&bytes, seed));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4))]

    #[test]
    fn katran_rings_beyond_which_walks_wrap(keys in distinct(address(), 40), weights in weights(0, 1_000)) {
        let weights = &weights[..keys.len()];
        for version in [Profile::KatranV1, Profile::KatranV2] {
            let got = table(version, 262_139, &members(&keys, weights), &Params::default());
            prop_assert_eq!(got, katran(version, 262_139, &keys, weights));
        }
    }
}
