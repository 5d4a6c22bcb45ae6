//! What a restart must not forget, in a form that is written to a file.

use std::net::IpAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::check::Who;
use super::machine::Machine;
use crate::state_file::State;

/// Every verdict, as it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    version: u32,
    pub(crate) backends: Vec<Saved>,
}

impl State for Snapshot {
    const VERSION: u32 = 1;
}

impl Snapshot {
    pub(crate) fn new(backends: Vec<Saved>) -> Self {
        Self { version: Self::VERSION, backends }
    }
}

/// The verdict on one backend of one service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Saved {
    service: String,
    backend: String,
    pub(crate) address: IpAddr,
    pub(crate) machine: Machine,
    /// How old the verdict was.
    age_ms: u64,
    /// How much of a slow start was over.
    ramp_ms: Option<u64>,
    pub(crate) because: Option<String>,
}

impl Saved {
    pub(crate) fn new(
        who: &Who,
        address: IpAddr,
        machine: Machine,
        age: Duration,
        ramp: Option<Duration>,
        because: Option<String>,
    ) -> Self {
        let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Self {
            service: who.service.clone(),
            backend: who.backend.clone(),
            address,
            machine,
            age_ms: ms(age),
            ramp_ms: ramp.map(ms),
            because,
        }
    }

    /// The same when so much more time is over.
    pub(crate) fn aged(mut self, by: Duration) -> Self {
        let by = u64::try_from(by.as_millis()).unwrap_or(u64::MAX);
        self.age_ms = self.age_ms.saturating_add(by);
        self.ramp_ms = self.ramp_ms.map(|ramp| ramp.saturating_add(by));
        self
    }

    pub(crate) fn who(&self) -> Who {
        Who { service: self.service.clone(), backend: self.backend.clone() }
    }

    pub(crate) fn age(&self) -> Duration {
        Duration::from_millis(self.age_ms)
    }

    pub(crate) fn ramp(&self) -> Option<Duration> {
        self.ramp_ms.map(Duration::from_millis)
    }
}
