//! What checks and operators say, and who takes new flows then.

use super::*;

#[test]
fn a_backend_that_took_flows_unchecked_keeps_them_until_its_new_check_has_failed_often_enough() {
    let checked = config(&[1; 4], "");
    let mut unchecked = config(&[1; 3], "");
    unchecked.services[0].health = None;
    let mut world = World::new(&unchecked);
    assert_eq!(world.slots().iter().sum::<u32>(), 1009);
    let before = world.slots();
    // be2 never passes the check that comes, and neither does be4, which comes with it.
    world.sick = HashSet::from([2, 4]);
    world.configure(&checked);
    assert_eq!(
        (&world.slots()[..3], world.slots()[3]),
        (&before[..], 0),
        "a check that is new moves nothing"
    );
    world.pass(SECOND);
    assert_eq!(world.slots()[..3], before, "so soon there are not enough failures");
    world.pass(30 * SECOND);
    let slots = world.slots();
    assert!(slots[0] > before[0] && slots[2] > before[2], "{slots:?}");
    assert_eq!((slots[1], slots[3]), (0, 0));
    assert_eq!(world.board.verdict(&of("web", "be2")), Some(Verdict::Down));
    assert_eq!(world.board.verdict(&of("web", "be4")), Some(Verdict::NeverPassed));
}

#[test]
fn nothing_is_forwarded_before_rise_passes() {
    let mut world = World::new(&config(&[1; 4], ""));
    assert_eq!(world.slots(), [0; 4]);
    world.pass(SECOND);
    assert_eq!(world.slots(), [0; 4]);
    world.pass(3 * SECOND);
    assert_eq!(world.slots().iter().sum::<u32>(), 1009);
}

#[test]
fn first_verdicts_come_together_so_that_no_slot_has_an_older_owner() {
    let mut world = World::new(&config(&[1; 5], ""));
    // One that never answers holds nobody up for long.
    world.sick = HashSet::from([4]);
    let owned = |world: &World| world.slots().iter().filter(|slots| **slots > 0).count();
    let mut rounds = 0;
    while owned(&world) == 0 {
        world.pass(SECOND / 10);
        rounds += 1;
        assert!(rounds < 70, "in 7 s, of two checks in each 2 s");
    }
    assert_eq!((owned(&world), world.service().unsettled), (4, 0));
    assert_eq!(world.service().generation, 2);
    // Who comes later joins a table at work.
    world.sick.clear();
    world.pass(10 * SECOND);
    assert_eq!(owned(&world), 5);
    assert!(world.service().unsettled > 0);
}

#[test]
fn with_two_of_four_down_no_slot_names_a_dead_one() {
    let mut world = World::well(&config(&[1; 4], ""));
    world.sick = HashSet::from([2, 3]);
    world.pass(6 * SECOND);
    let slots = world.slots();
    assert_eq!((slots[1], slots[2], slots[0] + slots[3]), (0, 0, 1009));
    assert!(!world.service().last_resort);
    assert_eq!(world.backend("be2").state, BackendState::Down);
}

#[test]
fn when_all_are_red_the_policy_decides_and_newcomers_do_not_count() {
    for (policy, last_resort) in [("last-resort", true), ("reject", false)] {
        let settings = format!("all_down = \"{policy}\"");
        let mut world = World::well(&config(&[1; 3], &settings));
        world.sick = (1..=7).collect();
        world.pass(6 * SECOND);
        let old = if last_resort { 1009 } else { 0 };
        assert_eq!((world.slots().iter().sum::<u32>(), world.service().last_resort), (old, last_resort));
        // Four that never passed join.
        world.configure(&config(&[1; 7], &settings));
        world.pass(20 * SECOND);
        let slots = world.slots();
        assert_eq!((slots[..3].iter().sum::<u32>(), slots[3..].iter().sum::<u32>()), (old, 0));
        assert_eq!(world.service().last_resort, last_resort);
        // One comes back, and all is as usual.
        world.sick.remove(&2);
        world.pass(4 * SECOND);
        assert_eq!((world.slots()[1], world.service().last_resort), (1009, false));
    }
}

#[test]
fn weight_0_takes_no_new_flows_though_its_checks_pass() {
    let mut world = World::well(&config(&[1, 0, 1], ""));
    assert_eq!(world.slots()[1], 0);
    assert_eq!(world.board.verdict(&of("web", "be2")), Some(Verdict::Up));
    world.configure(&config(&[0, 0, 0], ""));
    assert_eq!(world.slots(), [0; 3]);
    assert!(!world.service().last_resort);
    world.configure(&config(&[0, 5, 0], ""));
    assert_eq!(world.slots(), [0, 1009, 0]);
}

