//! Every way to build a table gives the same table.

use guideway_hash::maglev::fast::{Kernel, fill_with};
use guideway_hash::maglev::{
    BuildError, Draft, Preference, RoundRobin, Turns, Weighted, fill, fill_textbook,
};
use proptest::prelude::*;

const PRIMES: [u32; 14] = [2, 3, 5, 7, 11, 13, 31, 61, 127, 251, 509, 1021, 4093, 16_381];

fn kernels() -> impl Iterator<Item = Kernel> {
    [Kernel::Portable, Kernel::Avx2].into_iter().filter(|kernel| kernel.is_available())
}

fn same_by_every_builder(size: u32, preferences: &[Preference], turns: impl Turns + Clone) {
    let oracle = fill_textbook(size, preferences, turns.clone()).unwrap();
    assert_eq!(fill(size, preferences, turns.clone()).unwrap(), oracle);
    for kernel in kernels() {
        assert_eq!(fill_with(kernel, size, preferences, turns.clone()).unwrap(), oracle, "{kernel:?}");
    }
    let mut drafted = vec![None; size as usize];
    for turn in Draft::new(size, preferences, turns).unwrap() {
        for slot in turn.refused {
            assert!(drafted[slot as usize].is_some(), "a refused slot was taken before");
        }
        assert_eq!(drafted[turn.slot as usize].replace(turn.backend), None);
    }
    assert!(drafted.into_iter().map(Option::unwrap).eq(&oracle));
}

prop_compose! {
    fn prime_board()(size in prop::sample::select(&PRIMES[..]), backends in 1_usize..100)(
        preferences in prop::collection::vec((0..size, 1..size), backends), size in Just(size),
    ) -> (u32, Vec<Preference>) {
        (size, preferences.into_iter().map(|(offset, skip)| Preference { offset, skip }).collect())
    }
}

