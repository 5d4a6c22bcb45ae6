//! What the API says: stable field names, units in the names, times as RFC 3339 in UTC.
//!
//! Fields are added, never renamed; who reads this ignores those that it does not know.

mod audit;
mod config;
mod event;
mod explanation;
mod flow;
mod problem;
mod service;
mod status;
mod trace;

pub use audit::AuditEntry;
pub use config::{Applied, Confirmed, Plan, PlannedService, Reloaded};
pub use event::Event;
pub use explanation::{Explanation, Outer, Referee, Tried};
pub use flow::{Flow, Flows, Slot, Table};
pub use problem::Problem;
pub use service::{Backend, Drain, Finding, Health, NextHop, Service, SetAdmin, SetWeight};
pub use status::{
    BackendCounts, ConfigStatus, Drift, FlowTable, Interface, Overridden, Overrides, PacketCounts, Status,
};
pub use trace::{Trace, Traced};
