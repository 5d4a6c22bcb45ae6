//! The `mh` scheduler of Linux IPVS, and DPVS's port of it.
//!
//! # Rule
//! * **Key** of a destination: address and port. What is hashed is one 32-bit sum, [`hash_input`]: port plus address,
//!   where an IPv6 address is first folded to the XOR of its four words.
//! * **Hash**: on 64-bit kernels SipHash-1-3 of the sum's four bytes, cut to 32 bits; on 32-bit kernels
//!   HalfSipHash-1-3. The two keys are fixed. `offset = hash1 mod M`, `skip = hash2 mod (M - 1) + 1`.
//! * **Order**: that of the kernel's list. It adds at the head, so it is the reverse of the input, unless told otherwise.
//! * **Weights**: the last one that was not 0 ([`Member::last_weight`](super::Member::last_weight)), so a destination
//!   that is set to 0 keeps its slots, and one that was added with 0 has none. With g the greatest common divisor, a
//!   destination has `(weight / g) >> shift` turns, at least one, where `shift` cuts the largest to
//!   [`tab_bits`](Derived::tab_bits) bits.
//! * **Turns**: each destination takes its turns one after the other, then the next. The last is cut short.
//!
//! # Limits
//! M is one of [`SIZES`], by the kernel's `IP_VS_MH_TAB_INDEX` from 8 to 17 (default 12: 4,093). More destinations than
//! slots are refused (`EINVAL`), those of weight 0 counted in. Weights go to 2,147,483,647. All weights 0: every slot is
//! empty, here an error.
//!
//! # Known defects
//! Address and port are added, so 10.0.0.1:8081 and 10.0.0.2:8080 walk alike; so do IPv6 addresses of one fold. Directors
//! that were fed in another order differ. One changed weight may change g or the shift, and move most slots.
//!
//! # Flow hash
//! [`flow_hash`] of the client's address, and with `mh-port` its port; [`fallback_slots`] for `mh-fallback`.
//!
//! Source: Linux, `net/netfilter/ipvs/ip_vs_mh.c`, `lib/siphash.c`.

use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};

use super::{
    Built, Input, KernelBits, ListOrder, ParamError, ProfileError, Warning, assemble,
    member::Placed,
    primitive::{half_siphash::half_siphash13, siphash::siphash},
    walk::gcd,
    warn_of_same_walks,
};
use crate::maglev::{Preference, Turns};

/// The table sizes that a kernel can be built with, by `IP_VS_MH_TAB_INDEX` less 8.
pub const SIZES: [u32; 10] = [251, 509, 1_021, 2_039, 4_093, 8_191, 16_381, 32_749, 65_521, 131_071];

/// Both halves of the key for offsets and flows.
const HASH1: u32 = 2_654_435_761;
/// Both halves of the key for skips.
const HASH2: u32 = 2_654_446_892;

/// What the kernel hashes for an address and port.
#[must_use]
pub fn hash_input(address: IpAddr, port: u16) -> u32 {
    let folded = match address {
        IpAddr::V4(v4) => v4.to_bits(),
        IpAddr::V6(v6) => {
            let bits = v6.to_bits();
            // XOR and byte order commute, so the words can be taken in host order.
            (bits ^ bits >> 32 ^ bits >> 64 ^ bits >> 96) as u32
        }
    };
    folded.wrapping_add(port.into())
}

/// The hash of a client; its slot is this modulo M. Without the flag `mh-port`, `port` is 0.
#[must_use]
pub fn flow_hash(address: IpAddr, port: u16, bits: KernelBits) -> u32 {
    hash(HASH1, hash_input(address, port), bits)
}

/// The slots that `mh-fallback` looks at, in order, when the destination of the client's own slot is unavailable.
///
/// There are `size` of them, and a slot may come more than once.
pub fn fallback_slots(address: IpAddr, port: u16, bits: KernelBits, size: u32) -> impl Iterator<Item = u32> {
    let input = hash_input(address, port);
    let own = hash(HASH1, input, bits) % size;
    (0..size).map(move |step| {
        // Both are below the largest table's 131,071 slots, so the sum can't wrap.
        let offset = (step + own) % size;
        hash(HASH1, input.wrapping_add(offset), bits) % size
    })
}

