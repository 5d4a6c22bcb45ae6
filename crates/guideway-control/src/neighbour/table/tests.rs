use proptest::prelude::*;

use super::*;
use crate::neighbour::hop::{CONFIRM_WITHIN, HELD_WHILE_RESOLVING};

const OWN: Mac = [2, 0, 0, 0, 0, 1];
const A: Mac = [2, 0, 0, 0, 0, 0xa];
const B: Mac = [2, 0, 0, 0, 0, 0xb];

fn backend(number: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, number])
}

fn router(number: u8) -> IpAddr {
    IpAddr::from([10, 1, 0, number])
}

fn by(number: u8, interface: u32) -> Path {
    Path { interface, gateway: Some(router(number)), weight: 1, mtu: None }
}

fn at(number: u8, interface: u32) -> Place {
    Place { interface, address: router(number) }
}

/// A link with a MAC.
fn link(running: bool) -> Link {
    Link { mac: Some(OWN), running, mtu: Some(1_400) }
}

fn neighbour(place: Place, state: Resolution) -> Event {
    Event::Neighbour { place, state }
}

/// A table with two links that run, and a backend by a router on the first.
fn table(now: Instant) -> NeighbourTable {
    let mut table = NeighbourTable::new(now);
    assert_eq!(table.advance(now), [Request::Dump]);
    table.handle(Event::Links(vec![(1, link(true)), (2, link(true))]), now);
    table.follow([backend(1)], now);
    assert_eq!(table.advance(now), [Request::Route(backend(1))]);
    table.handle(Event::Route { backend: backend(1), paths: vec![by(1, 1)] }, now);
    table
}

/// Everything that is asked for until `end`.
fn run(table: &mut NeighbourTable, now: &mut Instant, time: Duration) -> Vec<(Duration, Request)> {
    let (start, end) = (*now, *now + time);
    let mut asked = Vec::new();
    while let Some(due) = table.next_due().filter(|&due| due <= end) {
        *now = (*now).max(due);
        asked.extend(table.advance(*now).into_iter().map(|request| (*now - start, request)));
    }
    *now = end;
    asked
}

#[test]
fn an_interface_is_down_while_it_does_not_run_and_when_it_is_gone_but_not_before_any_is_known() {
    let now = Instant::now();
    assert!(!NeighbourTable::new(now).is_down(1));
    let mut table = table(now);
    assert!(!table.is_down(1) && !table.is_down(2));
    table.handle(Event::Link { interface: 1, link: link(false) }, now);
    assert!(table.is_down(1) && !table.is_down(2));
    table.handle(Event::Link { interface: 1, link: link(true) }, now);
    table.handle(Event::LinkGone { interface: 2 }, now);
    assert!(!table.is_down(1) && table.is_down(2));
}

#[test]
fn an_unresolved_neighbour_is_counted_and_resolved_until_it_answers() {
    let mut now = Instant::now();
    let mut table = table(now);
    let asked = run(&mut table, &mut now, Duration::from_millis(2_500));
    let resolves = asked.iter().filter(|(_, request)| *request == Request::Resolve(at(1, 1))).count();
    assert_eq!((resolves, table.counts().resolutions), (3, 3));
    let unresolved = NextHop { interface: 1, neighbour: [0; 6], own_mac: OWN, link_mtu: Some(1_400) };
    assert_eq!(table.changes(), [(backend(1), unresolved)]);
    assert_eq!(table.unresolved().collect::<Vec<_>>(), [backend(1)]);
    table.handle(neighbour(at(1, 1), Resolution::Confirmed(A)), now);
    assert_eq!(table.changes(), [(backend(1), NextHop { neighbour: A, ..unresolved })]);
    assert_eq!(table.unresolved().count(), 0);
}

