//! Who takes new flows before a change and after it: whether a slot that changes its owner does so needlessly.

use super::member::Member;

/// The weights with which backends take new flows, by local index: 0 for those that take none.
pub(super) struct Shares {
    before: Vec<u32>,
    after: Vec<u32>,
}

/// The members of a service, and whether those whose checks fail are in use.
type Members<'a> = (&'a [Option<Member>], bool);

impl Shares {
    pub(super) fn new(before: Members<'_>, after: Members<'_>) -> Self {
        Self { before: weights(before), after: weights(after) }
    }

    /// Whether nothing asked for a slot to go from backend `old` to `new`, by the rule of
    /// [`guideway_hash::policy::Move::Needless`].
    pub(super) fn is_needless(&self, old: u16, new: u16) -> bool {
        let of = |weights: &[u32], local: u16| weights.get(usize::from(local)).copied().unwrap_or(0);
        let old = (of(&self.before, old), of(&self.after, old));
        let new = (of(&self.before, new), of(&self.after, new));
        old.0 > 0 && old.1 >= old.0 && new.0 > 0 && new.1 <= new.0
    }
}

fn weights((members, last_resort): Members<'_>) -> Vec<u32> {
    let takes = if last_resort { Member::is_last_resort } else { Member::is_eligible };
    let weight =
        |member: &Option<Member>| member.as_ref().filter(|member| takes(member)).map_or(0, |m| m.spec.weight);
    members.iter().map(weight).collect()
}
