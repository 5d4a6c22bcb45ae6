//! What a change of the table moved, from the table before and after.

use std::collections::BTreeMap;

use guideway_daemon::model::{Service, Table};
use serde::Serialize;

/// Who owns each slot, and who may, at a moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ownership {
    /// Who takes new flows, by slot.
    pub(crate) owners: Vec<Option<String>>,
    /// Backends that take new flows, with their weights.
    eligible: BTreeMap<String, u32>,
}

/// What a change moved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Change {
    /// What was done.
    pub(crate) what: String,
    /// Slots of the table.
    pub(crate) slots: usize,
    /// Slots that have another owner.
    pub(crate) moved: usize,
    /// Those of them for which nothing asked: both owners took new flows before and after, at the same weight.
    pub(crate) needless: usize,
}

impl Ownership {
    /// What the daemon says.
    pub(crate) fn of(table: &Table, service: &Service) -> Self {
        let takes = |backend: &&guideway_daemon::model::Backend| backend.slots > 0;
        Self {
            owners: table.slots.iter().map(|slot| slot.current.clone()).collect(),
            eligible: service.backends.iter().filter(takes).map(|b| (b.name.clone(), b.weight)).collect(),
        }
    }

    /// What has moved since.
    pub(crate) fn change(&self, what: &str, after: &Self) -> Change {
        let same = |name: &Option<String>| {
            let weight = |of: &Self| name.as_ref().and_then(|name| of.eligible.get(name).copied());
            weight(self).is_some() && weight(self) == weight(after)
        };
        let pairs = self.owners.iter().zip(&after.owners);
        let moved: Vec<_> = pairs.filter(|(old, new)| old != new).collect();
        let needless = moved.iter().filter(|(old, new)| same(old) && same(new)).count();
        Change { what: what.to_owned(), slots: after.owners.len(), moved: moved.len(), needless }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ownership(owners: &[&str], eligible: &[&str]) -> Ownership {
        Ownership {
            owners: owners.iter().map(|name| Some((*name).to_owned())).collect(),
            eligible: eligible.iter().map(|name| ((*name).to_owned(), 1)).collect(),
        }
    }

    #[test]
    fn only_a_slot_between_two_that_stay_moves_needlessly() {
        let before = ownership(&["a", "b", "c", "a"], &["a", "b", "c"]);
        let without_b = ownership(&["c", "c", "c", "a"], &["a", "c"]);
        let change = before.change("drain b", &without_b);
        assert_eq!((change.slots, change.moved, change.needless), (4, 2, 1));
        let back = without_b.change("ready b", &before);
        assert_eq!((back.moved, back.needless), (2, 1));
        assert_eq!(before.change("nothing", &before).moved, 0);
    }
}
