//! The figures of a migration, computed again the slow way.

use std::collections::BTreeMap;

use guideway_hash::TableSize;
use guideway_hash::profile::{self, Member, Params, Profile};
use guideway_wire::{FlowHasher, HashKey};

use super::system::flow_key;
use super::{Backend, Check, MigrateError, Settings, System, SystemError, run};
use crate::{Contender, slow};

fn backends(weights: &[u32]) -> Vec<Backend> {
    let named =
        |(number, &weight): (usize, &u32)| Backend { name: format!("10.0.0.{}:443", number + 1), weight };
    weights.iter().enumerate().map(named).collect()
}

fn native(contender: Contender, seed: u64) -> System {
    System::Native { contender, slots: TableSize::new(251).unwrap(), seed, by_source: false }
}

fn profile(profile: Profile) -> System {
    System::Profile { profile, slots: profile.default_size(), params: Box::default() }
}

fn settings(from: System, to: System) -> Settings {
    Settings {
        seed: 3,
        from,
        to,
        backends: backends(&[1, 2, 3, 1, 1]),
        service: "192.0.2.10:443".parse().unwrap(),
        protocol: 6,
        clients: 200,
        flows_per_client: 3,
    }
}

/// The owners of all flows by name, without any of the experiment's code but its clients.
fn owners(system: &System, settings: &Settings) -> Vec<String> {
    let flows = settings.flows();
    match system {
        System::Native { contender, slots, seed, .. } => {
            let list: Vec<_> = settings.backends.iter().map(|b| (b.name.clone(), b.weight)).collect();
            let hasher = FlowHasher::new(*seed);
            let hashes: Vec<u64> =
                flows.iter().map(|flow| hasher.hash(&flow_key(flow), HashKey::FiveTuple)).collect();
            slow::owners(*contender, slots.get(), *seed, &list, &hashes)
        }
        System::Profile { profile: which, slots, .. } => {
            assert_eq!(*which, Profile::KatranV2, "the slow way knows this one alone");
            let address = |backend: &Backend| backend.name.split(':').next().unwrap().to_owned();
            let keys: Vec<String> = settings.backends.iter().map(address).collect();
            let members: Vec<_> =
                keys.iter().zip(&settings.backends).map(|(key, b)| Member::new(key, b.weight)).collect();
            let table = profile::build(*which, *slots, &members, &Params::default()).unwrap().table;
            let owner = |flow| table.owner(which.locate_flow(flow, *slots, &Params::default()).unwrap().slot);
            flows.iter().map(|flow| settings.backends[owner(flow) as usize].name.clone()).collect()
        }
    }
}

#[test]
fn every_figure_is_what_the_slow_way_gives() {
    for (from, to) in [
        (native(Contender::Maglev, 1), native(Contender::RendezvousTable, 1)),
        (profile(Profile::KatranV2), native(Contender::Maglev, 7)),
        (native(Contender::Rendezvous, 1), native(Contender::Jump, 2)),
    ] {
        let settings = settings(from, to);
        let report = run(&settings).unwrap();
        let (was, is) = (owners(&settings.from, &settings), owners(&settings.to, &settings));
        let moved = was.iter().zip(&is).filter(|(old, new)| old != new).count() as u64;
        assert_eq!((report.moved, report.flows), (moved, 600));
        assert!((report.share.mean - moved as f64 / 600.0).abs() < 1e-12);
        let (mut client_moved, mut least) = (0, 0);
        for client in 0..200 {
            client_moved += u64::from((0..3).any(|flow| was[3 * client + flow] != is[3 * client + flow]));
        }
        assert_eq!(report.clients_moved, client_moved);
        let count = |list: &[String]| {
            let mut counts = BTreeMap::<String, u64>::new();
            list.iter().for_each(|name| *counts.entry(name.clone()).or_default() += 1);
            counts
        };
        let (before, after) = (count(&was), count(&is));
        for row in &report.backends {
            let of = |counts: &BTreeMap<String, u64>| counts.get(&row.name).copied().unwrap_or(0);
            let kept =
                was.iter().zip(&is).filter(|(old, new)| *old == &row.name && *new == &row.name).count();
            assert_eq!((row.before, row.after, row.kept), (of(&before), of(&after), kept as u64));
            assert_eq!((row.lost, row.gained), (row.before - row.kept, row.after - row.kept));
            least += row.before.saturating_sub(row.after);
        }
        assert_eq!(report.least, least);
    }
}

#[test]
fn nothing_moves_between_equals_and_nearly_all_between_strangers() {
    let same = run(&settings(native(Contender::Maglev, 1), native(Contender::Maglev, 1))).unwrap();
    assert_eq!((same.moved, &same.checks[..]), (0, &[Check::NothingMoves][..]));
    let strangers = run(&settings(native(Contender::Maglev, 1), native(Contender::Maglev, 2))).unwrap();
    assert!(strangers.share.mean > 0.6 && strangers.checks.contains(&Check::ClientState), "{strangers:?}");
}

#[test]
fn affinity_and_weights_that_change_are_told() {
    // IPVS hashes the client's address alone unless told otherwise.
    let report = run(&settings(profile(Profile::IpvsMh), native(Contender::Modulo, 1))).unwrap();
    assert_eq!(report.from.together, 1.0);
    assert!(report.checks.contains(&Check::AffinityLost), "{report:?}");
    let source =
        System::Native { contender: Contender::Maglev, slots: TableSize::DEFAULT, seed: 1, by_source: true };
    let back = run(&settings(native(Contender::Modulo, 1), source)).unwrap();
    assert_eq!(back.to.together, 1.0);
    assert!(back.checks.contains(&Check::AffinityGained) && back.checks.contains(&Check::WeightsIgnored));
}

#[test]
fn every_system_can_be_either_side_and_names_that_are_no_address_are_refused() {
    for which in Profile::ALL {
        let report = run(&settings(profile(which), native(Contender::Maglev, 1))).unwrap();
        assert_eq!(report.backends.iter().map(|row| row.before).sum::<u64>(), 600, "{which}");
    }
    let mut named = settings(profile(Profile::Cilium), native(Contender::Maglev, 1));
    named.backends[0].name = "web-1".into();
    let refused = run(&named).unwrap_err();
    assert!(
        matches!(&refused, MigrateError::Side { error: SystemError::NotAnAddress { name, .. }, .. } if name == "web-1"),
        "{refused}"
    );
}

#[test]
fn clients_of_either_family_have_flows() {
    let six = Settings {
        service: "[2001:db8::10]:443".parse().unwrap(),
        ..settings(profile(Profile::KatranV2), native(Contender::Maglev, 1))
    };
    assert!(six.flows().iter().all(|flow| flow.source.is_ipv6()));
    assert_eq!(run(&six).unwrap().flows, 600);
}
