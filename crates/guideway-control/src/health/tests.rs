//! The board against a virtual clock and a world in which probes get whatever answer a test says.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::*;
use crate::config::{self, Config, Encapsulation, Probe, Source};

const SECOND: Duration = Duration::from_secs(1);
/// How long every answer takes.
const LATENCY: Duration = Duration::from_millis(3);

/// Decides what a leg to an address gets; `None`: no answer at all.
type Reply = dyn Fn(&Round, Way) -> Option<LegResult>;

struct World {
    board: Board,
    now: Instant,
    start: Instant,
    reply: Box<Reply>,
    /// Whether anybody reports what came of rounds.
    reports: bool,
    /// Rounds under way, by when they are answered.
    under_way: Vec<(Instant, Round)>,
    changes: Vec<(Duration, Change)>,
    rounds: Vec<(Duration, Round)>,
}

impl World {
    fn new(board: Board) -> Self {
        let now = Instant::now();
        let reply = Box::new(|_: &Round, _| Some(passed()));
        Self {
            board,
            now,
            start: now,
            reply,
            reports: true,
            under_way: vec![],
            changes: vec![],
            rounds: vec![],
        }
    }

    fn of(config: &Config) -> Self {
        let mut world = Self::new(Board::new(7));
        world.board.follow(wanted(config), world.now);
        world
    }

    fn replies(&mut self, reply: impl Fn(&Round, Way) -> Option<LegResult> + 'static) {
        self.reply = Box::new(reply);
    }

    /// Lets so much time pass, from event to event.
    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            let due = self.board.next_due();
            let answer = self.under_way.iter().map(|&(at, _)| at).min();
            let Some(next) = due.into_iter().chain(answer).min().filter(|&next| next <= end) else { break };
            self.now = self.now.max(next);
            let (ready, later) = std::mem::take(&mut self.under_way)
                .into_iter()
                .partition::<Vec<_>, _>(|&(at, _)| at <= self.now);
            self.under_way = later;
            if self.reports {
                ready.iter().for_each(|(_, round)| self.answer(round));
            }
            let advanced = self.board.advance(self.now);
            let since = self.now - self.start;
            self.changes.extend(advanced.changes.into_iter().map(|change| (since, change)));
            for round in advanced.rounds {
                let silent = round.legs.iter().any(|leg| (self.reply)(&round, leg.way).is_none());
                let takes = if silent { round.check.times.timeout } else { LATENCY };
                self.rounds.push((since, round.clone()));
                self.under_way.push((self.now + takes, round));
            }
        }
        self.now = end;
    }

    fn answer(&mut self, round: &Round) {
        let timed_out = || Err(Fault::TimedOut { limit: round.check.times.timeout, stage: Stage::Connect });
        let results =
            round.legs.iter().map(|leg| (self.reply)(round, leg.way).unwrap_or_else(timed_out)).collect();
        let changes = self.board.answer(&Answer { id: round.id, results }, self.now);
        let since = self.now - self.start;
        self.changes.extend(changes.into_iter().map(|change| (since, change)));
    }

    fn verdict(&self, service: &str, backend: &str) -> Verdict {
        self.board.verdict(&who(service, backend)).unwrap()
    }

    fn status(&self, service: &str, backend: &str) -> Status {
        self.board.status(&who(service, backend), self.now).unwrap()
    }

    fn reload(&mut self, config: &Config) {
        self.board.follow(wanted(config), self.now);
    }

    fn restart(&mut self, config: &Config, away: Duration) {
        let text = serde_json::to_string(&self.board.snapshot(self.now)).unwrap();
        self.under_way.clear();
        self.now += away;
        self.board = Board::restore(8, serde_json::from_str(&text).unwrap(), away);
        self.board.follow(wanted(config), self.now);
    }
}

fn passed() -> LegResult {
    Ok(Passed { took: LATENCY })
}

fn refused() -> LegResult {
    Err(Fault::Refused)
}

