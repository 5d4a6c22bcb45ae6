//! Whatever somebody writes into the forwarder, it is found, told and put right, and a forwarder that nobody touched is
//! left alone whatever the controller did before.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use guideway_forward::record::Policy;
use guideway_soft::Memory;
use proptest::prelude::*;

use super::super::Removal;
use super::super::spec::{Health, TableSizeSpec};
use super::super::tests::{controller, of, service};
use super::*;

/// Everything that packets of the service are decided by.
fn picture(controller: &Controller<Arc<Memory>>) -> String {
    let (engine, held) = (controller.engine(), &controller.services["web"]);
    let record = engine.service(held.id).unwrap();
    let words = |region: Region| -> Vec<Slot> {
        (0..region.len).map(|slot| super::super::service::read(engine, region, slot)).collect()
    };
    let tables = [record.table(record.active()), record.other_table(record.active())];
    let tables = tables.map(|table| (table.place(), table.seed()));
    let backends: Vec<_> = (0..held.places.len)
        .filter_map(|local| engine.backend(held.places.offset + local))
        .map(|record| {
            let taken = record.state() != BackendState::Free;
            taken.then(|| (record.status(), record.address(), record.outer_source(), record.neighbour()))
        })
        .collect();
    let idle = (record.tcp_idle_seconds(), record.udp_idle_seconds());
    let prior = held.prior.as_ref().map(|prior| words(prior.region));
    format!(
        "{:?} {tables:?} {:?} {:?} {idle:?} {:?} {prior:?} {backends:?}",
        record.active(),
        record.backends(),
        record.policy(),
        words(held.table),
    )
}

fn kinds(found: &[Drifted]) -> BTreeMap<&'static str, u32> {
    let mut kinds = BTreeMap::new();
    for one in found {
        *kinds.entry(one.kind.as_str()).or_default() += one.count;
    }
    kinds
}

#[test]
fn each_word_that_somebody_changed_is_put_right_and_told() {
    let mut controller = controller();
    controller.add_service(service(of(1..6), 251), Health::Up).unwrap();
    let before = picture(&controller);
    assert_eq!(controller.repair(), (Vec::new(), None));
    let (id, table, places) = {
        let held = &controller.services["web"];
        (held.id, held.table, held.places)
    };
    let engine = Arc::clone(controller.engine());
    let record = engine.service(id).unwrap();
    let backend = engine.backend(places.offset + 2).unwrap();
    let spare = engine.backend(places.offset + places.len - 1).unwrap();
    let changes: [(&str, &dyn Fn()); 9] = [
        ("slot", &|| write(&engine, table, 7, Slot::settled_on(4_000))),
        ("slot", &|| write(&engine, table, 250, Slot(u32::MAX))),
        ("service", &|| record.set_policy(Policy(0x55))),
        ("service", &|| record.set_idle_seconds(1, 2)),
        ("service", &|| record.set_backends(0, 1)),
        ("service", &|| record.table(record.active()).set(3, 5, 9)),
        ("backend", &|| backend.set_state(BackendState::Draining)),
        ("backend", &|| spare.set_state(BackendState::Active)),
        ("settings", &|| engine.settings().set_flow_key([7, 7])),
    ];
    for (kind, change) in changes {
        change();
        let (found, error) = controller.repair();
        assert_eq!((kinds(&found), error), (BTreeMap::from([(kind, 1)]), None));
        assert_eq!(picture(&controller), before, "{kind}");
        assert_eq!(controller.repair().0, []);
    }
    engine.settings().set_own_sources(None, None);
    engine.settings().set_lookups(true, true);
    assert_eq!(kinds(&controller.repair().0), BTreeMap::from([("settings", 1)]));
}

