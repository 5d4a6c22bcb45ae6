//! What the core knows, in the API's words.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant, SystemTime};

use guideway_control::Engine;
use guideway_control::config;
use guideway_control::controller::{BackendStatus, Outline, ServiceStatus, remembered_flows};
use guideway_control::counted;
use guideway_control::drain::{DrainKey, Phase};
use guideway_control::health::{self, Verdict, Who};
use guideway_control::overrides::{AdminState, Override};
use guideway_forward::outcome::Kind;
use guideway_forward::record::flow::ENTRIES;
use guideway_forward::record::{self, BackendState};
use guideway_page::{CONSOLE, LAB};
use guideway_wire::{IpVersion, encap::overhead};

use super::model::*;
use super::page;
use crate::core::Core;
use crate::core::links::is_down_text;
use crate::journal;
use crate::log::Log;

/// A point in time as RFC 3339 in UTC, with milliseconds.
pub(crate) fn stamp(at: SystemTime) -> String {
    humantime::format_rfc3339_millis(at).to_string()
}

/// The daemon and its forwarder as a whole.
pub(crate) fn status(core: &Core) -> Status {
    let services = core.controller.outlines();
    let totals = core.controller.engine().totals();
    let of = |kind| totals.kind(kind).packets;
    let engine = core.controller.engine();
    let faults = faults(core, &services);
    let flow_table = FlowTable {
        capacity: (engine.flows().len() * ENTRIES) as u64,
        entries: remembered_flows(engine, services.iter().map(|service| service.id)),
    };
    Status {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        revision: core.revision(),
        started_at: stamp(core.about.started_at),
        engine: core.about.engine.to_owned(),
        interfaces: core.about.interfaces.clone(),
        digest: core.controller.digest(),
        config: core.about.config.clone(),
        services: services.len() as u64,
        backends: backend_counts(core, &services),
        overrides: overrides(core),
        drains: drains_under_way(core),
        drains_of_removed: under_way(core).filter(|key| key.removed).count() as u64,
        packets: PacketCounts {
            received_total: totals.received.packets,
            forwarded_total: of(Kind::Forwarded),
            answered_total: of(Kind::Answered),
            passed_total: of(Kind::Passed),
            dropped_total: of(Kind::Dropped),
        },
        flow_table,
        socket: core.about.socket.as_ref().map(|path| path.display().to_string()),
        page: core.about.address.map(|address| page::url(&LAB, address)),
        console: core.about.address.map(|address| page::url(&CONSOLE, address)),
        drift: drift(core),
        notes: asides(core, flow_table, &services).into_iter().chain(faults.iter().cloned()).collect(),
        faults,
    }
}

fn backend_counts(core: &Core, services: &[Outline]) -> BackendCounts {
    let mut counts = BackendCounts::default();
    for backend in services.iter().flat_map(|service| &service.backends).filter(|backend| !backend.removed) {
        counts.total += 1;
        counts.eligible += u64::from(backend.slots > 0);
    }
    let configured = core
        .config
        .services
        .iter()
        .flat_map(|service| service.backends.iter().map(|backend| (service.name.as_str(), backend)));
    for (service, backend) in configured {
        let admin = admin(&said_of(core, service, &backend.name), Some(backend));
        counts.draining += u64::from(admin == AdminState::Drain);
        counts.maintenance += u64::from(admin == AdminState::Maintenance);
    }
    counts.failing = all_failing(core).values().map(|failing| failing.len() as u64).sum();
    counts
}

/// What operators said of a backend. Mostly nothing was said of any, and then none is looked for.
fn said_of(core: &Core, service: &str, backend: &str) -> Override {
    if core.desired.overrides().is_empty() {
        return Override::default();
    }
    core.desired.overrides().of(&Who { service: service.to_owned(), backend: backend.to_owned() })
}

/// What a backend may do: what operators said of it, or else what the configuration says; one that left drains.
fn admin(said: &Override, configured: Option<&config::Backend>) -> AdminState {
    said.admin.unwrap_or(match configured.map(|backend| backend.state) {
        Some(config::BackendState::Active) => AdminState::Ready,
        Some(config::BackendState::Draining) | None => AdminState::Drain,
        Some(config::BackendState::Down | config::BackendState::Maintenance) => AdminState::Maintenance,
    })
}

