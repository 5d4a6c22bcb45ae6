//! The API's server: routes, their handlers, and conditions on changes.
//!
//! Handlers run on the runtime's threads and know nothing of the core but a channel: each sends a piece of work, which
//! the loop of the daemon does between two of its own, and waits for what came of it. `GET` only ever reads.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, PathRejection, QueryRejection};
use axum::extract::{DefaultBodyLimit, Path, Query, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post, put};
use guideway_control::config::Source;
use guideway_control::health::Who;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use super::desk::{ApplyAsk, Loop, Order, Reply};
use super::door::{Door, admit};
use super::model::{Applied, SetAdmin, SetWeight};
use super::problem::Refusal;
use super::{openapi, view};
use crate::core::Core;
use crate::metrics;

/// The largest body that is read: a configuration.
const MAX_BODY: usize = 16 << 20;

/// How many rows an answer has unless the request says otherwise, and at most.
const ROWS: usize = 100;
const MAX_ROWS: usize = 10_000;

/// The routes, for one door.
pub(crate) fn router(to_loop: Loop, door: Door) -> Router {
    Router::new()
        .route("/v1/status", get(status))
        .route("/v1/services", get(services))
        .route("/v1/services/{service}", get(service))
        .route("/v1/services/{service}/table", get(table))
        .route("/v1/services/{service}/backends/{backend}", get(backend))
        .route("/v1/services/{service}/backends/{backend}/admin", put(set_admin))
        .route("/v1/services/{service}/backends/{backend}/weight", put(set_weight))
        .route("/v1/services/{service}/backends/{backend}/override", axum::routing::delete(clear_override))
        .route("/v1/backends", get(backends))
        .route("/v1/drains", get(drains))
        .route("/v1/flows", get(flows))
        .route("/v1/events", get(events))
        .route("/v1/config", get(config))
        .route("/v1/reload", post(reload))
        .route("/v1/plan", post(plan))
        .route("/v1/apply", post(apply))
        .route("/v1/confirm", post(confirm))
        .route("/v1/rollback", post(rollback))
        .route("/v1/explain", get(explain).post(explain_with_referee))
        .route("/metrics", get(show_metrics))
        .route("/livez", get(|| async { "ok\n" }))
        .route("/readyz", get(readyz))
        .route("/openapi.json", get(|| async { axum::Json(openapi::document()) }))
        .fallback(|request: Request| async move {
            Refusal::not_found(format!(
                "there is nothing at {}; /openapi.json tells what there is",
                request.uri().path()
            ))
        })
        .method_not_allowed_fallback(|request: Request| async move {
            let detail = format!("{} is not for {}", request.method(), request.uri().path());
            Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "method-not-allowed", detail)
        })
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .layer(middleware::from_fn_with_state(door, admit))
        .with_state(to_loop)
}

/// An answer with the revision that it is of.
struct Tagged<T> {
    revision: String,
    value: T,
}

impl<T: Serialize> IntoResponse for Tagged<T> {
    fn into_response(self) -> Response {
        let mut response = axum::Json(self.value).into_response();
        if let Ok(tag) = HeaderValue::from_str(&format!("\"{}\"", self.revision)) {
            response.headers_mut().insert(header::ETAG, tag);
        }
        response
    }
}

type Answer<T> = Result<Tagged<T>, Refusal>;

async fn read<T: Send + 'static>(
    to_loop: &Loop,
    read: impl FnOnce(&Core, Instant) -> Result<T, Refusal> + Send + 'static,
) -> Answer<T> {
    to_loop
        .on(|desk| {
            let value = read(desk.core, Instant::now())?;
            Ok(Tagged { revision: desk.core.revision(), value })
        })
        .await?
}

/// Does a change if the request knows what it changes: `If-Match` has the revision, or `*`.
async fn change<T: Send + 'static>(
    to_loop: &Loop,
    headers: &HeaderMap,
    change: impl FnOnce(&mut Core, Instant) -> Result<T, Refusal> + Send + 'static,
) -> Answer<T> {
    let condition = headers.get(header::IF_MATCH).and_then(|value| value.to_str().ok()).map(str::to_owned);
    to_loop
        .on(move |desk| {
            check_condition(desk.core, condition.as_deref())?;
            let value = change(desk.core, Instant::now())?;
            Ok(Tagged { revision: desk.core.revision(), value })
        })
        .await?
}

