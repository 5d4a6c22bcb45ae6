//! Experiments: what the documents quote is computed here, from a seed, by one command.
//!
//! * [`balance`]: how even shares are;
//! * [`churn`]: what a change of the backends moves, and how much of it needlessly;
//! * [`cost`]: what building, changing and looking up costs, on this machine;
//! * [`migrate`]: what moves between one policy or system and another;
//! * [`sizing`]: how large a table must be;
//! * [`persistence`]: which connections survive changes of the backends, on the real controller and forwarding core;
//! * [`plot`]: their figures as pictures.
//!
//! An experiment takes settings and gives a report, both plain values. What is random follows from the seed, whatever the
//! number of threads ([`Execution`]); numbers that differ from seed to seed come as an [`Estimate`].
#![forbid(unsafe_code)]

pub mod balance;
pub mod churn;
mod contender;
pub mod cost;
mod estimate;
pub mod migrate;
mod parallel;
pub mod persistence;
pub mod plot;
mod population;
mod random;
mod refusal;
pub mod sizing;
#[cfg(test)]
mod slow;

pub use contender::{Contender, UnknownContender};
pub use estimate::Estimate;
pub use parallel::Execution;
pub use population::Weights;
pub use refusal::Refusal;

/// Table sizes as numbers.
fn numbers<S: serde::Serializer>(
    sizes: &[guideway_hash::TableSize],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(sizes.iter().map(|size| size.get()))
}