fn who(service: &str, backend: &str) -> Who {
    Who { service: service.into(), backend: backend.into() }
}

fn address(number: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, number])
}

/// A service on two families with backends `be1` to `be4`, after `health`.
fn config(health: &str) -> Config {
    config_of(&format!("{}\n{health}", service("web", 80)))
}

fn config_of(services: &str) -> Config {
    let text = format!("[underlay]\nsource_v4 = \"10.0.0.254\"\n{services}");
    config::parse(&Source::new("guideway.toml", text.as_str()))
        .unwrap_or_else(|problems| panic!("{problems:?}"))
}

fn service(name: &str, port: u16) -> String {
    let backends: Vec<String> =
        (1..=4).map(|n| format!("{{ name = \"be{n}\", address = \"10.0.0.{n}\" }}")).collect();
    format!(
        "[[service]]\nname = \"{name}\"\nvip = [\"192.0.2.10\", \"2001:db8::10\"]\nport = {port}\n\
         protocol = \"tcp\"\nbackend = [{}]\n",
        backends.join(", ")
    )
}

const TCP: &str = "[service.health]\nkind = \"tcp\"\n";
/// So long at most it takes by default until a backend is down that fails: an interval, two checks more, and their time-outs.
const FOUND_OUT: Duration = Duration::from_secs(8);

#[test]
fn every_backend_comes_up_within_rise_intervals() {
    let mut world = World::of(&config(TCP));
    assert_eq!(world.verdict("web", "be1"), Verdict::NeverPassed);
    world.pass(4 * SECOND);
    assert!((1..=4).all(|n| world.verdict("web", &format!("be{n}")) == Verdict::Up));
    assert_eq!(world.changes.len(), 4);
    assert_eq!(world.status("web", "be3").because.as_deref(), Some("tunnel probe ok"));
}

#[test]
fn a_new_backend_is_judged_within_seconds_however_seldom_it_is_checked_and_then_as_seldom() {
    let seldom = format!("{TCP}interval = \"60s\"\nrise = 3\n");
    let mut world = World::of(&config(&seldom));
    world.replies(|round, _| Some(if round.check.address == address(2) { refused() } else { passed() }));
    world.pass(5 * SECOND);
    assert!([1, 3, 4].iter().all(|n| world.verdict("web", &format!("be{n}")) == Verdict::Up));
    let asked = |world: &World, number| {
        world.rounds.iter().filter(|(_, round)| round.check.address == address(number)).count()
    };
    // After the second failure it is as good as down, and after the third success up.
    assert_eq!((asked(&world, 1), asked(&world, 2)), (3, 2));
    world.pass(45 * SECOND);
    assert_eq!((asked(&world, 1), asked(&world, 2)), (3, 2));
    // It passes at last: nobody wants to wait for two checks more.
    world.replies(|_, _| Some(passed()));
    world.pass(20 * SECOND);
    assert_eq!(world.verdict("web", "be2"), Verdict::Up);
}

#[test]
fn a_backend_is_asked_seldom_while_nothing_changes_and_often_while_results_contradict_the_verdict() {
    let mut world = World::of(&config(&format!("{TCP}interval = \"60s\"\nrecheck = \"500ms\"\n")));
    world.pass(90 * SECOND);
    for (answers, verdict, checks) in [(false, Verdict::Down, 3), (true, Verdict::Up, 2)] {
        let (asked, since) = (world.rounds.len(), world.now - world.start);
        world.replies(move |_, _| Some(if answers { passed() } else { refused() }));
        while world.verdict("web", "be1") != verdict {
            world.pass(SECOND / 10);
        }
        let of_be1 = world.rounds[asked..].iter().filter(|(_, round)| round.check.address == address(1));
        let begun: Vec<_> = of_be1.map(|(at, _)| *at).collect();
        assert_eq!(begun.len(), checks);
        assert!(begun[0] - since <= 60 * SECOND);
        assert!(begun.windows(2).all(|two| two[1] - two[0] <= SECOND / 2));
        // Then they come as seldom as before, from the next on.
        let asked = world.rounds.len();
        world.pass(50 * SECOND);
        let of_be1 = world.rounds[asked..].iter().filter(|(_, round)| round.check.address == address(1));
        assert_eq!(of_be1.count(), 0);
        world.pass(20 * SECOND);
    }
}

