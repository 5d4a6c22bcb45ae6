//! What the core knows, in the API's words.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant, SystemTime};

use guideway_control::Engine;
use guideway_control::config;
use guideway_control::controller::ServiceStatus;
use guideway_control::drain::{DrainKey, Phase};
use guideway_control::health::{self, Verdict, Who};
use guideway_control::overrides::AdminState;
use guideway_forward::outcome::Kind;
use guideway_forward::record::BackendState;
use guideway_forward::record::flow::ENTRIES;
use guideway_page::{CONSOLE, LAB};

use super::model::*;
use super::page;
use crate::core::Core;
use crate::journal;

/// A point in time as RFC 3339 in UTC, with milliseconds.
pub(crate) fn stamp(at: SystemTime) -> String {
    humantime::format_rfc3339_millis(at).to_string()
}

/// The daemon and its forwarder as a whole.
pub(crate) fn status(core: &Core, now: Instant) -> Status {
    let services = services(core, None, now);
    let mut backends = BackendCounts::default();
    for backend in services.iter().flat_map(|service| &service.backends).filter(|backend| !backend.removed) {
        backends.total += 1;
        backends.eligible += u64::from(backend.slots > 0);
        backends.draining += u64::from(backend.admin == AdminState::Drain.as_str());
        backends.maintenance += u64::from(backend.admin == AdminState::Maintenance.as_str());
        backends.failing += u64::from(backend.health.as_ref().is_some_and(|health| health.verdict != "up"));
    }
    let totals = core.controller.engine().totals();
    let of = |kind| totals.kind(kind).packets;
    let (entries, _) = core.controller.flows(None, None, 0);
    let faults = faults(core, &services);
    Status {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        revision: core.revision(),
        started_at: stamp(core.about.started_at),
        engine: core.about.engine.to_owned(),
        interfaces: core.about.interfaces.clone(),
        digest: core.controller.digest(),
        config: core.about.config.clone(),
        services: services.len() as u64,
        backends,
        drains: core.drains.iter().filter(|(_, drain)| !drain.phase.is_over()).count() as u64,
        packets: PacketCounts {
            received_total: totals.received.packets,
            forwarded_total: of(Kind::Forwarded),
            answered_total: of(Kind::Answered),
            passed_total: of(Kind::Passed),
            dropped_total: of(Kind::Dropped),
        },
        flow_table: FlowTable {
            capacity: (core.controller.engine().flows().len() * ENTRIES) as u64,
            entries,
        },
        page: core.about.address.map(|address| page::url(&LAB, address)),
        console: core.about.address.map(|address| page::url(&CONSOLE, address)),
        drift: drift(core),
        notes: asides(core).into_iter().chain(faults.iter().cloned()).collect(),
        faults,
    }
}

