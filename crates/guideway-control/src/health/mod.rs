//! Health: which backends answer, found out by asking them.
//!
//! [`Board`] holds every check and every verdict, without I/O or clock: it says which checks are due
//! ([`Board::advance`]), takes their answers ([`Board::answer`]), and tells which verdicts changed. [`probe`] asks.
//!
//! How many there are of each: one [`Machine`] for each backend of each service; one stream of rounds for each distinct
//! [`Check`], however many services share it; at most one round of a stream at a time; in a round one leg for each way.
//!
//! A check through the tunnel that failed is asked directly as well from the next round on, until it passes, only to
//! say which of the two ways is broken.

mod beats;
mod board;
mod check;
mod from_config;
mod machine;
mod marks;
mod pace;
pub mod probe;
mod ramp;
mod round;
mod slab;
mod snapshot;
mod stream;
mod subjects;
#[cfg(test)]
mod tests;

pub use board::{Advanced, Board, Change, Status};
pub use check::{Check, Wanted, Way, Who};
pub use from_config::{ServiceCheck, probed_vips, wanted};
pub use machine::{MAX_DAMPING, Machine, STEADY_RESULTS, Thresholds, Verdict};
pub use marks::{MARK_BASE, MAX_MARKS, ProbeTunnel};
pub use pace::Times;
pub use ramp::{Ramp, STEPS as RAMP_STEPS};
pub use round::{
    Answer, Fault, Finding, Leg, LegResult, Legs, Passed, Results, Round, RoundId, Stage, Tally,
};
pub use snapshot::Snapshot;
