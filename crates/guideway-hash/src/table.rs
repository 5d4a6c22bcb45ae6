//! The finished table: which backend owns which slot.

use alloc::boxed::Box;
use alloc::collections::TryReserveError;
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

use crate::hash::native::{self, NativeHasher, hash_words};
use crate::hash::{self, StableHasher};

/// The most backends whose indices are kept in 16 bits a slot; the packet path's indices have 15 bits.
pub const MAX_NARROW_BACKENDS: usize = 32_767;

/// Slot owners, in as few bits as the number of backends allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Slots {
    /// Up to [`MAX_NARROW_BACKENDS`] backends.
    U16(Box<[u16]>),
    /// More than that.
    U32(Box<[u32]>),
}

/// A table of M slots, each owned by one backend, named by its index in the caller's list.
///
/// A flow's backend is `owner(hash mod M)`. That is the one rule everywhere in Guideway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    slots: Slots,
    /// 2^64 / M, rounded down or, where M is a power of two, one less.
    reciprocal: u64,
}

impl Table {
    /// A table of the given owners.
    ///
    /// # Panics
    /// When there are no slots, or more than `u32::MAX`: such a table answers nothing.
    pub fn new(slots: Slots) -> Self {
        let size = match &slots {
            Slots::U16(owners) => owners.len(),
            Slots::U32(owners) => owners.len(),
        };
        assert!(size > 0 && u32::try_from(size).is_ok(), "a table has 1 to 2^32 - 1 slots");
        Self { slots, reciprocal: u64::MAX / size as u64 }
    }

    /// A table of `size` slots with these owners, as narrow as `backends` allows.
    pub(crate) fn pack(
        size: u32,
        backends: usize,
        owners: impl Iterator<Item = u32>,
    ) -> Result<Self, TryReserveError> {
        Ok(Self::new(if backends <= MAX_NARROW_BACKENDS {
            let mut slots: Vec<u16> = Vec::new();
            slots.try_reserve_exact(size as usize)?;
            slots.extend(owners.map(|owner| owner as u16));
            Slots::U16(slots.into_boxed_slice())
        } else {
            let mut slots: Vec<u32> = Vec::new();
            slots.try_reserve_exact(size as usize)?;
            slots.extend(owners);
            Slots::U32(slots.into_boxed_slice())
        }))
    }

    /// The number of slots, M.
    pub fn size(&self) -> u32 {
        self.len() as u32
    }

    /// The slot of a flow hash: `hash mod M`.
    #[inline]
    pub fn slot(&self, hash: u64) -> u32 {
        let size = self.len() as u64;
        // A multiplication instead of a division. The quotient is at most one too small.
        let quotient = ((u128::from(hash) * u128::from(self.reciprocal)) >> 64) as u64;
        let rest = hash - quotient * size;
        (if rest >= size { rest - size } else { rest }) as u32
    }

    /// The index of the backend that owns `slot`.
    ///
    /// # Panics
    /// When `slot` is not below [`size`](Self::size).
    #[inline]
    pub fn owner(&self, slot: u32) -> u32 {
        match &self.slots {
            Slots::U16(owners) => u32::from(owners[slot as usize]),
            Slots::U32(owners) => owners[slot as usize],
        }
    }

    /// The index of the backend that a flow with this hash goes to.
    #[inline]
    pub fn pick(&self, hash: u64) -> u32 {
        self.owner(self.slot(hash))
    }

    /// The owners of all slots, in slot order.
    pub fn iter(&self) -> Iter<'_> {
        Iter { table: self, slots: 0..self.size() }
    }

    /// The slots as they are stored.
    pub fn slots(&self) -> &Slots {
        &self.slots
    }

    /// The slots without the table.
    pub fn into_slots(self) -> Slots {
        self.slots
    }

    /// How many slots each of `backends` backends owns. Owners with a higher index are not counted.
    pub fn counts(&self, backends: usize) -> Vec<u32> {
        let mut counts = alloc::vec![0; backends];
        for owner in self {
            if let Some(count) = counts.get_mut(owner as usize) {
                *count += 1;
            }
        }
        counts
    }

    /// The table as little-endian `u32` indices, one a slot: the form that golden records and files have.
    pub fn to_le_u32_bytes(&self) -> Vec<u8> {
        self.iter().flat_map(u32::to_le_bytes).collect()
    }

    /// Bytes that the slots take in memory.
    pub fn memory_bytes(&self) -> usize {
        match &self.slots {
            Slots::U16(owners) => size_of_val(&**owners),
            Slots::U32(owners) => size_of_val(&**owners),
        }
    }

    /// The fingerprint of what this table answers: see [`Digest`].
    ///
    /// `identities` are the backends in the order that the table's indices mean.
    ///
    /// # Errors
    /// [`UnknownOwner`] when a slot is owned by an index for which there is no identity.
    pub fn digest<I: AsRef<[u8]>>(
        &self,
        flows: FlowRule<'_>,
        identities: &[I],
    ) -> Result<Digest, UnknownOwner> {
        Digest::of(self, flows, identities)
    }

    /// The table with owner `i` named `names[i]`, for `backends` backends; `None` when there is no memory for it.
    ///
    /// # Panics
    /// When an owner has no name, or a name doesn't fit the width that `backends` asks for.
    pub(crate) fn renumber(self, names: &[u32], backends: usize) -> Option<Self> {
        let renamed = |owner: u32| names[owner as usize];
        match self.slots {
            Slots::U16(mut owners) if backends <= MAX_NARROW_BACKENDS => {
                for owner in &mut owners {
                    *owner = renamed(u32::from(*owner)) as u16;
                }
                Some(Self::new(Slots::U16(owners)))
            }
            Slots::U32(mut owners) if backends > MAX_NARROW_BACKENDS => {
                for owner in &mut owners {
                    *owner = renamed(*owner);
                }
                Some(Self::new(Slots::U32(owners)))
            }
            // Few of many backends take turns, so the names are wider than the numbers were.
            slots => {
                let narrow = Self::new(slots);
                Self::pack(narrow.size(), backends, narrow.iter().map(renamed)).ok()
            }
        }
    }

    fn len(&self) -> usize {
        match &self.slots {
            Slots::U16(owners) => owners.len(),
            Slots::U32(owners) => owners.len(),
        }
    }
}