fn hash(key: u32, input: u32, bits: KernelBits) -> u32 {
    let bytes = input.to_le_bytes();
    match bits {
        KernelBits::Bits64 => siphash::<1, 3>(key.into(), key.into(), &bytes) as u32,
        KernelBits::Bits32 => half_siphash13(key, key, &bytes),
    }
}

/// What the kernel derives from table size and weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Derived {
    /// `IP_VS_MH_TAB_INDEX`, 8 to 17.
    pub tab_index: u32,
    /// How many bits the largest number of turns may have: half the index.
    pub tab_bits: u32,
    /// The greatest common divisor of the weights; 0 when all are 0.
    pub gcd: u32,
    /// By how many bits turns are shifted right.
    pub rshift: u32,
}

impl Derived {
    /// The values for a table of `size` slots, one of [`SIZES`]; `None` for another size.
    #[must_use]
    pub fn new(size: u32, weights: &[u32]) -> Option<Self> {
        let tab_index = SIZES.iter().position(|&listed| listed == size)? as u32 + 8;
        let tab_bits = tab_index / 2;
        let divisor = weights.iter().copied().fold(0, gcd);
        let heaviest = weights.iter().copied().max().unwrap_or(0);
        let bits = heaviest.checked_div(divisor).map_or(0, |units| u32::BITS - units.leading_zeros());
        Some(Self { tab_index, tab_bits, gcd: divisor, rshift: bits.saturating_sub(tab_bits) })
    }

    /// How many turns in a row a destination of this weight takes.
    #[must_use]
    pub fn turns(&self, weight: u32) -> u32 {
        match weight.checked_div(self.gcd).unwrap_or(0) >> self.rshift {
            0 => u32::from(weight != 0),
            turns => turns,
        }
    }
}

pub(super) fn build(input: &Input<'_>) -> Result<Built, ProfileError> {
    let mut list = input.active();
    if input.params.list_order == ListOrder::Reverse {
        list.reverse();
    }
    let addresses = list.iter().map(destination).collect::<Result<Vec<SocketAddr>, _>>()?;
    input.check_distinct(&list, |index| addresses[index])?;
    input.check_room(list.len())?;
    if let Some(placed) = list.iter().find(|placed| effective_weight(placed) > i32::MAX as u32) {
        return Err(placed.bad_weight("IPVS takes weights from 0 to 2147483647"));
    }

    let weights: Vec<u32> = list.iter().map(effective_weight).collect();
    // The size was checked on entry, so it is a listed one.
    let Some(derived) = Derived::new(input.size, &weights) else {
        return Err(input.profile.check_size(input.size).err().unwrap_or(ProfileError::NoMember("")));
    };
    check_stated(input, derived)?;
    if derived.gcd == 0 {
        return Err(ProfileError::NoMember(
            "give at least one destination that has, or has had, a positive weight",
        ));
    }

    let bits = input.params.kernel_bits;
    let preferences: Vec<Preference> = addresses
        .iter()
        .map(|address| {
            let sum = hash_input(address.ip(), address.port());
            let skip = hash(HASH2, sum, bits) % (input.size - 1) + 1;
            Preference { offset: hash(HASH1, sum, bits) % input.size, skip }
        })
        .collect();
    let turns: Vec<u32> = weights.iter().map(|&weight| derived.turns(weight)).collect();
    let warnings = warn(input, &list, &addresses, &weights, &turns, derived);
    let table = assemble::fill(input, &list, &preferences, Streaks::new(turns))?;
    Ok(Built { table, secondary: None, warnings })
}

