//! Why a request was refused.

use std::fmt::Display;
use std::ops::RangeInclusive;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

use guideway_control::config::Problems;
use serde_json::Value;

use super::model::Problem;

/// The media type of problems (RFC 9457).
pub(crate) const MEDIA_TYPE: &str = "application/problem+json";

/// What kind of problem it is. Names and statuses stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A path, a query or an encoding that is not understood.
    BadRequest,
    /// A number in the query or the body that is too small or too large.
    OutOfRange,
    /// There is no token, or an unknown one.
    Unauthorized,
    /// This way in is for reading.
    ReadOnly,
    /// There is no such thing.
    NotFound,
    /// It is there, but not for this method.
    MethodNotAllowed,
    /// The request is based on what is no more.
    ChangedMeanwhile,
    /// The body does not come in time.
    TooSlow,
    /// The body is too large.
    TooLarge,
    /// The body is not what it should be.
    BadBody,
    /// The configuration has problems.
    BadConfig,
    /// What was asked cannot be done as things are.
    Refused,
    /// A change does not say what it is based on.
    ConditionRequired,
    /// A fault of the daemon.
    Fault,
    /// The daemon is about to end.
    Ending,
    /// A service has nobody for new flows.
    NotReady,
    /// The daemon's loop stands still.
    Still,
    /// Too many connections are open.
    Crowded,
}

impl Kind {
    #[cfg(test)]
    pub(super) const ALL: [Self; 18] = [
        Self::BadRequest,
        Self::OutOfRange,
        Self::Unauthorized,
        Self::ReadOnly,
        Self::NotFound,
        Self::MethodNotAllowed,
        Self::ChangedMeanwhile,
        Self::TooSlow,
        Self::TooLarge,
        Self::BadBody,
        Self::BadConfig,
        Self::Refused,
        Self::ConditionRequired,
        Self::Fault,
        Self::Ending,
        Self::NotReady,
        Self::Still,
        Self::Crowded,
    ];

    /// Its status and its name.
    pub(super) const fn status_and_name(self) -> (StatusCode, &'static str) {
        match self {
            Self::BadRequest => (StatusCode::BAD_REQUEST, "bad-request"),
            Self::OutOfRange => (StatusCode::BAD_REQUEST, "out-of-range"),
            Self::Unauthorized => (StatusCode::UNAUTHORIZED, "unauthorized"),
            Self::ReadOnly => (StatusCode::FORBIDDEN, "read-only"),
            Self::NotFound => (StatusCode::NOT_FOUND, "not-found"),
            Self::MethodNotAllowed => (StatusCode::METHOD_NOT_ALLOWED, "method-not-allowed"),
            Self::ChangedMeanwhile => (StatusCode::PRECONDITION_FAILED, "changed-meanwhile"),
            Self::TooSlow => (StatusCode::REQUEST_TIMEOUT, "too-slow"),
            Self::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "too-large"),
            Self::BadBody => (StatusCode::UNPROCESSABLE_ENTITY, "bad-body"),
            Self::BadConfig => (StatusCode::UNPROCESSABLE_ENTITY, "bad-config"),
            Self::Refused => (StatusCode::UNPROCESSABLE_ENTITY, "refused"),
            Self::ConditionRequired => (StatusCode::PRECONDITION_REQUIRED, "condition-required"),
            Self::Fault => (StatusCode::INTERNAL_SERVER_ERROR, "fault"),
            Self::Ending => (StatusCode::SERVICE_UNAVAILABLE, "ending"),
            Self::NotReady => (StatusCode::SERVICE_UNAVAILABLE, "not-ready"),
            Self::Still => (StatusCode::SERVICE_UNAVAILABLE, "still"),
            Self::Crowded => (StatusCode::SERVICE_UNAVAILABLE, "crowded"),
        }
    }
}

/// A refusal, before it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) kind: Kind,
    pub(crate) detail: String,
}

impl Refusal {
    pub(crate) fn new(kind: Kind, detail: impl Into<String>) -> Self {
        Self { kind, detail: detail.into() }
    }

    pub(crate) fn not_found(detail: impl Into<String>) -> Self {
        Self::new(Kind::NotFound, detail)
    }

    /// The loop is gone.
    pub(crate) fn ending() -> Self {
        Self::new(Kind::Ending, "the daemon is about to end")
    }

    /// Who came in may only read.
    pub(super) fn for_operators() -> Self {
        let detail = "this way in is for reading only: use the operators' socket, as root or a member of its group, or by TCP the \
                      operators' token";
        Self::new(Kind::ReadOnly, detail)
    }

    /// A configuration with problems.
    pub(crate) fn bad_config(problems: &Problems) -> Self {
        Self::new(Kind::BadConfig, problems.to_string())
    }

    /// What was asked cannot be done as things are.
    pub(crate) fn refused(why: impl ToString) -> Self {
        Self::new(Kind::Refused, why.to_string())
    }

    pub(crate) fn bad(detail: impl Into<String>) -> Self {
        Self::new(Kind::BadRequest, detail)
    }

    /// As it is written.
    pub(super) fn into_problem(self) -> Problem {
        let (status, name) = self.kind.status_and_name();
        Problem {
            kind: name.to_owned(),
            title: status.canonical_reason().unwrap_or("Refused").to_owned(),
            status: status.as_u16(),
            detail: self.detail,
        }
    }
}

/// The number, if it is in its range; the refusal names the field that has it.
pub(super) fn within<N: PartialOrd + Display>(
    field: &str,
    number: N,
    range: &RangeInclusive<N>,
) -> Result<N, Refusal> {
    if range.contains(&number) {
        return Ok(number);
    }
    let detail = format!("{field} is {number}, and can be {} to {}", range.start(), range.end());
    Err(Refusal::new(Kind::OutOfRange, detail))
}

/// The refusal of a whole number that its schema has no room for, and that its type may not hold either; `None` for all else.
pub(super) fn beyond(field: &str, number: &str, schema: &Value) -> Option<Refusal> {
    let digits = number.strip_prefix('-').unwrap_or(number);
    let is_whole = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if !is_whole || !schema["type"].to_string().contains("integer") {
        return None;
    }
    let largest = if schema["format"] == "uint32" { u32::MAX.into() } else { u64::MAX };
    let range = schema["minimum"].as_u64().unwrap_or(0)..=schema["maximum"].as_u64().unwrap_or(largest);
    if number.parse().is_ok_and(|number| range.contains(&number)) {
        return None;
    }
    let detail = format!("{field} is {number}, and can be {} to {}", range.start(), range.end());
    Some(Refusal::new(Kind::OutOfRange, detail))
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let (status, _) = self.kind.status_and_name();
        let body = serde_json::to_vec(&self.into_problem()).unwrap_or_default();
        let mut response = (status, body).into_response();
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
        response
    }
}