fn drift(core: &Core) -> Drift {
    let owned = |(what, why): (&&'static str, &String)| ((*what).to_owned(), why.clone());
    Drift {
        rounds_total: core.drift.rounds,
        repairs_total: core.drift.repairs().map(|(what, count)| (what.to_owned(), count)).collect(),
        failing: core.drift.failing.iter().map(owned).collect(),
    }
}

/// So many backends are named in a line.
const NAMED: usize = 5;

/// What is no fault, and good to know.
fn asides(core: &Core) -> Vec<String> {
    let fell_back = core.about.interfaces.iter().filter_map(|port| Some((port, port.fell_back.as_ref()?)));
    fell_back.map(|(port, why)| format!("{} runs in {} mode: {why}", port.name, port.mode)).collect()
}

/// What somebody should see to.
fn faults(core: &Core, services: &[Service]) -> Vec<String> {
    let mut faults = core.about.faults.clone();
    faults.extend(core.unwritten.values().cloned());
    faults.extend(core.drift.failing.values().cloned());
    for service in services {
        if service.last_resort {
            faults.push(format!(
                "{}: every check fails; the backends are used as a last resort, as all_down says",
                service.name
            ));
        } else if service.eligible == 0 {
            let never = |backend: &Backend| {
                backend.health.as_ref().is_some_and(|health| health.verdict == Verdict::NeverPassed.as_str())
            };
            let why = if service.backends.iter().any(never) {
                ": those that have never passed their checks are no last resort"
            } else {
                ""
            };
            faults.push(format!("{}: no backend takes new flows{why}", service.name));
        }
        faults.extend(failing(service));
    }
    faults
}

/// Whose checks fail, of those that should take new flows, with the reason of the first.
fn failing(service: &Service) -> Option<String> {
    let wanted = service.backends.iter().filter(|b| !b.removed && b.admin == AdminState::Ready.as_str());
    let verdicts = wanted.filter_map(|backend| Some((&backend.name, backend.health.as_ref()?)));
    let failing: Vec<_> = verdicts.filter(|(_, health)| health.verdict != Verdict::Up.as_str()).collect();
    let (first, health) = failing.first()?;
    let Health { verdict, reason, .. } = health;
    let because = reason.as_ref().map_or(String::new(), |reason| format!(", {reason}"));
    let mut text = format!("{}: checks fail of {first} ({verdict}{because})", service.name);
    for (name, _) in failing.iter().take(NAMED).skip(1) {
        text += &format!(", {name}");
    }
    if failing.len() > NAMED {
        text += &format!(" and {} more", failing.len() - NAMED);
    }
    Some(text)
}

/// All services, or the one of this name.
pub(crate) fn services(core: &Core, name: Option<&str>, now: Instant) -> Vec<Service> {
    let configured: HashMap<&str, &config::Service> =
        core.config.services.iter().map(|service| (service.name.as_str(), service)).collect();
    core.controller
        .status()
        .into_iter()
        .filter(|status| name.is_none_or(|name| status.name == name))
        .map(|status| service(core, configured.get(status.name.as_str()).copied(), status, now))
        .collect()
}

fn service(
    core: &Core,
    configured: Option<&config::Service>,
    status: ServiceStatus,
    now: Instant,
) -> Service {
    let listen = configured.into_iter().flat_map(|service| {
        service.vips.iter().flat_map(move |vip| {
            let host = vip.prefix_len() == vip.max_prefix_len();
            let place = match vip.addr() {
                _ if !host => format!("[{vip}]"),
                IpAddr::V4(v4) => v4.to_string(),
                IpAddr::V6(v6) => format!("[{v6}]"),
            };
            service.ports.iter().map(move |port| {
                let port = port.map_or("*".to_owned(), |port| port.to_string());
                format!("{place}:{port}/{}", service.protocol)
            })
        })
    });
    let backends: Vec<Backend> = status
        .backends
        .iter()
        .map(|backend| self::backend(core, configured, &status, backend, now))
        .collect();
    Service {
        listen: listen.collect(),
        policy: configured.map(|service| service.policy.word().to_owned()),
        generation: status.generation,
        digest: status.digest,
        slots: status.slots,
        unsettled_slots: status.unsettled,
        prior_table: status.prior,
        resize_refused: status.resize_refused.map(|error| error.to_string()),
        last_resort: status.last_resort,
        eligible: backends.iter().filter(|backend| backend.slots > 0).count() as u64,
        slots_moved_total: status.churn.moved,
        slots_moved_needlessly_total: status.churn.needless,
        packets_total: status.count.packets,
        bytes_total: status.count.bytes,
        name: status.name,
        backends,
    }
}

fn backend(
    core: &Core,
    configured: Option<&config::Service>,
    service: &ServiceStatus,
    status: &guideway_control::controller::BackendStatus,
    now: Instant,
) -> Backend {
    let who = Who { service: service.name.clone(), backend: status.identity.clone() };
    let wanted = configured.filter(|_| !status.removed);
    let wanted = wanted.and_then(|service| service.backends.iter().find(|b| b.name == status.identity));
    let changed = if status.removed { Default::default() } else { core.desired.overrides().of(&who) };
    let admin = changed.admin.unwrap_or(match wanted.map(|backend| backend.state) {
        Some(config::BackendState::Active) => AdminState::Ready,
        Some(config::BackendState::Draining) | None => AdminState::Drain,
        Some(config::BackendState::Down | config::BackendState::Disabled) => AdminState::Maintenance,
    });
    let record = core.controller.engine().backend(status.global);
    let address =
        record.map_or(IpAddr::V6(Ipv6Addr::UNSPECIFIED), |r| Ipv6Addr::from(r.address()).to_canonical());
    let next_hop = record.and_then(|record| {
        let mac = record.neighbour()?.map(|byte| format!("{byte:02x}")).join(":");
        Some(NextHop { interface: record.interface(), mac })
    });
    let key = DrainKey {
        service: who.service.clone(),
        backend: who.backend.clone(),
        address,
        removed: status.removed,
    };
    let drains = status.state == BackendState::Draining || admin == AdminState::Drain;
    Backend {
        address,
        state: status.state.as_str().to_owned(),
        admin: admin.as_str().to_owned(),
        overridden: changed.admin.is_some() || changed.weight.is_some(),
        removed: status.removed,
        weight: changed.weight.or(wanted.map(|backend| backend.weight)).unwrap_or(0),
        configured_weight: wanted.map(|backend| backend.weight),
        slots: status.slots,
        share: f64::from(status.slots) / f64::from(service.slots.max(1)),
        health: core.board.status(&who, now).filter(|_| !status.removed).map(|h| health(h, now)),
        drain: drains.then(|| core.drains.of(&key).map(|drain| self::drain(&key, drain, now))).flatten(),
        next_hop,
        packets_total: status.count.packets,
        bytes_total: status.count.bytes,
        service: who.service,
        name: who.backend,
    }
}

fn health(status: health::Status, now: Instant) -> Health {
    Health {
        verdict: status.verdict.as_str().to_owned(),
        age_seconds: seconds(now.saturating_duration_since(status.since)),
        contradicting: status.row.0,
        needed: status.row.1,
        flapping: status.flapping,
        slow_start_step: status.ramp,
        reason: status.because,
        last: status.last.map(|finding| Finding {
            reason: finding.reason,
            detail: finding.detail,
            took_seconds: finding.took.map(seconds),
            age_seconds: seconds(now.saturating_duration_since(finding.at)),
        }),
    }
}

/// All drains that are known.
pub(crate) fn drains(core: &Core, now: Instant) -> Vec<Drain> {
    core.drains.iter().map(|(key, state)| drain(key, state, now)).collect()
}

fn drain(key: &DrainKey, drain: &guideway_control::drain::Drain, now: Instant) -> Drain {
    let (phase, live_flows, ending_flows, unsettled_slots) = match drain.phase {
        Phase::Busy { live_flows, ending_flows } => ("busy", live_flows, ending_flows, 0),
        Phase::Quiet { ending_flows, unsettled_slots } => ("quiet", 0, ending_flows, unsettled_slots),
        Phase::Done => ("done", 0, 0, 0),
        Phase::Cut { live_flows } => ("cut", live_flows, 0, 0),
    };
    Drain {
        service: key.service.clone(),
        backend: key.backend.clone(),
        address: key.address,
        removed: key.removed,
        phase: phase.to_owned(),
        live_flows,
        ending_flows,
        unsettled_slots,
        age_seconds: seconds(now.saturating_duration_since(drain.began)),
        cut_in_seconds: drain
            .deadline
            .filter(|_| !drain.phase.is_over())
            .map(|deadline| seconds(deadline.saturating_duration_since(now))),
    }
}

/// Events after a number, at most so many of the newest.
pub(crate) fn events(core: &Core, after: u64, limit: usize) -> Vec<Event> {
    let events: Vec<Event> = core.journal.since(after).map(event).collect();
    let from = events.len().saturating_sub(limit);
    events.into_iter().skip(from).collect()
}

fn event(event: &journal::Event) -> Event {
    Event {
        number: event.number,
        at: stamp(event.at),
        grade: event.grade.as_str().to_owned(),
        kind: event.kind.as_str().to_owned(),
        service: event.service.clone(),
        backend: event.backend.clone(),
        by: event.by.clone(),
        text: event.text.clone(),
    }
}

/// Remembered flows, the first so many of them.
pub(crate) fn flows(core: &Core, service: Option<&str>, backend: Option<&str>, limit: usize) -> Flows {
    let (total, flows) = core.controller.flows(service, backend, limit);
    let flow = |flow: guideway_control::controller::FlowView| Flow {
        service: flow.service,
        backend: flow.backend,
        slot: flow.slot,
        class: flow.class.as_str().to_owned(),
        silent_seconds: flow.silent_seconds,
    };
    Flows { total, flows: flows.into_iter().map(flow).collect() }
}

/// Slots of a service's table.
pub(crate) fn table(core: &Core, service: &str, from: usize, limit: usize) -> Option<Table> {
    let table = core.controller.table(service)?;
    let size = table.slots.len() as u32;
    let slots = table.slots.into_iter().enumerate().skip(from).take(limit).map(|(slot, view)| Slot {
        slot: slot as u32,
        settled: view.settled.filter(|_| !view.is_settled),
        current: view.current,
        is_settled: view.is_settled,
    });
    Some(Table {
        service: service.to_owned(),
        generation: table.generation,
        digest: table.digest,
        size,
        slots: slots.collect(),
    })
}

fn seconds(time: Duration) -> f64 {
    time.as_secs_f64()
}