#[test]
fn what_is_taken_back_comes_back_with_its_verdicts_and_what_is_added_anew_does_not() {
    let both = format!("{}{TCP}{}{TCP}", service("web", 80), service("other", 81));
    let (both, one) = (config_of(&both), config(TCP));
    let mut world = World::of(&both);
    world.replies(|round, _| Some(if round.check.address == address(2) { refused() } else { passed() }));
    world.pass(10 * SECOND);
    let verdicts = |world: &World| [1, 2].map(|n| world.verdict("other", &format!("be{n}")));
    let minute = 60 * SECOND;
    for (within, there) in [(Some(minute), true), (None, false), (Some(minute / 4), false)] {
        let then = [Verdict::Up, Verdict::NeverPassed];
        assert_eq!(verdicts(&world), then);
        let since = world.status("other", "be1").since;
        world.reload(&one);
        world.pass(minute / 2);
        within.into_iter().for_each(|within| world.board.recall(within, world.now));
        world.reload(&both);
        assert_eq!(verdicts(&world), if there { then } else { [Verdict::NeverPassed; 2] });
        // Milliseconds are kept.
        assert_eq!(world.status("other", "be1").since < since + SECOND, there);
        world.pass(10 * SECOND);
    }
}

#[test]
fn a_vip_that_is_gone_from_a_backend_takes_it_down_in_time_and_the_reason_tells_the_ways_apart() {
    let mut world = World::of(&config(TCP));
    world.pass(60 * SECOND);
    let broken_at = world.now - world.start;
    world.replies(|round, way| (way == Way::Direct || round.check.address != address(2)).then(passed));
    world.pass(FOUND_OUT);
    let (at, change) = world.changes.last().unwrap();
    assert_eq!((&change.who, change.to), (&who("web", "be2"), Verdict::Down));
    assert!(*at - broken_at <= FOUND_OUT);
    assert_eq!(change.finding.reason, "tunnel probe failed, direct probe ok");
    assert!(change.finding.blames_tunnel());
    assert_eq!(
        change.finding.detail,
        [
            "tunnel to 192.0.2.10: no answer within 1s connecting",
            "tunnel to 2001:db8::10: no answer within 1s connecting"
        ]
    );
    assert_eq!(world.changes.len(), 5);
}

#[test]
fn a_backend_that_is_gone_fails_both_ways() {
    let mut world = World::of(&config(TCP));
    world.pass(10 * SECOND);
    world.replies(|_, _| Some(refused()));
    world.pass(FOUND_OUT);
    assert_eq!(
        world.status("web", "be1").because.as_deref(),
        Some("tunnel probe failed, direct probe failed")
    );
}

#[test]
fn one_family_that_fails_is_enough_to_take_a_backend_down() {
    let mut world = World::of(&config(TCP));
    world.pass(10 * SECOND);
    assert!(world.rounds.iter().all(|(_, round)| round.legs.len() == 2));
    world.replies(|_, way| {
        let v6 = matches!(way, Way::Tunnel { vip: IpAddr::V6(_), .. });
        Some(if v6 { refused() } else { passed() })
    });
    world.pass(FOUND_OUT);
    let status = world.status("web", "be4");
    assert_eq!(status.verdict, Verdict::Down);
    assert_eq!(status.last.unwrap().detail, ["tunnel to 2001:db8::10: connection refused"]);
}