/// What operators said that is not what the configuration says.
fn overrides(core: &Core) -> Overrides {
    let said = core.desired.overrides();
    if said.is_empty() {
        return Overrides::default();
    }
    let services = core.config.services.iter();
    let configured: HashMap<(&str, &str), &config::Backend> = services
        .flat_map(|service| {
            let backends = service.backends.iter();
            backends.map(|backend| ((service.name.as_str(), backend.name.as_str()), backend))
        })
        .collect();
    let mut overrides = Overrides::default();
    for (who, said) in said.iter() {
        let key = (who.service.as_str(), who.backend.as_str());
        let Some(&configured) = configured.get(&key) else { continue };
        let configured_admin = admin(&Override::default(), Some(configured));
        let state = said.admin.filter(|state| *state != configured_admin);
        let weight = said.weight.filter(|weight| *weight != configured.weight);
        if state.is_none() && weight.is_none() {
            continue;
        }
        overrides.total += 1;
        if overrides.backends.len() < OVERRIDES {
            let word = |state: AdminState| state.as_str().to_owned();
            overrides.backends.push(Overridden {
                service: who.service.clone(),
                backend: who.backend.clone(),
                admin: state.map(word),
                configured_admin: state.map(|_| word(configured_admin)),
                weight,
                configured_weight: weight.map(|_| configured.weight),
            });
        }
    }
    overrides
}

/// Where the backends are that take new flows as far as operators and the configuration go.
pub(crate) fn ready_addresses(core: &Core) -> HashSet<IpAddr> {
    let backends = core
        .config
        .services
        .iter()
        .flat_map(|service| service.backends.iter().map(move |backend| (service.name.as_str(), backend)));
    let ready = backends.filter(|(service, backend)| {
        admin(&said_of(core, service, &backend.name), Some(*backend)) == AdminState::Ready
    });
    ready.map(|(_, backend)| backend.address).collect()
}

/// Drains that are not over, those of removed backends among them.
pub(crate) fn drains_under_way(core: &Core) -> u64 {
    under_way(core).count() as u64
}

fn under_way(core: &Core) -> impl Iterator<Item = &DrainKey> {
    core.drains.iter().filter(|(_, drain)| !drain.phase.is_over()).map(|(key, _)| key)
}

fn drift(core: &Core) -> Drift {
    let owned = |(what, why): (&&'static str, &String)| ((*what).to_owned(), why.clone());
    Drift {
        rounds_total: core.drift.rounds,
        repairs_total: core.drift.repairs().map(|(what, count)| (what.to_owned(), count)).collect(),
        failing: core.drift.failing.iter().map(owned).collect(),
    }
}

/// So many backends of which operators said something are told of one by one.
const OVERRIDES: usize = 100;

/// So many backends are named in a line.
const NAMED: usize = 5;

/// What is no fault, and good to know.
fn asides(core: &Core, flow_table: FlowTable, services: &[Outline]) -> Vec<String> {
    let fell_back = fell_back_text(&core.about.interfaces);
    let renamed = core.renamed_texts().map(|(_, text)| text);
    let crowded = core.crowding.aside(flow_table.entries, flow_table.capacity);
    let others = renamed
        .chain(core.foreign_sources())
        .chain(core.narrow_links())
        .chain(core.routed_texts())
        .chain(crowded);
    fell_back.into_iter().chain(others).chain(core.unheard_checks()).chain(resizes_wait(services)).collect()
}

/// Which services still have another table than the configuration says: one line for all of them.
fn resizes_wait(services: &[Outline]) -> Option<String> {
    let waiting: Vec<&str> =
        services.iter().filter(|service| service.resize_waits).map(|service| service.name.as_str()).collect();
    let first = waiting.first()?;
    let more = match waiting.len() {
        1 => String::new(),
        many => format!(" and {}", counted((many - 1) as u64, "other", "others")),
    };
    Some(format!(
        "{first}{more}: a new table size or seed waits until older flows have settled, and the digest is another than that of \
         balancers that have it; `guideway service {first}` tells how long"
    ))
}

/// Which interfaces run in another mode than native, where that was wanted: one line for all of them.
fn fell_back_text(interfaces: &[Interface]) -> Option<String> {
    let fell_back: Vec<&Interface> = interfaces.iter().filter(|port| port.fell_back.is_some()).collect();
    let mode = &fell_back.first()?.mode;
    let names: Vec<&str> = fell_back.iter().map(|port| port.name.as_str()).collect();
    let runs = if names.len() == 1 { "runs" } else { "run" };
    Some(format!(
        "{} {runs} in {mode} mode, not in native; `guideway doctor {}` tells more",
        names.join(", "),
        names.join(" ")
    ))
}

/// A backend that is wanted and fails its checks.
type Failing<'a> = (&'a Who, Verdict);

