//! The Go library `dgryski/go-maglev`.
//!
//! # Rule
//! * **Key** of a backend: its name. `h = SipHash-2-4(name)` under the key words 0xdeadbeefcafebabe and 0.
//! * **Preferences**: `offset = (h >> 32) mod M`, `skip = (h mod 2^32) mod (M - 1) + 1`.
//! * **Order**: as given. One turn each a round; those in the `dead` list are passed over.
//!
//! There are no weights: weight 0, like any state but active, counts as dead; other differences are warned of.
//!
//! # Limits
//! M is any number from 2 (the library's own are 65,537 and 655,373); here up to 5,000,011. It isn't checked to be prime:
//! with another number a walk may miss slots, and the library then looks for one for ever. Here that is an error, and a
//! size that isn't prime is warned of. All dead: the library never returns, here an error.
//!
//! # Flow hash
//! None. The caller brings a hash, and its slot is [`slot`].
//!
//! Source: `github.com/dgryski/go-maglev`, commit 8961b9b.

use alloc::vec::Vec;

use super::{
    Built, Input, ParamError, ProfileError, State, Warning, assemble,
    member::Placed,
    primitive::siphash::siphash,
    walk::{self, Walk, gcd},
    warn_of_same_walks,
};
use crate::{
    maglev::{Preference, RoundRobin},
    prime::is_prime,
};

/// The slot of a flow whose hash the caller has computed.
#[must_use]
pub const fn slot(key: u64, size: u32) -> u32 {
    (key % size as u64) as u32
}

/// The offset and skip of a backend with this name, in a table of `size` slots (2 or more).
#[must_use]
pub fn preference(name: &[u8], size: u32) -> Preference {
    let hash = siphash::<2, 4>(0xdead_beef_cafe_babe, 0, name);
    Preference { offset: (hash >> 32) as u32 % size, skip: hash as u32 % (size - 1) + 1 }
}

pub(super) fn build(input: &Input<'_>) -> Result<Built, ProfileError> {
    let mut warnings = Vec::new();
    let members = living(input)?;
    if members.windows(2).any(|pair| pair[0].member.weight != pair[1].member.weight) {
        warnings.push(Warning::WeightsIgnored("the library knows none"));
    }
    warn_of_same_walks(&members, |index| members[index].member.key, "they have one name", &mut warnings);
    input.warn_of_starved(
        members.len(),
        "there are more backends than slots, and the last ones get none",
        &mut warnings,
    );

    let size = input.size;
    let preferences: Vec<Preference> =
        members.iter().map(|placed| preference(placed.member.key.as_bytes(), size)).collect();
    let turns = RoundRobin::new(members.len() as u32);
    if is_prime(size) {
        let table = assemble::fill(input, &members, &preferences, turns)?;
        return Ok(Built { table, secondary: None, warnings });
    }
    warnings.push(Warning::SizeNotPrime);
    let mut walks: Vec<Orbit> = preferences
        .into_iter()
        .map(|Preference { offset, skip }| Orbit { slot: offset, skip, size })
        .collect();
    let owners = walk::fill(size, &mut walks, turns).map_err(|stuck| {
        let placed = members[stuck.backend];
        let (place, key, free) = (placed.place, placed.member.key.into(), stuck.free);
        ProfileError::Endless { place, key, free, remedy: "take a prime size" }
    })?;
    let table = assemble::relabel(input, owners.into_iter(), |index| members[index as usize].place)?;
    Ok(Built { table, secondary: None, warnings })
}

/// The members that take turns.
fn living<'a>(input: &Input<'a>) -> Result<Vec<Placed<'a>>, ProfileError> {
    let dead = &input.params.dead;
    let ascending = dead.windows(2).all(|pair| pair[0] < pair[1]);
    let known = dead.last().is_none_or(|&last| (last as usize) < input.members.len());
    if !ascending || !known {
        let (value, wanted) =
            (alloc::format!("{dead:?}"), "a list of places of the input in ascending order");
        return Err(ParamError::Value { name: "dead", value, wanted }.into());
    }
    let living: Vec<Placed<'a>> = input
        .placed()
        .filter(|placed| placed.member.state == State::Active && placed.member.weight > 0)
        .filter(|placed| dead.binary_search(&placed.place).is_err())
        .collect();
    if living.is_empty() {
        return Err(ProfileError::NoMember(
            "give at least one backend that is not dead (the library would never return)",
        ));
    }
    Ok(living)
}

/// A walk in steps that may share a factor with the size.
struct Orbit {
    slot: u32,
    skip: u32,
    size: u32,
}

impl Walk for Orbit {
    fn advance(&mut self) -> u32 {
        let here = self.slot;
        self.slot = walk::step(here, self.skip, self.size);
        here
    }

    fn period(&self) -> u64 {
        u64::from(self.size / gcd(self.size, self.skip))
    }
}

#[cfg(test)]
mod tests {
    use alloc::{format, string::String, vec};

    use super::*;
    use crate::profile::{Member, Params, Profile, build};

    fn built(size: u32, count: usize, dead: &[u32]) -> Result<Built, ProfileError> {
        let keys: Vec<String> = (0..count).map(|i| format!("backend-{i}")).collect();
        let members: Vec<_> = keys.iter().map(|key| Member::new(key, 1)).collect();
        build(Profile::GoMaglev, size, &members, &Params { dead: dead.to_vec(), ..Params::default() })
    }

    #[test]
    fn tables_that_the_librarys_own_tests_expect() {
        let owners = |dead: &[u32]| built(7, 3, dead).unwrap().table.iter().collect::<Vec<_>>();
        assert_eq!(owners(&[]), [1, 2, 0, 2, 0, 1, 0]);
        assert_eq!(owners(&[1]), [0, 2, 0, 2, 0, 2, 0]);
    }

    #[test]
    fn sizes_that_are_not_prime_are_built_or_found_endless() {
        let mut outcomes = vec![];
        for size in [4, 6, 8, 9, 10, 12, 16, 25, 100] {
            match built(size, 3, &[]) {
                Ok(built) => {
                    assert!(built.warnings.contains(&Warning::SizeNotPrime));
                    assert_eq!(built.table.counts(3).iter().sum::<u32>(), size);
                    outcomes.push(true);
                }
                Err(ProfileError::Endless { .. }) => outcomes.push(false),
                Err(other) => panic!("{other}"),
            }
        }
        assert!(outcomes.contains(&true) && outcomes.contains(&false), "{outcomes:?}");
    }

    #[test]
    fn dead_lists_are_checked() {
        for dead in [&[1, 0][..], &[1, 1], &[3]] {
            assert!(matches!(built(7, 3, dead), Err(ProfileError::Param(_))), "{dead:?}");
        }
        assert!(matches!(built(7, 3, &[0, 1, 2]), Err(ProfileError::NoMember(_))));
    }
}
