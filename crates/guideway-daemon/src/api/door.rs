//! Who may come in, and what they may do.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::problem::Refusal;

/// What a connection may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Read.
    Reader,
    /// Read and change.
    Operator,
}

/// Who may come in.
#[derive(Debug, Clone)]
pub(crate) enum Door {
    /// Everybody who can open the socket.
    Socket(Role),
    /// Who knows a token.
    Tokens(Arc<Vec<(String, Role)>>),
}

/// Lets in who may come in, to do what they may do.
pub(super) async fn admit(State(door): State<Door>, request: Request, next: Next) -> Response {
    let role = match &door {
        Door::Socket(role) => *role,
        Door::Tokens(tokens) => {
            let given = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
            let given = given.and_then(|value| value.strip_prefix("Bearer "));
            match given.and_then(|given| role_of(tokens, given)) {
                Some(role) => role,
                None => {
                    let detail = "give a token: `Authorization: Bearer <token>`";
                    let mut answer =
                        Refusal::new(StatusCode::UNAUTHORIZED, "unauthorized", detail).into_response();
                    answer.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
                    return answer;
                }
            }
        }
    };
    let reads = matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
    if !reads && role == Role::Reader {
        let detail = "this way in is for reading only; use the operators' socket or token";
        return Refusal::new(StatusCode::FORBIDDEN, "read-only", detail).into_response();
    }
    next.run(request).await
}

/// Compares all of every token, so that the time that it takes tells nothing.
fn role_of(tokens: &[(String, Role)], given: &str) -> Option<Role> {
    let equal = |token: &str| {
        token.len() == given.len() && token.bytes().zip(given.bytes()).fold(0, |d, (a, b)| d | (a ^ b)) == 0
    };
    tokens.iter().fold(None, |found, (token, role)| if equal(token) { Some(*role) } else { found })
}
