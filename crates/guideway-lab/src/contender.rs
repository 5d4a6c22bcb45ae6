//! The rules that experiments compare.

use std::fmt;
use std::str::FromStr;

use guideway_hash::policy::{
    Balancer, Jump, Maglev, Modulo, Policy, Rendezvous, RendezvousTable, Ring, Rule,
};
use guideway_hash::{NativeHasher, TableSize};
use serde::{Serialize, Serializer};

/// A way to choose a backend, as an experiment names it: `maglev`, `rendezvous-table`, `rendezvous`, `ring`, `ring:1000`
/// (points for each unit of weight), `jump`, `modulo`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Contender {
    /// Backends draft the slots of a table in turns.
    Maglev,
    /// Each slot of a table goes to its rendezvous winner.
    RendezvousTable,
    /// Every backend bids for every flow.
    Rendezvous,
    /// Points on a circle, so many for each unit of weight.
    Ring(u32),
    /// Jump consistent hashing.
    Jump,
    /// The remainder by the number of backends.
    Modulo,
}

/// An experiment's policy: it may be asked from any thread.
pub(crate) type Built = Box<dyn Policy + Send + Sync>;

impl Contender {
    /// All of them, the ring with its usual number of points.
    pub const ALL: [Self; 6] = [
        Self::Maglev,
        Self::RendezvousTable,
        Self::Rendezvous,
        Self::Ring(Ring::DEFAULT_POINTS_PER_WEIGHT),
        Self::Jump,
        Self::Modulo,
    ];

    /// Whether it looks flows up in a table of slots, so that the table's size matters.
    pub fn has_table(self) -> bool {
        matches!(self, Self::Maglev | Self::RendezvousTable)
    }

    /// Whether weights shift shares.
    pub fn is_weighted(self) -> bool {
        !matches!(self, Self::Jump | Self::Modulo)
    }

    /// The policy, with nothing committed. `size` is that of its table, if it has one.
    pub(crate) fn policy(self, size: TableSize, seed: u64) -> Built {
        fn of<R>(rule: R, seed: u64) -> Built
        where
            R: Rule + Send + Sync + 'static,
            R::Built: Send + Sync,
        {
            Box::new(Balancer::with_hasher(rule, NativeHasher::new(seed)))
        }
        match self {
            Self::Maglev => of(Maglev::new(size), seed),
            Self::RendezvousTable => of(RendezvousTable::new(size), seed),
            Self::Rendezvous => of(Rendezvous, seed),
            Self::Ring(points) => of(Ring::new(points), seed),
            Self::Jump => of(Jump, seed),
            Self::Modulo => of(Modulo, seed),
        }
    }
}

impl fmt::Display for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Maglev => f.pad("maglev"),
            Self::RendezvousTable => f.pad("rendezvous-table"),
            Self::Rendezvous => f.pad("rendezvous"),
            Self::Ring(Ring::DEFAULT_POINTS_PER_WEIGHT) => f.pad("ring"),
            Self::Ring(points) => f.pad(&format!("ring:{points}")),
            Self::Jump => f.pad("jump"),
            Self::Modulo => f.pad("modulo"),
        }
    }
}

impl Serialize for Contender {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A word that names no [`Contender`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "there is no policy {0:?}; the policies are maglev, rendezvous-table, rendezvous, ring, jump and modulo, and ring:N for a \
     ring of N points a backend, 1 to 10000"
)]
pub struct UnknownContender(pub String);

impl FromStr for Contender {
    type Err = UnknownContender;

    fn from_str(name: &str) -> Result<Self, UnknownContender> {
        if let Some(points) = name.strip_prefix("ring:") {
            let points = points.parse().ok().filter(|points| (1..=10_000).contains(points));
            return points.map(Self::Ring).ok_or_else(|| UnknownContender(name.into()));
        }
        let found = Self::ALL.into_iter().find(|contender| contender.to_string() == name);
        found.ok_or_else(|| UnknownContender(name.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_strangers_are_refused() {
        for contender in Contender::ALL.into_iter().chain([Contender::Ring(1000)]) {
            assert_eq!(contender.to_string().parse(), Ok(contender));
        }
        for wrong in ["ketama", "ring:", "ring:0", "ring:10001", "Maglev", ""] {
            assert_eq!(wrong.parse::<Contender>(), Err(UnknownContender(wrong.into())));
        }
    }

    #[test]
    fn what_is_told_of_a_contender_is_what_its_policy_says() {
        for contender in Contender::ALL {
            let mut policy = contender.policy(TableSize::DEFAULT, 7);
            policy.reconcile(&[guideway_hash::policy::Candidate::new("a")]).unwrap();
            assert_eq!(policy.slots().is_some(), contender.has_table());
            assert_eq!(policy.is_weighted(), contender.is_weighted());
            assert_eq!(policy.name(), contender.to_string());
        }
    }
}
