//! The daemon and its forwarder as a whole.

use std::collections::BTreeMap;

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
    /// What operators said that is not what the configuration says.
    #[serde(default)]
    pub overrides: Overrides,
    /// Drains under way: flows that are waited for, on backends that are set to drain or were removed.
    pub drains: u64,
    /// Those of them on backends that were removed from the configuration, which `backends` does not count.
    #[serde(default)]
    pub drains_of_removed: u64,
    /// Packets that came in.
    pub packets: PacketCounts,
    /// Remembered flows.
    pub flow_table: FlowTable,
    /// The socket for operators, for `--socket` of the commands; not there where the API listens at none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub socket: Option<String>,
    /// Where a browser finds the laboratory page; not there where the API listens on no TCP address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page: Option<String>,
    /// Where a browser finds the live console; not there under the same condition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub console: Option<String>,
    /// What somebody else changed in the forwarder.
    pub drift: Drift,
    /// What an operator should know: the faults, and what is none.
    pub notes: Vec<String>,
    /// What is wrong now, and names whom it is about. Beside it, the last reload can have failed.
    #[serde(default)]
    pub faults: Vec<String>,
}

/// What operators said at run time and that is not what the configuration says: it holds over reloads and restarts, until
/// `DELETE …/override` or `guideway reset` takes it back.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Overrides {
    /// Of how many backends.
    pub total: u64,
    /// The first hundred of them.
    pub backends: Vec<Overridden>,
}

/// A backend that is not as the configuration says. Only what differs is there.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Overridden {
    /// Its service.
    pub service: String,
    /// Its name.
    pub backend: String,
    /// `ready`, `drain` or `maintenance`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub admin: Option<String>,
    /// What the configuration says of that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub configured_admin: Option<String>,
    /// Its weight.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<u32>,
    /// What the configuration says of that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub configured_weight: Option<u32>,
}

/// What somebody else changed in the forwarder, found by comparing it with what it should hold.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Drift {
    /// Comparisons since the daemon started.
    pub rounds_total: u64,
    /// What was put right: `directory`, `service`, `backend`, `slot`, `settings`, `link` (the program or the packet
    /// socket at an interface) or `pin`, and how many of them.
    pub repairs_total: BTreeMap<String, u64>,
    /// What could not be compared or put right at the last try, and why: `directory`, `link` where the program is not at an
    /// interface, `pin` where it is and a pin is not, `unknown` where that could not be asked.
    pub failing: BTreeMap<String, String>,
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
    /// Why the program or the packet socket is not there, where that was lost and could not be put back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost: Option<String>,
    /// Whether it is down, without a carrier or gone, so that no packet comes by it.
    pub down: bool,
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
    /// Those that operators or the configuration set to drain, whether or not flows are left on them.
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
