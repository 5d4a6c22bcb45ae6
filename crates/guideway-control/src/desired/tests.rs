//! Configuration, overrides, checks and the real controller over memory, against a virtual clock.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, UNIX_EPOCH};

use guideway_forward::record::flow::Class;
use guideway_forward::record::{BackendState, Info, Slot, Tag};
use guideway_soft::{Limits, Memory};

use super::*;
use crate::config::{self, Source};
use crate::controller::{BackendStatus, Removal, ServiceStatus};
use crate::drain::{self, DrainEvent, DrainKey, Drains, Phase};
use crate::health::{Answer, Fault, Passed};
use crate::overrides::AdminState;

const SECOND: Duration = Duration::from_secs(1);

struct World {
    board: Board,
    desired: Desired,
    controller: Controller<Arc<Memory>>,
    start: Instant,
    now: Instant,
    /// The last octets of those that do not answer.
    sick: HashSet<u8>,
    commits: usize,
}

fn memory() -> Arc<Memory> {
    let limits = Limits { services: 8, backends: 256, slots: 200_000, flows: 1_024, ..Limits::default() };
    Arc::new(Memory::new(limits, [1, 2]))
}

impl World {
    fn new(config: &Config) -> Self {
        let now = Instant::now();
        let (board, desired) = (Board::new(3), Desired::default());
        let controller = Controller::new(memory());
        let mut world =
            Self { board, desired, controller, start: now, now, sick: HashSet::new(), commits: 0 };
        world.configure(config);
        world
    }

    /// One whose backends are all up, and whose slots have settled.
    fn well(config: &Config) -> Self {
        let mut world = Self::new(config);
        world.pass(400 * SECOND);
        world
    }

    fn configure(&mut self, config: &Config) {
        self.desired.configure(config, &mut self.board, self.now);
        self.commit();
    }

    /// Another process over other memory, with what the files say.
    fn restart(&mut self, config: &Config) {
        let snapshot = serde_json::to_string(&self.board.snapshot(self.now)).unwrap();
        let overrides = serde_json::to_string(self.desired.overrides()).unwrap();
        self.board = Board::restore(4, serde_json::from_str(&snapshot).unwrap(), SECOND);
        self.desired = Desired::new(serde_json::from_str(&overrides).unwrap());
        self.controller = Controller::new(memory());
        self.set_clock(self.now + SECOND);
        self.configure(config);
    }

    /// Another process that takes this one's forwarder over, and the drains.
    fn take_over(&mut self, config: &Config, drains: &mut Drains) {
        let wall = UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        let kept = serde_json::to_string(&drains.snapshot(self.now, wall)).unwrap();
        let kept: drain::Snapshot = serde_json::from_str(&kept).unwrap();
        let (memory, known) = (Arc::clone(self.controller.engine()), from_config::services(config));
        self.controller = Controller::adopt_with(memory, &known, |service, address| {
            kept.removed().find(|key| key.service == service && key.address == address).map(|key| key.backend)
        })
        .unwrap();
        self.board = Board::restore(5, self.board.snapshot(self.now), SECOND);
        self.desired = Desired::new(self.desired.overrides().clone());
        self.set_clock(self.now + SECOND);
        *drains = Drains::restore(&kept, self.now, wall + SECOND);
        self.desired.take_leaving(&self.controller.remaining());
        self.configure(config);
    }

    /// As the daemon does every second: what drains after its removal is followed.
    fn follow_leaving(&mut self) {
        let remaining = self.controller.remaining();
        self.desired.follow_leaving(&mut self.controller, &remaining, &mut self.board, self.now);
    }

    fn commit(&mut self) {
        for committed in self.desired.commit(&mut self.controller, &self.board, self.now) {
            committed.result.unwrap();
            self.commits += 1;
        }
        // Whatever happened, no new flow may go to a backend that fails its checks, while another passes.
        for service in self.controller.status() {
            if service.last_resort {
                continue;
            }
            for backend in &service.backends {
                let verdict = self.board.verdict(&of(&service.name, &backend.identity));
                let fine = matches!(verdict, None | Some(Verdict::Up));
                assert!(fine || backend.slots == 0, "{backend:?}");
            }
        }
    }