#[test]
fn a_backend_returns_with_the_weight_it_had_or_was_given_meanwhile() {
    for (edited, share) in [(10, 0.5), (30, 0.75)] {
        let mut world = World::well(&config(&[10, 10], ""));
        world.sick.insert(2);
        world.pass(10 * SECOND);
        assert_eq!(world.slots(), [1009, 0]);
        world.configure(&config(&[10, edited], ""));
        assert_eq!(world.slots(), [1009, 0]);
        world.sick.clear();
        world.pass(4 * SECOND);
        let ratio = f64::from(world.slots()[1]) / 1009.0;
        assert!((ratio - share).abs() < 0.01, "{ratio}");
    }
}

#[test]
fn a_weight_edited_by_an_operator_while_it_is_down_applies_when_it_is_up() {
    let mut world = World::well(&config(&[10, 10], ""));
    world.sick.insert(2);
    world.pass(10 * SECOND);
    world.overriding(|overrides| overrides.set_weight(&of("web", "be2"), 30)).unwrap();
    assert_eq!(world.slots(), [1009, 0]);
    world.sick.clear();
    world.pass(4 * SECOND);
    assert!((f64::from(world.slots()[1]) / 1009.0 - 0.75).abs() < 0.01);
    world.overriding(|overrides| overrides.clear(&of("web", "be2")));
    assert!((f64::from(world.slots()[1]) / 1009.0 - 0.5).abs() < 0.01);
}

#[test]
fn a_sick_backend_gets_nothing_over_reloads_and_restarts_and_a_drain_goes_on() {
    let before = config(&[1; 4], "");
    let unrelated = config(&[1; 4], "orphans = \"rehash\"");
    type Step<'a> = (&'a str, &'a dyn Fn(&mut World));
    let steps: [Step; 2] =
        [("reload", &|world| world.configure(&unrelated)), ("restart", &|world| world.restart(&unrelated))];
    for (name, step) in steps {
        let mut world = World::well(&before);
        world.sick.insert(2);
        world.overriding(|overrides| overrides.set_admin(&of("web", "be3"), AdminState::Drain, None));
        world.pass(20 * SECOND);
        step(&mut world);
        // `World::commit` holds every commit against the verdicts.
        world.pass(20 * SECOND);
        assert_eq!((world.slots()[1], world.slots()[2]), (0, 0), "{name}");
        assert_eq!(world.backend("be3").state, BackendState::Draining, "{name}");
        step(&mut world);
        world.sick.clear();
        world.pass(4 * SECOND);
        assert!(world.slots()[1] > 300, "{name}: be2 is back within rise intervals");
        assert_eq!(world.slots()[2], 0, "{name}");
        world.overriding(|overrides| overrides.set_admin(&of("web", "be3"), AdminState::Ready, None));
        assert!(world.slots()[2] > 240, "{name}: be3 was checked all the while");
    }
}

#[test]
fn a_backend_that_recovers_takes_its_share_in_steps_and_ends_with_the_table_as_it_was() {
    let mut world = World::well(&config(&[3, 1, 2], ""));
    let with_ramp = {
        let mut config = config(&[3, 1, 2], "");
        config.services[0].health.as_mut().unwrap().slow_start = 20 * SECOND;
        config
    };
    world.configure(&with_ramp);
    let digest = world.controller.digest();
    world.sick.insert(1);
    world.pass(10 * SECOND);
    world.sick.clear();
    let mut shares = Vec::new();
    while world.controller.digest() != digest {
        world.pass(SECOND / 10);
        shares.push(world.slots()[0]);
        assert!(shares.len() < 300, "the ramp ends");
    }
    shares.dedup();
    assert!(shares.len() >= 10 && shares.is_sorted(), "{shares:?}");
    world.pass(3 * SECOND);
    assert_eq!(world.controller.digest(), digest);
    assert_eq!(world.desired.spec("web", &world.board, world.now).unwrap().backends[0].weight, 3);
}

#[test]
fn maintenance_ends_flows_stops_checks_and_leads_back_through_rise_passes() {
    let mut world = World::well(&config(&[1; 3], ""));
    world.overriding(|overrides| overrides.set_admin(&of("web", "be1"), AdminState::Maintenance, None));
    assert_eq!((world.slots()[0], world.backend("be1").state), (0, BackendState::Down));
    assert_eq!(world.board.verdict(&of("web", "be1")), None);
    world.pass(20 * SECOND);
    world.overriding(|overrides| overrides.set_admin(&of("web", "be1"), AdminState::Ready, None));
    assert_eq!(world.slots()[0], 0);
    world.pass(4 * SECOND);
    assert!(world.slots()[0] > 300);
}

