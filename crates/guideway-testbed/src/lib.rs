//! Network namespaces with real clients, servers and balancers, for end-to-end tests and the demo.
//!
//! Everything is made by system calls from here: links, addresses, routes with several ways, settings. No other program
//! is needed, and nothing is left behind: namespaces without a name vanish with the process, however it ends.
//!
//! * [`Bed`]: the whole network at work. [`topology`] draws it; a [`Service`] says what its balancers hold.
//! * [`Forwarder`] and [`Decapsulator`](forwarder::Decapsulator): what a packet path has to offer to be put there;
//!   [`soft`] has both in user space, [`kernel`] the forwarder in the kernel, [`end`] the decapsulator. [`scenario`] is what
//!   has to hold on any of them.
//! * [`client`], [`server`], [`Program`]: who talks. [`Capture`]: who listens. [`wait`]: until something is so.
//! * [`Namespace`], [`Link`], [`Route`], [`packet`]: what all of it is made of.
//!
//! ```
//! use guideway_control::controller::spec::Admin;
//! use guideway_testbed::client::http;
//! use guideway_testbed::soft::SoftForwarder;
//! use guideway_testbed::{Bed, Plan, privilege, scenario, vips};
//!
//! if privilege::granted() {
//!     let bed = Bed::<SoftForwarder>::start(&Plan::default(), &[scenario::web(3)])?;
//!     bed.change(|controller, _| controller.set_admin("web", "be2", Admin::Draining))?;
//!     for vip in vips(80) {
//!         let answer = http::get(&bed.network.client.namespace, vip, "/")?;
//!         assert!(!answer.starts_with("be2 "));
//!     }
//! }
//! # Ok::<(), guideway_testbed::Error>(())
//! ```
//!
//! # Privileges
//! Namespaces need root, or a user namespace ([`privilege::enter_user_namespace`]). Tests that begin with
//! [`privilege::granted`] are passed over without, with a line that says so; with `GUIDEWAY_REQUIRE_PRIVILEGES=1` they
//! fail.
#![deny(unsafe_code)]

pub mod backend;
pub mod bed;
pub mod capture;
pub mod client;
pub mod end;
mod error;
pub mod forwarder;
pub mod kernel;
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