prop_compose! {
    fn power_of_two_board()(bits in 1_u32..13, backends in 1_usize..40)(
        preferences in prop::collection::vec((0..1_u32 << bits, 0..1_u32 << (bits - 1)), backends), bits in Just(bits),
    ) -> (u32, Vec<Preference>) {
        let odd = |(offset, half)| Preference { offset, skip: 2 * half + 1 };
        (1 << bits, preferences.into_iter().map(odd).collect())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn round_robin_on_primes((size, preferences) in prime_board()) {
        same_by_every_builder(size, &preferences, RoundRobin::new(preferences.len() as u32));
    }

    #[test]
    fn round_robin_on_powers_of_two((size, preferences) in power_of_two_board()) {
        same_by_every_builder(size, &preferences, RoundRobin::new(preferences.len() as u32));
    }

    #[test]
    fn weighted_turns((size, preferences) in prime_board(), seeds in prop::collection::vec(0_u32..50, 100)) {
        let mut weights = seeds[..preferences.len()].to_vec();
        weights[0] += 1;
        let turns = Weighted::new(size, &weights).unwrap();
        same_by_every_builder(size, &preferences, turns);
    }

    #[test]
    fn one_backend_a_slot(size in prop::sample::select(&PRIMES[..10]), seed: u64) {
        let hash = |i: u32| guideway_hash::hash::native::hash_words(seed, &[i.into()]);
        let preferences: Vec<_> = (0..size).map(|i| Preference {
            offset: (hash(i) % u64::from(size)) as u32,
            skip: ((hash(i) >> 32) % u64::from(size - 1)) as u32 + 1,
        }).collect();
        same_by_every_builder(size, &preferences, RoundRobin::new(size));
        let table = fill(size, &preferences, RoundRobin::new(size)).unwrap();
        prop_assert!(table.counts(size as usize).iter().all(|&count| count == 1));
    }

    #[test]
    fn preferences_visit_every_slot_once((size, preferences) in prime_board()) {
        for preference in preferences {
            let mut slots: Vec<_> = preference.slots(size).collect();
            slots.sort_unstable();
            prop_assert!(slots.into_iter().eq(0..size));
        }
    }
}

fn many(size: u32, backends: u32) -> Vec<Preference> {
    let hash = |i: u32, what| guideway_hash::hash::native::hash_words(7, &[i.into(), what]);
    (0..backends)
        .map(|i| Preference {
            offset: (hash(i, 0) % u64::from(size)) as u32,
            skip: (hash(i, 1) % u64::from(size - 1)) as u32 + 1,
        })
        .collect()
}

#[test]
fn the_default_size_with_few_and_many_backends() {
    for backends in [1, 2, 10, 1000] {
        let turns = RoundRobin::new(backends);
        same_by_every_builder(65_537, &many(65_537, backends), turns);
    }
}

/// Small enough for an interpreter: `RUSTFLAGS=-Ctarget-feature=+avx2,+bmi1,+bmi2 cargo +nightly miri test`.
#[test]
fn small_tables_in_every_way() {
    for (size, backends) in [(2, 2), (7, 3), (128, 5), (509, 3), (509, 40)] {
        let odd = |mut preference: Preference| {
            preference.skip |= u32::from(size == 128);
            preference
        };
        let preferences: Vec<_> = many(size, backends).into_iter().map(odd).collect();
        same_by_every_builder(size, &preferences, RoundRobin::new(backends));
    }
}

#[test]
fn sizes_beyond_those_whose_ranks_fit_a_fraction() {
    for (size, backends) in [(91_997, 40), (92_003, 40), (131_071, 3), (655_373, 500)] {
        same_by_every_builder(size, &many(size, backends), RoundRobin::new(backends));
    }
}

#[test]
fn one_backend_with_nearly_all_turns() {
    let mut weights = vec![1; 50];
    weights[20] = 1_000_000;
    let turns = Weighted::new(65_537, &weights).unwrap();
    same_by_every_builder(65_537, &many(65_537, 50), turns);
}

/// Turns for `backends` backends, one after the other, but one of them for a backend that is not there.
struct Astray {
    backends: u32,
    given: u32,
    wrong: u32,
}

impl Turns for Astray {
    fn next(&mut self) -> u32 {
        self.given += 1;
        if self.given - 1 == self.wrong { self.backends } else { self.given % self.backends }
    }
}

#[test]
fn a_turn_for_nobody_is_reported_wherever_it_comes() {
    let size = 4093;
    for backends in [5, 50] {
        for turn in (0..size).step_by(97).chain([size - 1]) {
            let refused = BuildError::UnknownBackend { turn, backend: backends, backends: backends as usize };
            for kernel in kernels() {
                let turns = Astray { backends, given: 0, wrong: turn };
                assert_eq!(fill_with(kernel, size, &many(size, backends), turns), Err(refused), "{kernel:?}");
            }
        }
    }
}

#[test]
fn narrow_and_wide_slots_agree() {
    // The same 1,000 backends take turns; the rest are only named, which makes the slots wide.
    let all = many(65_537, 40_000);
    let narrow = fill(65_537, &all[..1000], RoundRobin::new(1000)).unwrap();
    for kernel in kernels() {
        let wide = fill_with(kernel, 65_537, &all, RoundRobin::new(1000)).unwrap();
        assert_eq!(wide.memory_bytes(), 2 * narrow.memory_bytes());
        assert!(wide.iter().eq(&narrow));
    }
}

#[test]
fn more_backends_than_slots_leave_the_later_ones_without() {
    same_by_every_builder(7, &many(7, 12), RoundRobin::new(12));
    let table = fill(7, &many(7, 12), RoundRobin::new(12)).unwrap();
    assert_eq!(table.counts(12), [1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0]);
}

#[test]
fn what_cannot_be_filled_is_refused() {
    let ok = Preference { offset: 0, skip: 1 };
    assert_eq!(fill(0, &[ok], RoundRobin::new(1)), Err(BuildError::NoSlots));
    assert_eq!(fill(7, &[], RoundRobin::new(1)), Err(BuildError::NoEligibleBackend));
    for (size, offset, skip) in [(7, 7, 1), (7, 0, 0), (7, 0, 7), (8, 0, 2), (9, 0, 3)] {
        let refused = BuildError::BadPreference { backend: 1, offset, skip, slots: size };
        assert_eq!(fill(size, &[ok, Preference { offset, skip }], RoundRobin::new(2)), Err(refused));
    }
    for kernel in kernels() {
        // With 101 slots the third turn comes early; with 3 it is among the last.
        for size in [3, 101] {
            let refused = BuildError::UnknownBackend { turn: 2, backend: 2, backends: 2 };
            assert_eq!(fill_with(kernel, size, &[ok, ok], RoundRobin::new(3)), Err(refused));
        }
    }
    assert_eq!(fill(1, &[Preference { offset: 0, skip: 0 }], RoundRobin::new(1)).unwrap().counts(1), [1]);
}