/// A fault may flip any bit of any word that packets read, whether the controller says that word or it follows from others,
/// as checksums and the keys of hashes do; here while a prior table is consulted.
#[test]
fn no_word_that_packets_read_stays_wrong() {
    let mut controller = controller();
    controller.add_service(service(of(1..6), 251), Health::Up).unwrap();
    controller.resize("web", TableSizeSpec::Slots(509), 7).unwrap();
    assert_eq!(controller.repair(), (Vec::new(), None));
    let engine = Arc::clone(controller.engine());
    let held = &controller.services["web"];
    assert!(held.prior.is_some());
    let record = engine.service(held.id).unwrap();
    let backend = engine.backend(held.places.offset + 2).unwrap();
    let [table, prior] = [record.table(held.active()), record.other_table(held.active())];
    let records: [(&str, &[&AtomicU64]); 5] = [
        ("service", &record.words()),
        ("service", &table.words()),
        ("service", &prior.words()),
        ("backend", &backend.words()),
        ("settings", &engine.settings().words()),
    ];
    for (kind, words) in records {
        for (number, word) in words.iter().enumerate() {
            // Which directory is in use is the forwarder's own business.
            let bits = if (kind, number) == ("settings", 2) { 4 } else { 64 };
            for bit in 0..bits {
                let before = word.fetch_xor(1 << bit, Relaxed);
                let (found, error) = controller.repair();
                let place = format!("bit {bit} of word {number}");
                assert_eq!((kinds(&found), error), (BTreeMap::from([(kind, 1)]), None), "{place}");
                assert_eq!(word.load(Relaxed), before, "{kind}, {place}");
                assert_eq!(controller.repair().0, []);
            }
        }
    }
}

/// What follows from other words is not taken over where it does not.
#[test]
fn a_restart_leaves_no_word_wrong_that_follows_from_others() {
    let mut before = controller();
    let spec = service(of(1..6), 251);
    before.add_service(spec.clone(), Health::Up).unwrap();
    let engine = Arc::clone(before.engine());
    let held = &before.services["web"];
    let hash = engine.service(held.id).unwrap().table(held.active()).words();
    let [.., checksum] = engine.backend(held.places.offset).unwrap().words();
    let derived: Vec<_> = hash[2..].iter().copied().chain([checksum]).collect();
    let right: Vec<_> = derived.iter().map(|word| word.fetch_xor(0x55, Relaxed)).collect();
    let mut after = Controller::adopt(Arc::clone(&engine), &[spec]).unwrap();
    assert_eq!(kinds(&after.repair().0), BTreeMap::from([("service", 1), ("backend", 1)]));
    assert_eq!(derived.iter().map(|word| word.load(Relaxed)).collect::<Vec<_>>(), right);
}

proptest! {
    #[test]
    fn a_forwarder_that_nobody_touched_has_not_drifted(
        steps in prop::collection::vec((0_u8..7, 1_u8..20, 0_u32..200), 1..40),
    ) {
        let mut controller = controller();
        controller.add_service(service(of(1..9), 251), Health::Up).unwrap();
        let (mut now, sizes) = (1_000, [251, 509, 1_021]);
        for (step, number, seconds) in steps {
            // What is refused has changed nothing either.
            let backend = format!("be{number}");
            match step {
                0 => drop(controller.set_weight("web", &backend, u32::from(number % 3))),
                1 => drop(controller.set_health("web", &backend, Health::Down)),
                2 => drop(controller.set_health("web", &backend, Health::Up)),
                3 => drop(controller.replace_service(service(of(1..number + 1), 251), Health::Up)),
                4 => drop(controller.resize("web", TableSizeSpec::Slots(sizes[usize::from(number % 3)]), 7)),
                5 => drop(controller.remove_backend("web", &backend, Removal::Drain)),
                _ => {
                    now += seconds;
                    controller.engine().set_now_seconds(now);
                    controller.tick();
                }
            }
            let before = picture(&controller);
            prop_assert_eq!(controller.repair(), (Vec::new(), None));
            prop_assert_eq!(picture(&controller), before);
        }
    }
}