#[test]
fn a_mac_that_changes_without_a_word_is_followed_within_two_seconds() {
    let start = Instant::now();
    let mut now = start;
    let mut table = table(now);
    run(&mut table, &mut now, Duration::ZERO);
    table.handle(neighbour(at(1, 1), Resolution::Confirmed(A)), now);
    table.changes();
    let asked = run(&mut table, &mut now, Duration::from_millis(1_400));
    let restarted = asked.iter().find(|(_, request)| *request == Request::Restart(at(1, 1))).unwrap();
    assert!(restarted.0 <= CONFIRM_WITHIN + Duration::from_secs(1));
    // Frames go on to where they went.
    assert_eq!(table.next_hop(backend(1)).unwrap().neighbour, A);
    assert_eq!(table.changes(), []);
    table.handle(neighbour(at(1, 1), Resolution::Unknown), now);
    assert_eq!(table.changes(), []);
    table.handle(neighbour(at(1, 1), Resolution::Confirmed(B)), now);
    assert_eq!(table.changes()[0].1.neighbour, B);
    assert_eq!(table.counts().moves, 1);
}

#[test]
fn a_neighbour_that_is_flushed_is_resolved_at_once_and_given_up_later() {
    let mut now = Instant::now();
    let mut table = table(now);
    run(&mut table, &mut now, Duration::ZERO);
    table.handle(neighbour(at(1, 1), Resolution::Confirmed(A)), now);
    table.changes();
    table.handle(neighbour(at(1, 1), Resolution::Unknown), now);
    let asked = run(&mut table, &mut now, Duration::ZERO);
    assert_eq!(asked, [(Duration::ZERO, Request::Resolve(at(1, 1)))]);
    assert_eq!(table.changes(), []);
    run(&mut table, &mut now, HELD_WHILE_RESOLVING);
    assert_eq!(table.changes()[0].1.neighbour, [0; 6]);
}

#[test]
fn a_link_that_stops_takes_its_next_hops_along_and_asks_for_other_routes() {
    let mut now = Instant::now();
    let mut table = table(now);
    table.handle(neighbour(at(1, 1), Resolution::Confirmed(A)), now);
    run(&mut table, &mut now, Duration::from_secs(1));
    table.changes();
    table.handle(Event::Link { interface: 1, link: link(false) }, now);
    assert_eq!(table.changes(), [(backend(1), NextHop::default())]);
    let asked = run(&mut table, &mut now, Duration::from_secs(3));
    // Nothing is asked of neighbours on a link that is down.
    assert!(asked.iter().all(|(_, request)| *request == Request::Route(backend(1))), "{asked:?}");
    table.handle(Event::Link { interface: 1, link: link(true) }, now);
    let asked = run(&mut table, &mut now, Duration::ZERO);
    assert!(asked.contains(&(Duration::ZERO, Request::Resolve(at(1, 1)))), "{asked:?}");
    table.handle(neighbour(at(1, 1), Resolution::Confirmed(A)), now);
    assert_eq!(table.changes()[0].1.neighbour, A);
}

#[test]
fn another_mtu_of_the_link_is_told_with_the_next_hop() {
    let mut now = Instant::now();
    let mut table = table(now);
    table.handle(neighbour(at(1, 1), Resolution::Confirmed(A)), now);
    run(&mut table, &mut now, Duration::from_secs(1));
    let before = table.changes()[0].1;
    assert_eq!(before.link_mtu, Some(1_400));
    table.handle(Event::Link { interface: 1, link: Link { mtu: Some(9_000), ..link(true) } }, now);
    assert_eq!(table.changes(), [(backend(1), NextHop { link_mtu: Some(9_000), ..before })]);
}

#[test]
fn of_several_ways_one_with_a_known_neighbour_is_taken() {
    let mut now = Instant::now();
    let mut table = table(now);
    let all: Vec<IpAddr> = (1..=100).map(backend).collect();
    table.follow(all.clone(), now);
    for &backend in &all {
        table.handle(Event::Route { backend, paths: vec![by(1, 1), by(2, 2)] }, now);
    }
    assert_eq!(table.hops(), 2);
    table.handle(neighbour(at(1, 1), Resolution::Confirmed(A)), now);
    assert!(table.changes().iter().all(|(_, next_hop)| next_hop.neighbour == A));
    table.handle(neighbour(at(2, 2), Resolution::Confirmed(B)), now);
    // Now they are shared out; those that stay are not told.
    let moved = table.changes();
    assert!((30..70).contains(&moved.len()) && moved.iter().all(|(_, next_hop)| next_hop.neighbour == B));
    table.handle(Event::Link { interface: 2, link: link(false) }, now);
    assert_eq!(table.changes().len(), moved.len());
    assert_eq!(table.unresolved().count(), 0);
    run(&mut table, &mut now, Duration::ZERO);
}

