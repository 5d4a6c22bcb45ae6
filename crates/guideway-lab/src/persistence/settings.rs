//! What a run of the model is about.

use guideway_hash::TableSize;
use guideway_hash::prime::{self, SizeError};

/// A run of the model. Two runs with equal settings give equal reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Decides history, traffic and steering.
    pub seed: u64,
    /// Flows alive at a time.
    pub flows: u32,
    /// Changes of the backends in the whole time.
    pub changes: u32,
    /// Balancers, each with a controller and a flow table of its own.
    pub balancers: u32,
    /// How long, minutes of the virtual clock.
    pub minutes: u32,
    /// Backends at the start.
    pub backends: u32,
    /// Slots of each service's table at the start, a prime.
    pub slots: u32,
    /// Entries of each balancer's flow table.
    pub flow_entries: u32,
    /// Entries of each balancer's smaller table of connections in the rows "Maglev + LRU".
    pub lru_entries: u32,
    /// CPUs of a balancer, in the rows of tables that are each CPU's own.
    pub cpus: u32,
    /// Seconds after which a silent TCP flow is over.
    pub tcp_idle_seconds: u32,
    /// Seconds after which a silent UDP flow is over.
    pub udp_idle_seconds: u32,
    /// Moments at which the routers choose anew for a part of the flows: another balancer, and another of its links.
    pub resteers: u32,
    /// Restarts of a balancer with the loss of its whole memory.
    pub restarts: u32,
    /// Whether table size and seed change too.
    pub resizes: bool,
    /// A flow, by its number, whose every packet is told.
    pub trace: Option<u32>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            seed: 1,
            flows: 1_500,
            changes: 12,
            balancers: 1,
            minutes: 20,
            backends: 40,
            slots: 4_093,
            flow_entries: 65_536,
            lru_entries: 1_000,
            cpus: 8,
            tcp_idle_seconds: 300,
            udp_idle_seconds: 30,
            resteers: 10,
            restarts: 0,
            resizes: true,
            trace: None,
        }
    }
}

/// The most backends a run can have, those that join later included.
pub(crate) const MAX_SERVERS: u32 = 10_000;

/// The settings make no sense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// A number is outside of its range.
    #[error("{what} must be {least} to {most}, not {given}")]
    Range {
        /// Which.
        what: &'static str,
        /// What was given.
        given: u32,
        /// The least that works.
        least: u32,
        /// The most that works.
        most: u32,
    },
    /// The table size is no prime that a table can have.
    #[error("the table size is wrong: {0}")]
    Size(#[from] SizeError),
}

impl Settings {
    /// Whether a router can send a flow to another balancer, or a balancer can lose its memory.
    pub fn has_accidents(&self) -> bool {
        self.restarts > 0 || self.balancers > 1 && self.resteers > 0
    }

    pub(crate) fn check(&self) -> Result<(), SettingsError> {
        let ranges = [
            ("the number of flows", self.flows, 1, 100_000),
            ("the number of changes", self.changes, 0, 1_000),
            ("the number of balancers", self.balancers, 1, 16),
            ("the minutes", self.minutes, 1, 1_440),
            ("the number of backends", self.backends, 2, MAX_SERVERS - self.changes.min(1_000)),
            ("the entries of the flow table", self.flow_entries, 4, 1 << 24),
            ("the entries of the LRU table", self.lru_entries, 1, 1 << 24),
            ("the number of CPUs", self.cpus, 1, self.lru_entries.min(1_024)),
            ("the TCP idle time", self.tcp_idle_seconds, 10, 86_400),
            ("the UDP idle time", self.udp_idle_seconds, 5, 86_400),
            ("the number of re-steerings", self.resteers, 0, 1_000),
            ("the number of restarts", self.restarts, 0, 100),
        ];
        for (what, given, least, most) in ranges {
            if !(least..=most).contains(&given) {
                return Err(SettingsError::Range { what, given, least, most });
            }
        }
        // What a size must be at least comes first, so that the nearest primes that are advised are large enough.
        let least = 4 * (self.backends + self.changes);
        if !(least..=prime::MAX).contains(&self.slots) {
            return Err(SettingsError::Range {
                what: "the table size",
                given: self.slots,
                least,
                most: prime::MAX,
            });
        }
        TableSize::new(self.slots).map_err(|error| {
            SettingsError::Size(SizeError { below: error.below.filter(|&below| below >= least), ..error })
        })?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_sound_and_nonsense_is_refused() {
        assert_eq!(Settings::default().check(), Ok(()));
        for wrong in [
            Settings { flows: 0, ..Settings::default() },
            Settings { balancers: 0, ..Settings::default() },
            Settings { slots: 4_096, ..Settings::default() },
            Settings { slots: 101, ..Settings::default() },
        ] {
            assert!(wrong.check().is_err(), "{wrong:?}");
        }
        // 4 x 52 is 208, and 199 is the prime before it.
        let advised = Settings { slots: 208, ..Settings::default() }.check().unwrap_err().to_string();
        assert!(advised.contains("211") && !advised.contains("199"), "{advised}");
    }
}
