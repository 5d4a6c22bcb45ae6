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
    let limits = Limits { services: 2, backends: 64, slots: 1_009 + 2_003, flows: 64, ..Limits::default() };
    let mut controller = Controller::new(Arc::new(Memory::new(limits, [1, 2])));
    controller.add_service(service(of(1..=4), 1_009), Health::Unchecked).unwrap();
    controller.resize("web", TableSizeSpec::Slots(2_003), 7).unwrap();
    assert!(controller.resize("web", TableSizeSpec::Slots(4_001), 7).unwrap().resize_waits);
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
    let limits = Limits { services: 2, backends: 64, slots: 1_009 + 2_003, flows: 64, ..Limits::default() };
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
