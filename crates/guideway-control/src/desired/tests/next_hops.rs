//! Where frames to backends go.

use super::*;

#[test]
fn a_next_hop_changes_at_once_and_in_what_is_committed_later() {
    let mut world = World::well(&config(&[1; 2], ""));
    let next_hop = NextHop { interface: 9, neighbour: [6; 6], own_mac: [8; 6], link_mtu: Some(1_400) };
    world.desired.set_next_hops(&mut world.controller, &[(IpAddr::from([10, 0, 0, 2]), next_hop)]);
    let (one, two) = (world.backend("be1").global, world.backend("be2").global);
    for _ in 0..2 {
        let record = |global| world.controller.engine().backend(global).unwrap();
        assert_eq!((record(two).neighbour(), record(two).interface()), (Some([6; 6]), 9));
        assert_eq!((record(one).status().mtu(), record(two).status().mtu()), (1_500, 1_400));
        assert_ne!(record(one).neighbour(), Some([6; 6]));
        world.overriding(|overrides| overrides.set_weight(&of("web", "be2"), 7)).unwrap();
    }
}

#[test]
fn next_hops_that_are_known_before_the_start_are_in_the_first_records() {
    let config = config(&[1; 2], "");
    let (mut board, now) = (Board::new(1), Instant::now());
    let mut controller = Controller::new(Arc::new(Memory::new(Limits::default(), [1, 2])));
    let mut desired = Desired::new(Overrides::default());
    let next_hop = NextHop { interface: 9, neighbour: [6; 6], own_mac: [8; 6], link_mtu: None };
    desired.set_next_hops(&mut controller, &[(IpAddr::from([10, 0, 0, 2]), next_hop)]);
    desired.configure(&config, &mut board, now);
    assert!(desired.commit(&mut controller, &board, now).iter().all(|committed| committed.result.is_ok()));
    let neighbours: Vec<_> = (0..2)
        .map(|global| {
            let (_, spec) = controller.backend_at(global).unwrap();
            (spec.identity.clone(), controller.engine().backend(global).unwrap().neighbour())
        })
        .collect();
    assert!(neighbours.contains(&("be2".into(), Some([6; 6]))), "{neighbours:?}");
}
