//! The Guideway daemon: keeps a forwarder as the configuration, the checks and the operators want it.
//!
//! [`run`] is the whole of it. `core` decides and knows no I/O; `shell` is its I/O: signals, files,
//! probes, netlink, requests. There is one of each; packets are read by threads of the forwarder, or by the kernel, and
//! never wait for either.
//!
//! # What survives
//! A `kill -9` at any moment: the kernel's forwarder goes on by itself, and the next daemon takes it over with all that
//! it holds. Verdicts, what operators said, and the configuration that was taken last lie in files, each replaced whole.

mod api;
mod apply;
mod audit;
mod core;
mod descriptors;
mod drift;
mod engine;
mod error;
mod forwarder;
#[cfg(any(test, feature = "in-process"))]
pub mod in_process;
mod journal;
mod kept;
mod limits;
mod log;
mod manager;
mod metrics;
mod names;
mod notify;
mod options;
mod patience;
mod shell;
mod slack;
mod start;
mod store;
mod tap;
mod trial;
mod tunnel_probes;
mod watch;
mod ways;

pub use crate::core::Refused;
pub use api::{ApiError, model, operators_socket, readers_socket};
pub use error::RunError;
pub use forwarder::{Detached, ForwarderError, Remains, detach, remains};
pub use limits::default_limits;
pub use log::Log;
pub use options::{ApiOptions, DEFAULT_CONFIG, DEFAULT_STATE, EngineOptions, OnExit, Options};
pub use shell::run;
pub use store::StoreError;
