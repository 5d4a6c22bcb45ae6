//! Network namespaces with real clients, servers and balancers.
#![deny(unsafe_code)]

pub mod backend;
pub mod bed;
pub mod capture;
pub mod client;
mod error;
pub mod forwarder;
mod named;
pub mod namespace;
pub mod netlink;
pub mod packet;
pub mod privilege;
pub mod process;
pub mod scenario;
pub mod server;
pub mod service;
pub mod soft;
#[expect(unsafe_code, reason = "system calls without a safe wrapper")]
mod sys;
mod task;
pub mod topology;
pub mod tun;
pub mod wait;

pub use bed::{Bed, vips};
pub use capture::Capture;
pub use error::{Error, Result};
pub use forwarder::{Balancer, Forwarder};
pub use namespace::Namespace;
pub use netlink::{Hop, Link, Route, veth_pair};
pub use process::Program;
pub use service::Service;
pub use topology::{Host, Network, Plan};
