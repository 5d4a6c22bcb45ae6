//! The laboratory page, under a path of its own: for everybody, since its files are this program's and say nothing of the
//! daemon. All else keeps its door.

use axum::Router;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;

use super::problem::{Kind, Refusal};

/// Where it is.
pub(crate) const PATH: &str = "/lab/";

/// Its routes. They know no state, and only `GET` and `HEAD`.
pub(super) fn routes<S: Clone + Send + Sync + 'static>() -> Router<S> {
    let to_page = || get(|| async { Redirect::temporary(PATH) }).fallback(not_for);
    Router::new()
        .route("/", to_page())
        .route("/lab", to_page())
        .route(PATH, get(file).fallback(not_for))
        .route("/lab/{*file}", get(file).fallback(not_for))
}

/// Refuses every other method, where the router's own refusal does not reach.
pub(super) async fn not_for(request: Request) -> Response {
    let detail = format!("{} is not for {}; it is only read", request.method(), request.uri().path());
    let mut answer = Refusal::new(Kind::MethodNotAllowed, detail).into_response();
    answer.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET,HEAD"));
    answer
}

async fn file(request: Request) -> Response {
    let path = request.uri().path();
    let Some(asset) = path.strip_prefix(PATH).and_then(guideway_page::find) else {
        return Refusal::not_found(format!("the page has no file {path}")).into_response();
    };
    let tag = asset.etag();
    let mut headers = HeaderMap::new();
    for (name, value) in guideway_page::HEADERS {
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
