//! One way from a route to the daemon's loop and back, for all of them.
//!
//! A route is made of what it does; from the types of that come what a request must be like, what the answer is like, and
//! the [document](super::openapi) that tells both. Work runs on the loop, between two pieces of its own; what it is given was
//! checked before, and what it answers is written after, both on the runtime's threads.

use std::time::Instant;

use axum::extract::rejection::PathRejection;
use axum::extract::{FromRequest, FromRequestParts, Path, Request, State};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, MethodRouter, on};
use schemars::{JsonSchema, SchemaGenerator};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::oneshot;

use super::body::{Body, NoBody};
use super::desk::{Loop, Order, Reply};
use super::door::{Caller, Role};
use super::intake::Taken;
use super::model::Backend;
use super::problem::{Kind, Refusal};
use super::query;
use crate::audit;
use crate::core::Core;

/// A route, and what the document says of it.
pub(super) struct Route {
    pub(super) verb: Verb,
    pub(super) path: &'static str,
    pub(super) summary: &'static str,
    /// Whether the request has to say what its change is based on.
    pub(super) conditional: bool,
    /// The schemas of its query and its answer.
    pub(super) query: fn(&mut SchemaGenerator) -> Value,
    pub(super) answer: fn(&mut SchemaGenerator) -> Value,
    /// The media type and schema of its body.
    pub(super) body: fn(&mut SchemaGenerator) -> Option<(&'static str, Value)>,
    pub(super) handler: MethodRouter<Loop>,
}

/// The methods that there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verb {
    Get,
    Post,
    Put,
    Delete,
}

impl Verb {
    /// As the document writes it.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Post => "post",
            Self::Put => "put",
            Self::Delete => "delete",
        }
    }

    fn filter(self) -> MethodFilter {
        match self {
            Self::Get => MethodFilter::GET,
            Self::Post => MethodFilter::POST,
            Self::Put => MethodFilter::PUT,
            Self::Delete => MethodFilter::DELETE,
        }
    }
}

/// A request, understood: the parts of its path, its query, its body.
pub(super) struct Asked<P = Nothing, Q = Nothing, B = NoBody> {
    pub(super) path: P,
    pub(super) query: Q,
    pub(super) body: B,
    /// What the request says its change is based on.
    condition: Option<String>,
    /// What the audit log says of it.
    request: audit::Request,
    role: Role,
}

/// No parts of a path, or no query.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Nothing {}

/// What can be a path's parts or a query.
pub(super) trait Part: DeserializeOwned + Send + 'static {}
impl<T: DeserializeOwned + Send + 'static> Part for T {}

/// What can be answered.
pub(super) trait Told: Serialize + JsonSchema + Send + 'static {}
impl<T: Serialize + JsonSchema + Send + 'static> Told for T {}

impl<P: Part, Q: Part + JsonSchema, B: Body> FromRequest<Loop> for Asked<P, Q, B> {
    type Rejection = Refusal;

    async fn from_request(request: Request, to_loop: &Loop) -> Result<Self, Refusal> {
        let (mut parts, body) = request.into_parts();
        // Who did not come by the door may do nothing but read.
        let stranger = || Caller { name: "unknown".to_owned(), role: Role::Reader };
        let Caller { name: who, role } = parts.extensions.get().cloned().unwrap_or_else(stranger);
        let what = format!("{} {}", parts.method, parts.uri);
        let Path(path) = Path::from_request_parts(&mut parts, to_loop)
            .await
            .map_err(|error: PathRejection| Refusal::bad(error.body_text()))?;
        let query = query::read(&parts.uri)?;
        let condition = condition(&parts.headers);
        let body = if B::WANTED {
            let asks_first = parts.headers.contains_key(header::EXPECT);
            to_loop.intake.take(body, asks_first).await?
        } else {
            Taken::default()
        };
        let request = audit::Request { who, what, said: B::tell(&body.bytes) };
        // A large configuration takes a while, in which others want answers too.
        let body = tokio::task::spawn_blocking(move || B::read(&body.bytes)).await;
        Ok(Self { path, query, body: body.map_err(|_| Refusal::ending())??, condition, request, role })
    }
}

fn condition(headers: &HeaderMap) -> Option<String> {
    headers.get(header::IF_MATCH).and_then(|value| value.to_str().ok()).map(str::to_owned)
}

/// What a route does on the loop: it reads, or it changes something.
type Reads<P, Q, B, T> = fn(&Core, Instant, Asked<P, Q, B>) -> Result<T, Refusal>;
type Changes<P, Q, B, T> = fn(&mut Core, Instant, Asked<P, Q, B>) -> Result<T, Refusal>;

