//! Who owns which slot: from eligible backends to a list of owners.

use guideway_forward::record::NO_BACKEND;
use guideway_hash::maglev::{BuildError, MaglevBuilder};
use guideway_hash::policy::{Balancer, Candidate, Policy, ReconcileError, RendezvousTable};
use guideway_hash::table::Slots;
use guideway_hash::{NativeHasher, TableSize};

use super::spec::{TableRule, TableSizeSpec, TableSpec};

/// A table could not be built; nothing has changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TableError {
    /// The size is not a prime that a table can have.
    #[error(transparent)]
    Size(#[from] guideway_hash::prime::SizeError),
    /// Maglev refuses.
    #[error(transparent)]
    Maglev(#[from] BuildError),
    /// Rendezvous refuses.
    #[error(transparent)]
    Rendezvous(#[from] ReconcileError),
}

/// The number of slots that `spec` asks for, given how many backends the service names.
pub(crate) fn size(spec: &TableSpec, backends: usize) -> Result<TableSize, TableError> {
    Ok(match spec.size {
        TableSizeSpec::Slots(slots) => TableSize::new(slots)?,
        TableSizeSpec::Auto => TableSize::auto(backends),
    })
}

/// The owners of `size` slots by their names: `names[i]` is that of `eligible[i]` (identity and weight, weights positive,
/// none twice).
pub(crate) fn owners(
    rule: TableRule,
    seed: u64,
    size: TableSize,
    eligible: &[(&str, u32)],
    names: &[u16],
) -> Result<Vec<u16>, TableError> {
    let hasher = NativeHasher::new(seed);
    let named = |place: usize| names.get(place).copied().unwrap_or(NO_BACKEND);
    match rule {
        TableRule::Maglev => {
            let plan = MaglevBuilder::new().size(size).hasher(hasher).plan(eligible)?;
            let table = plan.fill()?;
            let names: Vec<u16> = plan.order.iter().map(|&place| named(place as usize)).collect();
            let named = |place: usize| names.get(place).copied().unwrap_or(NO_BACKEND);
            Ok(match table.into_slots() {
                // The memory of the places serves for the names.
                Slots::U16(places) => places.into_iter().map(|place| named(place.into())).collect(),
                Slots::U32(places) => places.into_iter().map(|place| named(place as usize)).collect(),
            })
        }
        TableRule::Rendezvous => {
            let mut table = Balancer::with_hasher(RendezvousTable::new(size), hasher);
            let candidates: Vec<_> = eligible
                .iter()
                .map(|&(identity, weight)| Candidate::new(identity).with_weight(weight))
                .collect();
            table.reconcile(&candidates)?;
            // The table is committed, so every hash has an owner; a slot number is its own remainder.
            Ok((0..u64::from(size.get())).map(|slot| named(table.pick_hash(slot).unwrap_or(0))).collect())
        }
    }
}