#[test]
fn routes_that_change_in_crowds_are_asked_for_a_few_times() {
    let mut now = Instant::now();
    let mut table = table(now);
    let mut asked = 0;
    for _ in 0..1_000 {
        table.handle(Event::RoutesChanged, now);
        let requests = run(&mut table, &mut now, Duration::from_millis(1));
        asked += requests.iter().filter(|(_, request)| matches!(request, Request::Route(_))).count();
    }
    assert!((9..=11).contains(&asked), "{asked}");
}

#[test]
fn lost_events_have_everything_read_again() {
    let mut now = Instant::now();
    let mut table = table(now);
    table.handle(neighbour(at(1, 1), Resolution::Confirmed(A)), now);
    run(&mut table, &mut now, Duration::from_millis(500));
    table.changes();
    table.handle(Event::Lost, now);
    let asked = run(&mut table, &mut now, Duration::from_millis(100));
    assert_eq!(asked[0].1, Request::Dump);
    assert!(asked.iter().any(|(_, request)| *request == Request::Route(backend(1))));
    // What is not there any more goes, what is stays.
    table.handle(Event::Links(vec![(1, link(true))]), now);
    assert_eq!((table.changes(), table.counts().losses), (vec![], 1));
    table.handle(Event::Links(vec![]), now);
    assert_eq!(table.changes(), [(backend(1), NextHop::default())]);
}

#[test]
fn what_is_set_for_good_is_not_asked_about() {
    let mut now = Instant::now();
    let mut table = table(now);
    run(&mut table, &mut now, Duration::ZERO);
    table.handle(neighbour(at(1, 1), Resolution::Permanent(A)), now);
    let asked = run(&mut table, &mut now, Duration::from_secs(60));
    let of_neighbours = asked.iter().filter(|(_, request)| !matches!(request, Request::Route(_)));
    assert_eq!(of_neighbours.count(), 0);
    for running in [false, true] {
        table.handle(Event::Link { interface: 1, link: link(running) }, now);
    }
    table.changes();
    assert_eq!(table.next_hop(backend(1)).unwrap().neighbour, A);
}

#[test]
fn ten_thousand_next_hops_are_confirmed_at_a_bearable_rate() {
    let mut now = Instant::now();
    let mut table = NeighbourTable::new(now);
    table.handle(Event::Links(vec![(1, link(true))]), now);
    let all: Vec<IpAddr> = (0..10_000_u32).map(|n| IpAddr::from((0x0a00_0000 + n).to_be_bytes())).collect();
    table.follow(all.clone(), now);
    for &backend in &all {
        table.handle(
            Event::Route { backend, paths: vec![Path { interface: 1, gateway: None, weight: 1, mtu: None }] },
            now,
        );
    }
    for &address in &all {
        table.handle(neighbour(Place { interface: 1, address }, Resolution::Confirmed(A)), now);
    }
    let mut confirmed = 0;
    let end = now + Duration::from_secs(20);
    while let Some(due) = table.next_due().filter(|&due| due <= end) {
        now = due;
        for request in table.advance(now) {
            if let Request::Confirm(place) = request {
                confirmed += 1;
                table.handle(neighbour(place, Resolution::Confirmed(A)), now);
            }
        }
    }
    assert!((18_000..28_000).contains(&confirmed), "{confirmed}");
}

