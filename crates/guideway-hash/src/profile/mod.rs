//! Other systems' tables, bit for bit: a migration or a mixed fleet keeps its assignments.
//!
//! A [`Profile`] is a name for a whole rule: which bytes of a backend are hashed, by what, in which order backends
//! take turns, what weights mean, which table sizes there are, and where it is known how a packet finds its slot.
//! [`build`] follows that rule to the letter, defects included, refuses what the system itself would refuse, and
//! says in [`Built::warnings`] where the rule does what its user may not want. None of the defects reach the native
//! profile.
//!
//! | profile | hash | weights | sizes | module |
//! |---|---|---|---|---|
//! | `native` | word-at-a-time, seeded | exact, integer | primes to 5,000,011 | [`native`] |
//! | `reference` | FNV-1a, folded | none | primes to 5,000,011 | [`reference`](mod@reference) |
//! | `envoy` | XXH64 | in proportion, by floats | primes to 5,000,011 | [`envoy`] |
//! | `cilium` | MurmurHash3 | only when their mean is 2 or more | ten primes | [`cilium`] |
//! | `katran-v1` | folly hash, then MurmurHash3 | in the first round only | primes | [`katran`] |
//! | `katran-v2` | the same | in proportion | primes | [`katran`] |
//! | `ipvs-mh` | SipHash-1-3 | by consecutive turns, coarse | ten primes | [`ipvs`] |
//! | `vpp` | one-word xxHash | by replicas, capped by the table | powers of two | [`vpp`] |
//! | `vpp-26.02` | the same | none | powers of two | [`vpp`] |
//! | `go-maglev` | SipHash-2-4 | none | any | [`go_maglev`] |
//! | `poise` | FNV-1a, mixed | none | primes to 5,000,011 | [`poise`] |
//! | `glb` | SipHash-2-4 | none | 65,536 | [`glb`] |
//!
//! ```
//! use guideway_hash::profile::{self, Member, Params, Profile};
//!
//! // What Envoy's own test expects of six hosts and seven slots.
//! let keys: Vec<String> = (90..96).map(|port| format!("127.0.0.1:{port}")).collect();
//! let members: Vec<_> = keys.iter().map(|key| Member::new(key, 1)).collect();
//! let built = profile::build(Profile::Envoy, 7, &members, &Params::default())?;
//! assert_eq!(built.table.iter().collect::<Vec<_>>(), [2, 4, 0, 1, 5, 0, 3]);
//! # Ok::<(), profile::ProfileError>(())
//! ```

mod agenda;
mod assemble;
pub mod cilium;
pub mod envoy;
mod error;
pub mod flow;
pub mod glb;
pub mod go_maglev;
pub mod ipvs;
pub mod katran;
mod member;
mod name;
pub mod native;
mod params;
pub mod poise;
pub mod primitive;
pub mod reference;
pub mod vpp;
mod walk;

use alloc::vec::Vec;

pub use error::{ParamError, ProfileError, Warning};
pub use flow::{Flow, FlowError, Located};
pub use member::{Member, State, UnknownState};
pub use name::{Profile, UnknownProfile};
pub use params::{KernelBits, ListOrder, Params, Stated, VppFlowHash};

use crate::table::Table;
use member::Placed;

/// A table and what its profile has to say about it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Built {
    /// The table. Its owners are places in the slice of members.
    pub table: Table,
    /// For each slot, who takes over when its owner is unfit (`glb` only).
    pub secondary: Option<Table>,
    /// Where the rule, followed exactly, does what its user may not want.
    pub warnings: Vec<Warning>,
}