    fn set_clock(&mut self, now: Instant) {
        self.now = self.now.max(now);
        let seconds = (self.now - self.start).as_secs() as u32;
        let memory = self.controller.engine();
        if memory.now_seconds() != seconds {
            memory.set_now_seconds(seconds);
            self.controller.tick();
        }
    }

    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(due) = self.board.next_due().filter(|&due| due <= end) {
            self.set_clock(due);
            let advanced = self.board.advance(self.now);
            self.desired.note_advanced(&advanced);
            for round in advanced.rounds {
                let IpAddr::V4(address) = round.check.address else { panic!("IPv4 only") };
                let result = if self.sick.contains(&address.octets()[3]) {
                    Err(Fault::Refused)
                } else {
                    Ok(Passed { took: SECOND / 1000 })
                };
                let results = vec![result; round.legs.len()];
                let changes = self.board.answer(&Answer { id: round.id, results }, self.now);
                self.desired.note_changes(&changes);
            }
            self.commit();
        }
        while self.now < end {
            self.set_clock((self.now + SECOND).min(end));
        }
    }

    fn overriding<T>(&mut self, change: impl FnOnce(&mut Overrides) -> T) -> T {
        let result = self.desired.with_overrides(&mut self.board, self.now, change);
        self.commit();
        result
    }

    fn service(&self) -> ServiceStatus {
        self.controller.status().into_iter().find(|status| status.name == "web").unwrap()
    }

    fn backend(&self, name: &str) -> BackendStatus {
        let wanted = |backend: &BackendStatus| *backend.identity == *name && !backend.removed;
        self.service().backends.into_iter().find(wanted).unwrap()
    }

    /// Slots of `be1`, `be2` …
    fn slots(&self) -> Vec<u32> {
        let count = self.desired.spec("web", &self.board, self.now).unwrap().backends.len();
        (1..=count).map(|n| self.backend(&format!("be{n}")).slots).collect()
    }

    /// Puts a live flow of a backend into the flow table.
    fn remember(&self, place: usize, slot: u32, backend: u16) {
        let entry = &self.controller.engine().flows()[place].entries[0];
        let id = self.controller.service_id("web").unwrap();
        let now = self.controller.engine().now_seconds();
        entry.info.store(Info::new(now, id, slot).0, Relaxed);
        entry.tag.store(Tag::new((place as u64 + 1) << 40, backend, Class::Old).0, Relaxed);
    }

    fn forget(&self, place: usize) {
        self.controller.engine().flows()[place].entries[0].tag.store(0, Relaxed);
    }
}

fn of(service: &str, backend: &str) -> Who {
    Who { service: service.into(), backend: backend.into() }
}

/// A service with as many backends as there are weights, after `settings`.
fn config(weights: &[u32], settings: &str) -> Config {
    let backends: Vec<String> = (1..)
        .zip(weights)
        .map(|(n, weight)| format!("{{ name = \"be{n}\", address = \"10.0.0.{n}\", weight = {weight} }}"))
        .collect();
    let text = format!(
        "[underlay]\nsource_v4 = \"10.0.0.254\"\n[[service]]\nname = \"web\"\nvip = \"192.0.2.10\"\nport = 80\n\
         protocol = \"tcp\"\ntable_size = 1009\nidle_tcp = \"5m\"\n{settings}\nbackend = [{}]\n\
         [service.health]\nkind = \"tcp\"\n",
        backends.join(", ")
    );
    parse(&text)
}

fn parse(text: &str) -> Config {
    config::parse(&Source::new("guideway.toml", text)).unwrap_or_else(|problems| panic!("{problems:?}"))
}

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
