//! Changes of table size and seed.

use super::*;

#[test]
fn a_change_of_size_or_seed_has_a_grace_for_udp_and_other_changes_leave_it_alone() {
    let mut controller = controller();
    controller.add_service(service(of(1..=4), 1009), Health::Unchecked).unwrap();
    let in_grace = |controller: &Controller<Arc<Memory>>| {
        let id = controller.service_id("web").unwrap();
        controller.engine().service(id).unwrap().active().in_grace()
    };
    assert!(!in_grace(&controller));
    controller.resize("web", TableSizeSpec::Slots(1013), 8).unwrap();
    assert!(in_grace(&controller));
    controller.set_weight("web", "be1", 3).unwrap();
    pass_seconds(&mut controller, 30);
    assert!(in_grace(&controller));
    pass_seconds(&mut controller, 1);
    assert!(!in_grace(&controller) && controller.status()[0].prior);
}

#[test]
fn a_resize_whose_turn_comes_but_does_not_fit_says_so_once_and_is_tried_again() {
    let limits = Limits { services: 2, backends: 64, slots: 5_000, flows: 64, ..Limits::default() };
    let mut controller = Controller::new(Arc::new(Memory::new(limits, [1, 2])));
    controller.add_service(service(of(1..=4), 1_009), Health::Unchecked).unwrap();
    controller.resize("web", TableSizeSpec::Slots(2_003), 7).unwrap();
    let larger_than_all = controller.resize("web", TableSizeSpec::Slots(5_003), 7);
    assert!(matches!(larger_than_all, Err(ChangeError::Full { asked: 5_003, .. })), "{larger_than_all:?}");
    assert!(!controller.status()[0].resize_waits);
    assert!(controller.resize("web", TableSizeSpec::Slots(4_001), 7).unwrap().resize_waits);
    assert!(controller.status()[0].resize_waits);
    let refused = |controller: &mut Controller<Arc<Memory>>, seconds: u32| {
        let mut refused = Vec::new();
        for _ in 0..seconds {
            controller.engine().set_now_seconds(controller.engine().now_seconds() + 1);
            refused.extend(controller.tick().refused);
        }
        refused
    };
    let told = refused(&mut controller, 320);
    assert!(matches!(told.as_slice(), [ChangeError::Full { asked: 4_001, .. }]), "{told:?}");
    assert_eq!(controller.status()[0].resize_refused, told.first().cloned());
    assert_eq!(controller.status()[0].slots, 2_003);
    controller.resize("web", TableSizeSpec::Slots(1_009), 7).unwrap();
    assert_eq!(controller.status()[0].resize_refused, None);
    assert_eq!(refused(&mut controller, 320), []);
    assert_eq!(controller.status()[0].slots, 1_009);
}

#[test]
fn while_a_resize_does_not_fit_everything_else_of_the_service_can_change() {
    let limits = Limits { services: 2, backends: 64, slots: 5_000, flows: 64, ..Limits::default() };
    let mut controller = Controller::new(Arc::new(Memory::new(limits, [1, 2])));
    controller.add_service(service(of(1..=4), 1_009), Health::Up).unwrap();
    controller.resize("web", TableSizeSpec::Slots(2_003), 7).unwrap();
    controller.resize("web", TableSizeSpec::Slots(4_001), 7).unwrap();
    pass_seconds(&mut controller, 320);
    let refused = controller.status()[0].resize_refused.clone();
    assert!(matches!(refused, Some(ChangeError::Full { asked: 4_001, .. })), "{refused:?}");
    let down = controller.set_health("web", "be1", Health::Down).unwrap();
    assert!(down.moved > 0 && down.resize_waits && down.slots == 2_003, "{down:?}");
    controller.add_backend("web", backend(5, 1), Health::Up).unwrap();
    controller.remove_backend("web", "be2", Removal::Drain).unwrap();
    controller.set_weight("web", "be3", 5).unwrap();
    controller.set_admin("web", "be4", Admin::Draining).unwrap();
    let mut again = service(of(3..=6), 4_001);
    again.policy = again.policy.with_track_tcp(true);
    controller.replace_service(again, Health::Up).unwrap();
    assert_eq!(controller.status()[0].resize_refused, refused, "it is still so");
    let another = controller.resize("web", TableSizeSpec::Slots(5_003), 7);
    assert!(
        matches!(another, Err(ChangeError::Full { asked: 5_003, .. })),
        "another wish is answered at once"
    );
}