impl<'a> IntoIterator for &'a Table {
    type Item = u32;
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

/// The owners of a table's slots, in slot order.
#[derive(Clone, Debug)]
pub struct Iter<'a> {
    table: &'a Table,
    slots: core::ops::Range<u32>,
}

impl Iterator for Iter<'_> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        self.slots.next().map(|slot| self.table.owner(slot))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.slots.size_hint()
    }
}

impl ExactSizeIterator for Iter<'_> {}

/// How a flow becomes the 64-bit hash whose remainder is the slot: the rule's name and the seed it is keyed by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowRule<'a> {
    /// What names the rule, such as `native`, `cilium` or `katran`.
    pub name: &'a str,
    /// The seed, or 0 for rules that have none.
    pub seed: u64,
}

impl FlowRule<'static> {
    /// The rule of [`NativeHasher`] in the domain [`hash::FLOW`].
    pub const fn native(hasher: &NativeHasher) -> Self {
        Self { name: "native", seed: hasher.seed() }
    }
}

/// A fingerprint of a table, equal exactly when every flow would be answered alike.
///
/// It covers the table's size, the flow-hash rule and its seed, and for each slot the *identity* of its owner. It
/// does not depend on how backends are numbered, on the order in which they were given, on backends that own
/// nothing, or on how wide a slot is. It is 128 bits of the native hash: enough that two tables of a fleet never
/// agree by chance, not a defence against somebody who forges one.
///
/// Printed as `gw1-` and 32 hexadecimal digits; [`FromStr`] reads the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u64; 2]);

const PREFIX: &str = "gw1-";

impl Digest {
    fn of<I: AsRef<[u8]>>(
        table: &Table,
        flows: FlowRule<'_>,
        identities: &[I],
    ) -> Result<Self, UnknownOwner> {
        let mut owns = alloc::vec![false; identities.len()];
        for (slot, owner) in table.iter().enumerate() {
            match owns.get_mut(owner as usize) {
                Some(seen) => *seen = true,
                None => return Err(UnknownOwner { slot: slot as u32, owner, identities: identities.len() }),
            }
        }
        // Owners are renumbered by the order of their identities, which every balancer agrees on.
        let mut owners: Vec<usize> = (0..identities.len()).filter(|&i| owns[i]).collect();
        owners.sort_by(|&a, &b| identities[a].as_ref().cmp(identities[b].as_ref()));
        let mut canonical = alloc::vec![0_u32; identities.len()];
        let mut names = Absorber::new();
        names.word(u64::from(table.size()));
        names.word(flows.seed);
        names.bytes(flows.name.as_bytes());
        let mut rank = 0;
        for (place, &owner) in owners.iter().enumerate() {
            let identity = identities[owner].as_ref();
            if place > 0 && identities[owners[place - 1]].as_ref() == identity {
                canonical[owner] = rank;
                continue;
            }
            rank += 1;
            canonical[owner] = rank;
            names.bytes(identity);
        }
        let mut pair = 0;
        for (slot, owner) in table.iter().enumerate() {
            pair = pair << 32 | u64::from(canonical[owner as usize]);
            if slot % 2 == 1 {
                names.word(pair);
                pair = 0;
            }
        }
        names.word(pair);
        Ok(Self(names.state))
    }

    /// The digest as 16 bytes, the more significant first, as printed.
    pub fn to_bytes(self) -> [u8; 16] {
        ((u128::from(self.0[0]) << 64) | u128::from(self.0[1])).to_be_bytes()
    }
}

/// Two chained hashes, of different seeds, over one stream of words.
struct Absorber {
    state: [u64; 2],
}

impl Absorber {
    fn new() -> Self {
        Self { state: [native::start(0, hash::DIGEST), native::start(1, hash::DIGEST)] }
    }

    fn word(&mut self, word: u64) {
        self.state = self.state.map(|state| hash_words(state, &[word]));
    }

