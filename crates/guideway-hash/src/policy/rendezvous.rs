//! Weighted rendezvous hashing: the best score wins.

use alloc::vec::Vec;

use super::logarithm::{self, Cost};
use super::{Correspondence, ReconcileError, Roster, Rule};
use crate::hash::{self, StableHasher, native};

/// Weighted rendezvous hashing, also called highest random weight: every backend bids for the key, the best bid wins.
///
/// **Rule.** Backend i of weight w has a hash of its identity, which keys a hash of the flow, read as a number u between
/// 0 and 1. Its score is `-w / ln u`. The highest score wins. A key then falls to i with probability `w_i / sum w`,
/// exactly, and a backend's score does not depend on the others: when one goes, only its keys move; when one comes or
/// gains weight, keys move to it alone; when one loses weight, from it alone.
///
/// **The same on all machines.** Scores are compared as fractions of integers, `cost / w` with the cost `-log2 u` of
/// [`logarithm`], by cross multiplication in 128 bits. No floating point takes part, and nothing is rounded after the
/// logarithm. Equal scores go to the backend whose identity comes first.
///
/// **Cost.** A pick hashes once for each backend: O(N). Only about ln N of them need the logarithm itself, because a
/// cheap bound rules out the rest. A change rebuilds a list of N words.
///
/// **When.** Few backends, or a pick that is rare beside the work it starts, and no needless move at all. For
/// many backends at packet rate, put the winners into a table: [`RendezvousTable`](super::RendezvousTable).
///
/// **Source.** D. Thaler and C. Ravishankar, "Using Name-Based Mappings to Increase Hit Rates", IEEE/ACM Transactions
/// on Networking 6(1), 1998. The weighted score: J. Resch, "New Hashing Algorithms for Data Storage", SNIA Storage
/// Developer Conference 2015.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rendezvous;

impl Rule for Rendezvous {
    type Built = Bidders;

    fn name(&self) -> &'static str {
        "rendezvous"
    }

    fn is_weighted(&self) -> bool {
        true
    }

    fn build<H: StableHasher>(
        &self,
        hasher: &H,
        roster: &Roster,
        _prior: Option<(&Bidders, &Correspondence)>,
    ) -> Result<Bidders, ReconcileError> {
        Bidders::new(hasher, roster)
    }

    #[inline]
    fn owner(bidders: &Bidders, hash: u64) -> u32 {
        bidders.winner(hash)
    }
}

/// Those who bid for a key, in canonical order.
#[derive(Clone, Debug)]
pub struct Bidders {
    bidders: Vec<Bidder>,
    /// Whether all have one weight.
    equal: bool,
}

#[derive(Clone, Copy, Debug)]
struct Bidder {
    /// The hash of its identity, which keys its bids.
    seed: u64,
    weight: u32,
}

/// A bid: who, and at what cost for what weight. The lowest `cost / weight` wins.
#[derive(Clone, Copy, Debug)]
struct Bid {
    position: u32,
    cost: Cost,
    weight: u32,
}

impl Bidders {
    pub(super) fn new<H: StableHasher>(hasher: &H, roster: &Roster) -> Result<Self, ReconcileError> {
        let mut bidders = Vec::new();
        bidders.try_reserve_exact(roster.len())?;
        bidders.extend(roster.iter().map(|member| Bidder {
            seed: hasher.hash(hash::RENDEZVOUS, member.identity),
            weight: member.weight,
        }));
        Ok(Self::of(bidders))
    }

    fn of(bidders: Vec<Bidder>) -> Self {
        let equal = bidders.windows(2).all(|pair| pair[0].weight == pair[1].weight);
        Self { bidders, equal }
    }

    /// The position of the one who wins `key`. There is at least one.
    #[inline]
    pub(super) fn winner(&self, key: u64) -> u32 {
        let mut best = self.bid(0, key);
        // Where all weights are equal, a hash below the limit loses to the best bid: no more of it need be known.
        let mut limit = if self.equal { logarithm::least_hash_within(best.cost) } else { 0 };
        for (position, bidder) in (0u32..).zip(&self.bidders).skip(1) {
            if native::hash_words(bidder.seed, &[key]) < limit {
                continue;
            }
            let better = self.better(best, position, key);
            if self.equal && better.position != best.position {
                limit = logarithm::least_hash_within(better.cost);
            }
            best = better;
        }
        best.position
    }