#[test]
fn admin_states_and_verdicts_are_two_things() {
    for admin in [AdminState::Ready, AdminState::Drain, AdminState::Maintenance] {
        for sick in [false, true] {
            let mut world = World::well(&config(&[1; 3], ""));
            if sick {
                world.sick.insert(1);
                world.pass(6 * SECOND);
            }
            world.overriding(|overrides| overrides.set_admin(&of("web", "be1"), admin, None));
            let expected = match (admin, sick) {
                (AdminState::Ready, false) => BackendState::Active,
                (AdminState::Drain, false) => BackendState::Draining,
                _ => BackendState::Down,
            };
            assert_eq!(world.backend("be1").state, expected, "{admin:?} {sick}");
            assert_eq!(world.slots()[0] > 0, expected == BackendState::Active);
        }
    }
}

#[test]
fn overrides_hold_over_a_restart() {
    let mut world = World::well(&config(&[1; 4], ""));
    world.overriding(|overrides| {
        overrides.set_weight(&of("web", "be1"), 3).unwrap();
        overrides.set_admin(&of("web", "be2"), AdminState::Drain, Some(UNIX_EPOCH + 1_000 * SECOND));
        overrides.set_admin(&of("web", "be3"), AdminState::Maintenance, None);
    });
    let (slots, digest) = (world.slots(), world.controller.digest());
    world.restart(&config(&[1; 4], ""));
    assert_eq!((world.slots(), world.controller.digest()), (slots, digest));
    assert_eq!(world.backend("be2").state, BackendState::Draining);
    assert_eq!(
        world.desired.overrides().of(&of("web", "be2")).drain_until,
        Some(UNIX_EPOCH + 1_000 * SECOND)
    );
}

#[test]
fn what_flaps_between_two_commits_is_committed_once() {
    let mut world = World::well(&config(&[1; 4], ""));
    let (commits, digest) = (world.commits, world.controller.digest());
    for round in 0..50 {
        let state = if round % 2 == 0 { AdminState::Drain } else { AdminState::Ready };
        for backend in ["be1", "be2"] {
            let change = |overrides: &mut Overrides| overrides.set_admin(&of("web", backend), state, None);
            world.desired.with_overrides(&mut world.board, world.now, change);
        }
    }
    assert!(world.desired.is_marked());
    world.commit();
    assert_eq!((world.commits, world.controller.digest()), (commits + 1, digest));
    assert!(!world.desired.is_marked());
}

#[test]
fn services_that_a_reload_leaves_alone_are_not_committed() {
    let mut world = World::well(&config(&[1; 4], ""));
    let commits = world.commits;
    world.configure(&config(&[1; 4], ""));
    assert_eq!(world.commits, commits);
    world.configure(&parse("[underlay]\nsource_v4 = \"10.0.0.254\"\n"));
    assert_eq!((world.commits, world.controller.status().len()), (commits + 1, 0));
    assert_eq!(world.board.next_due(), None);
}

#[test]
fn a_refused_service_stays_as_it_was_and_is_tried_again() {
    let mut world = World::well(&config(&[1; 4], ""));
    let digest = world.controller.digest();
    // More slots than the memory holds.
    let mut large = config(&[1; 4], "");
    large.services[0].table_size = guideway_hash::TableSize::new(655_373).unwrap();
    world.desired.configure(&large, &mut world.board, world.now);
    let committed = world.desired.commit(&mut world.controller, &world.board, world.now);
    assert!(matches!(committed[0].result, Err(ChangeError::Full { .. })));
    assert_eq!(world.controller.digest(), digest);
    assert!(world.desired.is_marked());
    world.configure(&config(&[1; 4], ""));
    assert_eq!(world.controller.digest(), digest);
}

#[test]
fn a_service_without_a_check_counts_as_well() {
    let text = "[underlay]\nsource_v4 = \"10.0.0.254\"\n[[service]]\nname = \"web\"\nvip = \"192.0.2.10\"\n\
                port = 80\nprotocol = \"tcp\"\nbackend = [{ name = \"be1\", address = \"10.0.0.1\" }]\n";
    let world = World::new(&parse(text));
    assert_eq!(world.slots(), [251]);
}

#[test]
fn backends_that_never_passed_take_nothing_though_no_other_is_there() {
    for policy in ["last-resort", "reject"] {
        let mut world = World::new(&config(&[1; 3], &format!("all_down = \"{policy}\"")));
        world.sick = HashSet::from([1, 2, 3]);
        world.pass(120 * SECOND);
        assert_eq!((world.slots(), world.service().last_resort), (vec![0; 3], false), "{policy}");
        world.sick.remove(&2);
        world.pass(4 * SECOND);
        assert_eq!(world.slots(), [0, 1009, 0], "{policy}");
    }
}
