//! The shell that every policy shares: compare, build aside, commit.

use super::correspondence::{Correspondence, Move};
use super::{Candidate, Moves, PickError, Policy, ReconcileError, Roster, Rule, Update};
use crate::hash::{self, NativeHasher, StableHasher, native};

/// A [`Policy`] made of a [`Rule`] and a hasher.
///
/// ```
/// use guideway_hash::policy::{Balancer, Candidate, Policy, Rendezvous};
///
/// let mut policy = Balancer::new(Rendezvous);
/// policy.reconcile(&[Candidate::new("10.0.0.1:443"), Candidate::new("10.0.0.2:443").with_weight(3)])?;
/// let place = policy.pick(b"198.51.100.7:40000").unwrap();
/// assert!(place < 2);
/// # Ok::<(), guideway_hash::policy::ReconcileError>(())
/// ```
#[derive(Debug)]
pub struct Balancer<R: Rule, H = NativeHasher> {
    rule: R,
    hasher: H,
    /// The last number given out; [`Policy::reset`] doesn't turn it back.
    generation: u64,
    committed: Option<Committed<R::Built>>,
}

#[derive(Debug)]
struct Committed<B> {
    roster: Roster,
    built: B,
}

impl<R: Rule> Balancer<R> {
    /// The policy of `rule` with the native hash under its default seed.
    pub fn new(rule: R) -> Self {
        Self::with_hasher(rule, NativeHasher::default())
    }
}

impl<R: Rule, H: StableHasher> Balancer<R, H> {
    /// The policy of `rule` with a hasher of one's own, which must give equal results on every balancer that is
    /// to agree, and after every restart.
    pub fn with_hasher(rule: R, hasher: H) -> Self {
        Self { rule, hasher, generation: 0, committed: None }
    }

    /// The rule and its configuration.
    pub fn rule(&self) -> &R {
        &self.rule
    }

    /// The hasher.
    pub fn hasher(&self) -> &H {
        &self.hasher
    }

    /// What the rule built for the committed candidates: a table, a ring, a list.
    pub fn built(&self) -> Option<&R::Built> {
        self.committed.as_ref().map(|committed| &committed.built)
    }

    /// How many of the rule's probes changed owner between two states of one balancer.
    fn moves(old: &Committed<R::Built>, new: &R::Built, change: &Correspondence) -> Moves {
        let mut moves = Moves::default();
        // A table answers for each of its slots; where there is no table, a fixed sample of hashes stands for all.
        let (count, sampled) = match R::slots(new) {
            Some(slots) => (u64::from(slots), false),
            None => (SAMPLE, true),
        };
        for number in 0..count {
            let hash = if sampled { native::hash_words(0, &[number]) } else { number };
            moves.count(change.judge(R::owner(&old.built, hash), R::owner(new, hash)));
        }
        moves
    }
}

/// Hashes that stand for all flows when [`Update`] tells of a policy that has no table.
const SAMPLE: u64 = 1024;

impl<R: Rule, H: StableHasher> Policy for Balancer<R, H> {
    fn name(&self) -> &'static str {
        self.rule.name()
    }

    fn is_weighted(&self) -> bool {
        self.rule.is_weighted()
    }

    fn generation(&self) -> u64 {
        self.generation
    }

    fn roster(&self) -> Option<&Roster> {
        self.committed.as_ref().map(|committed| &committed.roster)
    }

    fn slots(&self) -> Option<u32> {
        R::slots(&self.committed.as_ref()?.built)
    }

    fn reconcile(&mut self, candidates: &[Candidate<'_>]) -> Result<Update, ReconcileError> {
        let weighted = self.rule.is_weighted();
        if let Some(committed) = &self.committed
            && committed.roster.first_difference(candidates, weighted).is_none()
        {
            return Ok(Update::Unchanged { generation: self.generation });
        }

        let roster = Roster::new(candidates)?;
        if roster.is_empty() {
            return Err(ReconcileError::NoneEligible { candidates: candidates.len() });
        }
        let (eligible, limit) = (roster.len(), self.rule.limit());
        if eligible > limit {
            return Err(ReconcileError::TooMany { eligible, limit, policy: self.rule.name() });
        }

        let (built, moves) = match &self.committed {
            None => (self.rule.build(&self.hasher, &roster, None)?, Moves::default()),
            Some(old) => {
                let change = Correspondence::new(&old.roster, &roster, weighted)?;
                let built = self.rule.build(&self.hasher, &roster, Some((&old.built, &change)))?;
                let moves = Self::moves(old, &built, &change);
                (built, moves)
            }
        };
        // Nothing below can fail: this is the commit.
        self.generation += 1;
        self.committed = Some(Committed { roster, built });
        Ok(Update::Rebuilt { generation: self.generation, moves })
    }

    #[inline]
    fn pick(&self, key: &[u8]) -> Option<usize> {
        self.pick_hash(self.hasher.hash(hash::FLOW, key))
    }

    #[inline]
    fn pick_hash(&self, hash: u64) -> Option<usize> {
        let committed = self.committed.as_ref()?;
        let position = R::owner(&committed.built, hash);
        Some(committed.roster.member(position as usize).index as usize)
    }

    fn pick_checked(&self, key: &[u8], candidates: &[Candidate<'_>]) -> Result<usize, PickError> {
        let committed = self.committed.as_ref().ok_or(PickError::NothingCommitted)?;
        match committed.roster.first_difference(candidates, self.rule.is_weighted()) {
            Some(at) => Err(PickError::Stale { at, generation: self.generation }),
            None => self.pick(key).ok_or(PickError::NothingCommitted),
        }
    }

    fn reset(&mut self) {
        self.committed = None;
    }
}

impl Moves {
    /// Counts one slot or flow more.
    pub(crate) fn count(&mut self, fate: Move) {
        self.compared += 1;
        match fate {
            Move::Stayed => {}
            Move::Departed => self.departed += 1,
            Move::Attracted => self.attracted += 1,
            Move::Needless => self.needless += 1,
        }
    }
}
