//! The native profile: identities and weights in, table out.

use alloc::vec::Vec;

use super::{BuildError, Preference, RoundRobin, Weighted, fill};
use crate::hash::{self, NativeHasher, StableHasher};
use crate::prime::TableSize;
use crate::table::{Digest, FlowRule, Table};

/// What a native table is built from, besides the backends: the size and the hasher.
///
/// ```
/// use guideway_hash::maglev::MaglevBuilder;
///
/// let table = MaglevBuilder::new().build(&[("10.0.0.1:443", 1), ("10.0.0.2:443", 3)])?;
/// assert_eq!(table.counts(2), [16_384, 49_153]);
/// # Ok::<(), guideway_hash::maglev::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct MaglevBuilder<H = NativeHasher> {
    size: TableSize,
    hasher: H,
}

impl MaglevBuilder {
    /// 65,537 slots, the default seed.
    pub fn new() -> Self {
        Self::default()
    }
}

impl<H: StableHasher> MaglevBuilder<H> {
    /// With a table of this size.
    #[must_use]
    pub fn size(self, size: TableSize) -> Self {
        Self { size, ..self }
    }

    /// With this hash for offsets and skips.
    #[must_use]
    pub fn hasher<G: StableHasher>(self, hasher: G) -> MaglevBuilder<G> {
        MaglevBuilder { size: self.size, hasher }
    }

    /// The preference of the backend with this identity: `offset = hash(OFFSET, identity) mod M`,
    /// `skip = hash(SKIP, identity) mod (M - 1) + 1`.
    pub fn preference(&self, identity: &[u8]) -> Preference {
        let size = u64::from(self.size.get());
        Preference {
            offset: (self.hasher.hash(hash::OFFSET, identity) % size) as u32,
            skip: (self.hasher.hash(hash::SKIP, identity) % (size - 1)) as u32 + 1,
        }
    }

    /// The backends that take turns, and how: what [`build`](Self::build) fills the table from.
    ///
    /// # Errors
    /// As [`build`](Self::build).
    pub fn plan<I: AsRef<[u8]>>(&self, backends: &[(I, u32)]) -> Result<Plan, BuildError> {
        let out_of_memory = |_| BuildError::Allocation { slots: self.size.get(), backends: backends.len() };
        let count = u32::try_from(backends.len())
            .map_err(|_| BuildError::TooManyBackends { eligible: backends.len(), slots: self.size.get() })?;
        let identity = |index: u32| backends[index as usize].0.as_ref();
        let mut sorted: Vec<(u128, u32)> = Vec::new();
        sorted.try_reserve_exact(backends.len()).map_err(out_of_memory)?;
        sorted.extend((0..count).map(|index| (head(identity(index)), index)));
        sorted.sort_unstable_by(|&(head_a, a), &(head_b, b)| {
            head_a.cmp(&head_b).then_with(|| identity(a).cmp(identity(b)).then(a.cmp(&b)))
        });
        // Equal identities are neighbours now. Of several pairs, the one that the caller wrote first is named.
        let duplicate = sorted
            .windows(2)
            .filter(|pair| pair[0].0 == pair[1].0 && identity(pair[0].1) == identity(pair[1].1))
            .min_by_key(|pair| pair[1].1);
        if let Some(pair) = duplicate {
            let (first, second) = (pair[0].1 as usize, pair[1].1 as usize);
            return Err(BuildError::DuplicateIdentity { first, second });
        }
        let mut order: Vec<u32> = Vec::new();
        order.try_reserve_exact(backends.len()).map_err(out_of_memory)?;
        order.extend(sorted.iter().map(|&(_, index)| index));
        order.retain(|&index| backends[index as usize].1 > 0);
        if order.is_empty() {
            return Err(BuildError::NoEligibleBackend);
        }
        if order.len() > self.size.get() as usize {
            return Err(BuildError::TooManyBackends { eligible: order.len(), slots: self.size.get() });
        }
        let mut preferences = Vec::new();
        preferences.try_reserve_exact(order.len()).map_err(out_of_memory)?;
        preferences.extend(order.iter().map(|&index| self.preference(identity(index))));
        let mut weights = Vec::new();
        weights.try_reserve_exact(order.len()).map_err(out_of_memory)?;
        weights.extend(order.iter().map(|&index| backends[index as usize].1));
        Ok(Plan { size: self.size.get(), order, preferences, weights })
    }

