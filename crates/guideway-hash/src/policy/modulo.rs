//! The naive baseline.

use super::{Correspondence, ReconcileError, Roster, Rule};
use crate::hash::StableHasher;

/// The remainder of the hash by the number of backends: what everybody tries first.
///
/// **Rule.** Backend number `hash mod N`, in canonical order of identity.
///
/// **Cost.** One division a pick; nothing else.
///
/// **When.** Never where a flow should stay with its backend: from N to N + 1 backends, all but `1 / (N + 1)` of the keys
/// move, most of them needlessly. It is here as the baseline that the other policies are measured against. No weights.
///
/// **Source.** Folklore; D. Karger et al. (STOC 1997) start from its failure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Modulo;

impl Rule for Modulo {
    type Built = u32;

    fn name(&self) -> &'static str {
        "modulo"
    }

    fn is_weighted(&self) -> bool {
        false
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
    fn owner(backends: &u32, hash: u64) -> u32 {
        (hash % u64::from(*backends)) as u32
    }
}
