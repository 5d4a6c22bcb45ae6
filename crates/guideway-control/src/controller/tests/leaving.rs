//! Backends that drain, leave and return.

use std::collections::BTreeMap;

use super::*;

#[test]
fn a_backend_that_returns_takes_its_index_again() {
    let mut controller = controller();
    controller.add_service(service(of(1..=3), 251), Health::Unchecked).unwrap();
    let before = words(&controller);
    for removal in [Removal::Drain, Removal::AtOnce] {
        controller.remove_backend("web", "be2", removal).unwrap();
        assert!(words(&controller).iter().all(|slot| slot.current() != 1));
        controller.add_backend("web", backend(2, 1), Health::Up).unwrap();
        let owners = |words: &[Slot]| words.iter().map(|slot| slot.current()).collect::<Vec<_>>();
        assert_eq!(owners(&words(&controller)), owners(&before));
        let status = &controller.status()[0];
        assert_eq!(status.backends.len(), 3);
        assert!(
            status.backends.iter().all(|backend| backend.state == BackendState::Active && !backend.removed)
        );
    }
}

#[test]
fn another_address_is_another_backend() {
    let mut controller = controller();
    controller.add_service(service(of(1..=3), 251), Health::Unchecked).unwrap();
    controller.remove_backend("web", "be2", Removal::Drain).unwrap();
    let elsewhere = BackendSpec { address: IpAddr::V4(Ipv4Addr::new(10, 0, 9, 9)), ..backend(2, 1) };
    controller.add_backend("web", elsewhere, Health::Up).unwrap();
    assert_eq!(controller.services["web"].named("be2").unwrap().0, 3);
}

#[test]
fn a_backend_that_left_keeps_its_index_while_it_gets_packets() {
    use guideway_forward::state::Counters;
    let mut controller = controller();
    controller.add_service(service(of(1..=3), 251), Health::Unchecked).unwrap();
    let worker = controller.engine().worker().unwrap();
    controller.remove_backend("web", "be2", Removal::Drain).unwrap();
    let global = controller.services["web"].places.offset + 1;
    for _ in 0..10 {
        Counters::backend(&worker, global, 60);
        assert_eq!(pass_seconds(&mut controller, 290).freed, 0);
    }
    assert_eq!(controller.engine().backend(global).unwrap().state(), BackendState::Draining);
    assert_eq!(pass_seconds(&mut controller, 20).freed, 1);
}

#[test]
fn an_index_is_reused_only_after_nothing_names_it() {
    let mut controller = controller();
    controller.add_service(service(of(1..=3), 251), Health::Unchecked).unwrap();
    controller.remove_backend("web", "be2", Removal::Drain).unwrap();
    controller.add_backend("web", backend(4, 1), Health::Unchecked).unwrap();
    assert_eq!(controller.services["web"].named("be4").unwrap().0, 3);
    remember(&controller, 3, 0, 1, Class::Old);
    pass_seconds(&mut controller, 295);
    assert_eq!(
        controller.engine().backend(controller.services["web"].places.offset + 1).unwrap().state(),
        BackendState::Draining
    );
    assert_eq!(pass_seconds(&mut controller, 20).freed, 1);
    controller.add_backend("web", backend(5, 1), Health::Unchecked).unwrap();
    assert_eq!(controller.services["web"].named("be5").unwrap().0, 1);
}

