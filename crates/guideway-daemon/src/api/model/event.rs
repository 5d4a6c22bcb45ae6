//! What happened.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Event {
    /// Its number, from 1 for each daemon.
    pub number: u64,
    /// When.
    pub at: String,
    /// `info`, `warning` or `error`.
    pub grade: String,
    /// `daemon`, `config`, `health`, `commit`, `drain`, `next-hop`, `operator`, `state` or `drift`.
    pub kind: String,
    /// The service that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// The backend that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backend: Option<String>,
    /// Who caused it, where somebody did: as in the audit log, or `check`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// What happened.
    pub text: String,
}
