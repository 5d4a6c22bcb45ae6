//! A download in the background, at a pace.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::http;
use crate::error::Result;
use crate::namespace::Namespace;
use crate::task::Task;

/// How often a piece is read.
const BEAT: Duration = Duration::from_millis(50);

/// A download that takes its time, so that it runs while things change.
#[derive(Debug)]
pub struct Download {
    progress: Arc<Mutex<Progress>>,
    _thread: Task,
}

/// How far a [`Download`] is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// The backend that it comes from.
    pub backend: String,
    /// Bytes read.
    pub bytes: u64,
    /// Bytes in all.
    pub of: u64,
    /// How it ended: whole, or with what the client saw.
    pub end: Option<Result<(), String>>,
}

impl Download {
    /// Asks for so many bytes on a connection of its own, and reads about so many of them a second. What the server has
    /// sent ahead lies in buffers: some megabytes.
    ///
    /// # Errors
    /// [`crate::Error::System`] when there is no answer.
    pub fn start(namespace: &Namespace, server: SocketAddr, bytes: u64, bytes_a_second: u64) -> Result<Self> {
        let mut response = http::begin_get(namespace, server, &format!("/bytes/{bytes}"))?;
        let backend = response.backend().to_owned();
        let progress = Arc::new(Mutex::new(Progress { backend, bytes: 0, of: bytes, end: None }));
        let theirs = Arc::clone(&progress);
        let piece = (bytes_a_second * BEAT.as_millis() as u64 / 1000).max(1);
        let thread = Task::start("download", namespace, move |stop| {
            while stop.wait(&[], BEAT).is_ok() {
                let read = response.read_some(piece);
                let mut progress = theirs.lock().unwrap_or_else(PoisonError::into_inner);
                progress.bytes = progress.of - response.left();
                match read {
                    Ok(()) if response.left() > 0 => continue,
                    Ok(()) => progress.end = Some(Ok(())),
                    Err(error) => progress.end = Some(Err(error.to_string())),
                }
                return;
            }
        })?;
        Ok(Self { progress, _thread: thread })
    }

    /// How far it is.
    pub fn progress(&self) -> Progress {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
