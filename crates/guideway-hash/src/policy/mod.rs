//! Ways to choose a backend for a key, behind one trait.
//!
//! A [`Policy`] is told of the candidates by [`reconcile`](Policy::reconcile), and answers
//! [`pick`](Policy::pick) from what it committed then. All policies share the shell, [`Balancer`]; each is a
//! [`Rule`] put into it. All of them hash identities and never places in a list, so that every balancer of a fleet
//! gives the same answer whatever the order in which it learned of the backends. Weight 0 owns nothing anywhere.
//!
//! # Which one
//!
//! N backends, M slots, V virtual nodes; "needless" is what moves between backends that a change did not touch.
//!
//! | policy | a pick | a change | memory | balance | needless moves | weights |
//! |---|---|---|---|---|---|---|
//! | [`Maglev`] | one array read | O(M log M) | M slots | within one slot | few: 24 to 91 slots of 65,537 when 1 of 4 went | to one turn |
//! | [`RendezvousTable`] | one array read | O(M) for a backend, O(M N) at first | M slots | by chance, as rendezvous over M keys | none | exact in expectation |
//! | [`Rendezvous`] | N hashes | O(N) | N words | by chance, exact in expectation | none | exact in expectation |
//! | [`Ring`] | log2 V steps | O(V log V) | 12 V bytes | by chance, 8 % at 160 points each | none | by virtual nodes |
//! | [`Jump`] | log2 N steps | none | N words | by chance, exact in expectation | none at the end of the order, many elsewhere | no |
//! | [`Modulo`] | one division | none | N words | by chance, exact in expectation | nearly all | no |
//!
//! - Many flows, few changes, and even shares matter: [`Maglev`], the default of the balancer.
//! - Affinity matters more than the last percent of balance, or the table is small: [`RendezvousTable`].
//! - Few backends, or each pick is rare beside the work it starts: [`Rendezvous`], which holds no state but the list.
//! - To agree with systems that use a ring: [`Ring`]. To number shards that only grow at the end: [`Jump`].
//! - To see what all of this is for: [`Modulo`].
//!
//! # Changes are transactions
//!
//! [`reconcile`](Policy::reconcile) compares, builds aside and commits; or returns an error and leaves the last good
//! state and its generation as they were.
//!
//! ```
//! use guideway_hash::policy::{Balancer, Candidate, Modulo, Policy, ReconcileError, Update};
//!
//! let mut policy = Balancer::new(Modulo);
//! let (a, b) = (Candidate::new("a"), Candidate::new("b"));
//! assert!(matches!(policy.reconcile(&[a, b])?, Update::Rebuilt { generation: 1, .. }));
//! assert!(matches!(policy.reconcile(&[a, b])?, Update::Unchanged { generation: 1 }));
//!
//! let refused = policy.reconcile(&[a, a]);
//! assert_eq!(refused, Err(ReconcileError::Duplicate { first: 0, second: 1 }));
//! assert_eq!(policy.generation(), 1);
//! # Ok::<(), ReconcileError>(())
//! ```

mod balancer;
mod candidate;
pub(crate) mod correspondence;
mod error;
mod jump;
pub mod logarithm;
mod maglev;
mod modulo;
mod rendezvous;
mod rendezvous_table;
mod ring;
mod roster;

pub use balancer::Balancer;
pub use candidate::{Candidate, State};
pub use correspondence::{Correspondence, Move};
pub use error::{PickError, ReconcileError};
pub use jump::{Jump, jump_hash};
pub use maglev::Maglev;
pub use modulo::Modulo;
pub use rendezvous::Rendezvous;
pub use rendezvous_table::RendezvousTable;
pub use ring::Ring;
pub use roster::{Member, Roster};

use crate::hash::StableHasher;

/// A way to choose one of several candidates for a key, the same on every machine.
pub trait Policy {
    /// A short name: `maglev`, `rendezvous`, …
    fn name(&self) -> &'static str;

    /// Whether weights shift shares. If not, a change of weights alone (to another than 0) changes nothing.
    fn is_weighted(&self) -> bool;

