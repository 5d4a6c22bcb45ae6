//! Who owns what under a setup.

use guideway_hash::churn::flow_hashes;
use guideway_hash::hash::{self, StableHasher};
use guideway_hash::maglev::{Weighted, fill};
use guideway_hash::policy::{
    Balancer, Jump, Maglev, Modulo, Policy, ReconcileError, Rendezvous, RendezvousTable, Ring, Roster,
};
use guideway_hash::table::FlowRule;
use guideway_hash::{NativeHasher, Table};

use crate::Refusal;
use crate::question::NONE;
use crate::setup::{Kind, Setup};
use crate::words::{Reader, Writer};

/// A setup that has been built.
pub(crate) struct Solution {
    pub(crate) roster: Roster,
    answers: Answers,
}

enum Answers {
    Policy(Box<dyn Policy>),
    /// A table filled from given preferences. Its owners are positions in the roster.
    Table(Table),
}

impl Solution {
    pub(crate) fn of(setup: &Setup) -> Result<Self, Refusal> {
        let candidates = setup.candidates();
        let roster = Roster::new(&candidates)?;
        if setup.kind == Kind::Maglev && setup.given {
            let table = fill_given(setup, &roster)?;
            return Ok(Self { roster, answers: Answers::Table(table) });
        }
        let (size, hasher) = (setup.size, setup.hasher());
        let mut policy: Box<dyn Policy> = match setup.kind {
            Kind::Maglev => Box::new(Balancer::with_hasher(Maglev::new(size), hasher)),
            Kind::RendezvousTable => Box::new(Balancer::with_hasher(RendezvousTable::new(size), hasher)),
            Kind::Rendezvous => Box::new(Balancer::with_hasher(Rendezvous, hasher)),
            Kind::Ring => Box::new(Balancer::with_hasher(Ring::default(), hasher)),
            Kind::Jump => Box::new(Balancer::with_hasher(Jump, hasher)),
            Kind::Modulo => Box::new(Balancer::with_hasher(Modulo, hasher)),
        };
        policy.reconcile(&candidates)?;
        Ok(Self { roster, answers: Answers::Policy(policy) })
    }

    pub(crate) fn is_weighted(&self) -> bool {
        match &self.answers {
            Answers::Policy(policy) => policy.is_weighted(),
            Answers::Table(_) => true,
        }
    }

    /// Slots, where there is a table.
    pub(crate) fn slots(&self) -> Option<u32> {
        match &self.answers {
            Answers::Policy(policy) => policy.slots(),
            Answers::Table(table) => Some(table.size()),
        }
    }

    /// The place of the backend that a flow hash goes to.
    pub(crate) fn owner(&self, hash: u64) -> u32 {
        match &self.answers {
            // Only a policy that nothing was committed to has no answer, and `of` committed.
            Answers::Policy(policy) => policy.pick_hash(hash).map_or(NONE, |place| place as u32),
            Answers::Table(table) => self.roster.member(table.pick(hash) as usize).index,
        }
    }

    /// The owners of `cells` cells: the slots of the table, or that many flows of the library's sample.
    pub(crate) fn cells(&self, cells: u32) -> Vec<u32> {
        match self.slots() {
            Some(slots) => (0..slots).map(|slot| self.owner(slot.into())).collect(),
            None => flow_hashes(cells.into()).map(|hash| self.owner(hash)).collect(),
        }
    }
}

/// The table of preferences that were given, its owners positions in `roster`.
fn fill_given(setup: &Setup, roster: &Roster) -> Result<Table, Refusal> {
    let size = setup.size.get();
    if roster.is_empty() {
        return Err(ReconcileError::NoneEligible { candidates: setup.backends.len() }.into());
    }
    if roster.len() > size as usize {
        let policy = Kind::Maglev.name();
        return Err(ReconcileError::TooMany { eligible: roster.len(), limit: size as usize, policy }.into());
    }
    let preferences: Vec<_> = roster.iter().map(|member| setup.preference(member.index)).collect();
    let weights: Vec<_> = roster.iter().map(|member| member.weight).collect();
    Ok(fill(size, &preferences, Weighted::new(size, &weights)?)?)
}

/// Answers [`CELLS`](crate::question::CELLS).
pub(crate) fn answer_cells(reader: &mut Reader<'_>, writer: &mut Writer) -> Result<(), Refusal> {
    let setup = Setup::read(reader)?;
    let solution = Solution::of(&setup)?;
    let owners = solution.cells(setup.size.get());
    let mut counts = vec![0; setup.backends.len()];
    for &owner in &owners {
        counts[owner as usize] += 1;
    }
    writer.word(u32::from(solution.slots().is_some()));
    writer.words(owners.iter().copied());
    writer.words(counts.into_iter());
    writer.text(&digest(&setup, &solution, owners).unwrap_or_default());
    Ok(())
}

/// The digest that every balancer of a fleet with this table shows.
fn digest(setup: &Setup, solution: &Solution, owners: Vec<u32>) -> Option<String> {
    solution.slots()?;
    let table = Table::new(guideway_hash::table::Slots::U32(owners.into()));
    let identities: Vec<&str> = setup.backends.iter().map(|backend| backend.identity.as_str()).collect();
    // Every owner is a place in the list of backends, so the digest can't miss one.
    let digest = table.digest(FlowRule::native(&NativeHasher::new(setup.seed)), &identities).ok()?;
    Some(digest.to_string())
}

/// Answers [`LOOKUP`](crate::question::LOOKUP).
pub(crate) fn answer_lookup(reader: &mut Reader<'_>, writer: &mut Writer) -> Result<(), Refusal> {
    let setup = Setup::read(reader)?;
    let key = reader.text()?;
    let solution = Solution::of(&setup)?;
    let hash = setup.hasher().hash(hash::FLOW, key.as_bytes());
    writer.long(hash);
    writer.word(solution.slots().map_or(NONE, |slots| (hash % u64::from(slots)) as u32));
    writer.word(solution.owner(hash));
    Ok(())
}
