//! Histories written by hand: each once broke flows, or shows a limit that the design states.

use super::history::{Change, Server};
use super::oracle::Reason;
use super::report::Report;
use super::settings::Settings;
use super::simulation::Simulation;
use super::traffic::Millis;

/// A small fleet with short idle times, so that three minutes see a change through to its end.
fn settings() -> Settings {
    Settings {
        seed: 5,
        flows: 200,
        minutes: 3,
        backends: 6,
        slots: 1_009,
        flow_entries: 16_384,
        tcp_idle_seconds: 40,
        udp_idle_seconds: 10,
        resteers: 0,
        ..Settings::default()
    }
}

fn run(settings: &Settings, changes: &[(Millis, Change)]) -> Report {
    let simulation = Simulation::with_changes(settings, changes.to_vec()).unwrap();
    simulation.run(|_, _| {}).unwrap()
}

/// Guideway's broken flows, and those of the table without memory.
fn broken(report: &Report) -> (u64, u64) {
    (report.rows[0].broken, report.rows[1].broken)
}

#[test]
fn another_size_or_seed_breaks_no_flow() {
    let report = run(
        &settings(),
        &[(60_000, Change::Resize(2_003)), (75_000, Change::Reseed(99)), (150_000, Change::Resize(1_009))],
    );
    let (guideway, maglev) = broken(&report);
    assert_eq!(guideway, 0, "{:#?}", report.breaks);
    assert!(maglev > 100, "nearly every flow moves: {maglev}");
}

#[test]
fn connections_known_by_their_id_outlive_the_removal_of_their_server() {
    let report =
        run(&settings(), &[(60_000, Change::Remove(Server(2))), (61_000, Change::Remove(Server(3)))]);
    assert_eq!(broken(&report).0, 0, "{:#?}", report.breaks);
    assert_eq!(report.rows[0].lost, 0);
}

#[test]
fn flows_that_were_silent_while_their_server_was_away_find_it_again() {
    for away in [Change::RemoveAtOnce(Server(1)), Change::Remove(Server(1))] {
        let report = run(&settings(), &[(60_000, away), (68_000, Change::AddAgain(Server(1)))]);
        assert_eq!(broken(&report).0, 0, "{:#?}", report.breaks);
    }
    let report = run(&settings(), &[(60_000, Change::Down(Server(1))), (68_000, Change::Up(Server(1)))]);
    assert_eq!(broken(&report).0, 0, "{:#?}", report.breaks);
}

#[test]
fn a_dead_server_loses_its_flows_and_no_other_is_broken() {
    let report = run(&settings(), &[(90_000, Change::Down(Server(0)))]);
    assert_eq!(broken(&report).0, 0, "{:#?}", report.breaks);
    assert!(report.rows[0].lost > 10);
}

#[test]
fn a_fleet_whose_routers_are_steady_breaks_nothing() {
    let settings = Settings { balancers: 3, ..settings() };
    let changes = [
        (40_000, Change::Drain(Server(0))),
        (60_000, Change::Add(Server(6), 2)),
        (70_000, Change::Resize(2_003)),
        (120_000, Change::Undrain(Server(0))),
    ];
    let report = run(&settings, &changes);
    let (guideway, maglev) = broken(&report);
    assert_eq!(guideway, 0, "{:#?}", report.breaks);
    assert!(maglev > 50);
}

#[test]
fn without_changes_routers_and_restarts_break_nothing() {
    let settings = Settings { balancers: 3, resteers: 12, restarts: 3, ..settings() };
    let report = run(&settings, &[]);
    for row in &report.rows {
        assert_eq!(row.broken, 0, "{row:?}");
    }
    assert_eq!((report.resteers.len(), report.restarts.len()), (12, 3));
}

#[test]
fn routers_that_choose_anew_long_after_a_change_break_flows_that_the_design_gives_up() {
    let settings = Settings { balancers: 3, resteers: 6, ..settings() };
    let report = run(&settings, &[(45_000, Change::Drain(Server(0))), (46_000, Change::Drain(Server(1)))]);
    assert!(report.holds(), "{:#?}", report.breaks);
    assert!(report.broken_for(Reason::SettledElsewhere) > 0, "{:?}", report.reasons);
}
