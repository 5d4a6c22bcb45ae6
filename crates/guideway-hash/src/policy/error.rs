//! Why a policy refuses.

use alloc::collections::TryReserveError;

use crate::maglev::BuildError;

/// Why [`Policy::reconcile`](super::Policy::reconcile) left the last good state in place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReconcileError {
    /// Two eligible candidates have one identity.
    #[error(
        "candidates {first} and {second} have the same identity; give each backend an identity of its own"
    )]
    Duplicate {
        /// The place of the first in the slice.
        first: usize,
        /// The place of the second.
        second: usize,
    },
    /// More eligible candidates than the policy can tell apart or give a share.
    #[error(
        "{eligible} eligible candidates are more than the {limit} that {policy} can hold; take fewer, or a larger table"
    )]
    TooMany {
        /// Eligible candidates offered.
        eligible: usize,
        /// The most that this policy takes.
        limit: usize,
        /// The policy's name.
        policy: &'static str,
    },
    /// No candidate may take new flows.
    #[error(
        "none of the {candidates} candidates is eligible; at least one must be enabled with a weight above 0"
    )]
    NoneEligible {
        /// Candidates offered.
        candidates: usize,
    },
    /// The weights ask for more virtual nodes than the ring may have.
    #[error(
        "the weights ask for a ring of {points} points and the limit is {limit}; lower the weights or the points per weight"
    )]
    RingTooLarge {
        /// Points asked for.
        points: u64,
        /// Points allowed.
        limit: u64,
    },
    /// Memory could not be had.
    #[error("out of memory while building the new state; the last good state stays in use")]
    Allocation,
    /// The Maglev table could not be built.
    #[error("the Maglev table could not be built: {0}")]
    Maglev(#[source] BuildError),
}

impl From<TryReserveError> for ReconcileError {
    fn from(_: TryReserveError) -> Self {
        Self::Allocation
    }
}

/// Why [`Policy::pick_checked`](super::Policy::pick_checked) gave no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PickError {
    /// Nothing was ever committed, or it was reset.
    #[error("no candidates are committed; call reconcile first")]
    NothingCommitted,
    /// The slice is not the one that the committed state was built from.
    #[error(
        "candidate {at} is not what generation {generation} was built from; call reconcile before picking"
    )]
    Stale {
        /// The first place in the slice that differs; the slice's length if it is too short.
        at: usize,
        /// The committed generation.
        generation: u64,
    },
}
