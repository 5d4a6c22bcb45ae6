//! Who changed what.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A change that somebody asked for, and what came of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AuditEntry {
    /// When it was over.
    pub at: String,
    /// Who asked: `uid 0, pid 4711` at the Unix socket, `operator token` by TCP, a signal's name, `file` for whoever wrote
    /// the configuration, or `daemon`.
    pub who: String,
    /// What was asked, as `PUT /v1/services/web/backends/be1/weight`, or in a word.
    pub what: String,
    /// What the request said, shortened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub said: Option<String>,
    /// Whether it was done.
    pub done: bool,
    /// Why it was not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// The revision after it.
    pub revision: String,
}