#[test]
fn via_both_takes_the_direct_way_as_seriously() {
    let mut world = World::of(&config(&format!("{TCP}via = \"both\"\n")));
    world.pass(10 * SECOND);
    world.replies(|_, way| Some(if way == Way::Direct { refused() } else { passed() }));
    world.pass(FOUND_OUT);
    let status = world.status("web", "be1");
    assert_eq!(
        (status.verdict, status.because.unwrap().as_str()),
        (Verdict::Down, "tunnel probe ok, direct probe failed")
    );
}

#[test]
fn a_check_that_services_share_is_asked_once() {
    let shared = "[service.health]\nkind = \"tcp\"\nport = 9000\n";
    let many: String = (1..=50).map(|n| format!("{}{shared}", service(&format!("s{n}"), 8000 + n))).collect();
    let mut world = World::of(&config_of(&many));
    assert_eq!(world.board.distinct_checks(), 4);
    assert_eq!(world.board.probe_tunnels().count(), 4);
    world.pass(20 * SECOND);
    assert!(world.rounds.len() <= 4 * 7, "{}", world.rounds.len());
    assert_eq!(world.changes.len(), 200);
    // A service that joins takes the verdict that the others have.
    let more = format!("{many}{}{shared}", service("late", 9999));
    world.reload(&config_of(&more));
    assert_eq!(world.verdict("late", "be1"), Verdict::Up);
    assert_eq!(world.board.distinct_checks(), 4);
}

#[test]
fn each_tunnel_leg_carries_the_mark_of_its_backend() {
    let mut world = World::of(&config(TCP));
    world.pass(10 * SECOND);
    let tunnels: BTreeMap<u32, ProbeTunnel> = world.board.probe_tunnels().collect();
    assert_eq!(tunnels.len(), 4);
    for (_, round) in &world.rounds {
        for leg in &round.legs {
            let expected = ProbeTunnel::new(round.check.address, Encapsulation::Ipip);
            assert_eq!(tunnels[&leg.mark.unwrap()], expected);
        }
    }
}

/// A reload with an unrelated change, one that corrects the check, and a restart.
#[test]
fn a_sick_backend_stays_out_over_reload_and_restart_until_rise_passes_and_then_rejoins_in_time() {
    let before = config("[service.health]\nkind = \"tcp\"\nport = 81\n");
    let unrelated = config("idle_tcp = \"20m\"\n[service.health]\nkind = \"tcp\"\nport = 81\n");
    let corrected = config(TCP);
    type Step<'a> = (&'a str, &'a dyn Fn(&mut World));
    let steps: [Step; 3] = [
        ("unrelated", &|world| world.reload(&unrelated)),
        ("corrected", &|world| world.reload(&corrected)),
        ("restart", &|world| world.restart(&before, 10 * SECOND)),
    ];
    for (name, step) in steps {
        let mut world = World::of(&before);
        world.pass(60 * SECOND);
        world.replies(|round, _| Some(if round.check.address == address(2) { refused() } else { passed() }));
        world.pass(20 * SECOND);
        step(&mut world);
        let (changed, at) = (world.changes.len(), world.now - world.start);
        world.pass(20 * SECOND);
        assert_eq!(world.verdict("web", "be2"), Verdict::Down, "{name}");
        assert_eq!(world.changes.len(), changed, "{name}: the others never noticed");
        step(&mut world);
        let well_at = world.now - world.start;
        assert!(well_at >= at);
        world.replies(|_, _| Some(passed()));
        // An interval, and a second check.
        world.pass(6 * SECOND + LATENCY);
        let (up_at, change) = world.changes.last().unwrap();
        assert_eq!((&change.who, change.to), (&who("web", "be2"), Verdict::Up), "{name}");
        let passes = world.rounds.iter().filter(|(begun, round)| {
            *begun >= well_at && begun <= up_at && round.check.address == address(2)
        });
        assert_eq!(passes.count(), 2, "{name}");
    }
}

