//! Threads inside a namespace that end when their owner goes.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};

use crate::error::{Context, Result};
use crate::namespace::Namespace;

/// A thread inside a namespace. Dropping it stops the thread and waits for it.
#[derive(Debug)]
pub(crate) struct Task {
    stop: Stop,
    thread: Option<JoinHandle<()>>,
}

/// Tells a thread to end, and wakes it if it waits.
#[derive(Debug, Clone)]
pub(crate) struct Stop {
    event: Arc<EventFd>,
}

impl Task {
    /// Starts `work` on a thread of this name inside the namespace. It has to end soon after [`Stop::is_asked`].
    pub(crate) fn start(
        name: &str,
        namespace: &Namespace,
        work: impl FnOnce(&Stop) + Send + 'static,
    ) -> Result<Self> {
        let event = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)
            .context(|| format!("preparing the thread {name}"))?;
        let stop = Stop { event: Arc::new(event) };
        let (inside, theirs) = (namespace.clone(), stop.clone());
        let thread = thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || match inside.enter() {
                Ok(()) => work(&theirs),
                Err(error) => panic!("{error}"),
            })
            .context(|| format!("starting the thread {name}"))?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.stop.ask();
        if let Some(thread) = self.thread.take()
            && let Err(panic) = thread.join()
            && !thread::panicking()
        {
            std::panic::resume_unwind(panic);
        }
    }
}

impl Stop {
    /// Asks the thread to end.
    pub(crate) fn ask(&self) {
        // An eventfd of one writer cannot be full.
        let _ = self.event.write(1);
    }

    /// Whether the thread has been asked to end.
    pub(crate) fn is_asked(&self) -> bool {
        self.wait(&[], Duration::ZERO).is_err()
    }

    /// Waits until one of `sources` has something to read or an error, or the time is over: whether each has. An error
    /// says that the thread was asked to end.
    pub(crate) fn wait(&self, sources: &[BorrowedFd<'_>], at_most: Duration) -> Result<Vec<bool>, Asked> {
        let mut polled: Vec<_> = std::iter::once(self.event.as_fd())
            .chain(sources.iter().copied())
            .map(|source| PollFd::new(source, PollFlags::POLLIN))
            .collect();
        let at_most = PollTimeout::try_from(at_most).unwrap_or(PollTimeout::MAX);
        match poll(&mut polled, at_most) {
            Ok(_) | Err(Errno::EINTR) => {}
            // Every descriptor is open, so the only other error is want of kernel memory: as if nothing had come.
            Err(_) => return Ok(vec![false; sources.len()]),
        }
        let mut ready = polled.iter().map(|source| source.any().unwrap_or(true));
        match ready.next() {
            Some(false) => Ok(ready.collect()),
            Some(true) | None => Err(Asked),
        }
    }
}

/// The thread was asked to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Asked;
