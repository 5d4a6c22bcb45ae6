//! Noticing that somebody wants it to end.

use std::os::fd::AsFd;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

use crate::failure::Failure;

/// The signals that end a program, held back so that it can tidy up.
#[derive(Debug)]
pub(crate) struct Interrupt {
    signals: SignalFd,
}

impl Interrupt {
    /// Holds them back from this thread and those that it starts from now on.
    pub(crate) fn hold_back() -> Result<Self, Failure> {
        let set: SigSet = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP].into_iter().collect();
        let held = set
            .thread_block()
            .and_then(|()| SignalFd::with_flags(&set, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK));
        match held {
            Ok(signals) => Ok(Self { signals }),
            Err(error) => Err(Failure::failed(format!("signals cannot be awaited: {error}"))),
        }
    }

    /// Waits so long; an error says that it was interrupted.
    pub(crate) fn wait(&self, at_most: Duration) -> Result<(), Failure> {
        let at_most = PollTimeout::try_from(at_most).unwrap_or(PollTimeout::MAX);
        match poll(&mut [PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)], at_most) {
            Ok(0) | Err(Errno::EINTR) => Ok(()),
            Ok(_) => Err(Failure::failed("interrupted; all that was made is taken away")),
            Err(error) => Err(Failure::failed(format!("signals cannot be awaited: {error}"))),
        }
    }
}
