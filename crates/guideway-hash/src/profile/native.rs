//! Guideway's own table, under a profile's name.
//!
//! # Rule
//! That of [`maglev::MaglevBuilder`]: backends in order of identity, the native hash under a seed, exact integer weights.
//! Weight 0, and any state but active, leaves a backend out. The one parameter is `seed`, which a fleet shares.
//!
//! # Limits
//! M is a prime from 2 to 5,000,011; 65,537 unless told otherwise. More backends than slots, and equal keys, are
//! refused.
//!
//! # Flow hash
//! The native hash in the domain [`hash::FLOW`](crate::hash::FLOW) of the flow's key, modulo M.
//!
//! Source: [`crate::maglev`].

use alloc::vec::Vec;

use super::{Built, Input, ProfileError, State};
use crate::{
    hash::NativeHasher,
    maglev::{self, BuildError},
    prime::TableSize,
};

pub(super) fn build(input: &Input<'_>) -> Result<Built, ProfileError> {
    let backends: Vec<(&str, u32)> = input
        .members
        .iter()
        .map(|member| (member.key, if member.state == State::Active { member.weight } else { 0 }))
        .collect();
    let size = TableSize::new(input.size).map_err(BuildError::from)?;
    let builder = maglev::MaglevBuilder::new().size(size).hasher(NativeHasher::new(input.params.seed));
    Ok(Built { table: builder.build(&backends)?, secondary: None, warnings: Vec::new() })
}
