//! What a change moves: slots that change their owner, and those of them for which nothing asked.

use guideway_forward::record::{NO_BACKEND, Slot};

use super::member::Member;
use super::service::Held;

/// The weights with which backends take new flows before a change and after it, by local index: 0 for those that take
/// none.
pub(super) struct Shares {
    before: Vec<u32>,
    after: Vec<u32>,
}

/// How many slots change their owner.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Moves {
    pub(super) moved: u32,
    /// Those of them for which nothing asked.
    pub(super) needless: u32,
}

/// The members of a service, and whether those whose checks fail are in use.
type Members<'a> = (&'a [Option<Member>], bool);

impl Shares {
    pub(super) fn new(before: Members<'_>, after: Members<'_>) -> Self {
        Self { before: weights(before), after: weights(after) }
    }

    /// What moves when the service's table makes place for one with these owners.
    pub(super) fn moves(&self, held: &Held, owners: &[u16], seed: u64) -> Moves {
        if held.is_replaced_by(owners.len() as u32, seed) {
            let present = held.words.iter().map(|slot| slot.current());
            return self.moves_between(&Owned::of(present), &Owned::of(owners.iter().copied()));
        }
        self.count(held.changed(owners))
    }

    /// Of these slots of one table, each with what it holds and who takes it.
    pub(super) fn count(&self, changed: impl Iterator<Item = (u32, Slot, u16)>) -> Moves {
        let mut moves = Moves::default();
        for (_, old, new) in changed {
            moves.moved += 1;
            moves.needless += u32::from(self.gives(old.current()) && self.takes_needlessly(new));
        }
        moves
    }

    /// Between two tables of different sizes or seeds: in slots of the new one, by the share of flows that move.
    ///
    /// A flow's slots in the two are independent: its hash is taken modulo two different primes, and any pair of
    /// remainders is as likely as any other; of another seed it has another hash. So a flow is on backend a before
    /// and on b after with the chance old(a) new(b) / (N M), where N and M are the sizes.
    fn moves_between(&self, old: &Owned, new: &Owned) -> Moves {
        let stay = |which: &dyn Fn(u16) -> bool| -> u64 {
            old.counts()
                .filter(|&(local, _)| which(local))
                .map(|(local, count)| count * new.count(local))
                .sum()
        };
        let sum = |owned: &Owned, which: &dyn Fn(u16) -> bool| -> u64 {
            owned.counts().filter(|&(local, _)| which(local)).map(|(_, count)| count).sum()
        };
        let (gives, takes) = (|local| self.gives(local), |local| self.takes_needlessly(local));
        let all = old.total * new.total;
        let needless = sum(old, &gives) * sum(new, &takes) - stay(&|local| gives(local) && takes(local));
        // Sizes are at most 5,000,011, so the products fit with room to spare.
        let in_slots = |pairs: u64| ((pairs + old.total / 2) / old.total.max(1)) as u32;
        Moves { moved: in_slots(all - stay(&|_| true)), needless: in_slots(needless) }
    }

    /// Whether nothing asks backend `old` to give a slot away; with [`takes_needlessly`](Self::takes_needlessly) this is
    /// the rule of [`guideway_hash::policy::Move::Needless`].
    fn gives(&self, old: u16) -> bool {
        let (before, after) = self.weights_of(old);
        before > 0 && after >= before
    }

    /// Whether nothing asks backend `new` to take one more.
    fn takes_needlessly(&self, new: u16) -> bool {
        let (before, after) = self.weights_of(new);
        before > 0 && after <= before
    }

    fn weights_of(&self, local: u16) -> (u32, u32) {
        let of = |weights: &[u32]| weights.get(usize::from(local)).copied().unwrap_or(0);
        (of(&self.before), of(&self.after))
    }
}

/// How many slots of a table each backend owns, by local index; the last count is that of nobody.
struct Owned {
    counts: Vec<u64>,
    total: u64,
}

impl Owned {
    fn of(owners: impl Iterator<Item = u16>) -> Self {
        let mut owned = Self { counts: vec![0; usize::from(NO_BACKEND) + 1], total: 0 };
        for owner in owners {
            owned.counts[usize::from(owner.min(NO_BACKEND))] += 1;
            owned.total += 1;
        }
        owned
    }

    fn count(&self, local: u16) -> u64 {
        self.counts.get(usize::from(local)).copied().unwrap_or(0)
    }

    fn counts(&self) -> impl Iterator<Item = (u16, u64)> {
        (0..).zip(self.counts.iter().copied()).filter(|&(_, count)| count > 0)
    }
}

fn weights((members, last_resort): Members<'_>) -> Vec<u32> {
    let takes = if last_resort { Member::is_last_resort } else { Member::is_eligible };
    let weight =
        |member: &Option<Member>| member.as_ref().filter(|member| takes(member)).map_or(0, |m| m.spec.weight);
    members.iter().map(weight).collect()
}