#[test]
fn a_row_of_failures_goes_on_over_a_restart() {
    let mut world = World::of(&config(TCP));
    world.pass(60 * SECOND);
    world.replies(|_, _| Some(refused()));
    while world.status("web", "be1").row.0 < 2 {
        world.pass(SECOND / 10);
    }
    world.restart(&config(TCP), SECOND);
    assert_eq!(world.status("web", "be1").row, (2, 3));
    world.pass(SECOND + LATENCY);
    assert_eq!(world.verdict("web", "be1"), Verdict::Down);
}

#[test]
fn failures_of_another_question_do_not_count_and_those_of_the_same_one_do_however_often_it_is_asked() {
    let tcp = format!("{TCP}via = \"direct\"\nport = 80\ninterval = \"1s\"\ntimeout = \"400ms\"\nfall = 3\n");
    let often = tcp.replace("1s", "500ms");
    let other = tcp.replace("port = 80", "port = 81");
    let mut world = World::of(&config(&tcp));
    world.pass(5 * SECOND);
    world.replies(|_, _| Some(refused()));
    while world.status("web", "be1").row.0 < 2 {
        world.pass(SECOND / 10);
    }
    world.reload(&config(&often));
    assert_eq!(world.status("web", "be1").row, (2, 3));
    world.reload(&config(&other));
    assert_eq!((world.verdict("web", "be1"), world.status("web", "be1").row), (Verdict::Up, (0, 3)));
}

#[test]
fn another_address_is_another_server() {
    let mut world = World::of(&config(TCP));
    world.pass(10 * SECOND);
    let moved = service("web", 80).replace("10.0.0.3", "10.0.0.33");
    let moved = config_of(&format!("{moved}{TCP}"));
    world.reload(&moved);
    assert_eq!(world.verdict("web", "be3"), Verdict::NeverPassed);
    assert_eq!(world.verdict("web", "be1"), Verdict::Up);
    world.restart(&config(TCP), SECOND);
    assert_eq!(world.verdict("web", "be3"), Verdict::NeverPassed);
    assert_eq!(world.verdict("web", "be1"), Verdict::Up);
}

#[test]
fn a_verdict_is_as_old_as_it_is_over_a_restart_too() {
    let mut world = World::of(&config(TCP));
    world.pass(100 * SECOND);
    let up_at = world.changes.iter().find(|(_, change)| change.who.backend == "be1").unwrap().0;
    world.restart(&config(TCP), 30 * SECOND);
    let age = world.now - world.status("web", "be1").since;
    let expected = 130 * SECOND - up_at;
    assert!(expected.abs_diff(age) < Duration::from_millis(2), "{age:?} {expected:?}");
}

#[test]
fn a_round_that_is_never_reported_counts_as_failed() {
    let mut world = World::of(&config(TCP));
    world.pass(10 * SECOND);
    world.reports = false;
    world.pass(FOUND_OUT + SECOND);
    assert_eq!(world.verdict("web", "be1"), Verdict::Down);
    assert_eq!(
        world.status("web", "be1").last.unwrap().detail[0],
        "tunnel to 192.0.2.10: no result within 1s"
    );
}

#[test]
fn an_answer_that_is_too_late_changes_nothing() {
    let mut world = World::of(&config(TCP));
    world.pass(10 * SECOND);
    let old = world.rounds[0].1.clone();
    let before = world.board.snapshot(world.now);
    let results: Results = old.legs.iter().map(|_| refused()).collect();
    for _ in 0..10 {
        let late = Answer { id: old.id, results: results.clone() };
        assert!(world.board.answer(&late, world.now).is_empty());
    }
    assert_eq!(world.board.snapshot(world.now), before);
    world.reload(&config_of(&service("web", 80)));
    assert!(world.board.answer(&Answer { id: old.id, results }, world.now).is_empty());
    assert_eq!((world.board.distinct_checks(), world.board.next_due()), (0, None));
    assert_eq!(world.board.verdict(&who("web", "be1")), None);
}

