//! Why an experiment can't be made as it was asked for.

use guideway_hash::churn::ChurnError;
use guideway_hash::policy::ReconcileError;

/// Why an experiment can't be made as it was asked for. Found before any work is done, where it can be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// A number is outside of its range.
    #[error("{what} must be {least} to {most}, not {given}")]
    Range {
        /// Which.
        what: &'static str,
        /// What was given.
        given: u64,
        /// The least that works.
        least: u64,
        /// The most that works.
        most: u64,
    },
    /// A list is empty that decides what is computed.
    #[error("there is nothing to compute: name at least one {what}")]
    Nothing {
        /// What it lists.
        what: &'static str,
    },
    /// A table has fewer slots than there are backends.
    #[error(
        "{backends} backends have no room in a table of {slots} slots; take at least {backends} slots (for even shares, a \
         hundred a backend)"
    )]
    Room {
        /// The most backends that there are at a time.
        backends: u32,
        /// The slots.
        slots: u32,
    },
    /// A drain that leaves nobody.
    #[error(
        "draining {count} of {backends} backends leaves none to take flows; drain fewer, or take more backends"
    )]
    NobodyLeft {
        /// How many are to be drained.
        count: u32,
        /// Of how many.
        backends: u32,
    },
    /// More backends are to change their weight than there are.
    #[error(
        "{count} of {backends} backends can't change their weight; name {backends} at most, or take more backends"
    )]
    TooMany {
        /// How many are to change.
        count: u32,
        /// Of how many.
        backends: u32,
    },
    /// A table is wanted of a policy that has none.
    #[error("policy {policy} has no table to size; take maglev or rendezvous-table")]
    NoTable {
        /// Which.
        policy: String,
    },
    /// A limit that nothing can meet.
    #[error("a limit of a share must be above 0; write what you can bear, such as 1 %")]
    Limit,
    /// A policy refused the backends.
    #[error("policy {policy} refused the backends: {error}")]
    Policy {
        /// Which.
        policy: String,
        /// Why.
        error: ReconcileError,
    },
    /// Memory could not be had for a comparison.
    #[error(transparent)]
    Churn(#[from] ChurnError),
}

/// Refuses a number outside of `least` to `most`.
pub(crate) fn within(what: &'static str, given: u32, least: u32, most: u32) -> Result<(), Refusal> {
    if (least..=most).contains(&given) {
        return Ok(());
    }
    Err(Refusal::Range { what, given: given.into(), least: least.into(), most: most.into() })
}

/// Refuses an empty list.
pub(crate) fn some<T>(what: &'static str, list: &[T]) -> Result<(), Refusal> {
    if list.is_empty() { Err(Refusal::Nothing { what }) } else { Ok(()) }
}