    /// The winner of `key` among `position` and those of `challengers`.
    #[inline]
    pub(super) fn winner_among(&self, position: u32, challengers: &[u32], key: u64) -> u32 {
        let bid = self.bid(position, key);
        challengers.iter().fold(bid, |best, &challenger| self.better(best, challenger, key)).position
    }

    fn bid(&self, position: u32, key: u64) -> Bid {
        let Bidder { seed, weight } = self.bidders[position as usize];
        Bid { position, cost: logarithm::cost(native::hash_words(seed, &[key])), weight }
    }

    /// The better of `best` and the bid of `position`.
    #[inline(always)]
    fn better(&self, best: Bid, position: u32, key: u64) -> Bid {
        let Bidder { seed, weight } = self.bidders[position as usize];
        let hash = native::hash_words(seed, &[key]);
        // cost / weight > best.cost / best.weight, without rounding
        let loses = |cost: Cost| {
            if weight == best.weight {
                return cost > best.cost;
            }
            u128::from(cost) * u128::from(best.weight) > u128::from(best.cost) * u128::from(weight)
        };
        if loses(logarithm::floor(hash)) {
            return best;
        }
        let cost = logarithm::cost(hash);
        if loses(cost) {
            return best;
        }
        let ties = u128::from(cost) * u128::from(best.weight) == u128::from(best.cost) * u128::from(weight);
        if ties && best.position < position { best } else { Bid { position, cost, weight } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NativeHasher;
    use crate::policy::Candidate;
    use proptest::prelude::*;

    fn bidders(weights: &[u32]) -> Bidders {
        let names: Vec<_> = (0..weights.len()).map(|i| alloc::format!("backend-{i:03}")).collect();
        let candidates: Vec<_> = names
            .iter()
            .zip(weights)
            .map(|(name, &weight)| Candidate::new(name).with_weight(weight))
            .collect();
        Bidders::new(&NativeHasher::default(), &Roster::new(&candidates).unwrap()).unwrap()
    }

    #[test]
    fn the_score_is_the_weight_over_the_logarithm() {
        let bidders = bidders(&[1, 2, 3, 5, 8, 13, 21]);
        for key in 0..10_000u64 {
            let score = |bidder: &Bidder| {
                let hash = native::hash_words(bidder.seed, &[key]) | 1;
                -f64::from(bidder.weight) / (hash as f64 / 2f64.powi(64)).ln()
            };
            let winner = bidders.winner(key);
            let best = bidders.bidders.iter().map(score).fold(0.0, f64::max);
            assert!(score(&bidders.bidders[winner as usize]) >= best * (1.0 - 1e-9), "key {key}");
        }
    }

    #[test]
    fn equal_scores_go_to_the_first_identity() {
        let twins = Bidders::of(alloc::vec![Bidder { seed: 7, weight: 3 }; 4]);
        assert!((0..100).all(|key| twins.winner(key) == 0));
        assert!((0..100).all(|key| twins.winner_among(2, &[3, 1], key) == 1));
    }

    proptest! {
        /// The bound must never rule out one who would have won.
        #[test]
        fn the_shortcut_changes_no_winner(
            equal: bool,
            mut weights in prop::collection::vec(prop_oneof![Just(1u32), 1..100u32, any::<u32>().prop_map(|w| w.max(1))], 1..20),
            key: u64,
        ) {
            if equal {
                weights.fill(3);
            }
            let bidders = bidders(&weights);
            let plain = (0..weights.len() as u32).map(|position| bidders.bid(position, key)).reduce(|a, b| {
                let (left, right) = (u128::from(a.cost) * u128::from(b.weight), u128::from(b.cost) * u128::from(a.weight));
                if left <= right { a } else { b }
            });
            prop_assert_eq!(bidders.winner(key), plain.unwrap().position);
        }
    }
}
