//! Arbitrary backends, weights and sizes: the fast builders, the textbook loop and the draft agree, and whatever
//! can't be built is refused.
//!
//! The first four bytes are the size, the rest are backends of six bytes each: four of identity, two of weight.
#![no_main]

use guideway_hash::TableSize;
use guideway_hash::maglev::fast::{Kernel, fill_with};
use guideway_hash::maglev::{BuildError, Draft, MaglevBuilder, RoundRobin, Weighted, fill_textbook};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((head, rest)) = input.split_first_chunk::<4>() else { return };
    // Sizes that keep a run short; most are primes after rounding up.
    let asked = u32::from_le_bytes(*head) % 5000;
    let size = match TableSize::new(asked) {
        Ok(size) => size,
        Err(error) => TableSize::new(error.above.expect("there are primes above 5000")).expect("it said so"),
    };
    let backends: Vec<(&[u8], u32)> =
        rest.chunks_exact(6).map(|b| (&b[..4], u16::from_le_bytes([b[4], b[5]]).into())).collect();
    let builder = MaglevBuilder::new().size(size);
    let size = size.get();
    let table = match builder.build(&backends) {
        Ok(table) => table,
        Err(BuildError::DuplicateIdentity { first, second }) => {
            assert!(first < second && backends[first].0 == backends[second].0);
            return;
        }
        Err(BuildError::NoEligibleBackend) => {
            assert!(backends.iter().all(|&(_, weight)| weight == 0));
            return;
        }
        Err(BuildError::TooManyBackends { eligible, slots }) => {
            assert!(slots == size && eligible > size as usize && eligible <= backends.len());
            return;
        }
        Err(other) => panic!("{other}"),
    };
    let counts = table.counts(backends.len());
    for (&(_, weight), &count) in backends.iter().zip(&counts) {
        assert_eq!(weight > 0, count > 0, "a positive weight owns something, weight 0 nothing");
    }
    let plan = builder.plan(&backends).expect("it was built");
    let weighted = Weighted::new(size, &plan.weights).expect("it was built");
    let oracle = fill_textbook(size, &plan.preferences, weighted.clone()).expect("it was built");
    assert!(oracle.iter().map(|owner| plan.order[owner as usize]).eq(&table));
    let draft = Draft::new(size, &plan.preferences, weighted.clone()).expect("it was built");
    for turn in draft {
        assert_eq!(oracle.owner(turn.slot), turn.backend);
        assert!(turn.refused.iter().all(|&slot| slot != turn.slot));
    }
    let robin = RoundRobin::new(plan.preferences.len() as u32);
    let equal = fill_textbook(size, &plan.preferences, robin.clone()).expect("it was built");
    for kernel in [Kernel::Portable, Kernel::Avx2] {
        assert!(fill_with(kernel, size, &plan.preferences, weighted.clone()) == Ok(oracle.clone()));
        assert!(fill_with(kernel, size, &plan.preferences, robin.clone()) == Ok(equal.clone()));
    }
    // A power of two, with odd skips.
    let even: Vec<_> = plan
        .preferences
        .iter()
        .map(|p| guideway_hash::maglev::Preference { offset: p.offset % 1024, skip: p.skip % 1024 | 1 })
        .collect();
    let oracle = fill_textbook(1024, &even, robin.clone()).expect("odd skips walk all");
    assert!(fill_with(Kernel::detect(), 1024, &even, robin) == Ok(oracle));
});