fn check_condition(core: &Core, condition: Option<&str>) -> Result<(), Refusal> {
    let Some(condition) = condition else {
        let detail =
            "a change needs `If-Match` with the ETag of what it is based on, or `*` for whatever is there";
        return Err(Refusal::new(StatusCode::PRECONDITION_REQUIRED, "condition-required", detail));
    };
    let revision = core.revision();
    let matches =
        condition.split(',').map(str::trim).any(|tag| tag == "*" || tag.trim_matches('"') == revision);
    if matches {
        return Ok(());
    }
    let detail = format!(
        "somebody changed something since: the revision is \"{revision}\"; read again and decide anew"
    );
    Err(Refusal::new(StatusCode::PRECONDITION_FAILED, "changed-meanwhile", detail))
}

/// A path's parts, or the refusal.
fn path<T>(path: Result<Path<T>, PathRejection>) -> Result<T, Refusal> {
    path.map(|Path(parts)| parts).map_err(|error| Refusal::bad(error.body_text()))
}

fn query<T>(query: Result<Query<T>, QueryRejection>) -> Result<T, Refusal> {
    query.map(|Query(query)| query).map_err(|error| Refusal::bad(error.body_text()))
}

/// A body as JSON, or the refusal that says what is wrong where.
fn body<T: DeserializeOwned>(body: Result<Bytes, BytesRejection>) -> Result<T, Refusal> {
    let body = body.map_err(|error| Refusal::new(error.status(), "bad-request", error.body_text()))?;
    serde_json::from_slice(&body).map_err(|error| {
        Refusal::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "bad-body",
            format!("the body is not understood: {error}"),
        )
    })
}

async fn status(State(to_loop): State<Loop>) -> Answer<super::model::Status> {
    read(&to_loop, |core, now| Ok(view::status(core, now))).await
}

async fn services(State(to_loop): State<Loop>) -> Answer<Vec<super::model::Service>> {
    read(&to_loop, |core, now| Ok(view::services(core, None, now))).await
}

async fn service(
    State(to_loop): State<Loop>,
    name: Result<Path<String>, PathRejection>,
) -> Answer<super::model::Service> {
    let name = path(name)?;
    read(&to_loop, move |core, now| {
        view::services(core, Some(&name), now).pop().ok_or_else(|| no_service(core, &name))
    })
    .await
}

async fn backend(
    State(to_loop): State<Loop>,
    names: Result<Path<(String, String)>, PathRejection>,
) -> Answer<super::model::Backend> {
    let (service, backend) = path(names)?;
    read(&to_loop, move |core, now| find_backend(core, &service, &backend, now)).await
}

fn find_backend(
    core: &Core,
    service: &str,
    backend: &str,
    now: Instant,
) -> Result<super::model::Backend, Refusal> {
    let found = view::services(core, Some(service), now).pop().ok_or_else(|| no_service(core, service))?;
    let mut those: Vec<_> = found.backends.into_iter().filter(|b| b.name == backend).collect();
    // One that is wanted rather than one of the same name that left.
    those.sort_by_key(|backend| backend.removed);
    those.into_iter().next().ok_or_else(|| no_backend(service, backend))
}

fn no_service(core: &Core, name: &str) -> Refusal {
    let known: Vec<&str> = core.controller.service_names().take(20).collect();
    Refusal::not_found(format!("there is no service {name:?}; there are: {}", known.join(", ")))
}

