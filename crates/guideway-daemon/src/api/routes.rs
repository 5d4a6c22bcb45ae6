//! What there is to ask for, and what it does.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use guideway_control::health::Who;
use guideway_control::overrides::AdminState;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::body::{AnyConfig, GoodConfig, Json};
use super::desk::{ApplyAsk, Order, Reply};
use super::explain::explain;
use super::model::{
    Applied, AuditEntry, Backend, Confirmed, Drain, Event, Explanation, Flows, Plan, Reloaded, Service,
    SetAdmin, SetWeight, Status, Table, Trace,
};
use super::problem::{Kind, Refusal, within};
use super::route::Verb::{Delete, Get, Post, Put};
use super::route::{Asked, Nothing, Route, change, order, own, read};
use super::trace::{self, WhichPackets};
use super::view;
use crate::core::Core;

/// How many rows an answer has unless the request says otherwise, and at most.
const ROWS: usize = 100;
const MAX_ROWS: usize = 10_000;

/// How long a trial can be, and a drain, seconds: a day at most, and a week as in the configuration.
const TRIAL: RangeInclusive<u64> = 1..=86_400;
const DEADLINE: RangeInclusive<u64> = 1..=604_800;

type Answer<T> = Result<T, Refusal>;

/// All of them.
pub(super) fn all() -> Vec<Route> {
    vec![
        read(Get, "/v1/status", "The daemon and its forwarder as a whole", status),
        read(Get, "/v1/services", "All services with their backends", services),
        read(Get, "/v1/services/{service}", "A service with its backends", service),
        read(Get, "/v1/services/{service}/table", "Who owns which slot", table),
        read(Get, "/v1/services/{service}/backends/{backend}", "A backend", backend),
        change(
            Put,
            "/v1/services/{service}/backends/{backend}/admin",
            "Says whether a backend takes flows, over reloads and restarts, until it is taken back",
            set_admin,
        ),
        change(
            Put,
            "/v1/services/{service}/backends/{backend}/weight",
            "Gives a backend another weight, over reloads and restarts, until it is taken back",
            set_weight,
        ),
        change(
            Delete,
            "/v1/services/{service}/backends/{backend}/override",
            "Takes back what operators said of a backend: the configuration holds again",
            clear_override,
        ),
        read(Get, "/v1/backends", "All backends", backends),
        read(Get, "/v1/drains", "Drains under way and those that ended lately", drains),
        read(Get, "/v1/flows", "Live flows that are remembered", flows),
        read(Get, "/v1/events", "What happened lately, oldest first", events),
        read(Get, "/v1/audit", "Who changed what lately, oldest first", audit),
        read(Get, "/v1/config", "The configuration in force, with every default filled in", config),
        order(
            Post,
            "/v1/reload",
            "Has the configuration file read again; a bad one changes nothing",
            false,
            |_: Asked, tell: Reply<Reloaded>| Ok(Order::Reload(tell)),
        ),
        // A POST, since a configuration does not fit into an address, and since tables are built for the answer.
        read(
            Post,
            "/v1/plan",
            "What the configuration in the body (TOML) would change; changes nothing",
            plan,
        ),
        order(
            Post,
            "/v1/apply",
            "Takes the configuration in the body (TOML), all of it or nothing",
            true,
            apply,
        ),
        order(
            Post,
            "/v1/confirm",
            "Keeps the configuration on trial",
            false,
            |_: Asked, tell: Reply<Confirmed>| Ok(Order::Confirm(tell)),
        ),
        order(
            Get,
            "/v1/rollback",
            "What going back to the configuration before this one would change; changes nothing",
            false,
            |_: Asked, tell: Reply<Plan>| Ok(Order::PlanRollback(tell)),
        ),
        order(
            Post,
            "/v1/rollback",
            "Goes back to the configuration before this one",
            true,
            |_: Asked, tell: Reply<Applied>| Ok(Order::Rollback(tell)),
        ),
        read(
            Get,
            "/v1/explain",
            "What the forwarder would do with packets of a flow now",
            |core, _, asked: Asked<Nothing, WhichFlow>| tell(core, &asked.query, false),
        ),
        // A POST, since the program that is asked counts the packet.
        read(
            Post,
            "/v1/explain",
            "The same, and the program in the kernel is asked as well",
            |core, _, asked: Asked<Nothing, WhichFlow>| tell(core, &asked.query, true),
        ),
        // A POST, since another program is put before the kernel's for a while.
        own::<WhichPackets, Trace>(
            Post,
            "/v1/trace",
            "Samples packets as they come in, each with what such a packet meets",
            trace::handler(),
        ),
    ]
}