/// What a route has the loop do, or why not.
type Orders<Q, B, T> = fn(Asked<Nothing, Q, B>, Reply<T>) -> Result<Order, Refusal>;

/// A route that only reads.
pub(super) fn read<P: Part, Q: Part + JsonSchema, B: Body, T: Told>(
    verb: Verb,
    path: &'static str,
    summary: &'static str,
    read: Reads<P, Q, B, T>,
) -> Route {
    let handler = move |State(to_loop): State<Loop>, asked: Asked<P, Q, B>| async move {
        to_loop
            .ask(move |desk| {
                let value = read(desk.core, Instant::now(), asked)?;
                Ok::<_, Refusal>(Tagged { revision: desk.core.revision(), value })
            })
            .await?
    };
    route::<Q, B, T>(verb, path, summary, false, on(verb.filter(), handler))
}

/// A route that changes what operators say of a backend, if the request knows what: `If-Match` has the revision, or `*`.
pub(super) fn change<P: Part, Q: Part + JsonSchema, B: Body>(
    verb: Verb,
    path: &'static str,
    summary: &'static str,
    change: Changes<P, Q, B, Backend>,
) -> Route {
    let handler = move |State(to_loop): State<Loop>, asked: Asked<P, Q, B>| async move {
        let mut changed = to_loop
            .on(move |desk| {
                let core = &mut *desk.core;
                let request = asked.request.clone();
                core.journal.act_for(Some(&request.who));
                let changed = check_condition(core, asked.condition.as_deref())
                    .and_then(|()| change(core, Instant::now(), asked));
                core.journal.act_for(None);
                let revision = core.revision();
                let refused = changed.as_ref().err().map(|refusal| refusal.detail.as_str());
                core.audit.note(request, refused, revision.clone());
                Ok::<_, Refusal>(Tagged { revision, value: changed? })
            })
            .await??;
        // It is in files by now, or could not be written.
        changed.value.not_kept = to_loop.ask(|desk| desk.core.said_is_not_kept()).await?;
        Ok::<_, Refusal>(changed)
    };
    route::<Q, B, Backend>(verb, path, summary, true, on(verb.filter(), handler))
}

/// A route that gives the loop an order and waits for what comes of it. It is for operators alone, one that only asks
/// included: whatever it is, it takes the loop a while.
pub(super) fn order<Q: Part + JsonSchema, B: Body, T: Told>(
    verb: Verb,
    path: &'static str,
    summary: &'static str,
    conditional: bool,
    order: Orders<Q, B, T>,
) -> Route {
    let handler = move |State(to_loop): State<Loop>, asked: Asked<Nothing, Q, B>| async move {
        if asked.role == Role::Reader {
            return Err(Refusal::for_operators());
        }
        let (tell, told) = oneshot::channel();
        to_loop
            .on(move |desk| {
                let request = asked.request.clone();
                let condition = asked.condition.as_deref();
                let allowed = if conditional { check_condition(desk.core, condition) } else { Ok(()) };
                match allowed.and_then(|()| order(asked, tell)) {
                    Ok(order) => *desk.order = Some((order, request)),
                    Err(refusal) => {
                        let revision = desk.core.revision();
                        desk.core.audit.note(request, Some(&refusal.detail), revision);
                        return Err(refusal);
                    }
                }
                Ok::<(), Refusal>(())
            })
            .await??;
        let value = told.await.map_err(|_| Refusal::ending())??;
        let revision = to_loop.on(|desk| desk.core.revision()).await?;
        Ok::<_, Refusal>(Tagged { revision, value })
    };
    route::<Q, B, T>(verb, path, summary, conditional, on(verb.filter(), handler))
}

/// A route with a way of its own to the loop.
pub(super) fn own<Q: JsonSchema, T: JsonSchema>(
    verb: Verb,
    path: &'static str,
    summary: &'static str,
    handler: MethodRouter<Loop>,
) -> Route {
    route::<Q, NoBody, T>(verb, path, summary, false, handler)
}

fn route<Q: JsonSchema, B: Body, T: JsonSchema>(
    verb: Verb,
    path: &'static str,
    summary: &'static str,
    conditional: bool,
    handler: MethodRouter<Loop>,
) -> Route {
    Route {
        verb,
        path,
        summary,
        conditional,
        query: query::parameters::<Q>,
        answer: |generator| generator.subschema_for::<T>().to_value(),
        body: B::schema,
        handler,
    }
}

fn check_condition(core: &Core, condition: Option<&str>) -> Result<(), Refusal> {
    let Some(condition) = condition else {
        let detail =
            "a change needs `If-Match` with the ETag of what it is based on, or `*` for whatever is there";
        return Err(Refusal::new(Kind::ConditionRequired, detail));
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
    Err(Refusal::new(Kind::ChangedMeanwhile, detail))
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
