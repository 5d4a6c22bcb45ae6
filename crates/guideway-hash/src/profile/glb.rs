//! The forwarding table of GitHub's GLB director.
//!
//! # Rule
//! The table has 65,536 rows. Row i is named by `SipHash-2-4(seed, i)`, i as four bytes, most significant first, the
//! result as eight bytes, least significant first. A backend's rank in a row is `SipHash-2-4(seed, row ‖ address)`, its
//! result bytes compared as a big-endian number. The lowest is the row's primary, the next its secondary. When the
//! primary drains or is unhealthy and the secondary is active, they swap. Inactive backends take no part.
//!
//! The table built here has the primaries; [`Built::secondary`] has the secondaries. With one backend it is both.
//!
//! # Limits
//! 65,536 rows; at most 256 backends. There are no weights: weight 0 leaves a backend out, other differences are warned of.
//!
//! # Flow hash
//! [`flow_hash`]: SipHash-2-4 under a key of its own over the client's address; the slot is its low 16 bits.
//!
//! Source: GitHub, `glb-director`, `src/glb-director/cli` and `docs/development/glb-hashing.md`.

use alloc::vec::Vec;
use core::net::IpAddr;

use super::{
    Built, Input, ProfileError, State, Warning, assemble, member::Placed, primitive::siphash::siphash24_keyed,
};

const MAX_BACKENDS: u32 = 256;

/// The hash of a flow by its source address, GLB's default choice of fields.
#[must_use]
pub fn flow_hash(source: IpAddr, key: &[u8; 16]) -> u64 {
    match source {
        IpAddr::V4(v4) => siphash24_keyed(key, &v4.octets()),
        IpAddr::V6(v6) => siphash24_keyed(key, &v6.octets()),
    }
}

pub(super) fn build(input: &Input<'_>) -> Result<Built, ProfileError> {
    let mut warnings = Vec::new();
    let mut members: Vec<Placed<'_>> =
        input.placed().filter(|placed| placed.member.state != State::Inactive).collect();
    members.retain(|placed| placed.member.weight > 0);
    if members.windows(2).any(|pair| pair[0].member.weight != pair[1].member.weight) {
        warnings.push(Warning::WeightsIgnored("GLB knows none"));
    }
    if members.is_empty() {
        return Err(ProfileError::NoMember("give at least one backend that is not inactive"));
    }
    if members.len() > MAX_BACKENDS as usize {
        return Err(ProfileError::TooMany { members: members.len(), size: MAX_BACKENDS });
    }
    let addresses = members.iter().map(Placed::address).collect::<Result<Vec<_>, _>>()?;
    input.check_distinct(&members, |index| addresses[index])?;

    let (mut primaries, mut secondaries) = (Vec::new(), Vec::new());
    for row in 0..input.size {
        let [primary, secondary] = first_two(row, &addresses, &input.params.table_seed);
        let state = |index: usize| members[index].member.state;
        let swap = state(primary) != State::Active && state(secondary) == State::Active;
        let (primary, secondary) = if swap { (secondary, primary) } else { (primary, secondary) };
        primaries.push(primary as u32);
        secondaries.push(secondary as u32);
    }
    let place = |index: u32| members[index as usize].place;
    let table = assemble::relabel(input, primaries.into_iter(), place)?;
    let secondary = Some(assemble::relabel(input, secondaries.into_iter(), place)?);
    Ok(Built { table, secondary, warnings })
}

/// The backends of lowest and second lowest rank in a row; twice the same when there is only one.
fn first_two(row: u32, addresses: &[IpAddr], seed: &[u8; 16]) -> [usize; 2] {
    let name = siphash24_keyed(seed, &row.to_be_bytes()).to_le_bytes();
    let mut message = [0_u8; 24];
    message[..8].copy_from_slice(&name);
    let mut best = [(u64::MAX, 0); 2];
    for (index, address) in addresses.iter().enumerate() {
        let length = match address {
            IpAddr::V4(v4) => {
                message[8..12].copy_from_slice(&v4.octets());
                12
            }
            IpAddr::V6(v6) => {
                message[8..].copy_from_slice(&v6.octets());
                24
            }
        };
        let rank = siphash24_keyed(seed, &message[..length]).swap_bytes();
        if index == 0 || rank < best[0].0 {
            best[1] = best[0];
            best[0] = (rank, index);
        } else if index == 1 || rank < best[1].0 {
            best[1] = (rank, index);
        }
    }
    [best[0].1, best[1].1]
}

#[cfg(test)]
mod tests {
    use alloc::{format, string::String};

    use super::*;
    use crate::profile::{Member, Params, Profile, build};

    fn built(states: &[State]) -> Built {
        let keys: Vec<String> = (1..=states.len()).map(|i| format!("10.0.0.{i}")).collect();
        let members: Vec<_> =
            keys.iter().zip(states).map(|(key, &state)| Member::new(key, 1).in_state(state)).collect();
        build(Profile::Glb, 65_536, &members, &Params::default()).unwrap()
    }

    #[test]
    fn primaries_and_secondaries_differ_and_swap_when_one_drains() {
        let all = built(&[State::Active; 4]);
        let draining = built(&[State::Active, State::Draining, State::Active, State::Active]);
        let (first, second) = (&all.table, all.secondary.as_ref().unwrap());
        for row in 0..65_536 {
            let (old, spare) = (first.owner(row), second.owner(row));
            assert_ne!(old, spare);
            assert_eq!(draining.table.owner(row), if old == 1 { spare } else { old }, "row {row}");
        }
        let counts = first.counts(4);
        assert!(counts.iter().all(|count| count.abs_diff(16_384) < 500), "{counts:?}");
    }

    #[test]
    fn removal_moves_only_the_rows_of_the_removed() {
        let (all, fewer) = (built(&[State::Active; 4]), built(&[State::Active; 3]));
        for row in 0..65_536 {
            let old = all.table.owner(row);
            let want = if old == 3 { all.secondary.as_ref().unwrap().owner(row) } else { old };
            assert_eq!(fewer.table.owner(row), want, "row {row}");
        }
        assert_eq!(built(&[State::Active]).table.counts(1), [65_536]);
    }
}
