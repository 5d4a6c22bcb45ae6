//! Why a request was refused.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::model::Problem;

/// The media type of problems (RFC 9457).
pub(crate) const MEDIA_TYPE: &str = "application/problem+json";

/// A refusal, before it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    /// A name that stays.
    pub(crate) kind: &'static str,
    pub(crate) detail: String,
}

impl Refusal {
    pub(crate) fn new(status: StatusCode, kind: &'static str, detail: impl Into<String>) -> Self {
        Self { status, kind, detail: detail.into() }
    }

    pub(crate) fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not-found", detail)
    }

    /// The loop is gone.
    pub(crate) fn ending() -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "ending", "the daemon is about to end")
    }

    pub(crate) fn bad(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad-request", detail)
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let problem = Problem {
            kind: self.kind.to_owned(),
            title: self.status.canonical_reason().unwrap_or("Refused").to_owned(),
            status: self.status.as_u16(),
            detail: self.detail,
        };
        let body = serde_json::to_vec(&problem).unwrap_or_default();
        let mut response = (self.status, body).into_response();
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
        response
    }
}
