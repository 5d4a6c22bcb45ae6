//! What a run found.

use std::collections::BTreeMap;

use serde::Serialize;

use super::history::{Change, Server};
use super::oracle::Reason;
use super::traffic::Kind;

/// What a run found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// Decides everything.
    pub seed: u64,
    /// Minutes of the virtual clock.
    pub minutes: u32,
    /// Balancers.
    pub balancers: u32,
    /// Flows alive at a time.
    pub flows_at_a_time: u32,
    /// Packets sent by clients.
    pub packets: u64,
    /// Flows over the whole time, by kind.
    pub flows: BTreeMap<&'static str, u64>,
    /// What happened, and when (milliseconds).
    pub changes: Vec<(u64, Change)>,
    /// Moments at which routers chose other balancers for a part of the flows (milliseconds).
    pub resteers: Vec<u64>,
    /// Restarts with the loss of all memory (milliseconds).
    pub restarts: Vec<u64>,
    /// One strategy a row, Guideway first.
    pub rows: Vec<Row>,
    /// Guideway's broken flows by reason and kind; a reason without any is left out.
    pub reasons: BTreeMap<Reason, BTreeMap<&'static str, u64>>,
    /// Guideway's broken flows, the first [`MAX_BREAKS`].
    pub breaks: Vec<Break>,
    /// Every packet of the flow that was to be traced.
    pub trace: Vec<String>,
}

/// How many breaks a report lists.
pub const MAX_BREAKS: usize = 1_000;

/// One strategy's result.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// Its name.
    pub strategy: String,
    /// Flows whose server died, which nobody can save.
    pub lost: u64,
    /// Flows that were broken although their server lived.
    pub broken: u64,
    /// Those, by kind.
    pub broken_by_kind: BTreeMap<&'static str, u64>,
    /// The most flows that one balancer remembered at a time.
    pub remembered: usize,
    /// Bytes of one balancer's slots.
    pub slot_bytes: usize,
    /// Bytes of one balancer's memory of flows.
    pub flow_bytes: usize,
    /// The share of packets for which the memory of flows was consulted, 0 to 1.
    pub consulted: f64,
}

impl Row {
    /// Broken flows of this kind.
    pub fn broken_of(&self, kind: Kind) -> u64 {
        self.broken_by_kind.get(kind_name(kind)).copied().unwrap_or(0)
    }
}

/// One broken flow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Break {
    /// Its number, for a trace.
    pub flow: u32,
    /// What it was.
    pub kind: Kind,
    /// When (milliseconds).
    pub at: u64,
    /// When it had begun (milliseconds).
    pub began: u64,
    /// The balancer.
    pub balancer: usize,
    /// Where it belonged.
    pub home: Server,
    /// Where its packet went.
    pub went: String,
    /// Why.
    pub reason: Reason,
    /// What the balancer held.
    pub place: String,
}

impl Report {
    /// Whether every promise held: no break without a reason that the design states.
    pub fn holds(&self) -> bool {
        !self.reasons.contains_key(&Reason::Unexplained)
    }

    /// Guideway's broken flows for this reason.
    pub fn broken_for(&self, reason: Reason) -> u64 {
        self.reasons.get(&reason).map_or(0, |kinds| kinds.values().sum())
    }
}

/// The name of a kind in reports.
pub(crate) const fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Tcp => "tcp",
        Kind::Udp => "udp",
        Kind::Quic => "quic",
    }
}