/// The key as address and port.
fn destination(placed: &Placed<'_>) -> Result<SocketAddr, ProfileError> {
    let key = placed.member.key;
    key.parse()
        .or_else(|_| key.parse().map(|ip: IpAddr| SocketAddr::new(ip, 0)))
        .map_err(|_| placed.unreadable("address:port or [IPv6 address]:port"))
}

/// The kernel's `last_weight`.
fn effective_weight(placed: &Placed<'_>) -> u32 {
    match placed.member.weight {
        0 => placed.member.last_weight.unwrap_or(0),
        weight => weight,
    }
}

fn check_stated(input: &Input<'_>, derived: Derived) -> Result<(), ParamError> {
    let stated = input.params.stated;
    for (name, stated, derived) in [
        ("tab_index", stated.tab_index, derived.tab_index),
        ("tab_bits", stated.tab_bits, derived.tab_bits),
        ("gcd", stated.gcd, derived.gcd),
        ("rshift", stated.rshift, derived.rshift),
    ] {
        match stated {
            Some(stated) if stated != u64::from(derived) => {
                return Err(ParamError::Contradiction { name, stated, derived: derived.into() });
            }
            _ => {}
        }
    }
    Ok(())
}

fn warn(
    input: &Input<'_>,
    list: &[Placed<'_>],
    addresses: &[SocketAddr],
    weights: &[u32],
    turns: &[u32],
    derived: Derived,
) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let of_one_port = addresses.windows(2).all(|pair| pair[0].port() == pair[1].port());
    let reason = if of_one_port {
        "their IPv6 addresses have one XOR fold"
    } else {
        "the hash takes the sum of address and port; give all destinations one port"
    };
    warn_of_same_walks(
        list,
        |index| hash_input(addresses[index].ip(), addresses[index].port()),
        reason,
        &mut warnings,
    );
    if list.len() > 1 {
        warnings.push(Warning::NotReproducible(
            "the table depends on the order in which destinations were added; add them in one order on all directors",
        ));
    }
    let proportional = weights
        .iter()
        .zip(turns)
        .all(|(&weight, &taken)| u64::from(taken) << derived.rshift == u64::from(weight / derived.gcd));
    if !proportional {
        warnings.push(Warning::WeightsDistorted(
            "turns are cut to half the table index in bits; take smaller weights",
        ));
    }
    for (placed, _) in
        list.iter().zip(weights).filter(|(placed, weight)| placed.member.weight == 0 && **weight > 0)
    {
        warnings.push(Warning::ZeroWeightOwnsSlots { place: placed.place });
    }
    let round: u64 = turns.iter().map(|&taken| u64::from(taken)).sum();
    if round > input.size.into() {
        warnings.push(Warning::WeightsDistorted(
            "one round of turns is longer than the table; the last destinations get less or nothing",
        ));
    }
    warnings
}

/// Each destination's turns in a row.
struct Streaks {
    turns: Vec<u32>,
    who: usize,
    left: u32,
}

impl Streaks {
    /// At least one of the numbers is positive.
    fn new(turns: Vec<u32>) -> Self {
        Self { left: turns.first().copied().unwrap_or(0), turns, who: 0 }
    }
}

impl Turns for Streaks {
    fn next(&mut self) -> u32 {
        while self.left == 0 {
            self.who = if self.who + 1 == self.turns.len() { 0 } else { self.who + 1 };
            self.left = self.turns[self.who];
        }
        self.left -= 1;
        self.who as u32
    }
}

#[cfg(test)]
mod tests {
    use alloc::{format, string::String};

    use super::*;
    use crate::profile::{Member, Params, Profile, State, build};

    #[test]
    fn derived_values() {
        let derived = |size, weights: &[u32]| Derived::new(size, weights).unwrap();
        assert_eq!(
            derived(4_093, &[100, 200, 300]),
            Derived { tab_index: 12, tab_bits: 6, gcd: 100, rshift: 0 }
        );
        let shifted = derived(1_021, &[1, 1_000, 3_001]);
        assert_eq!((shifted.rshift, shifted.tab_bits), (7, 5));
        assert_eq!([1, 1_000, 3_001, 0].map(|weight| shifted.turns(weight)), [1, 7, 23, 0]);
        assert_eq!(derived(251, &[0, 0]).gcd, 0);
        assert_eq!(Derived::new(65_537, &[1]), None);
    }

