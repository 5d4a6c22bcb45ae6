//! What the daemon is told by signals.

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::{Asked, Reload, Woken};
use crate::error::RunError;

/// The signals that the daemon heeds.
pub(super) struct Signals {
    hangup: Signal,
    terminate: Signal,
    interrupt: Signal,
    hand_over: Signal,
}

impl Signals {
    pub(super) fn new() -> Result<Self, RunError> {
        let listen = |kind| signal(kind).map_err(RunError::system("listen for signals"));
        Ok(Self {
            hangup: listen(SignalKind::hangup())?,
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
            hand_over: listen(SignalKind::user_defined2())?,
        })
    }

    pub(super) async fn next(&mut self) -> Woken {
        tokio::select! {
            _ = self.terminate.recv() => Woken::Asked(Asked::End, "SIGTERM"),
            _ = self.interrupt.recv() => Woken::Asked(Asked::End, "SIGINT"),
            _ = self.hand_over.recv() => Woken::Asked(Asked::HandOver, "SIGUSR2"),
            _ = self.hangup.recv() => Woken::Reload(Reload::Signal),
        }
    }
}
