//! The model's promises over random histories, and that it can tell a strategy that breaks flows.

use guideway_lab::persistence::{self, PersistenceError, Reason, Report, Settings};
use proptest::prelude::*;

fn run(settings: &Settings) -> Report {
    persistence::run(settings, |_, _| {}).unwrap()
}

/// Small, with idle times short enough for slots to settle within the run.
fn small(seed: u64) -> Settings {
    Settings {
        seed,
        flows: 120,
        changes: 16,
        minutes: 5,
        backends: 8,
        slots: 509,
        flow_entries: 16_384,
        lru_entries: 80,
        tcp_idle_seconds: 40,
        udp_idle_seconds: 10,
        resteers: 6,
        ..Settings::default()
    }
}

#[test]
fn one_balancer_breaks_no_flow_and_a_table_without_memory_does() {
    let report = run(&Settings { minutes: 8, ..Settings::default() });
    let [guideway, maglev, lru, _, large, each_cpu] = report.rows.as_slice() else { panic!("six rows") };
    assert_eq!(guideway.broken, 0, "{:#?}", report.breaks);
    assert!(maglev.broken > 300, "the judge must see what a plain table breaks: {maglev:?}");
    assert!(lru.broken > 0 && lru.broken < maglev.broken, "too few entries: {lru:?}");
    assert_eq!(large.broken, 0, "a table that holds all flows breaks none on one balancer");
    assert!(
        each_cpu.broken > 0,
        "as much memory, but re-steered packets come to a CPU that does not know them"
    );
    assert_eq!(each_cpu.flow_bytes, large.flow_bytes);
    assert!(guideway.consulted < lru.consulted);
}

#[test]
fn equal_settings_give_equal_reports_and_another_seed_another() {
    let settings = Settings { balancers: 3, restarts: 1, ..small(11) };
    let report = run(&settings);
    assert_eq!(report, run(&settings));
    assert_ne!(report.changes, run(&Settings { seed: 12, ..settings }).changes);
}

#[test]
fn a_table_of_each_cpu_breaks_nothing_while_no_packet_changes_its_way() {
    let report = run(&Settings { resteers: 0, ..small(5) });
    let [.., shared, each_cpu] = report.rows.as_slice() else { panic!("rows") };
    assert_eq!((shared.broken, each_cpu.broken), (0, 0));
    assert!(report.rows[1].broken > 0, "without memory flows break");
}

#[test]
fn a_flow_table_without_room_is_named_as_the_reason() {
    let report = run(&Settings { flow_entries: 16, ..small(3) });
    assert!(report.holds(), "{:#?}", report.breaks);
    assert!(report.broken_for(Reason::NoRoom) > 0);
    assert_eq!(report.broken_for(Reason::NoRoom), report.rows[0].broken);
}

#[test]
fn every_packet_of_a_traced_flow_is_told() {
    let settings = small(4);
    let report = run(&Settings { trace: Some(0), ..settings.clone() });
    assert!(report.trace.iter().any(|line| line.contains("Open")));
    assert!(run(&settings).trace.is_empty());
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    let refused = persistence::run(&Settings { slots: 500, ..small(1) }, |_, _| {});
    assert!(matches!(refused, Err(PersistenceError::Settings(_))));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn one_balancer_keeps_every_flow_whose_server_lives(
        seed in any::<u64>(),
        changes in 0u32..40,
        backends in 3u32..12,
        udp_idle_seconds in 5u32..20,
    ) {
        let settings = Settings { changes, backends, udp_idle_seconds, ..small(seed) };
        let report = run(&settings);
        prop_assert_eq!(report.rows[0].broken, report.broken_for(Reason::NoRoom), "{:#?}", report.breaks);
    }

    #[test]
    fn a_fleet_breaks_no_flow_without_a_reason_that_the_design_states(
        seed in any::<u64>(),
        balancers in 2u32..5,
        changes in 0u32..40,
        resteers in 0u32..12,
        restarts in 0u32..4,
    ) {
        let settings = Settings { balancers, changes, resteers, restarts, ..small(seed) };
        let report = run(&settings);
        prop_assert!(report.holds(), "{:#?}", report.breaks);
        if resteers == 0 && restarts == 0 {
            prop_assert_eq!(report.rows[0].broken, report.broken_for(Reason::NoRoom));
        }
    }
}
