//! Why the daemon does not start, or ends.

use guideway_control::config::{LoadError, Problems};
use guideway_control::controller::AdoptError;
use guideway_control::health::probe::SetUpError;
use guideway_control::neighbour::NetlinkError;

use crate::api::ApiError;
use crate::core::Refused;
use crate::forwarder::ForwarderError;
use crate::store::StoreError;

/// Why the daemon does not start, or ends.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The configuration cannot be read, and there is none of before.
    #[error(transparent)]
    Unreadable(#[from] LoadError),
    /// The configuration has problems, and there is none of before.
    #[error(transparent)]
    Config(Box<Problems>),
    /// The forwarder does not hold the configuration.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The forwarder does not start.
    #[error(transparent)]
    Forwarder(#[from] ForwarderError),
    /// What an earlier daemon left in the forwarder makes no sense.
    #[error(transparent)]
    Adopt(#[from] AdoptError),
    /// State cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Health checks cannot be made.
    #[error(transparent)]
    Probes(#[from] SetUpError),
    /// Next hops cannot be followed.
    #[error(transparent)]
    Netlink(#[from] NetlinkError),
    /// The API cannot listen.
    #[error(transparent)]
    Api(#[from] ApiError),
    /// The process may not have what every daemon needs.
    #[error(
        "this process may have {may} files open, and a daemon needs {fewest} at least: raise LimitNOFILE= of its unit, or \
         `ulimit -n` where a shell starts it"
    )]
    Descriptors {
        /// How many it may have.
        may: u64,
        /// How many it needs.
        fewest: u64,
    },
    /// The system refuses what every daemon needs.
    #[error("cannot {doing}: {error}")]
    System {
        /// What was tried.
        doing: &'static str,
        /// What the system said.
        error: std::io::Error,
    },
}

impl RunError {
    pub(crate) fn system(doing: &'static str) -> impl FnOnce(std::io::Error) -> Self {
        move |error| Self::System { doing, error }
    }
}