/// A service, by a path.
#[derive(Debug, Deserialize)]
struct ServicePath {
    service: String,
}

/// A backend, by a path.
#[derive(Debug, Deserialize)]
struct BackendPath {
    service: String,
    backend: String,
}

fn status(core: &Core, _: Instant, _: Asked) -> Answer<Status> {
    Ok(view::status(core))
}

fn services(core: &Core, now: Instant, _: Asked) -> Answer<Vec<Service>> {
    Ok(view::services(core, None, now))
}

fn service(core: &Core, now: Instant, asked: Asked<ServicePath>) -> Answer<Service> {
    let name = &asked.path.service;
    view::services(core, Some(name), now).pop().ok_or_else(|| no_service(core, name))
}

fn backend(core: &Core, now: Instant, asked: Asked<BackendPath>) -> Answer<Backend> {
    find_backend(core, &asked.path, now)
}

fn find_backend(core: &Core, path: &BackendPath, now: Instant) -> Answer<Backend> {
    let BackendPath { service, backend } = path;
    let found = view::services(core, Some(service), now).pop().ok_or_else(|| no_service(core, service))?;
    let mut those: Vec<_> = found.backends.into_iter().filter(|b| b.name == *backend).collect();
    // One that is wanted rather than one of the same name that left.
    those.sort_by_key(|backend| backend.removed);
    those.into_iter().next().ok_or_else(|| no_backend(path))
}

fn no_service(core: &Core, name: &str) -> Refusal {
    let known: Vec<&str> = core.controller.service_names().take(20).collect();
    Refusal::not_found(format!("there is no service {name:?}; there are: {}", known.join(", ")))
}

