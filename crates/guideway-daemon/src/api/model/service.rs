//! Services and their backends.

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A service.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Service {
    /// Its name.
    pub name: String,
    /// Where it listens, as `192.0.2.10:443/tcp`.
    pub listen: Vec<String>,
    /// How slots are given to backends: `maglev` or `rendezvous-table`; not there once it has left the configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// The number of its committed table.
    pub generation: u32,
    /// The digest of what takes new flows.
    pub digest: String,
    /// Slots of its table.
    pub slots: u32,
    /// Slots on which older flows may still be elsewhere.
    pub unsettled_slots: u32,
    /// Whether the table before a change of size or seed is still consulted.
    pub prior_table: bool,
    /// How long until those slots can settle, or that table be given up; slots with a live flow elsewhere wait for it.
    /// Not there where all is settled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settles_in_seconds: Option<u32>,
    /// Whether a new size or seed waits for its turn, until all has settled.
    #[serde(default)]
    pub resize_waits: bool,
    /// Why a new size or seed, whose turn has come, is not in place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resize_refused: Option<String>,
    /// Whether backends are in use although every check fails.
    pub last_resort: bool,
    /// Backends that take new flows.
    pub eligible: u64,
    /// Slots that changes have moved since the daemon took charge, counted as `plan` does.
    #[serde(default)]
    pub slots_moved_total: u64,
    /// Those of them for which nothing asked.
    #[serde(default)]
    pub slots_moved_needlessly_total: u64,
    /// Packets forwarded.
    pub packets_total: u64,
    /// Bytes forwarded, as they came in.
    pub bytes_total: u64,
    /// Its backends, those that drain after their removal included.
    pub backends: Vec<Backend>,
}

/// A backend of a service.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Backend {
    /// The service.
    pub service: String,
    /// Its name.
    pub name: String,
    /// Where its packets are tunnelled to.
    pub address: IpAddr,
    /// What the forwarder does with it: `active`, `draining` or `down`.
    pub state: String,
    /// What operators and the configuration say: `ready`, `drain` or `maintenance`.
    pub admin: String,
    /// Whether an operator said something else than the configuration.
    pub overridden: bool,
    /// What an operator said: `admin`, `weight`, or both.
    #[serde(default)]
    pub overrides: Vec<String>,
    /// Whether it has left the configuration.
    pub removed: bool,
    /// Its weight by configuration and operators.
    pub weight: u32,
    /// Its weight by the configuration alone; not there once it has left that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub configured_weight: Option<u32>,
    /// Its share of new flows: slots of the table.
    pub slots: u32,
    /// The same as a part of 1.
    pub share: f64,
    /// What its checks say; not there where nothing checks it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health: Option<Health>,
    /// How far its drain is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drain: Option<Drain>,
    /// Where its frames go on the link; not there while no neighbour is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_hop: Option<NextHop>,
    /// Packets forwarded to it since it joined.
    pub packets_total: u64,
    /// Bytes forwarded to it since it joined.
    pub bytes_total: u64,
    /// In the answer to a change: why a restart would not find it; the files of state are written as soon as they can be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_kept: Option<String>,
}

/// What checks say of a backend.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Health {
    /// `up`, `down` or `never-passed`.
    pub verdict: String,
    /// How long it has been so.
    pub age_seconds: f64,
    /// Results in a row that contradict it.
    pub contradicting: u16,
    /// How many in a row change it.
    pub needed: u16,
    /// Whether it changes too often, so that its next rise takes longer.
    pub flapping: bool,
    /// The step of its slow start, of 10.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slow_start_step: Option<u32>,
    /// What decided the verdict.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What the last round found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last: Option<Finding>,
}

/// What a round of checks found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// Which ways passed.
    pub reason: String,
    /// What went wrong on each way that failed.
    pub detail: Vec<String>,
    /// How long the longest answer took.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub took_seconds: Option<f64>,
    /// How long ago it ended.
    pub age_seconds: f64,
}

/// How far a drain is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Drain {
    /// The service.
    pub service: String,
    /// The backend.
    pub backend: String,
    /// The backend's address.
    pub address: IpAddr,
    /// Whether it drains because it was removed.
    pub removed: bool,
    /// `busy`: live flows are seen; `quiet`: none, silent ones may be there; `done`: none can be; `cut`: the deadline
    /// passed while some could.
    pub phase: String,
    /// Live flows that the forwarder has seen since it began; while `quiet` or `done`, none. Live is a flow that has opened
    /// and was not closed; one that its client has closed, for as long as it is heard from every 10 s.
    pub live_flows: u32,
    /// Flows besides that have not opened or were closed, and are remembered for some seconds more.
    pub ending_flows: u32,
    /// While `quiet`: slots on which silent flows may be.
    pub unsettled_slots: u32,
    /// How long it has lasted, as far as this daemon knows.
    pub age_seconds: f64,
    /// How long until it is cut.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cut_in_seconds: Option<f64>,
}

/// Where frames go on the link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NextHop {
    /// The index of the interface.
    pub interface: u32,
    /// Its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface_name: Option<String>,
    /// The neighbour's MAC address.
    pub mac: String,
    /// The largest packet of the tunnel: the configuration's `[underlay] mtu`, or less where the interface takes less.
    #[serde(default)]
    pub mtu: u16,
    /// The largest packet of a client's that fits into it. A larger one is answered with what fits.
    #[serde(default)]
    pub packet_bytes: u16,
}

/// What an operator wants of a backend.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SetAdmin {
    /// `ready`, `drain` or `maintenance`.
    pub state: String,
    /// `drain`: after so many seconds the flows that are left end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 604_800))]
    pub deadline_seconds: Option<u64>,
}

/// Another weight for a backend.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SetWeight {
    /// The weight.
    #[schemars(range(max = 65_535))]
    pub weight: u32,
}
