//! Backends that drain, and those that were removed.

use super::*;

fn key(removed: bool) -> DrainKey {
    DrainKey { service: "web".into(), backend: "be2".into(), address: IpAddr::from([10, 0, 0, 2]), removed }
}

#[test]
fn a_drain_is_busy_quiet_and_done_as_its_flows_end_and_its_slots_settle() {
    let (mut world, mut drains) = (World::well(&config(&[1; 3], "")), Drains::new());
    world.overriding(|overrides| overrides.set_admin(&of("web", "be2"), AdminState::Drain, None));
    drains.begin(key(false), world.now, None);
    let local = (0..3).find(|&local| {
        world.controller.backend_at(u32::from(local)).is_some_and(|(_, spec)| &*spec.identity == "be2")
    });
    let local = local.unwrap();
    let slot = (0..1009)
        .find(|&slot| {
            let word = Slot(world.controller.engine().slots()[slot as usize].load(Relaxed));
            !word.is_settled() && word.settled() == local
        })
        .unwrap();
    world.remember(0, slot, local);
    world.remember(1, slot, local);
    assert_eq!(drains.observe(&world.controller.remaining(), world.now), []);
    assert_eq!(drains.of(&key(false)).unwrap().phase, Phase::Busy { live_flows: 2, ending_flows: 0 });
    // They go on for longer than an idle time; all other slots settle meanwhile.
    for _ in 0..400 {
        world.pass(SECOND);
        world.remember(0, slot, local);
    }
    drains.observe(&world.controller.remaining(), world.now);
    assert_eq!(drains.of(&key(false)).unwrap().phase, Phase::Busy { live_flows: 1, ending_flows: 0 });
    world.forget(0);
    drains.observe(&world.controller.remaining(), world.now);
    assert_eq!(drains.of(&key(false)).unwrap().phase, Phase::Quiet { ending_flows: 0, unsettled_slots: 1 });
    world.pass(2 * SECOND);
    let events = drains.observe(&world.controller.remaining(), world.now);
    assert!(matches!(&events[..], [DrainEvent::Done { took, .. }] if *took >= 400 * SECOND), "{events:?}");
}

#[test]
fn a_removed_backend_drains_until_its_deadline_and_then_its_flows_end() {
    let (mut world, mut drains) = (World::well(&config(&[1; 3], "")), Drains::new());
    world.controller.remove_backend("web", "be2", Removal::Drain).unwrap();
    drains.begin(key(true), world.now, Some(world.now + 30 * SECOND));
    let remaining = world.controller.remaining();
    assert!(remaining.len() == 1 && remaining[0].unsettled_slots > 300, "{remaining:?}");
    assert_eq!(drains.observe(&remaining, world.now), []);
    world.pass(30 * SECOND);
    let events = drains.observe(&world.controller.remaining(), world.now);
    assert!(matches!(&events[..], [DrainEvent::Cut { key, live_flows: 0 }] if key.removed), "{events:?}");
    world.controller.end_removed("web", "be2", key(true).address).unwrap();
    let removed = world.service().backends.into_iter().find(|backend| backend.removed).unwrap();
    assert_eq!(removed.state, BackendState::Down);
    assert_eq!(world.controller.remaining(), []);
    assert!(world.controller.end_removed("web", "be1", IpAddr::from([10, 0, 0, 1])).is_err());
}

#[test]
fn a_removed_backend_is_checked_while_it_drains_and_its_flows_end_when_it_fails() {
    let (three, two) = (config(&[1, 1, 1], ""), config(&[1, 1], ""));
    let mut world = World::well(&three);
    let table = world.controller.table("web").unwrap();
    let slot = table.slots.iter().position(|slot| slot.current.as_deref() == Some("be3")).unwrap();
    world.remember(0, slot as u32, 2);
    world.configure(&two);
    let state = |world: &World| {
        let backends = world.service().backends;
        backends.iter().find(|backend| backend.removed).map(|backend| backend.state)
    };
    world.follow_leaving();
    world.pass(5 * SECOND);
    world.follow_leaving();
    assert_eq!(state(&world), Some(BackendState::Draining));
    assert_eq!(world.board.distinct_checks(), 3);
    world.sick.insert(3);
    let commits = world.commits;
    world.pass(20 * SECOND);
    world.follow_leaving();
    assert_eq!(state(&world), Some(BackendState::Down), "its flows end");
    assert_eq!(world.commits, commits, "no table changes for it");
    world.follow_leaving();
    assert_eq!(world.board.distinct_checks(), 2, "and nobody asks it any more");
}

#[test]
fn a_removed_backend_that_is_wanted_again_has_one_check_and_its_verdict() {
    let (three, two) = (config(&[1, 1, 1], ""), config(&[1, 1], ""));
    let mut world = World::well(&three);
    world.configure(&two);
    world.pass(5 * SECOND);
    world.configure(&three);
    assert_eq!(world.board.distinct_checks(), 3);
    world.pass(20 * SECOND);
    assert!(world.backend("be3").slots > 0);
}

#[test]
fn a_removed_backend_is_checked_on_and_its_deadline_holds_over_a_restart() {
    let (three, two) = (config(&[1, 1, 1], ""), config(&[1, 1], ""));
    let mut world = World::well(&three);
    let mut drains = Drains::new();
    let table = world.controller.table("web").unwrap();
    let slot = table.slots.iter().position(|slot| slot.current.as_deref() == Some("be3")).unwrap();
    world.remember(0, slot as u32, 2);
    world.configure(&two);
    world.follow_leaving();
    drains.observe(&world.controller.remaining(), world.now);
    world.pass(10 * SECOND);
    world.take_over(&two, &mut drains);
    let remaining = world.controller.remaining();
    assert_eq!((remaining.len(), remaining[0].backend.as_str()), (1, "be3"), "its name is known");
    let key = DrainKey { backend: "be3".into(), address: IpAddr::from([10, 0, 0, 3]), ..key(true) };
    drains.observe(&remaining, world.now);
    let began = drains.of(&key).unwrap().began;
    assert_eq!(world.now - began, 11 * SECOND, "it began before the restart");
    world.follow_leaving();
    world.pass(5 * SECOND);
    world.follow_leaving();
    assert_eq!(world.board.distinct_checks(), 3);
    assert_eq!(world.controller.remaining().len(), 1, "it passes, so its flows go on");
    world.sick.insert(3);
    world.pass(20 * SECOND);
    world.follow_leaving();
    assert_eq!(world.controller.remaining(), [], "it is dead, so its flows end");
    world.follow_leaving();
    assert_eq!(world.board.distinct_checks(), 2);
}
