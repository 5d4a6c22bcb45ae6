//! What is asked, of whom, by which way: a check is distinct by all of it, and one that services share is asked once.

use std::fmt;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::machine::Thresholds;
use super::pace::Times;
use crate::config::{Encapsulation, Probe, Renames};

/// A distinct check. Those of many backends differ in the address, and share what is long.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Check {
    /// The backend's own address.
    pub address: IpAddr,
    /// The port that is asked; `exec` may do without.
    pub port: Option<u16>,
    /// What is asked, and which answer is fine.
    pub probe: Arc<Probe>,
    /// `https`: certificates, PEM, of which one must have signed the backend's; any certificate is fine without.
    pub ca_file: Option<Arc<Path>>,
    /// The ways that must succeed; at least one.
    pub ways: Arc<[Way]>,
    /// From the beginning of one check to that of the next, and how long an answer may take.
    pub times: Times,
}

impl Check {
    /// Whether another check asks the same, however often.
    pub(super) fn asks_as(&self, other: &Self) -> bool {
        let Self { address, port, probe, ca_file, ways, times: _ } = self;
        (address, port, probe, ca_file, ways)
            == (&other.address, &other.port, &other.probe, &other.ca_file, &other.ways)
    }
}

/// A way to a backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Way {
    /// Through the tunnel to an address of the service: what clients' packets do.
    Tunnel {
        /// The address of the service.
        vip: IpAddr,
        /// The tunnel.
        encapsulation: Encapsulation,
    },
    /// To the backend's own address.
    Direct,
}

impl Way {
    /// Whether it is the tunnel.
    pub fn is_tunnel(self) -> bool {
        matches!(self, Self::Tunnel { .. })
    }
}

impl fmt::Display for Way {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tunnel { vip, .. } => write!(out, "tunnel to {vip}"),
            Self::Direct => out.write_str("direct"),
        }
    }
}

/// A backend of a service.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Who {
    /// The service's name.
    pub service: String,
    /// The backend's name.
    pub backend: String,
}

impl Who {
    /// The same backend where some services are called otherwise.
    pub(crate) fn renamed(mut self, names: &Renames) -> Self {
        if let Some(name) = names.of(&self.service) {
            self.service = name.to_owned();
        }
        self
    }
}

impl fmt::Display for Who {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.service, self.backend)
    }
}

/// A backend that is to be checked, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// The backend.
    pub who: Who,
    /// The check, which the board shares.
    pub check: Arc<Check>,
    /// How many results in a row change the verdict.
    pub thresholds: Thresholds,
    /// How long it takes, after a recovery, to its full weight.
    pub slow_start: Duration,
}
