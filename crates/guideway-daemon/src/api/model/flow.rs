//! Remembered flows, and the tables that others follow.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
