//! Load in the background: one request after another, each checked.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::http;
use crate::error::Result;
use crate::namespace::Namespace;
use crate::task::{Stop, Task};

/// HTTP requests, each on a connection of its own, one after another.
#[derive(Debug)]
pub struct HttpLoad {
    report: Arc<Mutex<LoadReport>>,
    _thread: Task,
}

/// How a client asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// The pause after each answer.
    pub pause: Duration,
    /// How long each step of a request may take: connecting, and each piece of the answer.
    pub patience: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self { pause: Duration::ZERO, patience: http::STALL }
    }
}

/// What a [`HttpLoad`] has seen.
#[derive(Debug, Clone, Default)]
pub struct LoadReport {
    /// Requests that were answered right, by backend.
    pub answered: BTreeMap<String, u64>,
    /// What the slowest of them took.
    pub slowest: Duration,
    /// Requests that were not answered right.
    pub failed: Vec<Failed>,
}

/// A request that was not answered right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failed {
    /// Whom it asked.
    pub server: SocketAddr,
    /// The client's address and port, where it came so far.
    pub local: Option<SocketAddr>,
    /// When it began.
    pub began: Instant,
    /// When it was given up.
    pub ended: Instant,
    /// What the client saw.
    pub what: String,
}

impl LoadReport {
    /// Requests that were answered right.
    pub fn total(&self) -> u64 {
        self.answered.values().sum()
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "asking http://{}/", self.server)?;
        if let Some(local) = self.local {
            write!(f, " from {local}")?;
        }
        write!(f, ": {} after {:?}", self.what, self.ended - self.began)
    }
}

impl HttpLoad {
    /// Begins to send requests to these servers in turn, without a pause.
    ///
    /// # Errors
    /// [`crate::Error::System`].
    pub fn start(namespace: &Namespace, servers: &[SocketAddr]) -> Result<Self> {
        Self::paced(namespace, servers, Pace::default())
    }

    /// As [`HttpLoad::start`], at this pace.
    ///
    /// # Errors
    /// [`crate::Error::System`].
    pub fn paced(namespace: &Namespace, servers: &[SocketAddr], pace: Pace) -> Result<Self> {
        let report = Arc::new(Mutex::new(LoadReport::default()));
        let (theirs, servers) = (Arc::clone(&report), servers.to_vec());
        let thread = Task::start("http-load", namespace, move |stop| ask_all(&servers, pace, &theirs, stop))?;
        Ok(Self { report, _thread: thread })
    }

    /// What it has seen so far.
    pub fn report(&self) -> LoadReport {
        self.report.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn ask_all(servers: &[SocketAddr], pace: Pace, report: &Mutex<LoadReport>, stop: &Stop) {
    for &server in servers.iter().cycle() {
        if stop.wait(&[], pace.pause).is_err() {
            return;
        }
        let (began, mut local) = (Instant::now(), None);
        let answer = http::get_from_here(server, "/", pace.patience, &mut local);
        let ended = Instant::now();
        let what = match answer.as_deref().map(|line| line.split_once(' ')) {
            Ok(Some((backend, _))) => {
                let mut report = report.lock().unwrap_or_else(PoisonError::into_inner);
                *report.answered.entry(backend.to_owned()).or_default() += 1;
                report.slowest = report.slowest.max(ended - began);
                continue;
            }
            Ok(None) => "no backend in the answer".to_owned(),
            Err(error) => error.to_string(),
        };
        let failed = Failed { server, local, began, ended, what };
        report.lock().unwrap_or_else(PoisonError::into_inner).failed.push(failed);
    }
}