/// All of them, by service.
fn all_failing(core: &Core) -> HashMap<&str, Vec<Failing<'_>>> {
    let mut all: HashMap<&str, Vec<Failing<'_>>> = HashMap::new();
    for (who, verdict) in core.board.verdicts().filter(|(_, verdict)| *verdict != Verdict::Up) {
        if core.desired.is_checked(who) {
            all.entry(who.service.as_str()).or_default().push((who, verdict));
        }
    }
    all
}

/// What somebody should see to.
fn faults(core: &Core, services: &[Outline]) -> Vec<String> {
    let mut faults = core.about.faults.clone();
    faults.extend(core.unwritten.values().cloned());
    faults.extend(core.about.log.as_ref().and_then(Log::fault));
    faults.extend(core.drift.failing.values().cloned());
    faults.extend(core.about.interfaces.iter().filter(|port| port.down).map(is_down_text));
    faults.extend(core.lost_texts());
    faults.extend(core.crowding.fault());
    let configured: HashMap<&str, &config::Service> =
        core.config.services.iter().map(|service| (service.name.as_str(), service)).collect();
    let mut all_failing = all_failing(core);
    let mut impossible = core.impossible_checks();
    for service in services {
        let failing = all_failing.remove(service.name.as_str()).unwrap_or_default();
        if service.last_resort {
            faults.push(format!(
                "{}: every check fails; the backends are used as a last resort, as all_down says, and flows on those that \
                 still fail end when others pass again",
                service.name
            ));
        } else if service.eligible() == 0 {
            let never_passed = |backend: &Failing<'_>| {
                backend.1 == Verdict::NeverPassed
                    && core.board.rising(backend.0).is_none()
                    && !is_unasked(core, backend)
            };
            let why = if failing.iter().any(never_passed) {
                ": those that have never passed their checks are no last resort"
            } else {
                ""
            };
            faults.push(format!("{}: no backend takes new flows{why}", service.name));
        }
        let configured = configured.get(service.name.as_str()).copied();
        faults.extend(checks_fail(core, &service.name, configured, &failing));
        let impossible = impossible.remove(service.name.as_str());
        faults.extend(impossible.map(|impossible| format!("{}: {impossible}", service.name)));
    }
    faults
}

