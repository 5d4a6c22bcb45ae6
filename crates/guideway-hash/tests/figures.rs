//! The figures that the specification prints.

use guideway_hash::TableSize;
use guideway_hash::maglev::{Draft, MaglevBuilder, Preference, RoundRobin, fill, fill_textbook};

fn preferences(pairs: &[(u32, u32)]) -> Vec<Preference> {
    pairs.iter().map(|&(offset, skip)| Preference { offset, skip }).collect()
}

fn filled(size: u32, pairs: &[(u32, u32)]) -> Vec<u32> {
    let preferences = preferences(pairs);
    let turns = RoundRobin::new(pairs.len() as u32);
    let table = fill(size, &preferences, turns.clone()).unwrap();
    assert_eq!(table, fill_textbook(size, &preferences, turns).unwrap());
    table.iter().collect()
}

#[test]
fn seven_slots_for_a_b_and_c() {
    assert_eq!(filled(7, &[(3, 4), (0, 2), (3, 1)]), [1, 0, 1, 0, 2, 2, 0]);
}

#[test]
fn without_b1_its_slots_and_one_more_change() {
    assert_eq!(
        filled(7, &[(3, 4), (3, 1)]).iter().map(|&i| [0, 2][i as usize]).collect::<Vec<_>>(),
        [0, 0, 0, 0, 2, 2, 2]
    );
}

#[test]
fn the_draft_of_seven_slots_shows_who_was_refused() {
    let preferences = preferences(&[(3, 4), (0, 2), (3, 1)]);
    let draft = Draft::new(7, &preferences, RoundRobin::new(3)).unwrap();
    let turns: Vec<_> = draft.map(|t| (t.round, t.backend, t.refused, t.slot)).collect();
    assert_eq!(
        turns,
        [
            (0, 0, vec![], 3),
            (0, 1, vec![], 0),
            (0, 2, vec![3], 4),
            (1, 0, vec![0, 4], 1),
            (1, 1, vec![], 2),
            (1, 2, vec![], 5),
            (2, 0, vec![5, 2], 6),
        ]
    );
}

#[test]
fn four_backends_split_127_slots_32_32_32_31() {
    let backends = ["a", "b", "c", "d"].map(|name| (name, 1));
    let table = MaglevBuilder::new().size(TableSize::new(127).unwrap()).build(&backends).unwrap();
    assert_eq!(table.counts(4), [32, 32, 32, 31]);
}

#[test]
fn a_hundred_backends_own_655_or_656_slots_and_removing_one_moves_few() {
    let mut backends: Vec<_> = (1..=100).map(|i| (format!("10.0.0.{i}:443"), 1)).collect();
    let before = MaglevBuilder::new().build(&backends).unwrap();
    assert!(before.counts(100).iter().all(|count| (655..=656).contains(count)));
    backends.pop();
    let after = MaglevBuilder::new().build(&backends).unwrap();
    let others = before.iter().zip(&after).filter(|(old, _)| *old != 99);
    let (moved, all) =
        others.fold((0, 0), |(moved, all), (old, new)| (moved + u32::from(old != new), all + 1));
    assert!(f64::from(moved) < 0.02 * f64::from(all), "{moved} of {all} moved");
}