fn no_backend(service: &str, backend: &str) -> Refusal {
    Refusal::not_found(format!("service {service:?} has no backend {backend:?}"))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WhichBackends {
    service: Option<String>,
}

async fn backends(
    State(to_loop): State<Loop>,
    which: Result<Query<WhichBackends>, QueryRejection>,
) -> Answer<Vec<super::model::Backend>> {
    let WhichBackends { service } = query(which)?;
    read(&to_loop, move |core, now| {
        let services = view::services(core, service.as_deref(), now);
        match service {
            Some(name) if services.is_empty() => Err(no_service(core, &name)),
            _ => Ok(services.into_iter().flat_map(|service| service.backends).collect()),
        }
    })
    .await
}

async fn drains(State(to_loop): State<Loop>) -> Answer<Vec<super::model::Drain>> {
    read(&to_loop, |core, now| Ok(view::drains(core, now))).await
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WhichFlows {
    service: Option<String>,
    backend: Option<String>,
    limit: Option<usize>,
}

async fn flows(
    State(to_loop): State<Loop>,
    which: Result<Query<WhichFlows>, QueryRejection>,
) -> Answer<super::model::Flows> {
    let WhichFlows { service, backend, limit } = query(which)?;
    let limit = rows(limit)?;
    read(&to_loop, move |core, _| {
        if let Some(service) = service.as_deref()
            && core.controller.service_id(service).is_none()
        {
            return Err(no_service(core, service));
        }
        Ok(view::flows(core, service.as_deref(), backend.as_deref(), limit))
    })
    .await
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WhichSlots {
    from: Option<usize>,
    limit: Option<usize>,
}

async fn table(
    State(to_loop): State<Loop>,
    name: Result<Path<String>, PathRejection>,
    which: Result<Query<WhichSlots>, QueryRejection>,
) -> Answer<super::model::Table> {
    let (name, WhichSlots { from, limit }) = (path(name)?, query(which)?);
    let limit = rows(limit)?;
    read(&to_loop, move |core, _| {
        view::table(core, &name, from.unwrap_or(0), limit).ok_or_else(|| no_service(core, &name))
    })
    .await
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WhichEvents {
    after: Option<u64>,
    limit: Option<usize>,
}

async fn events(
    State(to_loop): State<Loop>,
    which: Result<Query<WhichEvents>, QueryRejection>,
) -> Answer<Vec<super::model::Event>> {
    let WhichEvents { after, limit } = query(which)?;
    let limit = rows(limit)?;
    read(&to_loop, move |core, _| Ok(view::events(core, after.unwrap_or(0), limit))).await
}

fn rows(limit: Option<usize>) -> Result<usize, Refusal> {
    match limit.unwrap_or(ROWS) {
        limit if limit <= MAX_ROWS => Ok(limit),
        limit => Err(Refusal::bad(format!("limit {limit} is too much; at most {MAX_ROWS}"))),
    }
}

async fn config(State(to_loop): State<Loop>) -> Answer<serde_json::Value> {
    read(&to_loop, |core, _| {
        serde_json::to_value(&core.config)
            .map_err(|error| Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "fault", error.to_string()))
    })
    .await
}

async fn set_admin(
    State(to_loop): State<Loop>,
    names: Result<Path<(String, String)>, PathRejection>,
    headers: HeaderMap,
    asked: Result<Bytes, BytesRejection>,
) -> Answer<super::model::Backend> {
    let (service, backend) = path(names)?;
    let SetAdmin { state, deadline_seconds } = body(asked)?;
    let state = serde_json::from_value(serde_json::Value::String(state.clone())).map_err(|_| {
        let detail = format!("there is no state {state:?}; there are ready, drain and maintenance");
        Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, "bad-body", detail)
    })?;
    change(&to_loop, &headers, move |core, now| {
        let who = wanted(core, &service, &backend)?;
        core.set_admin(&who, state, deadline_seconds, now);
        find_backend(core, &service, &backend, now)
    })
    .await
}

async fn set_weight(
    State(to_loop): State<Loop>,
    names: Result<Path<(String, String)>, PathRejection>,
    headers: HeaderMap,
    asked: Result<Bytes, BytesRejection>,
) -> Answer<super::model::Backend> {
    let (service, backend) = path(names)?;
    let SetWeight { weight } = body(asked)?;
    change(&to_loop, &headers, move |core, now| {
        let who = wanted(core, &service, &backend)?;
        core.set_weight(&who, weight, now)
            .map_err(|error| Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, "bad-body", error.to_string()))?;
        find_backend(core, &service, &backend, now)
    })
    .await
}

async fn clear_override(
    State(to_loop): State<Loop>,
    names: Result<Path<(String, String)>, PathRejection>,
    headers: HeaderMap,
) -> Answer<super::model::Backend> {
    let (service, backend) = path(names)?;
    change(&to_loop, &headers, move |core, now| {
        let who = wanted(core, &service, &backend)?;
        core.clear_override(&who, now);
        find_backend(core, &service, &backend, now)
    })
    .await
}

fn wanted(core: &Core, service: &str, backend: &str) -> Result<Who, Refusal> {
    if !core.config.services.iter().any(|known| known.name == service) {
        return Err(no_service(core, service));
    }
    let who = Who { service: service.to_owned(), backend: backend.to_owned() };
    if core.desired.has(&who) { Ok(who) } else { Err(no_backend(service, backend)) }
}

/// Gives the loop an order, if the request knows what it changes, and waits for what comes of it.
async fn order<T: Send + 'static>(
    to_loop: &Loop,
    headers: Option<&HeaderMap>,
    order: impl FnOnce(Reply<T>) -> Order + Send + 'static,
) -> Answer<T> {
    let condition = headers.map(|headers| {
        headers.get(header::IF_MATCH).and_then(|value| value.to_str().ok()).map(str::to_owned)
    });
    let (tell, told) = oneshot::channel();
    to_loop
        .on(move |desk| {
            if let Some(condition) = &condition {
                check_condition(desk.core, condition.as_deref())?;
            }
            *desk.order = Some(order(tell));
            Ok::<(), Refusal>(())
        })
        .await??;
    let ending = || Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "ending", "the daemon is about to end");
    let value = told
        .await
        .map_err(|_| ending())?
        .map_err(|problems| Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, "refused", problems))?;
    let revision = to_loop.on(|desk| desk.core.revision()).await?;
    Ok(Tagged { revision, value })
}

