//! What the page is told is what the library says.

use guideway_hash::maglev::MaglevBuilder;
use guideway_hash::policy::{Balancer, Candidate, Maglev, Policy, Rendezvous};
use guideway_hash::{NativeHasher, TableSize};
use guideway_wasm::words::{Reader, Writer};
use guideway_wasm::{Refusal, answer, question};

const MAGLEV: u32 = 0;
const RENDEZVOUS: u32 = 2;
const SEED: u64 = 42;

/// A setup of backends: name, weight, whether it takes no new flows, offset and skip.
fn setup(
    writer: &mut Writer,
    (policy, size, given): (u32, u32, bool),
    backends: &[(&str, u32, bool, u32, u32)],
) {
    writer.word(policy);
    writer.word(size);
    writer.long(SEED);
    writer.word(given.into());
    writer.word(backends.len() as u32);
    for &(name, weight, out, offset, skip) in backends {
        writer.text(name);
        for word in [weight, out.into(), offset, skip] {
            writer.word(word);
        }
    }
}

fn ask(question: u32, write: impl FnOnce(&mut Writer)) -> Result<Vec<u32>, Refusal> {
    let mut writer = Writer::default();
    writer.word(question);
    write(&mut writer);
    answer(&writer.into_words())
}

const SEVEN: [(&str, u32, bool, u32, u32); 3] =
    [("A", 1, false, 3, 4), ("B", 1, false, 0, 2), ("C", 1, false, 3, 1)];

#[test]
fn the_seven_slots_of_the_specification() {
    let words = ask(question::DRAFT, |w| setup(w, (MAGLEV, 7, true), &SEVEN)).unwrap();
    let mut reader = Reader::new(&words);
    let order = reader.list(|r| Ok((r.word()?, r.word()?, r.word()?))).unwrap();
    assert_eq!(order, [(0, 3, 4), (1, 0, 2), (2, 3, 1)]);
    let mut list = || reader.list(Reader::word).unwrap();
    assert_eq!(list(), [0, 1, 2, 0, 1, 2, 0]);
    assert_eq!(list(), [3, 0, 4, 1, 2, 5, 6]);
    assert_eq!(list(), [0, 0, 0, 1, 1, 1, 2]);
    assert_eq!(list(), [0, 0, 0, 1, 3, 3, 3, 5]);
    assert_eq!(list(), [3, 0, 4, 5, 2]);

    let words = ask(question::CELLS, |w| setup(w, (MAGLEV, 7, true), &SEVEN)).unwrap();
    let mut reader = Reader::new(&words);
    assert_eq!(reader.word(), Ok(1));
    assert_eq!(reader.list(Reader::word).unwrap(), [1, 0, 1, 0, 2, 2, 0]);
    assert_eq!(reader.list(Reader::word).unwrap(), [3, 2, 2]);
}

#[test]
fn without_b_one_of_the_seven_slots_moves_needlessly() {
    let mut without = SEVEN;
    without[1].2 = true;
    let words = ask(question::CHANGE, |w| {
        setup(w, (MAGLEV, 7, true), &SEVEN);
        setup(w, (MAGLEV, 7, true), &without);
    })
    .unwrap();
    let mut reader = Reader::new(&words);
    assert_eq!(reader.word(), Ok(1));
    assert_eq!(reader.list(Reader::word).unwrap(), [1, 0, 1, 0, 2, 2, 0]);
    assert_eq!(reader.list(Reader::word).unwrap(), [0, 0, 0, 0, 2, 2, 2]);
    assert_eq!(reader.list(Reader::word).unwrap(), [1, 0, 1, 0, 0, 0, 3]);
    let moves: Vec<u32> = (0..5).map(|_| reader.word().unwrap()).collect();
    assert_eq!(moves, [7, 2, 0, 1, 2]);
    assert_eq!(reader.end(), Ok(()));
}