#[test]
fn what_this_machine_cannot_ask_says_nothing_of_the_backend() {
    let mut world = World::of(&config(TCP));
    world.pass(10 * SECOND);
    world.replies(|_, way| {
        Some(if way.is_tunnel() {
            Err(Fault::Local { said: "too many open files".into() })
        } else {
            passed()
        })
    });
    world.pass(60 * SECOND);
    let status = world.status("web", "be1");
    assert_eq!((status.verdict, status.row.0), (Verdict::Up, 0));
    let last = status.last.unwrap();
    assert_eq!(last.reason, "tunnel probe not possible");
    assert_eq!(last.detail[0], "tunnel to 192.0.2.10: could not check: too many open files");
}

#[test]
fn a_backend_that_comes_back_starts_slowly_and_a_newcomer_does_not() {
    let mut world = World::of(&config(&format!("{TCP}slow_start = \"20s\"\n")));
    world.pass(60 * SECOND);
    assert_eq!(world.status("web", "be1").ramp, None);
    world.replies(|round, _| Some(if round.check.address == address(1) { refused() } else { passed() }));
    world.pass(10 * SECOND);
    world.replies(|_, _| Some(passed()));
    while world.verdict("web", "be1") != Verdict::Up {
        world.pass(SECOND / 10);
    }
    assert_eq!(world.status("web", "be1").ramp, Some(1));
    world.pass(9 * SECOND);
    let half = world.status("web", "be1").ramp.unwrap();
    assert!((5..=6).contains(&half));
    world.restart(&config(&format!("{TCP}slow_start = \"20s\"\n")), 4 * SECOND);
    let later = world.status("web", "be1").ramp.unwrap();
    assert!((7..=8).contains(&later), "{later}");
    world.pass(8 * SECOND);
    assert_eq!(world.status("web", "be1").ramp, None);
}

#[test]
fn an_exec_check_is_asked_directly_and_without_a_mark() {
    let exec = "[service.health]\nkind = \"exec\"\ncommand = [\"/bin/true\"]\n";
    let mut world = World::of(&config(exec));
    world.pass(4 * SECOND);
    let (_, round) = &world.rounds[0];
    assert_eq!(*round.legs, [Leg { way: Way::Direct, mark: None, decides: true }]);
    assert_eq!(*round.check.probe, Probe::Exec { command: vec!["/bin/true".into()] });
    assert_eq!(world.verdict("web", "be1"), Verdict::Up);
}

/// What may happen to a board, in any order.
#[derive(Debug, Clone)]
enum Event {
    Pass(u64),
    /// Which of the eight backends answer, by bit.
    Answering(u8),
    /// Which of the eight are wanted, and the port that is asked.
    Reload(u8, u16),
    Restart,
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        6 => (1_u64..5_000).prop_map(Event::Pass),
        3 => any::<u8>().prop_map(Event::Answering),
        1 => (any::<u8>(), 80_u16..82).prop_map(|(which, port)| Event::Reload(which, port)),
        1 => Just(Event::Restart),
    ];
    prop::collection::vec(event, 1..60)
}

fn wanted_of(which: u8, port: u16) -> Vec<Wanted> {
    (0..8_u8)
        .filter(|n| which & (1 << n) != 0)
        .map(|n| Wanted {
            // Two services over four addresses, so that checks are shared.
            who: who(if n < 4 { "a" } else { "b" }, &format!("be{}", n % 4)),
            check: Arc::new(Check {
                address: address(n % 4),
                port: Some(port),
                probe: Arc::new(Probe::Tcp),
                ca_file: None,
                ways: Arc::new([Way::Direct]),
                times: Times { interval: SECOND, recheck: SECOND, timeout: SECOND / 2 },
            }),
            thresholds: Thresholds { rise: 2, fall: 3 },
            slow_start: Duration::ZERO,
        })
        .collect()
}

