//! Properties that every policy keeps, and those that set policies apart.

use std::collections::BTreeMap;

use guideway_hash::churn::{Balance, Churn, flow_hashes};
use guideway_hash::policy::{
    Balancer, Candidate, Jump, Maglev, Modulo, PickError, Policy, ReconcileError, Rendezvous,
    RendezvousTable, Ring, State, Update,
};
use guideway_hash::{NativeHasher, StableHasher, TableSize};
use proptest::prelude::*;

/// A list of backends: name, weight, eligible.
type Backends = BTreeMap<String, (u32, bool)>;

fn size() -> TableSize {
    TableSize::new(1021).unwrap()
}

fn all() -> Vec<Box<dyn Policy>> {
    vec![
        Box::new(Balancer::new(Maglev::new(size()))),
        Box::new(Balancer::new(Maglev::unweighted(size()))),
        Box::new(Balancer::new(Rendezvous)),
        Box::new(Balancer::new(RendezvousTable::new(size()))),
        Box::new(Balancer::new(Ring::new(20))),
        Box::new(Balancer::new(Jump)),
        Box::new(Balancer::new(Modulo)),
    ]
}

/// Those that never move what a change did not ask for.
fn minimal() -> Vec<Box<dyn Policy>> {
    all()
        .into_iter()
        .filter(|policy| ["rendezvous", "rendezvous-table", "ring"].contains(&policy.name()))
        .collect()
}

fn candidates(backends: &Backends) -> Vec<Candidate<'_>> {
    backends
        .iter()
        .map(|(name, &(weight, eligible))| {
            let state = if eligible { State::Eligible } else { State::Ineligible };
            Candidate::new(name).with_weight(weight).with_state(state)
        })
        .collect()
}

/// The identities that a sample of flows goes to.
fn answers<'a>(policy: &dyn Policy, candidates: &[Candidate<'a>]) -> Vec<&'a [u8]> {
    flow_hashes(300).map(|hash| candidates[policy.pick_hash(hash).unwrap()].identity()).collect()
}

