//! Jump consistent hashing.

use super::{Correspondence, ReconcileError, Roster, Rule};
use crate::hash::StableHasher;

/// Jump hashing: a few arithmetic steps number the bucket, and no memory is needed.
///
/// **Rule.** The flow's hash seeds a generator of pseudo-random numbers that says at which numbers of buckets the key would
/// jump to the newest one; the last such jump is its bucket. Buckets are the backends in canonical order of identity.
///
/// **Cost.** About ln N steps a pick, each with one division. A change costs nothing. Only the list of backends is held.
///
/// **When.** Shards that are numbered, and are added or taken away at the end: then exactly `1 / N` of the keys move. Take a
/// backend out of the middle and all later ones change their number, so about half the keys move: it is no policy for
/// backends that may fail. No weights.
///
/// **The same on all machines.** Its two floating-point steps, a division and a multiplication of `f64`, are ones that IEEE 754
/// rounds in exactly one way.
///
/// **Source.** J. Lamping and E. Veach, "A Fast, Minimal Memory, Consistent Hash Algorithm", arXiv 1406.2294, 2014.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Jump;

impl Rule for Jump {
    type Built = u32;

    fn name(&self) -> &'static str {
        "jump"
    }

    fn is_weighted(&self) -> bool {
        false
    }

    fn limit(&self) -> usize {
        i32::MAX as usize
    }

    fn build<H: StableHasher>(
        &self,
        _hasher: &H,
        roster: &Roster,
        _prior: Option<(&u32, &Correspondence)>,
    ) -> Result<u32, ReconcileError> {
        Ok(roster.len() as u32)
    }

    #[inline]
    fn owner(buckets: &u32, hash: u64) -> u32 {
        jump_hash(hash, *buckets)
    }
}

/// The bucket of `key` among `buckets`, as the paper's figure 1 gives it; 0 when there are none.
pub fn jump_hash(mut key: u64, buckets: u32) -> u32 {
    let (mut bucket, mut next) = (0i64, 0i64);
    while next < i64::from(buckets) {
        bucket = next;
        key = key.wrapping_mul(2_862_933_555_777_941_757).wrapping_add(1);
        next = ((bucket + 1) as f64 * ((1i64 << 31) as f64 / ((key >> 33) + 1) as f64)) as i64;
    }
    bucket as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_published_values() {
        // From the test of the implementation in Go by D. Gryski and others: (key, buckets, bucket).
        for (key, buckets, bucket) in
            [(1, 1, 0), (42, 57, 43), (0xdead_10cc, 1, 0), (0xdead_10cc, 666, 361), (256, 1024, 520)]
        {
            assert_eq!(jump_hash(key, buckets), bucket, "key {key} among {buckets}");
        }
    }

    #[test]
    fn a_new_bucket_takes_its_share_and_nothing_else_moves() {
        for buckets in 1..50 {
            let mut taken = 0;
            for key in 0..2000u64 {
                let key = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                let (before, after) = (jump_hash(key, buckets), jump_hash(key, buckets + 1));
                assert!(after == before || after == buckets);
                taken += u32::from(after == buckets);
            }
            let fair = 2000 / (buckets + 1);
            assert!(taken.abs_diff(fair) < 10 + 5 * fair.isqrt(), "{taken} of 2000 to bucket {buckets}");
        }
    }
}
