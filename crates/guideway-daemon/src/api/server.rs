//! The API's server: all routes behind a door.

use std::time::Instant;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, header};
use axum::middleware;
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use super::desk::Loop;
use super::door::{Door, admit};
use super::problem::{Kind, Refusal};
use super::{openapi, page, routes};
use crate::core::Core;
use crate::metrics::{Format, Reading};

/// The routes, for one door.
pub(crate) fn router(to_loop: Loop, door: Door) -> Router {
    // Who asks without a token hears no names.
    let names = matches!(door, Door::Socket(_));
    let ready = move |State(to_loop): State<Loop>| readyz(to_loop, names);
    let mut router = Router::new();
    for route in routes::all() {
        router = router.route(route.path, route.handler);
    }
    router
        .route("/metrics", get(show_metrics))
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
        .layer(middleware::from_fn_with_state(door, admit))
        // Past the door: for load balancers and orchestrators, which have no token, and for browsers.
        .route("/livez", get(livez).fallback(page::not_for))
        .route("/readyz", get(ready).fallback(page::not_for))
        .merge(page::routes())
        .with_state(to_loop)
}

/// Asks no loop that may stand still.
async fn livez(State(to_loop): State<Loop>) -> Result<&'static str, Refusal> {
    let Some(still) = to_loop.pulse.stands_still(Instant::now()) else { return Ok("ok\n") };
    let seconds = still.as_secs();
    let detail = format!(
        "the daemon's loop has stood still for {seconds} s: packets go on as before, and nothing else does. Have the daemon \
         started anew"
    );
    Err(Refusal::new(Kind::Still, detail))
}

async fn readyz(to_loop: Loop, names: bool) -> Result<&'static str, Refusal> {
    match to_loop.on(|desk| unready(desk.core)).await? {
        None => Ok("ready\n"),
        Some(Unready { what, .. }) if !names => Err(Refusal::new(Kind::NotReady, what)),
        Some(Unready { what, which }) if which.is_empty() => Err(Refusal::new(Kind::NotReady, what)),
        Some(Unready { what, which }) => {
            Err(Refusal::new(Kind::NotReady, format!("{what}: {}", which.join(", "))))
        }
    }
}

/// Why clients should not come, and the names of what it is about.
struct Unready {
    what: &'static str,
    which: Vec<String>,
}

fn unready(core: &Core) -> Option<Unready> {
    if core.about.is_ending {
        return Some(Unready { what: "the daemon is about to end", which: Vec::new() });
    }
    let lost = core.about.interfaces.iter().filter(|port| port.lost.is_some());
    let lost: Vec<String> = lost.map(|port| port.name.clone()).collect();
    if !lost.is_empty() {
        let what = "the program is not at an interface, and `guideway status` tells why";
        return Some(Unready { what, which: lost });
    }
    let down = core.about.interfaces.iter().filter(|port| port.down);
    let down: Vec<String> = down.map(|port| port.name.clone()).collect();
    if !down.is_empty() {
        return Some(Unready { what: "an interface is down, gone or without a carrier", which: down });
    }
    let services = core.controller.outlines().into_iter();
    let empty = services.filter(|service| service.eligible() == 0);
    let empty: Vec<String> = empty.map(|service| service.name).collect();
    (!empty.is_empty()).then_some(Unready { what: "no backend takes new flows", which: empty })
}

async fn show_metrics(State(to_loop): State<Loop>, headers: HeaderMap) -> Result<Response, Refusal> {
    let accept = headers.get_all(header::ACCEPT).into_iter().filter_map(|value| value.to_str().ok());
    let format = Format::accepted(accept);
    let reading = to_loop.on(|desk| Reading::take(desk.core)).await?;
    let text = tokio::task::spawn_blocking(move || reading.text(format)).await;
    let text = text.map_err(|_| Refusal::ending())?;
    Ok(([(header::CONTENT_TYPE, format.media_type()), (header::VARY, "accept")], text).into_response())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use axum::body::{Body, to_bytes};
    use tokio::sync::mpsc;
    use tower::ServiceExt;

    use super::super::door::Role;
    use super::*;
    use crate::manager::Pulse;

    /// What `/livez` answers where the loop may stand still so long, and does nothing at all.
    async fn livez_of(still_at_most: Duration) -> (u16, String) {
        let (sender, _work) = mpsc::channel(1);
        let to_loop = Loop::new(sender, Pulse::new(Instant::now(), still_at_most));
        let request = Request::get("/livez").body(Body::empty()).unwrap();
        let answer = router(to_loop, Door::Socket(Role::Reader)).oneshot(request).await.unwrap();
        let (status, body) = (answer.status().as_u16(), to_bytes(answer.into_body(), 4_096).await.unwrap());
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn a_daemon_whose_loop_stands_still_does_not_live_although_requests_are_answered() {
        assert_eq!(livez_of(Duration::from_secs(60)).await, (200, "ok\n".to_owned()));
        let (status, body) = livez_of(Duration::ZERO).await;
        assert!(
            status == 503 && body.contains("\"still\"") && body.contains("stood still"),
            "{status} {body}"
        );
    }
}