    /// The length goes in before the bytes, so no two lists of strings give the same words.
    fn bytes(&mut self, bytes: &[u8]) {
        self.word(bytes.len() as u64);
        self.state = self.state.map(|state| NativeHasher::new(state).hash(hash::DIGEST, bytes));
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{:016x}{:016x}", self.0[0], self.0[1])
    }
}

impl FromStr for Digest {
    type Err = DigestError;

    fn from_str(text: &str) -> Result<Self, DigestError> {
        let digits = text.strip_prefix(PREFIX).ok_or(DigestError)?;
        if digits.len() != 32 || !digits.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b)) {
            return Err(DigestError);
        }
        let value = u128::from_str_radix(digits, 16).map_err(|_| DigestError)?;
        Ok(Self([(value >> 64) as u64, value as u64]))
    }
}

/// A text that is no digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a table digest: write gw1- and 32 lower-case hexadecimal digits, as `table build` prints them")]
pub struct DigestError;

/// A slot whose owner has no identity, so the list of identities is not the one the table was built from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "slot {slot} is owned by backend {owner}, but there are {identities} identities; give those the table was built from"
)]
pub struct UnknownOwner {
    /// The slot.
    pub slot: u32,
    /// The index of its owner.
    pub owner: u32,
    /// How many identities were given.
    pub identities: usize,
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use alloc::vec;

    fn narrow(owners: &[u16]) -> Table {
        Table::new(Slots::U16(owners.into()))
    }

    const NATIVE: FlowRule<'static> = FlowRule::native(&NativeHasher::new(1));

    #[test]
    fn narrow_and_wide_tables_agree() {
        let owners = [3, 1, 4, 1, 5, 9, 2, 6];
        let narrow = Table::pack(8, MAX_NARROW_BACKENDS, owners.into_iter()).unwrap();
        let wide = Table::pack(8, MAX_NARROW_BACKENDS + 1, owners.into_iter()).unwrap();
        assert_eq!((narrow.memory_bytes(), wide.memory_bytes()), (16, 32));
        assert!(narrow.iter().eq(&wide) && wide.iter().eq(owners));
    }

    #[test]
    fn a_slot_is_the_hash_modulo_the_size() {
        for size in [1, 2, 3, 7, 64, 127, 65_537_u32] {
            let table = narrow(&vec![0; size as usize]);
            let hashes = (0..200).map(|i| 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(i) >> (i % 64));
            for hash in
                hashes.chain([0, u64::MAX, u64::MAX - 1, 1 << 63, u64::from(size), u64::from(size) - 1])
            {
                assert_eq!(u64::from(table.slot(hash)), hash % u64::from(size), "{hash} mod {size}");
            }
        }
    }

    #[test]
    fn a_digest_ignores_numbering_and_width() {
        let digest = narrow(&[0, 1, 0, 2, 1]).digest(NATIVE, &["a", "b", "c"]).unwrap();
        assert_eq!(narrow(&[2, 0, 2, 1, 0]).digest(NATIVE, &["b", "c", "a"]), Ok(digest));
        assert_eq!(narrow(&[1, 3, 1, 4, 3]).digest(NATIVE, &["idle", "a", "down", "b", "c"]), Ok(digest));
        let wide = Table::new(Slots::U32([0, 1, 0, 2, 1].into()));
        assert_eq!(wide.digest(NATIVE, &["a", "b", "c"]), Ok(digest));
    }

    #[test]
    fn a_digest_changes_with_anything_that_changes_an_answer() {
        let names = ["a", "b", "c"];
        let digest = |owners: &[u16], rule, names: &[&str]| narrow(owners).digest(rule, names).unwrap();
        let mut digests = vec![
            digest(&[0, 1, 0, 2, 1], NATIVE, &names),
            digest(&[0, 1, 0, 1, 2], NATIVE, &names),
            digest(&[0, 1, 0, 2, 1, 0], NATIVE, &names),
            digest(&[0, 1, 0, 2], NATIVE, &names),
            digest(&[0, 1, 0, 2, 1], NATIVE, &["a", "b", "d"]),
            digest(&[0, 1, 0, 2, 1], NATIVE, &["ab", "", "c"]),
            digest(&[0, 1, 0, 2, 1], FlowRule { name: "native", seed: 2 }, &names),
            digest(&[0, 1, 0, 2, 1], FlowRule { name: "katran", seed: 1 }, &names),
        ];
        digests.sort_unstable();
        digests.dedup();
        assert_eq!(digests.len(), 8);
    }

    #[test]
    fn a_digest_reads_as_it_prints() {
        let digest = narrow(&[0]).digest(NATIVE, &["a"]).unwrap();
        assert_eq!(digest.to_string().parse(), Ok(digest));
        for text in [
            "",
            "gw1-",
            "gw1-00",
            "gw1-+0000000000000000000000000000000",
            "gw2-00000000000000000000000000000000",
        ] {
            assert_eq!(text.parse::<Digest>(), Err(DigestError), "{text}");
        }
        let unknown = UnknownOwner { slot: 1, owner: 5, identities: 1 };
        assert_eq!(narrow(&[0, 5]).digest(NATIVE, &["a"]), Err(unknown));
    }
}