#[test]
fn a_removed_backend_that_dies_loses_the_flows_that_it_kept_and_gets_them_back_when_it_returns() {
    let mut controller = controller();
    controller.add_service(service(of(1..=3), 251), Health::Up).unwrap();
    controller.remove_backend("web", "be2", Removal::Drain).unwrap();
    let address = backend(2, 1).address;
    // The name has a new owner meanwhile, which is well.
    let elsewhere = BackendSpec { address: IpAddr::V4(Ipv4Addr::new(10, 0, 9, 9)), ..backend(2, 1) };
    controller.add_backend("web", elsewhere, Health::Up).unwrap();
    let states = |controller: &Controller<Arc<Memory>>| {
        let status = controller.status();
        let of = |removed| status[0].backends.iter().find(|b| &*b.identity == "be2" && b.removed == removed);
        let record = |place| controller.engine().backend(place).unwrap().state();
        (record(of(true).unwrap().global), record(of(false).unwrap().global))
    };
    assert_eq!(states(&controller), (BackendState::Draining, BackendState::Active));
    controller.set_removed_health("web", "be2", address, Health::Down).unwrap();
    assert_eq!(states(&controller), (BackendState::Down, BackendState::Active));
    controller.set_removed_health("web", "be2", address, Health::Up).unwrap();
    assert_eq!(states(&controller), (BackendState::Draining, BackendState::Active));
    let unknown = controller.set_removed_health("web", "be1", backend(1, 1).address, Health::Down);
    assert!(matches!(unknown, Err(ChangeError::UnknownBackend { .. })), "it is wanted, not removed");
    assert_eq!(controller.remaining().len(), 1);
}

#[test]
fn quic_connections_keep_a_drain_from_ending_although_nothing_is_remembered_of_them() {
    use guideway_forward::state::Counters;
    let mut controller = controller();
    let mut spec = service(of(1..=3), 251);
    spec.listen[0].protocol = Protocol::Udp;
    spec.policy = spec.policy.with_quic(Some((1, 2)));
    spec.backends.iter_mut().zip(1..).for_each(|(backend, id)| backend.quic_id = Some(id));
    spec.backends[2].quic_id = None;
    controller.add_service(spec, Health::Up).unwrap();
    let worker = controller.engine().worker().unwrap();
    let global = controller.services["web"].places.offset + 1;
    Counters::backend(&worker, global, 60);
    controller.set_admin("web", "be2", Admin::Draining).unwrap();
    controller.set_admin("web", "be3", Admin::Draining).unwrap();
    let quic = |controller: &Controller<Arc<Memory>>| -> Vec<bool> {
        controller.remaining().iter().map(|remaining| remaining.may_have_quic).collect()
    };
    assert_eq!(quic(&controller), [true, false], "a backend without an id gets no connection by one");
    for _ in 0..5 {
        pass_seconds(&mut controller, 30);
        Counters::backend(&worker, global, 60);
        assert_eq!(quic(&controller), [true, false]);
    }
    pass_seconds(&mut controller, 40);
    assert_eq!(quic(&controller), [false, false]);
    // It drains anew: what was noted the last time says nothing now.
    controller.set_admin("web", "be2", Admin::Active).unwrap();
    pass_seconds(&mut controller, 1);
    controller.set_admin("web", "be2", Admin::Draining).unwrap();
    assert_eq!(quic(&controller), [true, false]);
}

#[test]
fn what_remains_of_a_drain_are_connections_that_stand_and_the_rest_is_told_apart() {
    let mut controller = controller();
    controller.add_service(service(of(1..=3), 251), Health::Unchecked).unwrap();
    let classes = [Class::Confirmed, Class::Old, Class::Udp, Class::Closing, Class::HalfOpen, Class::Reset];
    for (place, class) in classes.into_iter().enumerate() {
        remember(&controller, place, 7, 1, class);
    }
    controller.set_admin("web", "be2", Admin::Draining).unwrap();
    let left = |controller: &Controller<Arc<Memory>>| {
        let remaining = controller.remaining();
        (remaining[0].live_flows, remaining[0].ending_flows)
    };
    assert_eq!(left(&controller), (4, 2), "a client that closed its half a moment ago may still be sent to");
    assert_eq!(controller.live_flows(["web", "unknown"]), BTreeMap::from([("web", 4)]));
    pass_seconds(&mut controller, 11);
    assert_eq!(left(&controller), (3, 2), "the reset one is forgotten, the closing one is silent");
    pass_seconds(&mut controller, 20);
    assert_eq!(left(&controller), (2, 1), "the half-open one and the datagrams are forgotten");
    pass_seconds(&mut controller, 30);
    assert_eq!(left(&controller), (2, 0));
    pass_seconds(&mut controller, 240);
    assert_eq!(left(&controller), (0, 0));
    let end = controller.set_admin("web", "be2", Admin::Disabled).unwrap();
    assert_eq!(end.voided_flows, 0);
}
