//! The API's server: all routes behind a door.

use std::time::Instant;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{HeaderMap, header};
use axum::middleware;
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use super::desk::Loop;
use super::door::{Door, admit};
use super::problem::{Kind, Refusal};
use super::route::MAX_BODY;
use super::{openapi, page, routes, view};
use crate::metrics::{self, Format};

/// The routes, for one door.
pub(crate) fn router(to_loop: Loop, door: Door) -> Router {
    let mut router = Router::new();
    for route in routes::all() {
        router = router.route(route.path, route.handler);
    }
    router
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
            Refusal::new(Kind::MethodNotAllowed, detail)
        })
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .layer(middleware::from_fn_with_state(door, admit))
        // Past the door.
        .merge(page::routes())
        .with_state(to_loop)
}

async fn readyz(State(to_loop): State<Loop>) -> Result<Response, Refusal> {
    let failing = to_loop
        .on(|desk| {
            if desk.core.about.is_ending {
                return Some("the daemon is about to end".to_owned());
            }
            let lost: Vec<&str> = desk
                .core
                .about
                .interfaces
                .iter()
                .filter(|port| port.lost.is_some())
                .map(|port| port.name.as_str())
                .collect();
            if !lost.is_empty() {
                return Some(format!(
                    "the program is not at {}; `guideway status` tells why",
                    lost.join(", ")
                ));
            }
            let services = view::services(desk.core, None, Instant::now());
            let empty = services.into_iter().filter(|service| service.eligible == 0);
            let empty: Vec<_> = empty.map(|service| service.name).collect();
            (!empty.is_empty()).then(|| format!("no backend takes new flows: {}", empty.join(", ")))
        })
        .await?;
    match failing {
        None => Ok("ready\n".into_response()),
        Some(detail) => Err(Refusal::new(Kind::NotReady, detail)),
    }
}

async fn show_metrics(State(to_loop): State<Loop>, headers: HeaderMap) -> Result<Response, Refusal> {
    let accept = headers.get_all(header::ACCEPT).into_iter().filter_map(|value| value.to_str().ok());
    let format = Format::accepted(accept);
    let text = to_loop.on(move |desk| metrics::text(desk.core, Instant::now(), format)).await?;
    Ok(([(header::CONTENT_TYPE, format.media_type()), (header::VARY, "accept")], text).into_response())
}
