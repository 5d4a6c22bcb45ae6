//! Who may come in, and what they may do.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderValue, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::places::Peer;
use super::problem::{Kind, Refusal};

/// What a connection may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Read.
    Reader,
    /// Read and change.
    Operator,
}

/// Who came in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Caller {
    /// For the audit log.
    pub(super) name: String,
    pub(super) role: Role,
}

impl Caller {
    fn at_socket(request: &Request, role: Role) -> Self {
        let peer = request.extensions().get::<Peer>().copied();
        Self { name: peer.unwrap_or(Peer::Unknown).to_string(), role }
    }

    fn of_token(role: Role) -> Self {
        let name = if role == Role::Operator { "operator token" } else { "reader token" };
        Self { name: name.to_owned(), role }
    }
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
pub(super) async fn admit(State(door): State<Door>, mut request: Request, next: Next) -> Response {
    let caller = match &door {
        Door::Socket(role) => Caller::at_socket(&request, *role),
        Door::Tokens(tokens) => {
            let given = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
            let given = given.and_then(token);
            match given.and_then(|given| role_of(tokens, given)) {
                Some(role) => Caller::of_token(role),
                None => {
                    let detail = "give a token: `Authorization: Bearer <token>`";
                    let mut answer = Refusal::new(Kind::Unauthorized, detail).into_response();
                    answer.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
                    return answer;
                }
            }
        }
    };
    let reads = matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
    if !reads && caller.role == Role::Reader {
        return Refusal::for_operators().into_response();
    }
    request.extensions_mut().insert(caller);
    next.run(request).await
}

/// The token of a header; the word before it is the same in any case.
fn token(header: &str) -> Option<&str> {
    let (scheme, token) = header.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim_start_matches(' '))
}

/// Compares all of every token, so that the time that it takes tells nothing.
fn role_of(tokens: &[(String, Role)], given: &str) -> Option<Role> {
    let equal = |token: &str| {
        token.len() == given.len() && token.bytes().zip(given.bytes()).fold(0, |d, (a, b)| d | (a ^ b)) == 0
    };
    tokens.iter().fold(None, |found, (token, role)| if equal(token) { Some(*role) } else { found })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_before_a_token_is_the_same_in_any_case() {
        for header in ["Bearer abc", "bearer abc", "BEARER  abc"] {
            assert_eq!(token(header), Some("abc"), "{header}");
        }
        for header in ["Basic abc", "Bearerabc", "Bearer", ""] {
            assert_eq!(token(header), None, "{header}");
        }
    }
}