async fn reload(State(to_loop): State<Loop>) -> Answer<serde_json::Value> {
    let Tagged { revision, value } = order(&to_loop, None, Order::Reload).await?;
    Ok(Tagged { revision, value: serde_json::json!({ "changed": value }) })
}

/// A configuration in a body.
fn configuration(body: Result<Bytes, BytesRejection>) -> Result<String, Refusal> {
    let body = body.map_err(|error| Refusal::new(error.status(), "bad-request", error.body_text()))?;
    String::from_utf8(body.to_vec())
        .map_err(|error| Refusal::bad(format!("the configuration is not UTF-8: {error}")))
}

/// Changes nothing, though it is a POST: a configuration does not fit into an address.
async fn plan(
    State(to_loop): State<Loop>,
    asked: Result<Bytes, BytesRejection>,
) -> Answer<super::model::Plan> {
    let source = Source::new("<request>", configuration(asked)?);
    let config = guideway_control::config::parse(&source).map_err(|problems| {
        Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, "bad-config", problems.to_string())
    })?;
    read(&to_loop, move |core, now| Ok(super::plan::plan(core, &config, now))).await
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct HowToApply {
    confirm_within_seconds: Option<u64>,
}

async fn apply(
    State(to_loop): State<Loop>,
    headers: HeaderMap,
    how: Result<Query<HowToApply>, QueryRejection>,
    asked: Result<Bytes, BytesRejection>,
) -> Answer<Applied> {
    let HowToApply { confirm_within_seconds } = query(how)?;
    let ask = ApplyAsk {
        text: configuration(asked)?,
        confirm_within: confirm_within_seconds
            .map(|seconds| Duration::from_secs(seconds.clamp(1, MAX_TRIAL))),
    };
    order(&to_loop, Some(&headers), |tell| Order::Apply(ask, tell)).await
}

/// A trial is a day at most, seconds.
const MAX_TRIAL: u64 = 86_400;

async fn confirm(State(to_loop): State<Loop>) -> Answer<serde_json::Value> {
    let Tagged { revision, value } = order(&to_loop, None, Order::Confirm).await?;
    Ok(Tagged { revision, value: serde_json::json!({ "written": value }) })
}

async fn rollback(State(to_loop): State<Loop>, headers: HeaderMap) -> Answer<Applied> {
    order(&to_loop, Some(&headers), Order::Rollback).await
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WhichFlow {
    source: SocketAddr,
    destination: SocketAddr,
    protocol: String,
}

async fn explain(
    State(to_loop): State<Loop>,
    which: Result<Query<WhichFlow>, QueryRejection>,
) -> Answer<super::model::Explanation> {
    tell(&to_loop, query(which)?, false).await
}

/// A POST, since the program that is asked counts the packet.
async fn explain_with_referee(
    State(to_loop): State<Loop>,
    which: Result<Query<WhichFlow>, QueryRejection>,
) -> Answer<super::model::Explanation> {
    tell(&to_loop, query(which)?, true).await
}

async fn tell(to_loop: &Loop, which: WhichFlow, ask: bool) -> Answer<super::model::Explanation> {
    let tcp = match which.protocol.as_str() {
        "tcp" => true,
        "udp" => false,
        other => {
            return Err(Refusal::bad(format!("there is no protocol {other:?} here; there are tcp and udp")));
        }
    };
    read(to_loop, move |core, _| {
        super::explain::explain(core, which.source, which.destination, tcp, ask)
            .ok_or_else(|| Refusal::bad("source and destination are of two families"))
    })
    .await
}

async fn readyz(State(to_loop): State<Loop>) -> Result<Response, Refusal> {
    let failing = to_loop
        .on(|desk| {
            let services = view::services(desk.core, None, Instant::now());
            let empty = services.into_iter().filter(|service| service.eligible == 0);
            empty.map(|service| service.name).collect::<Vec<_>>()
        })
        .await?;
    if failing.is_empty() {
        return Ok("ready\n".into_response());
    }
    let detail = format!("no backend takes new flows: {}", failing.join(", "));
    Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "not-ready", detail))
}

async fn show_metrics(State(to_loop): State<Loop>) -> Result<Response, Refusal> {
    let text = to_loop.on(|desk| metrics::text(desk.core, Instant::now())).await?;
    Ok(([(header::CONTENT_TYPE, metrics::MEDIA_TYPE)], text).into_response())
}
