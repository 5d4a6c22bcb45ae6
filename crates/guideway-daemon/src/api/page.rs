//! The console and the laboratory, each under a path of its own: for everybody, since their files are this program's and say
//! nothing of the daemon. All else keeps its door.

use std::net::SocketAddr;

use axum::Router;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use guideway_page::{CONSOLE, LAB, Page};

use super::problem::{Kind, Refusal};

/// Where a browser finds the page of a daemon that listens there.
pub(super) fn url(page: &Page, address: SocketAddr) -> String {
    format!("http://{address}{}", path(page))
}

fn path(page: &Page) -> String {
    format!("/{}/", page.name)
}

/// Their routes. They know no state, and only `GET` and `HEAD`.
pub(super) fn routes<S: Clone + Send + Sync + 'static>() -> Router<S> {
    let to = |page| get(move || async move { Redirect::temporary(&path(page)) }).fallback(not_for);
    [&CONSOLE, &LAB].into_iter().fold(Router::new().route("/", to(&CONSOLE)), |router, page| {
        let files = || get(move |request| file(page, request)).fallback(not_for);
        let path = path(page);
        router
            .route(path.trim_end_matches('/'), to(page))
            .route(&format!("{path}{{*file}}"), files())
            .route(&path, files())
    })
}

/// Refuses every other method, where the router's own refusal does not reach.
pub(super) async fn not_for(request: Request) -> Response {
    let detail = format!("{} is not for {}; it is only read", request.method(), request.uri().path());
    let mut answer = Refusal::new(Kind::MethodNotAllowed, detail).into_response();
    answer.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET,HEAD"));
    answer
}

async fn file(page: &'static Page, request: Request) -> Response {
    let at = request.uri().path();
    let Some(asset) = at.strip_prefix(&path(page)).and_then(|below| page.find(below)) else {
        return Refusal::not_found(format!("the page has no file {at}")).into_response();
    };
    let tag = asset.etag();
    let mut headers = HeaderMap::new();
    for (name, value) in page.headers() {
        if let Ok(name) = header::HeaderName::from_bytes(name.as_bytes()) {
            headers.insert(name, HeaderValue::from_static(value));
        }
    }
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(asset.content_type));
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        headers.insert(header::ETAG, tag);
    }
    let known =
        request.headers().get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    if known.flat_map(|tags| tags.split(',')).any(|known| known.trim() == tag) {
        headers.remove(header::CONTENT_TYPE);
        return (StatusCode::NOT_MODIFIED, headers).into_response();
    }
    (headers, asset.bytes).into_response()
}
