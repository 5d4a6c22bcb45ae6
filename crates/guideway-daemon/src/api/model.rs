//! What the API says: stable field names, units in the names, times as RFC 3339 in UTC.
//!
//! Fields are added, never renamed; who reads this ignores those that it does not know.

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The daemon and its forwarder as a whole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Status {
    /// The daemon's version.
    pub version: String,
    /// What changes rise by: the same as the `ETag` of every answer.
    pub revision: String,
    /// When this daemon started.
    pub started_at: String,
    /// What forwards: `xdp` or `soft`.
    pub engine: String,
    /// By which interfaces packets of clients come.
    pub interfaces: Vec<Interface>,
    /// The digest of what takes new flows: equal on every balancer that answers every new flow alike.
    pub digest: String,
    /// The configuration.
    pub config: ConfigStatus,
    /// Services.
    pub services: u64,
    /// Backends of services, counted once for each service.
    pub backends: BackendCounts,
    /// Drains under way.
    pub drains: u64,
    /// Packets that came in.
    pub packets: PacketCounts,
    /// Remembered flows.
    pub flow_table: FlowTable,
    /// What an operator should know.
    pub notes: Vec<String>,
}

/// An interface that packets of clients come by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its index.
    pub index: u32,
    /// How packets are read there: `native`, `generic` or `socket`.
    pub mode: String,
    /// Why it is not `native`, where that was tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fell_back: Option<String>,
}

/// The configuration in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ConfigStatus {
    /// Where it came from.
    pub source: String,
    /// Since when it is in force.
    pub taken_at: String,
    /// Whether the last try to read one succeeded.
    pub last_reload_successful: bool,
    /// What was wrong, where it did not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_reload_error: Option<String>,
    /// When a change that has to be confirmed is taken back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confirm_by: Option<String>,
}

/// How many backends are how.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BackendCounts {
    /// All that are wanted.
    pub total: u64,
    /// Those that take new flows.
    pub eligible: u64,
    /// Those that operators or the configuration drain.
    pub draining: u64,
    /// Those that operators or the configuration have switched off.
    pub maintenance: u64,
    /// Those whose checks fail, or that have never passed.
    pub failing: u64,
}

/// What became of packets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PacketCounts {
    /// Came in.
    pub received_total: u64,
    /// Sent to a backend.
    pub forwarded_total: u64,
    /// Answered to the client.
    pub answered_total: u64,
    /// Left to the host.
    pub passed_total: u64,
    /// Dropped.
    pub dropped_total: u64,
}

/// The memory for flows that the slot tables alone would send elsewhere.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FlowTable {
    /// How many flows it holds at most.
    pub capacity: u64,
    /// How many it remembers.
    pub entries: u64,
}

/// A service.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Service {
    /// Its name.
    pub name: String,
    /// Where it listens, as `192.0.2.10:443/tcp`.
    pub listen: Vec<String>,
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
    /// Why a new size or seed, whose turn has come, is not in place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resize_refused: Option<String>,
    /// Whether backends are in use although every check fails.
    pub last_resort: bool,
    /// Backends that take new flows.
    pub eligible: u64,
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
    /// Whether it has left the configuration.
    pub removed: bool,
    /// Its weight by configuration and operators.
    pub weight: u32,
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
    /// Live flows that the forwarder has seen since it began; while `quiet` or `done`, none.
    pub live_flows: u32,
    /// Slots on which silent flows may be.
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
    /// The neighbour's MAC address.
    pub mac: String,
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Event {
    /// Its number, from 1 for each daemon.
    pub number: u64,
    /// When.
    pub at: String,
    /// `info`, `warning` or `error`.
    pub grade: String,
    /// `daemon`, `config`, `health`, `commit`, `drain`, `next-hop`, `operator` or `state`.
    pub kind: String,
    /// The service that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// The backend that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backend: Option<String>,
    /// What happened.
    pub text: String,
}

/// A remembered flow. The forwarder keeps a keyed fingerprint of it and not its addresses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Flow {
    /// The service.
    pub service: String,
    /// The backend.
    pub backend: String,
    /// Its slot.
    pub slot: u32,
    /// `half_open`, `confirmed`, `old`, `closing` or `udp`.
    pub class: String,
    /// How long it has been silent.
    pub silent_seconds: u32,
}

/// Remembered flows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Flows {
    /// How many fit the question.
    pub total: u64,
    /// The first of them.
    pub flows: Vec<Flow>,
}

/// Slots of a service's table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Table {
    /// The service.
    pub service: String,
    /// The number of the table.
    pub generation: u32,
    /// The digest of what takes new flows.
    pub digest: String,
    /// All its slots.
    pub size: u32,
    /// Some of them, in order.
    pub slots: Vec<Slot>,
}