/// The table that `profile`'s system would have for these members.
///
/// Members that are not active are left out first, except by `glb`. `size` is in slots.
///
/// # Errors
/// [`ProfileError`]: what the system itself would refuse, and what it would never finish.
pub fn build(
    profile: Profile,
    size: u32,
    members: &[Member<'_>],
    params: &Params,
) -> Result<Built, ProfileError> {
    profile.check_size(size)?;
    let input = Input { profile, size, members, params };
    match profile {
        Profile::Native => native::build(&input),
        Profile::Reference => reference::build(&input),
        Profile::Envoy => envoy::build(&input),
        Profile::Cilium => cilium::build(&input),
        Profile::KatranV1 => katran::build_v1(&input),
        Profile::KatranV2 => katran::build_v2(&input),
        Profile::IpvsMh => ipvs::build(&input),
        Profile::Vpp => vpp::build(&input),
        Profile::Vpp2602 => vpp::build_26_02(&input),
        Profile::GoMaglev => go_maglev::build(&input),
        Profile::Poise => poise::build(&input),
        Profile::Glb => glb::build(&input),
    }
}

/// What a build starts from. The size is one that the profile has.
struct Input<'a> {
    profile: Profile,
    size: u32,
    members: &'a [Member<'a>],
    params: &'a Params,
}

impl<'a> Input<'a> {
    /// The active members with their places in the input.
    fn active(&self) -> Vec<Placed<'a>> {
        self.placed().filter(|placed| placed.member.state == State::Active).collect()
    }

    /// The active members of positive weight, for profiles whose system knows no weights: there 0 can only mean
    /// that the backend is not in the set.
    fn active_unweighted(&self, warnings: &mut Vec<Warning>, reason: &'static str) -> Vec<Placed<'a>> {
        let mut active = self.active();
        active.retain(|placed| placed.member.weight > 0);
        if active.windows(2).any(|pair| pair[0].member.weight != pair[1].member.weight) {
            warnings.push(Warning::WeightsIgnored(reason));
        }
        active
    }

    fn placed(&self) -> impl Iterator<Item = Placed<'a>> {
        let members = self.members;
        members.iter().enumerate().map(|(place, &member)| Placed { place: place as u32, member })
    }

    /// Refuses more members than slots.
    fn check_room(&self, members: usize) -> Result<(), ProfileError> {
        if members > self.size as usize {
            return Err(ProfileError::TooMany { members, size: self.size });
        }
        Ok(())
    }

    /// Warns when a table is too small for everybody to own a slot.
    fn warn_of_starved(&self, members: usize, reason: &'static str, warnings: &mut Vec<Warning>) {
        if let Some(without @ 1..) = members.checked_sub(self.size as usize) {
            warnings.push(Warning::Starved { members: without, reason });
        }
    }

    /// Refuses two members that `identity` can't tell apart.
    fn check_distinct<K: Ord>(
        &self,
        members: &[Placed<'_>],
        identity: impl Fn(usize) -> K,
    ) -> Result<(), ProfileError> {
        match repeated(members.len(), identity).first() {
            Some(&(first, second)) => Err(ProfileError::Duplicate {
                profile: self.profile,
                first: members[first].place,
                second: members[second].place,
                key: members[second].member.key.into(),
            }),
            None => Ok(()),
        }
    }
}

/// Pairs of indices below `count` of equal `identity`: each one that has been before, with the one before it.
fn repeated<K: Ord>(count: usize, identity: impl Fn(usize) -> K) -> Vec<(usize, usize)> {
    let mut sorted: Vec<(K, usize)> = (0..count).map(|index| (identity(index), index)).collect();
    sorted.sort_unstable();
    let mut pairs: Vec<_> =
        sorted.windows(2).filter(|pair| pair[0].0 == pair[1].0).map(|pair| (pair[0].1, pair[1].1)).collect();
    pairs.sort_unstable_by_key(|&(_, second)| second);
    pairs
}

/// Warns of members that walk the table exactly as an earlier one does.
fn warn_of_same_walks<K: Ord>(
    members: &[Placed<'_>],
    walk: impl Fn(usize) -> K,
    reason: &'static str,
    warnings: &mut Vec<Warning>,
) {
    let pairs = repeated(members.len(), walk);
    if let Some(&(_, second)) = pairs.first() {
        warnings.push(Warning::SameWalk { members: pairs.len(), place: members[second].place, reason });
    }
}
