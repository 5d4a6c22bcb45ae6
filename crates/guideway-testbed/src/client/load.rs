//! Load in the background: one request after another, each checked.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::http;
use crate::error::Result;
use crate::namespace::Namespace;
use crate::task::Task;

/// HTTP requests, each on a connection of its own, one after another.
#[derive(Debug)]
pub struct HttpLoad {
    report: Arc<Mutex<LoadReport>>,
    _thread: Task,
}

/// What a [`HttpLoad`] has seen.
#[derive(Debug, Clone, Default)]
pub struct LoadReport {
    /// Requests that were answered right, by backend.
    pub answered: BTreeMap<String, u64>,
    /// What went wrong, one line a request.
    pub failed: Vec<String>,
}

impl LoadReport {
    /// Requests that were answered right.
    pub fn total(&self) -> u64 {
        self.answered.values().sum()
    }
}

impl HttpLoad {
    /// Begins to send requests to these servers in turn, without a pause.
    ///
    /// # Errors
    /// [`crate::Error::System`].
    pub fn start(namespace: &Namespace, servers: &[SocketAddr]) -> Result<Self> {
        Self::paced(namespace, servers, Duration::ZERO)
    }

    /// As [`HttpLoad::start`], with a pause after each answer.
    ///
    /// # Errors
    /// [`crate::Error::System`].
    pub fn paced(namespace: &Namespace, servers: &[SocketAddr], pause: Duration) -> Result<Self> {
        let report = Arc::new(Mutex::new(LoadReport::default()));
        let (theirs, client, servers) = (Arc::clone(&report), namespace.clone(), servers.to_vec());
        let thread = Task::start("http-load", namespace, move |stop| {
            for &server in servers.iter().cycle() {
                if stop.wait(&[], pause).is_err() {
                    return;
                }
                let answer = http::get(&client, server, "/");
                let mut report = theirs.lock().unwrap_or_else(PoisonError::into_inner);
                match answer.as_deref().map(|line| line.split_once(' ')) {
                    Ok(Some((backend, _))) => *report.answered.entry(backend.to_owned()).or_default() += 1,
                    Ok(None) => report.failed.push(format!("no backend in the answer of {server}")),
                    Err(error) => report.failed.push(error.to_string()),
                }
            }
        })?;
        Ok(Self { report, _thread: thread })
    }

    /// What it has seen so far.
    pub fn report(&self) -> LoadReport {
        self.report.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
