//! Other configurations: what they would change, and what came of them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
    /// Slots that would change their owner, once new backends have passed their checks. Of another table size or seed, the
    /// same share of the new table's slots as of flows that would change theirs.
    pub slots_moved: u32,
    /// Those of them for which nothing asks: old and new owner take new flows before and after, and neither does the old
    /// one lose weight nor the new one gain any. Another size or seed asks for nothing by itself.
    pub slots_moved_needlessly: u32,
    /// Remembered live flows that would end.
    pub flows_ended: u64,
    /// Backends that would take new flows, once new ones have passed their checks.
    pub eligible: u32,
    /// Whether a new table size or seed would wait until the service has settled.
    pub resize_waits: bool,
    /// What is allowed and may surprise later.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// What became of a configuration that was applied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Applied {
    /// What it changed.
    pub plan: Plan,
    /// When it is taken back unless it is confirmed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confirm_by: Option<String>,
    /// What became of the configuration that was on trial until then: this one took its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trial_ended: Option<String>,
    /// Where it was written; not there while it has to be confirmed, or where it could not be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub written: Option<String>,
    /// Why it could not be written: it holds until the file is read again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_written: Option<String>,
    /// Why a restart would not find it or what was before it; the files of state are written as soon as they can be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_kept: Option<String>,
}

impl Applied {
    /// In force, and nothing else to tell yet.
    pub(crate) fn new(plan: Plan) -> Self {
        Self { plan, confirm_by: None, trial_ended: None, written: None, not_written: None, not_kept: None }
    }
}

/// What came of reading the configuration file again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Reloaded {
    /// Whether there was anything new.
    pub changed: bool,
}

/// What came of confirming a configuration on trial.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Confirmed {
    /// Where it was written.
    pub written: Option<String>,
    /// Why it could not be written: it holds until the file is read again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_written: Option<String>,
    /// Why a restart would not find it or what was before it; the files of state are written as soon as they can be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_kept: Option<String>,
}
