//! Why a request was refused.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
