//! Ring hashing, the original consistent hashing.

use alloc::vec::Vec;

use super::{Correspondence, ReconcileError, Roster, Rule};
use crate::hash::{self, StableHasher, native};

/// Ring hashing: virtual nodes on a circle, the next one clockwise owns the key.
///
/// **Rule.** A backend of weight w puts `w x points per weight` points on the circle of 64-bit numbers, the p-th at the
/// hash of p keyed by the hash of its identity. A key belongs to the first point at or after its hash, going round at the
/// end. The number of a backend's points depends on its own weight alone, so other backends' changes never move its points.
///
/// **Cost.** A pick is a binary search among V points. A change sorts them all again. 12 V bytes.
///
/// **When.** To get along with systems that use a ring. Nothing moves needlessly, but balance is bought with points: shares
/// vary by about `1 / sqrt(points)`, 8 % at the default of 160 points.
///
/// **Source.** D. Karger et al., "Consistent Hashing and Random Trees", STOC 1997; the number 160 from libketama (2007).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ring {
    points_per_weight: u32,
    limit: u32,
}

impl Ring {
    /// Points of a backend of weight 1, unless said otherwise.
    pub const DEFAULT_POINTS_PER_WEIGHT: u32 = 160;
    /// The most points of a ring, unless said otherwise: 8 Mi, 100 MB.
    pub const DEFAULT_LIMIT: u32 = 1 << 23;

    /// A ring with `points_per_weight` points for each unit of weight; 0 is taken as 1.
    ///
    /// Weights of a hundred and more need no more than one.
    pub fn new(points_per_weight: u32) -> Self {
        Self { points_per_weight: points_per_weight.max(1), limit: Self::DEFAULT_LIMIT }
    }

    /// The same, with at most `limit` points in all; more is an error when reconciling.
    #[must_use]
    pub fn with_limit(self, limit: u32) -> Self {
        Self { limit, ..self }
    }

    fn points(&self, weight: u32) -> u64 {
        u64::from(weight) * u64::from(self.points_per_weight)
    }
}

impl Default for Ring {
    fn default() -> Self {
        Self::new(Self::DEFAULT_POINTS_PER_WEIGHT)
    }
}

impl Rule for Ring {
    type Built = Points;

    fn name(&self) -> &'static str {
        "ring"
    }

    fn is_weighted(&self) -> bool {
        true
    }

    fn build<H: StableHasher>(
        &self,
        hasher: &H,
        roster: &Roster,
        _prior: Option<(&Points, &Correspondence)>,
    ) -> Result<Points, ReconcileError> {
        let limit = u64::from(self.limit);
        let points = roster.iter().fold(0u64, |sum, member| sum.saturating_add(self.points(member.weight)));
        if points > limit {
            return Err(ReconcileError::RingTooLarge { points, limit });
        }
        let mut sorted = Vec::new();
        sorted.try_reserve_exact(points as usize)?;
        for (position, member) in (0u32..).zip(roster.iter()) {
            let seed = hasher.hash(hash::RING, member.identity);
            let own = 0..self.points(member.weight);
            sorted.extend(own.map(|point| (native::hash_words(seed, &[point]), position)));
        }
        // Of points that coincide the first identity's comes first, and so owns what lies before them.
        sorted.sort_unstable();
        let (mut places, mut owners) = (Vec::new(), Vec::new());
        places.try_reserve_exact(sorted.len())?;
        owners.try_reserve_exact(sorted.len())?;
        places.extend(sorted.iter().map(|&(place, _)| place));
        owners.extend(sorted.iter().map(|&(_, owner)| owner));
        Ok(Points { places, owners })
    }

    #[inline]
    fn owner(points: &Points, hash: u64) -> u32 {
        let next = points.places.partition_point(|&place| place < hash);
        points.owners[if next == points.owners.len() { 0 } else { next }]
    }
}

/// The points of a ring, in order of place.
#[derive(Clone, Debug)]
pub struct Points {
    places: Vec<u64>,
    owners: Vec<u32>,
}

impl Points {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there are none; a built ring has some.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }
}