proptest! {
    /// Each backend's verdict is what its own machine makes of the answers to its check, whatever happens around it;
    /// no check is asked twice at a time, and none is forgotten.
    #[test]
    fn a_board_is_a_set_of_machines(events in events(), seed: u64) {
        let mut world = World::new(Board::new(seed));
        let (mut which, mut port) = (0xff, 80);
        world.board.follow(wanted_of(which, port), world.now);
        let mut machines: BTreeMap<Who, Machine> =
            wanted_of(which, port).into_iter().map(|wanted| (wanted.who, Machine::new())).collect();
        let mut answering = 0xff_u8;
        for event in events {
            match event {
                Event::Pass(ms) => {
                    // Whole rounds only: answers come at once, so that the model needs no clock.
                    let end = world.now + Duration::from_millis(ms);
                    while let Some(due) = world.board.next_due().filter(|&due| due <= end) {
                        world.now = world.now.max(due);
                        let advanced = world.board.advance(world.now);
                        prop_assert!(advanced.changes.is_empty());
                        for round in advanced.rounds {
                            let passes = (0..4).any(|n| {
                                answering & (1 << n) != 0 && round.check.address == address(n)
                            });
                            for wanted in wanted_of(which, port) {
                                if wanted.check == round.check {
                                    let machine = machines.get_mut(&wanted.who).unwrap();
                                    machine.step(passes, wanted.thresholds);
                                }
                            }
                            let results = [if passes { passed() } else { refused() }].into();
                            world.board.answer(&Answer { id: round.id, results }, world.now);
                        }
                    }
                    world.now = end;
                }
                Event::Answering(bits) => answering = bits,
                Event::Reload(next, at) => {
                    if at != port {
                        machines.values_mut().for_each(Machine::begin_row);
                    }
                    let (before, old) = (machines.clone(), wanted_of(which, port));
                    (which, port) = (next, at);
                    let wanted = wanted_of(which, port);
                    machines.retain(|who, _| wanted.iter().any(|wanted| wanted.who == *who));
                    for one in &wanted {
                        // Whoever is or was asked the same, those that go now included.
                        let sibling = wanted
                            .iter()
                            .chain(old.iter().filter(|old| !wanted.iter().any(|new| new.who == old.who)))
                            .filter(|other| other.check == one.check)
                            .find_map(|other| before.get(&other.who).copied());
                        machines.entry(one.who.clone()).or_insert(sibling.unwrap_or_default());
                    }
                    world.board.follow(wanted, world.now);
                }
                Event::Restart => {
                    let snapshot = world.board.snapshot(world.now);
                    world.board = Board::restore(seed, snapshot, SECOND);
                    world.board.follow(wanted_of(which, port), world.now);
                }
            }
            for (who, machine) in &machines {
                prop_assert_eq!(world.board.verdict(who), Some(machine.verdict()), "{}", who);
            }
            let checks = wanted_of(which, port).into_iter().map(|wanted| wanted.check);
            let distinct: std::collections::HashSet<Arc<Check>> = checks.collect();
            prop_assert_eq!(world.board.distinct_checks(), distinct.len());
            prop_assert_eq!(world.board.next_due().is_some(), !distinct.is_empty());
        }
    }

    /// However answers come or fail to come, a check begins at least every interval, and never twice at a time.
    #[test]
    fn checks_begin_at_least_every_interval_and_never_overlap(
        seed: u64, silent in prop::collection::vec(any::<bool>(), 50),
    ) {
        let mut world = World::new(Board::new(seed));
        world.board.follow(wanted_of(1, 80), world.now);
        let mut begun: Option<Instant> = None;
        for silent in silent {
            let due = world.board.next_due().unwrap();
            world.now = due;
            let advanced = world.board.advance(due);
            let Some(round) = advanced.rounds.first() else { continue };
            prop_assert_eq!(advanced.rounds.len(), 1);
            if let Some(before) = begun.replace(due) {
                prop_assert!(due - before <= SECOND, "{:?}", due - before);
                prop_assert!(due - before >= SECOND / 2);
            }
            if !silent {
                world.board.answer(&Answer { id: round.id, results: [passed()].into() }, due + LATENCY);
            }
        }
    }
}