/// A slot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Slot {
    /// Its number, from 0.
    pub slot: u32,
    /// Who takes new flows; nobody where it is not there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current: Option<String>,
    /// To whom older flows belong, where that may be another.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settled: Option<String>,
    /// Whether no flow can be on any backend but its owner.
    pub is_settled: bool,
}

/// What an operator wants of a backend.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SetAdmin {
    /// `ready`, `drain` or `maintenance`.
    pub state: String,
    /// `drain`: after so many seconds the flows that are left end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_seconds: Option<u64>,
}

/// Another weight for a backend.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SetWeight {
    /// The weight.
    pub weight: u32,
}

/// What another configuration would change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Plan {
    /// Services that would come, go or change. The others would not be touched.
    pub services: Vec<PlannedService>,
    /// Services that would stay as they are.
    pub unchanged: u64,
    /// What this daemon cannot honour; the configuration would be refused.
    pub refused: Vec<String>,
}

/// What would become of a service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlannedService {
    /// Its name.
    pub service: String,
    /// `add`, `remove` or `change`.
    pub action: String,
    /// Settings that would change, each as `key: before -> after`.
    pub settings: Vec<String>,
    /// Backends that would come.
    pub backends_added: Vec<String>,
    /// Backends that would leave; they drain.
    pub backends_removed: Vec<String>,
    /// Backends that would change, each as `name: what`.
    pub backends_changed: Vec<String>,
    /// Slots of its table then.
    pub slots: u32,
    /// Slots that would change their owner, once new backends have passed their checks.
    pub slots_moved: u32,
    /// Those of them for which nothing asks.
    pub slots_moved_needlessly: u32,
    /// Remembered live flows that would end.
    pub flows_ended: u64,
    /// Backends that would take new flows, once new ones have passed their checks.
    pub eligible: u32,
    /// Whether a new table size or seed would wait until the service has settled.
    pub resize_waits: bool,
}

/// What became of a configuration that was applied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Applied {
    /// What it changed.
    pub plan: Plan,
    /// When it is taken back unless it is confirmed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confirm_by: Option<String>,
    /// Where it was written; not there while it has to be confirmed, or where it could not be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub written: Option<String>,
    /// Why it could not be written: it holds until the file is read again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_written: Option<String>,
}

/// What the forwarder would do with packets of a flow now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Explanation {
    /// The flow's source, address and port.
    pub source: String,
    /// Its destination.
    pub destination: String,
    /// `tcp` or `udp`.
    pub protocol: String,
    /// Packets that it can send.
    pub packets: Vec<Tried>,
}

/// What would become of a packet.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Tried {
    /// `tcp-syn`, `tcp-ack` or `udp`.
    pub packet: String,
    /// The outcome that it would be counted under.
    pub outcome: String,
    /// What that means.
    pub meaning: String,
    /// What decides: `slot`, `flow-table`, `older-owner`, `current-owner`, `prior-table` or `quic-id`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decided_by: Option<String>,
    /// The service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// The number of its table.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generation: Option<u32>,
    /// The flow's hash, 16 hexadecimal digits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// Slots of the table.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub table_size: Option<u32>,
    /// The slot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slot: Option<u32>,
    /// Whether no flow of the slot can be on any backend but its owner.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slot_is_settled: Option<bool>,
    /// Who takes new flows of the slot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slot_current: Option<String>,
    /// To whom its older flows belong, where that may be another.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slot_settled: Option<String>,
    /// The backend that the flow table knows the flow on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remembered_on: Option<String>,
    /// The flow's phase there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remembered_as: Option<String>,
    /// The backend that it goes to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backend: Option<String>,
    /// The backend's address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<IpAddr>,
    /// The backend's state in the forwarder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backend_state: Option<String>,
    /// What it is wrapped in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outer: Option<Outer>,
    /// What else would be counted.
    pub events: Vec<String>,
    /// All of this in words.
    pub steps: Vec<String>,
    /// What the program in the kernel does, where it was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub referee: Option<Referee>,
}

/// The outer headers of a packet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Outer {
    /// The kind of tunnel.
    pub tunnel: String,
    /// The outer source address.
    pub source: IpAddr,
    /// The outer destination address.
    pub destination: IpAddr,
    /// The index of the interface that it leaves by.
    pub interface: u32,
    /// The source MAC address.
    pub source_mac: String,
    /// The destination MAC address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_hop_mac: Option<String>,
    /// Bytes of the whole frame.
    pub frame_bytes: u32,
}

/// What the program in the kernel does with a packet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Referee {
    /// Whether it does the same, byte for byte; not there where it was not asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agrees: Option<bool>,
    /// What it did, or why it was not asked.
    pub said: String,
}

/// Why a request was refused (RFC 9457).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Problem {
    /// What kind of problem it is: a name that stays.
    #[serde(rename = "type")]
    pub kind: String,
    /// The same in a few words.
    pub title: String,
    /// The status of the answer.
    pub status: u16,
    /// What is wrong, where, and what to do.
    pub detail: String,
}
