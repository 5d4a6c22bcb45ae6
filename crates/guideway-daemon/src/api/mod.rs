//! The HTTP API: JSON over a Unix socket, and over TCP for who knows a token.

mod body;
mod desk;
mod door;
mod explain;
mod intake;
mod listen;
pub mod model;
mod openapi;
mod page;
mod places;
mod plan;
mod problem;
mod query;
mod route;
mod routes;
mod serve;
mod server;
mod trace;
mod turned_away;
pub(crate) mod view;

#[cfg(any(test, feature = "in-process"))]
pub(crate) use desk::Loop;
pub(crate) use desk::{ApplyAsk, Desk, Order, Reply, Work};
#[cfg(any(test, feature = "in-process"))]
pub(crate) use door::{Door, Role};
pub use listen::{ApiError, operators_socket, readers_socket};
pub(crate) use listen::{Listeners, check};
pub(crate) use places::Places;
pub(crate) use plan::plan;
pub(crate) use problem::Refusal;
#[cfg(any(test, feature = "in-process"))]
pub(crate) use server::router;
