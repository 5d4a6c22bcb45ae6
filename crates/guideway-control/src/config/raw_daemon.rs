//! What the daemon is told in the file, as it is written.

use schemars::JsonSchema;

use super::reader::{At, FromSection, Section};
use super::value::{OneOrMany, Time};
use super::words::OnExit;

/// The daemon itself. Replay of a capture has none and reads nothing of this.
#[derive(Debug, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct RawDaemon {
    /// An interface, or a list of those, that packets of clients come by. `--interface` overrides it. A change takes a
    /// restart.
    pub(crate) interfaces: Option<At<OneOrMany<String>>>,
    /// What becomes of the kernel's forwarder when the daemon is asked to end by SIGTERM or SIGINT. `--on-exit`
    /// overrides it. Default `detach`.
    pub(crate) on_exit: Option<At<OnExit>>,
    /// How long it goes on forwarding after it was asked to end, while `/readyz` fails so that routers can send packets
    /// elsewhere. Being asked again ends it at once. Default `0s`.
    pub(crate) shutdown_grace: Option<At<Time<0, 3_600_000>>>,
    /// From one comparison of the forwarder's state with what it should be to the next; `0s`: never. Default `5s`.
    pub(crate) drift_interval: Option<At<Time<0, 3_600_000>>>,
}

impl FromSection for RawDaemon {
    fn from_section(section: &mut Section<'_, '_>) -> Self {
        Self {
            interfaces: section.field("interfaces"),
            on_exit: section.field("on_exit"),
            shutdown_grace: section.field("shutdown_grace"),
            drift_interval: section.field("drift_interval"),
        }
    }
}