fn events() -> impl Strategy<Value = Vec<(u64, Event)>> {
    let place = || (1_u8..4, 1_u32..3).prop_map(|(number, interface)| at(number, interface));
    let state = prop_oneof![
        Just(Resolution::Confirmed(A)),
        Just(Resolution::Confirmed(B)),
        Just(Resolution::Doubtful(A)),
        Just(Resolution::Permanent(B)),
        Just(Resolution::Unknown),
    ];
    let paths = prop::collection::vec(
        (1_u8..4, 1_u32..3).prop_map(|(number, interface)| by(number, interface)),
        0..3,
    );
    let event = prop_oneof![
        2 => (1_u32..3, any::<bool>(), prop::option::of(Just(OWN)))
            .prop_map(|(interface, running, mac)| Event::Link { interface, link: Link { mac, ..link(running) } }),
        1 => (1_u32..3).prop_map(|interface| Event::LinkGone { interface }),
        6 => (place(), state).prop_map(|(place, state)| neighbour(place, state)),
        4 => (1_u8..6, paths).prop_map(|(number, paths)| Event::Route { backend: backend(number), paths }),
        1 => Just(Event::RoutesChanged),
        1 => Just(Event::Lost),
    ];
    prop::collection::vec((0_u64..800, event), 0..60)
}

proptest! {
    /// Whatever happens: a next hop is a way of the backend's route over a link that runs, with the link's MAC and the
    /// last MAC heard of the neighbour; and whoever follows the changes knows every next hop.
    #[test]
    fn next_hops_are_always_ones_that_the_kernel_told_of(events in events()) {
        let mut now = Instant::now();
        let mut table = NeighbourTable::new(now);
        table.follow((1..5).map(backend), now);
        let mut links: HashMap<u32, (Option<Mac>, bool)> = HashMap::new();
        let mut macs: HashMap<Place, Mac> = HashMap::new();
        let mut routes: HashMap<IpAddr, Vec<Path>> = HashMap::new();
        let mut told: HashMap<IpAddr, NextHop> = HashMap::new();
        for (ms, event) in events {
            match &event {
                Event::Link { interface, link } => { links.insert(*interface, (link.mac, link.running)); }
                Event::LinkGone { interface } => { links.remove(interface); }
                Event::Neighbour { place, state } => match state {
                    Resolution::Confirmed(mac) | Resolution::Doubtful(mac) | Resolution::Permanent(mac) => {
                        macs.insert(*place, *mac);
                    }
                    Resolution::Unknown => {}
                },
                Event::Route { backend, paths } => { routes.insert(*backend, paths.clone()); }
                _ => {}
            }
            table.handle(event, now);
            run(&mut table, &mut now, Duration::from_millis(ms));
            told.extend(table.changes());
            let mut places = BTreeSet::new();
            for address in (1..5).map(backend) {
                let next_hop = table.next_hop(address).unwrap();
                prop_assert_eq!(told.get(&address).copied().unwrap_or_default(), next_hop);
                let paths = routes.get(&address).cloned().unwrap_or_default();
                places.extend(paths.iter().map(|path| place(path, address)));
                let running = |path: &Path| matches!(links.get(&path.interface), Some((Some(_), true)));
                if next_hop == NextHop::default() {
                    prop_assert!(!paths.iter().any(running));
                    continue;
                }
                prop_assert_eq!(next_hop.own_mac, OWN);
                let fits = |path: &Path| {
                    let heard = macs.get(&place(path, address)).copied().unwrap_or_default();
                    path.interface == next_hop.interface
                        && running(path)
                        && (next_hop.neighbour == heard || next_hop.neighbour == [0; 6])
                };
                prop_assert!(paths.iter().any(fits), "{:?} {:?}", next_hop, paths);
            }
            prop_assert_eq!(table.hops.keys().copied().collect::<BTreeSet<_>>(), places);
            let dues: BTreeSet<_> = table.hops.iter().filter_map(|(&place, used)| Some((used.hop.due()?, place))).collect();
            prop_assert_eq!(&table.due, &dues);
        }
        table.follow([], now);
        prop_assert!(table.hops.is_empty() && table.due.is_empty() && table.changes().is_empty());
    }
}