#[test]
fn cells_and_look_ups_are_the_librarys() {
    let names: Vec<String> = (0..20).map(|i| format!("10.0.0.{i}:443")).collect();
    let backends: Vec<_> = (1..).zip(&names).map(|(i, n)| (n.as_str(), i, i % 5 == 0, 0, 0)).collect();
    let candidates: Vec<_> = backends
        .iter()
        .filter(|b| !b.2)
        .map(|&(name, weight, ..)| Candidate::new(name).with_weight(weight))
        .collect();
    let size = TableSize::new(1021).unwrap();
    let hasher = NativeHasher::new(SEED);
    let mut maglev = Balancer::with_hasher(Maglev::new(size), hasher);
    let mut rendezvous = Balancer::with_hasher(Rendezvous, hasher);
    maglev.reconcile(&candidates).unwrap();
    rendezvous.reconcile(&candidates).unwrap();

    let words = ask(question::CELLS, |w| setup(w, (MAGLEV, 1021, false), &backends)).unwrap();
    let owners = Reader::new(&words[1..]).list(Reader::word).unwrap();
    let place = |owner: u32| candidates.iter().position(|c| c.identity() == names[owner as usize].as_bytes());
    assert!((0..1021).all(|slot| maglev.pick_hash(slot as u64) == place(owners[slot])));

    for key in ["", "user-42", "198.51.100.7:51514"] {
        for (kind, policy) in [(MAGLEV, &maglev as &dyn Policy), (RENDEZVOUS, &rendezvous)] {
            let words = ask(question::LOOKUP, |w| {
                setup(w, (kind, 1021, false), &backends);
                w.text(key);
            })
            .unwrap();
            let mut reader = Reader::new(&words);
            let (hash, slot, owner) =
                (reader.long().unwrap(), reader.word().unwrap(), reader.word().unwrap());
            assert_eq!(place(owner), policy.pick(key.as_bytes()));
            assert_eq!(slot, if kind == MAGLEV { (hash % 1021) as u32 } else { question::NONE });
        }
    }
}

#[test]
fn the_digest_is_the_fleets() {
    let backends = [("a", 1, false, 0, 0), ("b", 3, false, 0, 0)];
    let words = ask(question::CELLS, |w| setup(w, (MAGLEV, 251, false), &backends)).unwrap();
    let mut reader = Reader::new(&words[1..]);
    reader.list(Reader::word).unwrap();
    reader.list(Reader::word).unwrap();
    let builder = MaglevBuilder::new().size(TableSize::new(251).unwrap()).hasher(NativeHasher::new(SEED));
    let fleet = guideway_hash::maglev::Maglev::new(builder, vec![("a", 1), ("b", 3)]).unwrap();
    assert_eq!(reader.text().unwrap(), fleet.digest().to_string());
}

#[test]
fn the_best_bid_is_the_winners() {
    let names: Vec<String> = (0..9).map(|i| format!("b{i}")).collect();
    let backends: Vec<_> = (1..).zip(&names).map(|(i, n)| (n.as_str(), i, i == 4, 0, 0)).collect();
    for (policy, key) in (0..200).flat_map(|key| [(1, key), (2, key)]) {
        let words = ask(question::BIDS, |w| {
            setup(w, (policy, 251, false), &backends);
            w.long(key);
        })
        .unwrap();
        let mut reader = Reader::new(&words);
        let winner = reader.word().unwrap();
        let mut bid = |r: &mut Reader<'_>| {
            let (backend, _, _) = (r.word()?, r.long()?, r.long()?);
            Ok((backend, f64::from_bits(r.long()?)))
        };
        let bids = reader.list(&mut bid).unwrap();
        assert_eq!(bids.len(), 8);
        let best = bids.iter().min_by(|a, b| a.1.total_cmp(&b.1)).unwrap();
        assert_eq!(best.0, winner);
    }
}

#[test]
fn rendezvous_moves_nothing_needlessly_over_flows() {
    let names: Vec<String> = (0..4).map(|i| format!("b{i}")).collect();
    let before: Vec<_> = names.iter().map(|n| (n.as_str(), 1, false, 0, 0)).collect();
    let mut after = before.clone();
    after[2].2 = true;
    for policy in 0..6 {
        let words = ask(question::FLOWS, |w| {
            setup(w, (policy, 251, false), &before);
            setup(w, (policy, 251, false), &after);
            w.word(20_000);
        })
        .unwrap();
        let [compared, departed, _, needless, _] = words[..5] else { panic!("five counts") };
        assert_eq!(compared, 20_000);
        assert!(departed > 4_000);
        let none = matches!(policy, 1..=3);
        assert_eq!(needless == 0, none, "policy {policy}: {needless}");
        let max_over_mean = Reader::new(&words[5..]).long().map(f64::from_bits).unwrap();
        assert!((1.0..1.5).contains(&max_over_mean));
    }
}

#[test]
fn refusals_are_the_librarys_words() {
    let message = |size, backends: &[_]| {
        ask(question::CELLS, |w| setup(w, (MAGLEV, size, false), backends)).unwrap_err().to_string()
    };
    assert_eq!(
        message(100, &SEVEN),
        "table size 100 is not a prime from 2 to 5000011; the nearest sizes are 97 and 101"
    );
    assert!(message(7, &[SEVEN[0], SEVEN[0]]).contains("same identity"));
    assert!(message(2, &SEVEN).contains("3 eligible"));
    assert!(message(7, &[]).contains("none of the 0 candidates"));
    assert_eq!(ask(99, |_| {}), Err(Refusal::Question(99)));
    assert_eq!(ask(question::SIZE, |w| w.words([7].into_iter())), Err(SIZE_ONE.into()));
}

const SIZE_ONE: guideway_hash::prime::SizeError =
    guideway_hash::prime::SizeError { slots: 1, below: None, above: Some(2) };