    /// The number of the committed state: 0 before the first, one more at each commit.
    fn generation(&self) -> u64;

    /// The committed members, in canonical order.
    fn roster(&self) -> Option<&Roster>;

    /// Slots of the committed table, where the policy has one: [`pick_hash`](Self::pick_hash) then depends on the
    /// hash modulo this number alone.
    fn slots(&self) -> Option<u32>;

    /// Makes `candidates` the committed ones.
    ///
    /// Compares the eligible candidates' identities, indices and order with the committed ones, and their weights if
    /// the policy is weighted. If nothing differs, nothing is done. Otherwise the new state is built aside and
    /// then committed.
    ///
    /// # Errors
    /// Duplicate identities, too many, none eligible, no memory. The committed state and its generation are then as
    /// they were.
    fn reconcile(&mut self, candidates: &[Candidate<'_>]) -> Result<Update, ReconcileError>;

    /// The place, in the slice last committed, of the candidate for `key`. `None` while nothing is committed.
    ///
    /// A read of committed state: it does not know what the caller's slice looks like by now.
    fn pick(&self, key: &[u8]) -> Option<usize>;

    /// [`pick`](Self::pick) for a key that is hashed already, by a hash that spreads over all 64 bits.
    fn pick_hash(&self, hash: u64) -> Option<usize>;

    /// [`pick`](Self::pick), after a check that `candidates` is what the committed state was built from.
    ///
    /// Costs a comparison of the whole slice; for those who can't be sure that they reconciled since they last
    /// changed it.
    ///
    /// # Errors
    /// [`PickError::Stale`] when the slice differs in a way that `reconcile` would act on, so that an index into it
    /// would be wrong; [`PickError::NothingCommitted`].
    fn pick_checked(&self, key: &[u8], candidates: &[Candidate<'_>]) -> Result<usize, PickError>;

    /// Forgets the committed state, and keeps the configuration, the hasher and the count of generations.
    fn reset(&mut self);
}

/// What [`Policy::reconcile`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Update {
    /// Nothing differed.
    Unchanged {
        /// The generation that stays committed.
        generation: u64,
    },
    /// A new state is committed.
    Rebuilt {
        /// Its number.
        generation: u64,
        /// What changed owner: over all slots of a table, or over 1,024 fixed hashes where the policy has none. All
        /// zero at the first commit.
        moves: Moves,
    },
}

/// How many slots or flows changed owner, by reason (see [`Move`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moves {
    /// How many were looked at.
    pub compared: u64,
    /// Moved because the old owner may take no new flows any more.
    pub departed: u64,
    /// Moved because the new owner joined or gained weight, or the old one lost some.
    pub attracted: u64,
    /// Moved for no reason of their own: the price of the rule.
    pub needless: u64,
}

impl Moves {
    /// All that moved.
    pub fn moved(&self) -> u64 {
        self.departed + self.attracted + self.needless
    }
}

/// The part of a policy that is its own: what it builds from the members, and whom that answers.
///
/// Owners are positions in the roster's canonical order.
pub trait Rule {
    /// What look-ups read.
    type Built;

    /// A short name for messages.
    fn name(&self) -> &'static str;

    /// Whether weights shift shares.
    fn is_weighted(&self) -> bool;

    /// The most members it takes.
    fn limit(&self) -> usize {
        u32::MAX as usize
    }

    /// Builds for `roster`, which has at least one member and at most [`limit`](Self::limit).
    ///
    /// `prior` is what the same rule built before and how its roster differs, for rules that can start from there; the
    /// result must be the one that a build without it gives.
    ///
    /// # Errors
    /// Whatever keeps it from being built, memory included.
    fn build<H: StableHasher>(
        &self,
        hasher: &H,
        roster: &Roster,
        prior: Option<(&Self::Built, &Correspondence)>,
    ) -> Result<Self::Built, ReconcileError>;

    /// The position of the member that `hash` belongs to.
    fn owner(built: &Self::Built, hash: u64) -> u32;

    /// Slots, if `owner` depends on the hash modulo a number of slots alone.
    fn slots(_built: &Self::Built) -> Option<u32> {
        None
    }
}