/// Names and weights.
type Weighted<'a> = &'a [(&'a str, u32)];

/// Of all pairs of slots that a hash can have in two tables, those whose owner changes and those that change it
/// needlessly, by `weights` before and after.
fn counted_by_hash(before: &TableView, after: &TableView, weights: [Weighted<'_>; 2]) -> (u64, u64) {
    let weight = |when: usize, name: &str| {
        weights[when].iter().find(|(other, _)| *other == name).map_or(0, |&(_, weight)| weight)
    };
    let (mut moved, mut needless) = (0, 0);
    for hash in 0..before.slots.len() * after.slots.len() {
        let old = before.slots[hash % before.slots.len()].current.as_deref().unwrap();
        let new = after.slots[hash % after.slots.len()].current.as_deref().unwrap();
        if old != new {
            moved += 1;
            let kept = weight(0, old) > 0 && weight(1, old) >= weight(0, old);
            let gained = weight(0, new) == 0 || weight(1, new) > weight(0, new);
            needless += u64::from(kept && !gained);
        }
    }
    (moved, needless)
}

#[test]
fn a_resize_counts_as_moved_the_share_of_all_hashes_that_change_their_backend() {
    let even = [("be1", 1), ("be2", 1), ("be3", 1), ("be4", 1)];
    let uneven = [("be1", 5), ("be2", 1), ("be3", 2), ("be4", 1)];
    let cases: [(u32, u32, [Weighted<'_>; 2]); 5] = [
        (251, 509, [&even, &even]),
        (509, 251, [&even, &even[1..]]),
        (251, 509, [&even[..3], &even]),
        (251, 307, [&even, &uneven]),
        (307, 251, [&uneven, &even[..2]]),
    ];
    for (old_size, new_size, weights) in cases {
        let spec = |size: u32, weights: &[(&str, u32)]| {
            let mut spec = service(of(1..=4), size);
            spec.backends.retain_mut(|backend| {
                let weight = weights.iter().find(|(name, _)| **name == *backend.identity);
                weight.map(|&(_, weight)| backend.weight = weight).is_some()
            });
            spec
        };
        let mut controller = controller();
        controller.add_service(spec(old_size, weights[0]), Health::Up).unwrap();
        let before = controller.table("web").unwrap();
        let wanted = spec(new_size, weights[1]);
        let foreseen = controller.preview(&wanted, |_| Health::Up).unwrap();
        let change = controller.replace_service(wanted, Health::Up).unwrap();
        assert_eq!(foreseen, change, "a plan says what will be");
        let churn = Churn { moved: change.moved.into(), needless: change.needless.into() };
        assert_eq!(controller.status()[0].churn, churn, "and metrics what was");
        let after = controller.table("web").unwrap();
        let (moved, needless) = counted_by_hash(&before, &after, weights);
        let in_slots = |pairs: u64| (pairs as f64 / f64::from(old_size)).round() as u32;
        assert_eq!((change.moved, change.needless), (in_slots(moved), in_slots(needless)), "{weights:?}");
        assert!(change.needless > 0 && change.needless <= change.moved && change.moved < new_size);
    }
}

#[test]
fn another_seed_moves_the_share_of_flows_that_it_says() {
    let mut controller = controller();
    controller.add_service(service(of(1..=4), 1_009), Health::Up).unwrap();
    let before = controller.table("web").unwrap();
    let change = controller.resize("web", TableSizeSpec::Slots(1_009), 8).unwrap();
    let after = controller.table("web").unwrap();
    let owner = |table: &TableView, seed: u64, flow: &FlowKey| {
        let hash = FlowHasher::new(seed).hash(flow, HashKey::FiveTuple);
        table.slots[(hash % table.slots.len() as u64) as usize].current.clone()
    };
    let flows = (0..40_000_u32).map(|number| {
        let client = (0x0b00_0000 | (number / 100)).to_be_bytes();
        let port = 10_000 + (number % 100) as u16;
        FlowKey::v4(client, [192, 0, 2, 10], port, 80, IpProtocol::TCP)
    });
    let moved = flows.filter(|flow| owner(&before, 7, flow) != owner(&after, 8, flow)).count();
    let share = f64::from(change.moved) / f64::from(change.slots);
    assert!((moved as f64 / 40_000.0 - share).abs() < 0.01, "{moved} {change:?}");
    assert_eq!(change.moved, change.needless, "nothing but the seed asks for it");
}
