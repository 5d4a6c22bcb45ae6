//! Who owns what, computed slowly and straight from the definitions: what experiments are held to in tests.
//!
//! Of the library it uses the hash function alone.

use guideway_hash::hash::{self, NativeHasher, StableHasher, native};

use crate::Contender;

/// A backend, by name and weight.
pub(crate) type Backend = (String, u32);

/// The name of the owner of each of `hashes`, for `backends` (all eligible) in any order.
pub(crate) fn owners(
    contender: Contender,
    slots: u32,
    seed: u64,
    backends: &[Backend],
    hashes: &[u64],
) -> Vec<String> {
    let mut sorted = backends.to_vec();
    sorted.sort();
    let hasher = NativeHasher::new(seed);
    let by_table = |table: Vec<usize>| -> Vec<String> {
        hashes.iter().map(|hash| sorted[table[(hash % u64::from(slots)) as usize]].0.clone()).collect()
    };
    let by_flow = |owner: &dyn Fn(u64) -> usize| -> Vec<String> {
        hashes.iter().map(|&hash| sorted[owner(hash)].0.clone()).collect()
    };
    match contender {
        Contender::Maglev => by_table(maglev(slots, &hasher, &sorted)),
        Contender::RendezvousTable => {
            by_table((0..u64::from(slots)).map(|slot| highest_bid(&hasher, &sorted, slot)).collect())
        }
        Contender::Rendezvous => by_flow(&|flow| highest_bid(&hasher, &sorted, flow)),
        Contender::Ring(points) => {
            let mut ring = Vec::new();
            for (place, (name, weight)) in sorted.iter().enumerate() {
                let key = hasher.hash(hash::RING, name.as_bytes());
                let own = u64::from(points) * u64::from(*weight);
                ring.extend((0..own).map(|point| (native::hash_words(key, &[point]), place)));
            }
            // The nearest point at or after the flow; the distance wraps at the end of the circle.
            by_flow(&|flow| ring.iter().min_by_key(|(at, place)| (at.wrapping_sub(flow), *place)).unwrap().1)
        }
        Contender::Jump => by_flow(&|flow| {
            // The definition: bucket n + 1 is jumped to with probability 1 / (n + 1), by the generator's numbers.
            let (mut key, mut bucket, mut next) = (flow, 0u64, 0u64);
            while next < sorted.len() as u64 {
                bucket = next;
                key = key.wrapping_mul(2_862_933_555_777_941_757).wrapping_add(1);
                let draw = ((key >> 33) + 1) as f64 / 2f64.powi(31);
                next = ((bucket + 1) as f64 * (1.0 / draw)).floor() as u64;
            }
            bucket as usize
        }),
        Contender::Modulo => by_flow(&|flow| (flow % sorted.len() as u64) as usize),
    }
}

/// The paper's loop (section 3.4), with turns by credit and quota where weights differ.
fn maglev(slots: u32, hasher: &NativeHasher, sorted: &[Backend]) -> Vec<usize> {
    let (size, weights) = (u64::from(slots), || sorted.iter().map(|&(_, weight)| u64::from(weight)));
    let (sum, heaviest) = (weights().sum::<u64>(), weights().max().unwrap());
    let mut quotas: Vec<u64> = weights().map(|weight| size * weight / sum).collect();
    assert!(quotas.iter().all(|&quota| quota > 0), "the slow way knows no shares below one slot");
    let mut by_remainder: Vec<usize> = (0..sorted.len()).collect();
    by_remainder.sort_by_key(|&place| std::cmp::Reverse(size * u64::from(sorted[place].1) % sum));
    for &place in by_remainder.iter().take((size - quotas.iter().sum::<u64>()) as usize) {
        quotas[place] += 1;
    }
    let walk = |place: usize, step: u64| {
        let name = sorted[place].0.as_bytes();
        let offset = u128::from(hasher.hash(hash::OFFSET, name) % size);
        let skip = u128::from(hasher.hash(hash::SKIP, name) % (size - 1) + 1);
        ((offset + u128::from(step) * skip) % u128::from(size)) as usize
    };
    let mut table = vec![None; slots as usize];
    let mut credits: Vec<u64> = weights().map(|weight| heaviest - weight).collect();
    let mut taken = vec![0u64; sorted.len()];
    while table.contains(&None) {
        for place in 0..sorted.len() {
            credits[place] += u64::from(sorted[place].1);
            if credits[place] < heaviest {
                continue;
            }
            credits[place] -= heaviest;
            if taken[place] < quotas[place] {
                taken[place] += 1;
                let free = (0..).map(|step| walk(place, step)).find(|&slot| table[slot].is_none());
                table[free.unwrap()] = Some(place);
            }
        }
    }
    table.into_iter().flatten().collect()
}

/// Who bids most for a key: weight over the negative logarithm of a number drawn for the pair.
fn highest_bid(hasher: &NativeHasher, sorted: &[Backend], key: u64) -> usize {
    let bid = |place: usize| {
        let (name, weight) = &sorted[place];
        let drawn = native::hash_words(hasher.hash(hash::RENDEZVOUS, name.as_bytes()), &[key]);
        f64::from(*weight) / -((drawn as f64 + 0.5) / 2f64.powi(64)).ln()
    };
    (0..sorted.len()).max_by(|&one, &other| bid(one).total_cmp(&bid(other))).unwrap()
}