fn no_backend(path: &BackendPath) -> Refusal {
    Refusal::not_found(format!("service {:?} has no backend {:?}", path.service, path.backend))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WhichBackends {
    /// Only those of this service.
    service: Option<String>,
}

fn backends(core: &Core, now: Instant, asked: Asked<Nothing, WhichBackends>) -> Answer<Vec<Backend>> {
    let WhichBackends { service } = asked.query;
    let services = view::services(core, service.as_deref(), now);
    match service {
        Some(name) if services.is_empty() => Err(no_service(core, &name)),
        _ => Ok(services.into_iter().flat_map(|service| service.backends).collect()),
    }
}

fn drains(core: &Core, now: Instant, _: Asked) -> Answer<Vec<Drain>> {
    Ok(view::drains(core, now))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WhichFlows {
    /// Only those of this service.
    service: Option<String>,
    /// Only those of this backend.
    backend: Option<String>,
    /// How many; 100 unless it is said, 10,000 at most.
    #[schemars(range(max = MAX_ROWS))]
    limit: Option<usize>,
}

fn flows(core: &Core, _: Instant, asked: Asked<Nothing, WhichFlows>) -> Answer<Flows> {
    let WhichFlows { service, backend, limit } = asked.query;
    let limit = rows(limit)?;
    match service.as_deref() {
        Some(service) if core.controller.service_id(service).is_none() => Err(no_service(core, service)),
        service
            if backend.as_deref().is_some_and(|backend| !core.controller.has_backend(service, backend)) =>
        {
            let whose =
                service.map_or_else(|| "no service has".to_owned(), |name| format!("{name:?} does not have"));
            Err(Refusal::not_found(format!("{whose} a backend {:?}", backend.unwrap_or_default())))
        }
        service => Ok(view::flows(core, service, backend.as_deref(), limit)),
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WhichSlots {
    /// The first slot.
    from: Option<usize>,
    /// How many; 100 unless it is said, 10,000 at most.
    #[schemars(range(max = MAX_ROWS))]
    limit: Option<usize>,
}

fn table(core: &Core, _: Instant, asked: Asked<ServicePath, WhichSlots>) -> Answer<Table> {
    let (name, limit) = (&asked.path.service, rows(asked.query.limit)?);
    view::table(core, name, asked.query.from.unwrap_or(0), limit).ok_or_else(|| no_service(core, name))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WhichEvents {
    /// Only those after this number.
    after: Option<u64>,
    /// Only so many of the newest; 100 unless it is said, 10,000 at most.
    #[schemars(range(max = MAX_ROWS))]
    limit: Option<usize>,
}

fn events(core: &Core, _: Instant, asked: Asked<Nothing, WhichEvents>) -> Answer<Vec<Event>> {
    let WhichEvents { after, limit } = asked.query;
    Ok(view::events(core, after.unwrap_or(0), rows(limit)?))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WhichEntries {
    /// Only so many of the newest; 100 unless it is said, 10,000 at most.
    #[schemars(range(max = MAX_ROWS))]
    limit: Option<usize>,
}

fn audit(core: &Core, _: Instant, asked: Asked<Nothing, WhichEntries>) -> Answer<Vec<AuditEntry>> {
    Ok(core.audit.newest(rows(asked.query.limit)?).cloned().collect())
}

fn rows(limit: Option<usize>) -> Answer<usize> {
    within("limit", limit.unwrap_or(ROWS), &(0..=MAX_ROWS))
}

fn config(core: &Core, _: Instant, _: Asked) -> Answer<Value> {
    serde_json::to_value(&core.config).map_err(|error| Refusal::new(Kind::Fault, error.to_string()))
}

fn set_admin(
    core: &mut Core,
    now: Instant,
    asked: Asked<BackendPath, Nothing, Json<SetAdmin>>,
) -> Answer<Backend> {
    let Json(SetAdmin { state, deadline_seconds }) = asked.body;
    let state = serde_json::from_value(Value::String(state.clone())).map_err(|_| {
        let detail = format!("there is no state {state:?}; there are ready, drain and maintenance");
        Refusal::new(Kind::BadBody, detail)
    })?;
    if let Some(seconds) = deadline_seconds {
        within("deadline_seconds", seconds, &DEADLINE)?;
        if state != AdminState::Drain {
            let detail = "deadline_seconds is for the state drain; the other states have none";
            return Err(Refusal::new(Kind::BadBody, detail));
        }
    }
    core.set_admin(&wanted(core, &asked.path)?, state, deadline_seconds, now);
    find_backend(core, &asked.path, now)
}

fn set_weight(
    core: &mut Core,
    now: Instant,
    asked: Asked<BackendPath, Nothing, Json<SetWeight>>,
) -> Answer<Backend> {
    core.set_weight(&wanted(core, &asked.path)?, asked.body.0.weight, now)
        .map_err(|error| Refusal::new(Kind::OutOfRange, error.to_string()))?;
    find_backend(core, &asked.path, now)
}

fn clear_override(core: &mut Core, now: Instant, asked: Asked<BackendPath>) -> Answer<Backend> {
    core.clear_override(&wanted(core, &asked.path)?, now);
    find_backend(core, &asked.path, now)
}

fn wanted(core: &Core, path: &BackendPath) -> Answer<Who> {
    let BackendPath { service, backend } = path;
    if !core.config.services.iter().any(|known| known.name == *service) {
        return Err(no_service(core, service));
    }
    let who = Who { service: service.clone(), backend: backend.clone() };
    if core.desired.has(&who) { Ok(who) } else { Err(no_backend(path)) }
}

fn plan(core: &Core, now: Instant, asked: Asked<Nothing, Nothing, GoodConfig>) -> Answer<Plan> {
    Ok(super::plan::plan(core, &asked.body.0, now))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct HowToApply {
    /// It goes back after this time unless it is confirmed: 1 to 86400, a day.
    #[schemars(range(min = *TRIAL.start(), max = *TRIAL.end()))]
    confirm_within_seconds: Option<u64>,
}

fn apply(asked: Asked<Nothing, HowToApply, AnyConfig>, tell: Reply<Applied>) -> Answer<Order> {
    let seconds = asked.query.confirm_within_seconds;
    let seconds = seconds.map(|seconds| within("confirm_within_seconds", seconds, &TRIAL)).transpose()?;
    let AnyConfig { text, config } = asked.body;
    Ok(Order::Apply(ApplyAsk { text, config, confirm_within: seconds.map(Duration::from_secs) }, tell))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WhichFlow {
    /// Where it comes from, as `198.51.100.7:51514` or `[2001:db8::7]:51514`.
    #[schemars(with = "String")]
    source: SocketAddr,
    /// Where it goes.
    #[schemars(with = "String")]
    destination: SocketAddr,
    /// `tcp` or `udp`.
    protocol: String,
}

fn tell(core: &Core, which: &WhichFlow, ask: bool) -> Answer<Explanation> {
    let tcp = match which.protocol.as_str() {
        "tcp" => true,
        "udp" => false,
        other => {
            return Err(Refusal::bad(format!("there is no protocol {other:?} here; there are tcp and udp")));
        }
    };
    explain(core, which.source, which.destination, tcp, ask)
        .ok_or_else(|| Refusal::bad("source and destination are of two families"))
}