/// Whose checks fail, of those that should take new flows, and whose pass and have not done so often enough, each with how
/// it is with the first.
fn checks_fail(
    core: &Core,
    service: &str,
    configured: Option<&config::Service>,
    failing: &[Failing<'_>],
) -> Vec<String> {
    let Some(configured) = configured.filter(|_| !failing.is_empty()) else { return Vec::new() };
    let configured = configured.backends.iter();
    let configured: HashMap<&str, &config::Backend> =
        configured.map(|backend| (backend.name.as_str(), backend)).collect();
    let is_ready = |who: &Who| {
        let said = core.desired.overrides().of(who);
        admin(&said, configured.get(who.backend.as_str()).copied()) == AdminState::Ready
    };
    let ready = failing.iter().filter(|(who, _)| is_ready(who));
    let (unasked, asked): (Vec<Failing<'_>>, Vec<Failing<'_>>) =
        ready.partition(|backend| is_unasked(core, backend));
    let (rising, failing): (Vec<Failing<'_>>, Vec<Failing<'_>>) =
        asked.into_iter().partition(|(who, _)| core.board.rising(who).is_some());
    let fail = failing.first().map(|(first, verdict)| {
        // One that has never passed has no verdict yet that something decided.
        let last = || core.board.last(first).map(|last| last.reason);
        let because = core.board.because(first).or_else(last);
        let because = because.map_or(String::new(), |because| format!(", {because}"));
        let (whose, of) = named(&failing);
        format!("{service}: checks fail of {whose} ({of}{}{because})", verdict.as_str())
    });
    let rise = rising.first().and_then(|(first, _)| {
        let (passed, needed) = core.board.rising(first)?;
        let (whose, of) = named(&rising);
        Some(format!(
            "{service}: checks of {whose} have not passed often enough yet ({of}{passed} of {needed})"
        ))
    });
    let wait = (!unasked.is_empty()).then(|| {
        let (whose, _) = named(&unasked);
        format!("{service}: checks of {whose} have not come back yet for the first time")
    });
    fail.into_iter().chain(rise).chain(wait).collect()
}

/// Whether nothing is known of a backend, as its first check is still to be made or answered.
fn is_unasked(core: &Core, &(who, verdict): &Failing<'_>) -> bool {
    verdict == Verdict::NeverPassed && core.board.last(who).is_none()
}

/// Some backends by name, and what goes before a word on the first: with several it has to be said whose that is.
fn named(backends: &[Failing<'_>]) -> (String, String) {
    let names: Vec<&str> = backends.iter().take(NAMED).map(|(who, _)| who.backend.as_str()).collect();
    let more = backends.len() - names.len();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let of = if backends.len() > 1 { format!("{}: ", names[0]) } else { String::new() };
    (format!("{}{more}", names.join(", ")), of)
}

/// All services, or the one of this name.
pub(crate) fn services(core: &Core, name: Option<&str>, now: Instant) -> Vec<Service> {
    let configured: HashMap<&str, &config::Service> =
        core.config.services.iter().map(|service| (service.name.as_str(), service)).collect();
    let statuses = match name {
        Some(name) => core.controller.status_of(name).into_iter().collect(),
        None => core.controller.status(),
    };
    let view = |status: ServiceStatus| {
        let configured = configured.get(status.name.as_str()).copied();
        service(core, configured, status, now)
    };
    statuses.into_iter().map(view).collect()
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
    let wanted = configured.into_iter().flat_map(|service| &service.backends);
    let wanted: HashMap<&str, &config::Backend> =
        wanted.map(|backend| (backend.name.as_str(), backend)).collect();
    let view = |backend: &BackendStatus| {
        let wanted = wanted.get(backend.identity.as_ref()).copied();
        self::backend(core, wanted, &status, backend, now)
    };
    let backends: Vec<Backend> = status.backends.iter().map(view).collect();
    Service {
        listen: listen.collect(),
        policy: configured.map(|service| service.policy.word().to_owned()),
        generation: status.generation,
        digest: status.digest,
        slots: status.slots,
        unsettled_slots: status.unsettled,
        prior_table: status.prior,
        settles_in_seconds: status.settles_in,
        resize_waits: status.resize_waits,
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
    wanted: Option<&config::Backend>,
    service: &ServiceStatus,
    status: &BackendStatus,
    now: Instant,
) -> Backend {
    let who = Who { service: service.name.clone(), backend: status.identity.to_string() };
    let wanted = wanted.filter(|_| !status.removed);
    let changed = if status.removed { Override::default() } else { core.desired.overrides().of(&who) };
    let admin = admin(&changed, wanted);
    let said = [("admin", changed.admin.is_some()), ("weight", changed.weight.is_some())];
    let overrides: Vec<String> =
        said.into_iter().filter(|(_, is_said)| *is_said).map(|(what, _)| what.to_owned()).collect();
    let record = core.controller.engine().backend(status.global);
    let address =
        record.map_or(IpAddr::V6(Ipv6Addr::UNSPECIFIED), |r| Ipv6Addr::from(r.address()).to_canonical());
    let next_hop = record.and_then(|record| {
        let mac = record.neighbour()?.map(|byte| format!("{byte:02x}")).join(":");
        let (mtu, packet_bytes) = fits(record);
        let interface_name = Some(core.link_name(record.interface()));
        Some(NextHop { interface: record.interface(), interface_name, mac, mtu, packet_bytes })
    });
    let key = DrainKey {
        service: who.service.clone(),
        backend: who.backend.clone(),
        address,
        removed: status.removed,
    };
    let drains = status.state == BackendState::Draining || admin == AdminState::Drain;
    // Whoever waits for a drain has to see that its deadline was what ended it.
    let drain = core.drains.of(&key).filter(|drain| drains || matches!(drain.phase, Phase::Cut { .. }));
    Backend {
        address,
        state: status.state.as_str().to_owned(),
        admin: admin.as_str().to_owned(),
        overridden: !overrides.is_empty(),
        overrides,
        removed: status.removed,
        weight: changed.weight.or(wanted.map(|backend| backend.weight)).unwrap_or(0),
        configured_weight: wanted.map(|backend| backend.weight),
        slots: status.slots,
        share: f64::from(status.slots) / f64::from(service.slots.max(1)),
        health: core.board.status(&who, now).filter(|_| !status.removed).map(|h| health(h, now)),
        drain: drain.map(|drain| self::drain(&key, drain, now)),
        next_hop,
        packets_total: status.count.packets,
        bytes_total: status.count.bytes,
        not_kept: None,
        service: who.service,
        name: who.backend,
    }
}

/// The largest packet of the tunnel to a backend, and the largest of a client in it.
pub(super) fn fits(record: &record::Backend) -> (u16, u16) {
    let status = record.status();
    let family = if status.underlay_is_v4() { IpVersion::V4 } else { IpVersion::V6 };
    (status.mtu(), status.mtu().saturating_sub(overhead(status.tunnel(), family) as u16))
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
            reason: finding.reason.to_owned(),
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

#[cfg(test)]
mod tests {
    use guideway_control::controller::spec::TableSizeSpec;
    use guideway_control::health::{Fault, Passed};

    use super::*;
    use crate::in_process::{self, CHECK, CONFIG};

    #[test]
    fn checks_that_are_to_come_or_pass_and_have_not_done_so_often_enough_are_not_said_to_fail() {
        let mut now = Instant::now();
        let file = format!("{CONFIG}{}", CHECK.replace("rise = 1", "rise = 3"));
        let mut core = in_process::core(&file, now).unwrap();
        let (passed, refused) = (Ok(Passed { took: Duration::from_millis(1) }), Err(Fault::Refused));
        let second = Duration::from_secs(1);
        let unasked = "web: checks of be1, be2 have not come back yet for the first time";
        assert_eq!(status(&core).faults, ["web: no backend takes new flows", unasked]);
        let rises = "web: checks of be1, be2 have not passed often enough yet (be1: 1 of 3)";
        in_process::check(&mut core, &mut now, second, &passed);
        assert_eq!(status(&core).faults, ["web: no backend takes new flows", rises]);
        in_process::check(&mut core, &mut now, second, &refused);
        let never =
            "web: no backend takes new flows: those that have never passed their checks are no last resort";
        let fails = "web: checks fail of be1, be2 (be1: never-passed, direct probe failed)";
        assert_eq!(status(&core).faults, [never, fails]);
        in_process::check(&mut core, &mut now, 3 * second, &passed);
        assert_eq!(status(&core).faults, Vec::<String>::new());
    }

    #[test]
    fn a_resize_that_waits_is_told_with_the_service() {
        let now = Instant::now();
        let mut core = in_process::core(CONFIG, now).unwrap();
        assert!(status(&core).notes.iter().all(|note| !note.contains("waits")));
        for size in [1_009, 2_003] {
            core.controller.resize("web", TableSizeSpec::Slots(size), 7).unwrap();
        }
        let notes = status(&core).notes;
        let waits = "web: a new table size or seed waits until older flows have settled";
        assert!(notes.iter().any(|note| note.starts_with(waits)), "{notes:?}");
    }

    #[test]
    fn interfaces_in_generic_mode_are_told_in_one_line() {
        let port = |name: &str, fell_back: Option<&str>| Interface {
            name: name.to_owned(),
            index: 1,
            mode: if fell_back.is_some() { "generic" } else { "native" }.to_owned(),
            fell_back: fell_back.map(str::to_owned),
            lost: None,
            down: false,
        };
        let told = |ports: &[Interface]| fell_back_text(ports);
        assert_eq!(told(&[port("eth0", None)]), None);
        let [first, second, third] = [port("eth0", Some("no")), port("eth1", None), port("eth2", Some("no"))];
        let both = "eth0, eth2 run in generic mode, not in native; `guideway doctor eth0 eth2` tells more";
        assert_eq!(told(&[first.clone(), second, third]).as_deref(), Some(both));
        assert!(told(&[first]).unwrap().starts_with("eth0 runs in generic mode"));
    }
}