fn backends() -> impl Strategy<Value = Backends> {
    let state = (prop_oneof![Just(1u32), 0..20u32], prop::bool::weighted(0.9));
    prop::collection::btree_map("[a-z0-9]{1,9}", state, 1..20).prop_filter("one is eligible", |backends| {
        backends.values().any(|&(weight, eligible)| eligible && weight > 0)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_order_of_input_never_matters(backends in backends(), shuffle: u64) {
        let list = candidates(&backends);
        let mut shuffled = list.clone();
        shuffled.sort_by_key(|candidate| NativeHasher::new(shuffle).hash(0, candidate.identity()));
        for (mut one, mut other) in all().into_iter().zip(all()) {
            one.reconcile(&list).unwrap();
            other.reconcile(&shuffled).unwrap();
            prop_assert_eq!(answers(&*one, &list), answers(&*other, &shuffled), "{}", one.name());
            // A reorder of the same backends is a rebuild, since places differ, that moves nothing.
            if let Update::Rebuilt { generation, moves } = one.reconcile(&shuffled).unwrap() {
                prop_assert_eq!((generation, moves.moved()), (2, 0));
            }
        }
    }

    #[test]
    fn only_the_eligible_are_picked(backends in backends()) {
        let list = candidates(&backends);
        for mut policy in all() {
            policy.reconcile(&list).unwrap();
            for hash in flow_hashes(300) {
                prop_assert!(list[policy.pick_hash(hash).unwrap()].is_eligible(), "{}", policy.name());
            }
        }
    }

    #[test]
    fn a_failed_reconcile_changes_nothing(backends in backends()) {
        let list = candidates(&backends);
        let eligible = *list.iter().find(|candidate| candidate.is_eligible()).unwrap();
        let doubled: Vec<_> = list.iter().copied().chain([eligible]).collect();
        let none: Vec<_> = list.iter().map(|candidate| candidate.with_weight(0)).collect();
        for mut policy in all() {
            policy.reconcile(&list).unwrap();
            let before = answers(&*policy, &list);
            let duplicate = matches!(policy.reconcile(&doubled), Err(ReconcileError::Duplicate { .. }));
            prop_assert!(duplicate);
            prop_assert_eq!(policy.reconcile(&none), Err(ReconcileError::NoneEligible { candidates: none.len() }));
            prop_assert_eq!(policy.reconcile(&[]), Err(ReconcileError::NoneEligible { candidates: 0 }));
            prop_assert_eq!(policy.generation(), 1);
            prop_assert_eq!(answers(&*policy, &list), before);
            prop_assert_eq!(policy.reconcile(&list), Ok(Update::Unchanged { generation: 1 }));
        }
    }

    #[test]
    fn rendezvous_and_ring_move_only_what_they_must(old in backends(), new in backends(), keep in prop::bool::ANY) {
        // Two unrelated sets share little, so half of the cases edit the first one instead.
        let mut edited = old.clone();
        for (name, value) in new.iter().take(3) {
            edited.insert(name.clone(), *value);
        }
        for (name, (weight, _)) in old.iter().skip(1).step_by(3).zip(new.values()) {
            edited.insert(name.0.clone(), (*weight, true));
        }
        let new = if keep { edited } else { new };
        if !new.values().any(|&(weight, eligible)| eligible && weight > 0) {
            return Ok(());
        }
        for (mut policy, mut fresh) in minimal().into_iter().zip(minimal()) {
            let mut before = minimal().into_iter().find(|other| other.name() == policy.name()).unwrap();
            before.reconcile(&candidates(&old)).unwrap();
            policy.reconcile(&candidates(&old)).unwrap();
            if let Update::Rebuilt { moves, .. } = policy.reconcile(&candidates(&new)).unwrap() {
                prop_assert_eq!(moves.needless, 0, "{}", policy.name());
            }
            fresh.reconcile(&candidates(&new)).unwrap();
            // What was built from the state before is what is built from nothing.
            prop_assert_eq!(answers(&*policy, &candidates(&new)), answers(&*fresh, &candidates(&new)));
            let churn = Churn::of_policies(&*before, &*fresh, flow_hashes(500)).unwrap();
            prop_assert_eq!(churn.moves.needless, 0, "{}", policy.name());
        }
    }

    #[test]
    fn an_incremental_rendezvous_table_is_the_fresh_one(history in prop::collection::vec(backends(), 1..5)) {
        let mut policy = Balancer::new(RendezvousTable::new(size()));
        for backends in &history {
            policy.reconcile(&candidates(backends)).unwrap();
            let mut fresh = Balancer::new(RendezvousTable::new(size()));
            fresh.reconcile(&candidates(backends)).unwrap();
            prop_assert_eq!(policy.built(), fresh.built());
        }
    }

    #[test]
    fn checked_picks_agree_or_refuse(backends in backends(), other in backends()) {
        let (list, other_list) = (candidates(&backends), candidates(&other));
        for mut policy in all() {
            prop_assert_eq!(policy.pick_checked(b"key", &list), Err(PickError::NothingCommitted));
            policy.reconcile(&list).unwrap();
            prop_assert_eq!(policy.pick_checked(b"key", &list).ok(), policy.pick(b"key"));
            match policy.pick_checked(b"key", &other_list) {
                Ok(index) => prop_assert!(other_list[index].is_eligible()),
                Err(error) => {
                    let stale = matches!(error, PickError::Stale { generation: 1, .. });
                    prop_assert!(stale);
                    let update = policy.reconcile(&other_list).unwrap();
                    let rebuilt = matches!(update, Update::Rebuilt { .. });
                    prop_assert!(rebuilt, "what is stale is what reconcile acts on");
                }
            }
        }
    }

    #[test]
    fn weights_matter_to_weighted_policies_alone(backends in backends(), add in 1u32..5) {
        let list = candidates(&backends);
        let heavier: Vec<_> =
            list.iter().map(|c| if c.weight() == 0 { *c } else { c.with_weight(c.weight() + add) }).collect();
        for mut policy in all() {
            policy.reconcile(&list).unwrap();
            let update = policy.reconcile(&heavier).unwrap();
            let rebuilt = matches!(update, Update::Rebuilt { .. });
            prop_assert_eq!(rebuilt, policy.is_weighted(), "{}", policy.name());
        }
    }
}

#[test]
fn reset_forgets_the_state_and_keeps_the_rest() {
    let list = [Candidate::new("a"), Candidate::new("b"), Candidate::new("c")];
    for mut policy in all() {
        policy.reconcile(&list).unwrap();
        let before = answers(&*policy, &list);
        policy.reset();
        assert_eq!(policy.pick(b"key"), None);
        assert!(policy.roster().is_none() && policy.slots().is_none());
        assert!(matches!(policy.reconcile(&list), Ok(Update::Rebuilt { generation: 2, .. })));
        assert_eq!(answers(&*policy, &list), before);
    }
}

#[test]
fn more_backends_than_the_policy_holds_are_refused() {
    let names: Vec<_> = (0..12).map(|i| format!("b{i}")).collect();
    let list: Vec<_> = names.iter().map(Candidate::new).collect();
    let mut maglev = Balancer::new(Maglev::new(TableSize::new(11).unwrap()));
    maglev.reconcile(&list[..11]).unwrap();
    let refused = maglev.reconcile(&list);
    assert_eq!(refused, Err(ReconcileError::TooMany { eligible: 12, limit: 11, policy: "maglev" }));
    assert_eq!(maglev.generation(), 1);

    let mut ring = Balancer::new(Ring::new(10).with_limit(100));
    ring.reconcile(&list[..10]).unwrap();
    assert_eq!(ring.reconcile(&list), Err(ReconcileError::RingTooLarge { points: 120, limit: 100 }));
    let heavy = [list[0].with_weight(u32::MAX), list[1]];
    assert!(matches!(ring.reconcile(&heavy), Err(ReconcileError::RingTooLarge { .. })));
    assert_eq!(ring.generation(), 1);
}

#[test]
fn weighted_policies_give_weighted_shares() {
    let weights = [1u32, 2, 3, 10, 100];
    let names = ["10.0.0.1:80", "10.0.0.2:80", "10.0.0.3:80", "10.0.0.4:80", "10.0.0.5:80"];
    let list: Vec<_> =
        names.iter().zip(weights).map(|(name, w)| Candidate::new(name).with_weight(w)).collect();
    // With a hundred thousand flows the standard error of the smallest share, 1 of 116, is 3.4 %.
    let flows = 100_000;
    let tables = TableSize::DEFAULT;
    let policies: [(Box<dyn Policy>, f64); 4] = [
        (Box::new(Balancer::new(Maglev::new(tables))), 0.15),
        (Box::new(Balancer::new(Rendezvous)), 0.15),
        (Box::new(Balancer::new(RendezvousTable::new(tables))), 0.2),
        (Box::new(Balancer::new(Ring::new(400))), 0.3),
    ];
    for (mut policy, tolerance) in policies {
        policy.reconcile(&list).unwrap();
        let mut counts = [0u64; 5];
        for hash in flow_hashes(flows) {
            counts[policy.pick_hash(hash).unwrap()] += 1;
        }
        let balance = Balance::of(counts.into_iter().zip(weights)).unwrap();
        assert!(balance.max_over_mean < 1.0 + tolerance, "{} {balance:?}", policy.name());
        assert!(balance.min_over_mean > 1.0 - tolerance, "{} {balance:?}", policy.name());
    }
}

#[test]
fn modulo_moves_nearly_all_and_maglev_nearly_nothing_needlessly() {
    let names: Vec<_> = (0..=20).map(|i| format!("10.0.0.{i}:443")).collect();
    let list: Vec<_> = names.iter().map(Candidate::new).collect();
    let needless = |mut before: Box<dyn Policy>, mut after: Box<dyn Policy>| {
        before.reconcile(&list).unwrap();
        after.reconcile(&list[..20]).unwrap();
        Churn::of_policies(&*before, &*after, flow_hashes(20_000)).unwrap().moves.needless
    };
    assert!(needless(Box::new(Balancer::new(Modulo)), Box::new(Balancer::new(Modulo))) > 16_000);
    let maglev = || Box::new(Balancer::new(Maglev::default()));
    assert!(needless(maglev(), maglev()) < 200);
}