    /// The table of these backends, each an identity and a weight. Its owners are indices into `backends`.
    ///
    /// The order of `backends` has no influence on who owns what. A backend of weight 0 owns nothing.
    ///
    /// # Errors
    /// [`BuildError::DuplicateIdentity`], [`BuildError::NoEligibleBackend`], [`BuildError::TooManyBackends`],
    /// [`BuildError::Allocation`].
    pub fn build<I: AsRef<[u8]>>(&self, backends: &[(I, u32)]) -> Result<Table, BuildError> {
        let plan = self.plan(backends)?;
        plan.fill()?
            .renumber(&plan.order, backends.len())
            .ok_or(BuildError::Allocation { slots: plan.size, backends: backends.len() })
    }
}

/// The first sixteen bytes, zeros after the end: most identities differ in them, and they compare in one step.
fn head(identity: &[u8]) -> u128 {
    let mut head = [0; 16];
    let length = identity.len().min(16);
    head[..length].copy_from_slice(&identity[..length]);
    u128::from_be_bytes(head)
}

/// The backends that take turns in a native table, in canonical order: ascending by identity bytes.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Slots of the table.
    pub size: u32,
    /// Indices into the caller's backends.
    pub order: Vec<u32>,
    /// Their preferences.
    pub preferences: Vec<Preference>,
    /// Their weights, all positive.
    pub weights: Vec<u32>,
}

impl Plan {
    /// The table. Its owners are indices into `order`.
    ///
    /// # Errors
    /// [`BuildError::Allocation`].
    pub fn fill(&self) -> Result<Table, BuildError> {
        let size = self.size;
        if self.weights.windows(2).all(|pair| pair[0] == pair[1]) {
            fill(size, &self.preferences, RoundRobin::new(self.preferences.len() as u32))
        } else {
            fill(size, &self.preferences, Weighted::new(size, &self.weights)?)
        }
    }
}

/// A native Maglev table together with the backends it was built from.
#[derive(Clone, Debug)]
pub struct Maglev<I, H = NativeHasher> {
    backends: Vec<(I, u32)>,
    hasher: H,
    table: Table,
}

impl<I: AsRef<[u8]>, H: StableHasher> Maglev<I, H> {
    /// Builds the table of `backends`, each an identity and a weight, by `builder`.
    ///
    /// # Errors
    /// As [`MaglevBuilder::build`].
    pub fn new(builder: MaglevBuilder<H>, backends: Vec<(I, u32)>) -> Result<Self, BuildError> {
        let table = builder.build(&backends)?;
        Ok(Self { backends, hasher: builder.hasher, table })
    }

    /// The identity of the backend that takes the flow with this key.
    pub fn pick(&self, key: &[u8]) -> &I {
        &self.backends[self.pick_index(key) as usize].0
    }

    /// The index of the backend that takes the flow with this key.
    pub fn pick_index(&self, key: &[u8]) -> u32 {
        self.table.pick(self.hasher.hash(hash::FLOW, key))
    }

    /// The backends as they were given.
    pub fn backends(&self) -> &[(I, u32)] {
        &self.backends
    }

    /// The table.
    pub fn table(&self) -> &Table {
        &self.table
    }
}

impl<I: AsRef<[u8]>> Maglev<I, NativeHasher> {
    /// The fingerprint of what this table answers.
    pub fn digest(&self) -> Digest {
        let identities: Vec<&[u8]> = self.backends.iter().map(|(identity, _)| identity.as_ref()).collect();
        self.table
            .digest(FlowRule::native(&self.hasher), &identities)
            .expect("every owner is an index into `backends`, from which the table was built")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_canonical_order_is_by_bytes_whatever_the_length(
            identities in prop::collection::btree_set(prop::collection::vec(prop::sample::select(&[0_u8, b'a', 255][..]), 0..20), 1..40),
        ) {
            // The set is sorted; given backwards, it must come back.
            let backends: Vec<(Vec<u8>, u32)> = identities.into_iter().rev().map(|identity| (identity, 1)).collect();
            let plan = MaglevBuilder::new().plan(&backends).unwrap();
            prop_assert!(plan.order.into_iter().eq((0..backends.len() as u32).rev()));
        }
    }

    #[test]
    fn the_first_duplicate_is_named_also_beyond_the_sixteenth_byte() {
        let long = "a name of more than sixteen bytes";
        let backends = [(long, 1), ("b", 1), ("a name of more than sixteen", 1), ("b", 1), (long, 1)];
        let refused = MaglevBuilder::new().build(&backends);
        assert_eq!(refused, Err(BuildError::DuplicateIdentity { first: 1, second: 3 }));
        assert!(MaglevBuilder::new().build(&backends[..3]).is_ok());
    }
}
