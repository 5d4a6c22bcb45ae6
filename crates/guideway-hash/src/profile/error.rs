//! Why a profile refuses to build, and what it warns of when it does build.

use alloc::string::String;
use core::fmt;

use super::Profile;

/// Why there is no such table: the profile's own system would refuse it, or could not finish it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// The profile's system has no table of this size.
    #[error("profile {profile} has no table of {size} slots: {rule}")]
    Size {
        /// The profile that was asked.
        profile: Profile,
        /// The size that was asked for, in slots.
        size: u32,
        /// The sizes that it has.
        rule: &'static str,
    },
    /// No member is left that may own a slot.
    #[error("no backend to own a slot: {0}")]
    NoMember(&'static str),
    /// More members than the profile's system takes for this size.
    #[error("{members} backends don't fit a table of {size} slots; take a larger table or fewer backends")]
    TooMany {
        /// Members that take part.
        members: usize,
        /// Slots of the table, or the system's own limit on members where that is lower.
        size: u32,
    },
    /// A key that the profile can't read.
    #[error("backend {place}: key {key:?} is not {wanted}")]
    Key {
        /// Place in the input.
        place: u32,
        /// The key.
        key: String,
        /// What the profile reads there.
        wanted: &'static str,
    },
    /// A weight outside the range of the profile's system.
    #[error("backend {place} ({key}): weight {weight} is refused; {rule}")]
    Weight {
        /// Place in the input.
        place: u32,
        /// The key.
        key: String,
        /// The weight.
        weight: u32,
        /// The range.
        rule: &'static str,
    },
    /// Weights that add up to more than the profile's system can hold.
    #[error("the weights of {of} add up to {sum}, more than {limit}; make them smaller")]
    WeightSum {
        /// What was added up.
        of: &'static str,
        /// The sum.
        sum: u64,
        /// The largest sum that is taken.
        limit: u64,
    },
    /// Two members that the profile's system would take for one.
    #[error("backends {first} and {second} are one to profile {profile}: both have key {key:?}; remove one")]
    Duplicate {
        /// The profile that was asked.
        profile: Profile,
        /// Place of the first in the input.
        first: u32,
        /// Place of the second in the input.
        second: u32,
        /// The key of the second.
        key: String,
    },
    /// A member without a locality, or in one that has no weight, although locality weights are given.
    #[error(
        "backend {place} ({key}) needs a locality from 0 to {last}, the places of the given locality weights"
    )]
    Locality {
        /// Place in the input.
        place: u32,
        /// The key.
        key: String,
        /// The last locality.
        last: usize,
    },
    /// The profile's system would look for a free slot for ever.
    #[error(
        "the build never ends: backend {place} ({key}) has no free slot left on its walk, {free} slots are free; {remedy}"
    )]
    Endless {
        /// Place in the input of the backend whose turn it is.
        place: u32,
        /// Its key.
        key: String,
        /// Slots without owner.
        free: u32,
        /// What to do.
        remedy: &'static str,
    },
    /// A parameter that the profile doesn't have or can't read.
    #[error(transparent)]
    Param(#[from] ParamError),
    /// The table itself could not be made.
    #[error(transparent)]
    Table(#[from] crate::maglev::BuildError),
}

/// Why a parameter was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParamError {
    /// The profile has no such parameter.
    #[error("profile {profile} has no parameter {name:?}; it has {}", List(.known))]
    Unknown {
        /// The profile that was asked.
        profile: Profile,
        /// The parameter's name.
        name: String,
        /// The parameters that it has.
        known: &'static [&'static str],
    },
    /// The parameter is given twice.
    #[error("parameter {name:?} is given twice")]
    Twice {
        /// The parameter's name.
        name: String,
    },
    /// A value that can't be read.
    #[error("parameter {name} = {value:?} is not {wanted}")]
    Value {
        /// The parameter's name.
        name: &'static str,
        /// The value as given.
        value: String,
        /// What is read there.
        wanted: &'static str,
    },
    /// A parameter that only restates what follows from the others, and restates it wrongly.
    #[error(
        "parameter {name} says {stated}, but {derived} follows from the other inputs; drop it or correct them"
    )]
    Contradiction {
        /// The parameter's name.
        name: &'static str,
        /// What it says.
        stated: u64,
        /// What follows.
        derived: u64,
    },
}

struct List<'a>(&'a [&'a str]);

impl fmt::Display for List<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("none");
        }
        self.0.iter().enumerate().try_for_each(|(i, name)| match i {
            0 => f.write_str(name),
            _ => write!(f, ", {name}"),
        })
    }
}

/// A place where the profile's rule, followed exactly, does what its user may not want.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Warning {
    /// The weights differ, and the rule takes no notice.
    WeightsIgnored(&'static str),
    /// The weights count, but not in proportion.
    WeightsDistorted(&'static str),
    /// A member of weight 0 owns slots all the same.
    ZeroWeightOwnsSlots {
        /// Place in the input.
        place: u32,
    },
    /// Members that own no slot although their weight says that they should.
    Starved {
        /// How many.
        members: usize,
        /// Why.
        reason: &'static str,
    },
    /// Pairs of members whose walks over the table are the same, so that they compete for every slot.
    SameWalk {
        /// How many members share their walk with an earlier one.
        members: usize,
        /// Place in the input of the first such member.
        place: u32,
        /// Why.
        reason: &'static str,
    },
    /// The table depends on something that the rule leaves open or that two machines may not share.
    NotReproducible(&'static str),
    /// The size is not prime, although the rule wants a prime.
    SizeNotPrime,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WeightsIgnored(why) => write!(f, "the weights have no effect: {why}"),
            Self::WeightsDistorted(why) => write!(f, "shares don't follow the weights: {why}"),
            Self::ZeroWeightOwnsSlots { place } => {
                write!(f, "backend {place} has weight 0 and owns a slot; leave it out if it must not")
            }
            Self::Starved { members, reason } => write!(f, "{members} backends own no slot: {reason}"),
            Self::SameWalk { members, place, reason } => {
                write!(f, "{members} backends walk the table as another one does, first backend {place}: {reason}")
            }
            Self::NotReproducible(why) => write!(f, "two machines may build different tables: {why}"),
            Self::SizeNotPrime => f.write_str(
                "the table size is not prime, so a walk may miss slots and another set of backends may never fill the table",
            ),
        }
    }
}
