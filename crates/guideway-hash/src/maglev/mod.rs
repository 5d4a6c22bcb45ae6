//! Maglev hashing: a table that is even to one slot, and changes little.
//!
//! From Eisenbud and others, *Maglev: A Fast and Reliable Software Network Load Balancer*, NSDI 2016, section 3.4.
//!
//! # The rule
//!
//! Each backend has an order of preference over all M slots, made from two hashes of its identity: it starts at
//! `offset = hash mod M`, and each step goes `skip = hash' mod (M - 1) + 1` further, modulo M. With a prime M every
//! such walk visits every slot ([`Preference`]). Then slots are *drafted*: in turns, each backend takes the most
//! wanted slot of its own that is still free, until none is. Seven slots, with A (3, 4), B (0, 2) and C (3, 1):
//!
//! ```text
//! round 1   A takes 3                B takes 0    C asks for 3, takes 4
//! round 2   A asks for 0, 4, takes 1  B takes 2    C takes 5
//! round 3   A asks for 5, 2, takes 6                                      table: B A B A C C A
//! ```
//!
//! # What it is good at
//!
//! * **Balance**: everybody takes a turn a round, so shares differ by one slot at most. With weights ([`Weighted`])
//!   they are the exact shares, rounded.
//! * **Look-up**: one remainder and one array read, whatever the number of backends.
//! * **Change**: most slots keep their owner. Not all: a backend that leaves changes who is refused later in the
//!   draft, so some slots move between backends that stay. With B gone from the seven slots above, A gets slots 0 and
//!   2, which were B's, and slot 6 moves from A to C needlessly. With 100 backends and 65,537 slots fewer than 2 % of
//!   the others' slots move. Where none may, see [`policy`](crate::policy).
//!
//! # What it costs
//!
//! A fill looks at some M ln M slots: about half a millisecond at 65,537 ([`fast`] tells why not more). The table takes two
//! bytes a slot, and building it one bit a slot and some bytes a backend more.
//!
//! # The parts
//!
//! [`MaglevBuilder`] goes from identities and weights to a table, by Guideway's own rule. [`fill`] is the core that
//! every profile shares: preferences and [`Turns`] in, table out. [`fill_textbook`] is the same by the paper's
//! literal loop, and [`Draft`] the same turn by turn, to be looked at. All three give the same table.

mod draft;
mod error;
pub mod fast;
mod native;
mod preference;
mod textbook;
mod turns;
mod weighted;

pub use draft::{Draft, Turn};
pub use error::BuildError;
pub use native::{Maglev, MaglevBuilder};
pub use preference::Preference;
pub use textbook::fill_textbook;
pub use turns::{RoundRobin, Turns};
pub use weighted::Weighted;

use crate::table::Table;

/// Fills a table of `size` slots: turn after turn, the backend whose turn it is takes its most wanted free slot.
///
/// The owners are indices into `preferences`. `size` may be any number with which every skip is coprime: a prime,
/// or a power of two when all skips are odd. There may be more backends than slots; then those whose turn never
/// comes own nothing.
///
/// # Errors
/// [`BuildError`]: a preference that does not visit every slot, no backend, a turn for a backend that does not
/// exist, no memory.
pub fn fill(size: u32, preferences: &[Preference], turns: impl Turns) -> Result<Table, BuildError> {
    fast::fill_with(fast::Kernel::detect(), size, preferences, turns)
}