    #[test]
    fn a_destination_set_to_zero_keeps_its_slots() {
        let before = [Member::new("10.0.0.1:80", 3), Member::new("10.0.0.2:80", 5)];
        let after = [Member { weight: 0, last_weight: Some(3), ..before[0] }, before[1]];
        let never = [Member::new("10.0.0.1:80", 0), before[1]];
        let built =
            |members: &[Member<'_>]| build(Profile::IpvsMh, 251, members, &Params::default()).unwrap();
        assert_eq!(built(&before).table, built(&after).table);
        assert!(built(&after).warnings.contains(&Warning::ZeroWeightOwnsSlots { place: 0 }));
        assert_eq!(built(&never).table.counts(2), [0, 251]);
        let cut = [before[0], Member::new("10.0.0.2:80", 1_000)];
        assert!(built(&cut).warnings.iter().any(|warning| matches!(warning, Warning::WeightsDistorted(_))));
        assert!(
            !built(&before).warnings.iter().any(|warning| matches!(warning, Warning::WeightsDistorted(_)))
        );
    }

    #[test]
    fn addresses_and_ports_that_add_up_alike_are_warned_of() {
        let colliding = [Member::new("10.0.0.1:8081", 1), Member::new("10.0.0.2:8080", 1)];
        let built = build(Profile::IpvsMh, 251, &colliding, &Params::default()).unwrap();
        assert!(matches!(built.warnings[0], Warning::SameWalk { members: 1, .. }));
    }

    #[test]
    fn refuses_what_ipvs_refuses() {
        let error = |size, members: &[Member<'_>]| {
            build(Profile::IpvsMh, size, members, &Params::default()).unwrap_err()
        };
        let one = Member::new("10.0.0.1:80", 1);
        assert!(matches!(error(65_537, &[one]), ProfileError::Size { .. }));
        assert!(matches!(error(251, &[one, one]), ProfileError::Duplicate { .. }));
        assert!(matches!(error(251, &[Member { weight: 0, ..one }]), ProfileError::NoMember(_)));
        assert!(matches!(error(251, &[one.in_state(State::Inactive)]), ProfileError::NoMember(_)));
        assert!(matches!(error(251, &[Member { weight: 1 << 31, ..one }]), ProfileError::Weight { .. }));
        let keys: Vec<String> = (0..252).map(|i| format!("10.0.0.{i}:80")).collect();
        let many: Vec<_> = keys.iter().map(|key| Member::new(key, 0)).collect();
        assert!(matches!(error(251, &many), ProfileError::TooMany { members: 252, .. }));
        let stated = Params::parse(Profile::IpvsMh, [("tab_index", "9")]).unwrap();
        let refused = build(Profile::IpvsMh, 251, &[one], &stated).unwrap_err();
        assert!(matches!(refused, ProfileError::Param(ParamError::Contradiction { .. })), "{refused}");
    }

    #[test]
    fn fallback_starts_from_the_clients_own_slot() {
        let client = "192.0.2.1".parse().unwrap();
        let slots: Vec<u32> = fallback_slots(client, 0, KernelBits::Bits64, 251).collect();
        let own = flow_hash(client, 0, KernelBits::Bits64) % 251;
        assert_eq!(own, 227);
        assert_eq!(slots.len(), 251);
        let first = hash(HASH1, hash_input(client, 0) + own, KernelBits::Bits64) % 251;
        let wrapped = hash(HASH1, hash_input(client, 0) + own - 1, KernelBits::Bits64) % 251;
        assert_eq!((slots[0], slots[250]), (first, wrapped));
    }
}
