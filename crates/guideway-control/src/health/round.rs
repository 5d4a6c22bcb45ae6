//! One check: what the board asks of whoever does the I/O, and what comes back.

use std::sync::Arc;
use std::time::{Duration, Instant};

use smallvec::SmallVec;

use super::check::{Check, Way};
use crate::histogram::Histogram;

/// Names a round; an answer to another round than the present one of its check is too late and changes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RoundId {
    pub(crate) stream: u32,
    pub(crate) number: u64,
}

/// A check to be made now: every leg, side by side, within the time-out of the check.
#[derive(Debug, Clone)]
pub struct Round {
    /// Its name.
    pub id: RoundId,
    /// What is asked.
    pub check: Arc<Check>,
    /// The ways that are asked.
    pub legs: Legs,
}

/// The legs of a round: nearly always one or two.
pub type Legs = SmallVec<[Leg; 2]>;

/// One way of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leg {
    /// The way.
    pub way: Way,
    /// The mark that its socket must carry: tunnels only.
    pub mark: Option<u32>,
    /// Whether it decides. The others are asked to tell people where the fault is.
    pub decides: bool,
}

/// What came of a leg.
pub type LegResult = Result<Passed, Fault>;

/// A leg that passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Passed {
    /// How long the answer took.
    pub took: Duration,
}

/// What came of the legs of a round, in their order.
pub type Results = SmallVec<[LegResult; 1]>;

/// What came of a round: one result for each leg, in their order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The round.
    pub id: RoundId,
    /// The results.
    pub results: Results,
}

/// Where in a probe a time-out or a close fell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stage {
    /// The connection.
    Connect,
    /// TLS.
    Handshake,
    /// The request.
    Request,
    /// Status line and headers.
    Head,
    /// The body.
    Body,
    /// An answering datagram.
    Datagram,
    /// The end of a program.
    Exit,
}

impl std::fmt::Display for Stage {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            Self::Connect => "connecting",
            Self::Handshake => "in the TLS handshake",
            Self::Request => "sending the request",
            Self::Head => "waiting for status and headers",
            Self::Body => "reading the body",
            Self::Datagram => "waiting for a datagram",
            Self::Exit => "waiting for the program",
        })
    }
}

/// Why a leg did not pass.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// It took too long.
    #[error("no answer within {} {stage}", humantime::format_duration(*.limit))]
    TimedOut {
        /// The time-out.
        limit: Duration,
        /// Where.
        stage: Stage,
    },
    /// Whoever makes the checks reported nothing in time.
    #[error("no result within {}", humantime::format_duration(*.limit))]
    Overdue {
        /// The time-out.
        limit: Duration,
    },
    /// Nobody listens.
    #[error("connection refused")]
    Refused,
    /// The network says that it cannot get there.
    #[error("{said} {stage}")]
    Unreachable {
        /// What it said.
        said: String,
        /// Where.
        stage: Stage,
    },
    /// The backend closed, or reset, the connection.
    #[error("connection closed {stage}")]
    Closed {
        /// Where.
        stage: Stage,
    },
    /// Another status than those that are fine.
    #[error("status {got}, not {}", list(.fine))]
    Status {
        /// The status.
        got: u16,
        /// Those that are fine.
        fine: Vec<u16>,
    },
    /// The body does not hold the text.
    #[error("the body's first {read} bytes do not hold {wanted:?}")]
    Body {
        /// How much was read.
        read: usize,
        /// The text.
        wanted: String,
    },
    /// The answer does not begin with the text.
    #[error("the answer does not begin with {wanted:?}")]
    Datagram {
        /// The text.
        wanted: String,
    },
    /// The answer is no HTTP.
    #[error("not HTTP: {said}")]
    NotHttp {
        /// In what way.
        said: String,
    },
    /// TLS failed.
    #[error("TLS: {said}")]
    Tls {
        /// How.
        said: String,
    },
    /// The program ended otherwise than with 0.
    #[error("{ended}")]
    Exit {
        /// How it ended, and the first line that it wrote to its standard error.
        ended: String,
    },
    /// This machine could not even ask, which tells nothing of the backend.
    #[error("could not check: {said}")]
    Local {
        /// Why.
        said: String,
    },
}

impl Fault {
    /// Whether it tells nothing of the backend.
    pub fn is_local(&self) -> bool {
        matches!(self, Self::Local { .. })
    }
}

fn list(statuses: &[u16]) -> String {
    let words: Vec<String> = statuses.iter().map(u16::to_string).collect();
    words.join(" or ")
}

/// Rounds that have ended, by what they said of their backends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Those that passed, by how long the longest answer took.
    pub passed: Histogram,
    /// Those that failed.
    pub failed: u64,
    /// Those that this machine could not make.
    pub impossible: u64,
}

/// What results say of a backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Passed,
    Failed,
    /// None failed, and one could not be asked.
    Nothing,
}

/// What the last round found, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// In a few words of which ways passed: `tunnel probe failed, direct probe ok`.
    pub reason: &'static str,
    /// What went wrong on each way that failed.
    pub detail: Vec<String>,
    /// The longest answer of those legs that passed.
    pub took: Option<Duration>,
    /// When the round ended.
    pub at: Instant,
}

impl Finding {
    /// Whether the backend answers at its own address and not through the tunnel.
    pub fn blames_tunnel(&self) -> bool {
        self.reason == "tunnel probe failed, direct probe ok"
    }

    pub(crate) fn new(legs: &[Leg], results: &[LegResult], at: Instant) -> Self {
        let outcome = |tunnel: bool| {
            let those = || legs.iter().zip(results).filter(|(leg, _)| leg.way.is_tunnel() == tunnel);
            those().next()?;
            Some(outcome(those().map(|(_, result)| result)))
        };
        let detail = legs.iter().zip(results).filter_map(|(leg, result)| {
            let fault = result.as_ref().err()?;
            Some(format!("{}: {fault}", leg.way))
        });
        Self {
            reason: reason(outcome(true), outcome(false)),
            detail: detail.collect(),
            took: results.iter().flatten().map(|passed| passed.took).max(),
            at,
        }
    }
}

/// In a few words, what came of the tunnel and what of the direct way, where they were asked.
fn reason(tunnel: Option<Outcome>, direct: Option<Outcome>) -> &'static str {
    use Outcome::{Failed, Nothing, Passed};
    match (tunnel, direct) {
        (None, None) => "",
        (Some(Passed), None) => "tunnel probe ok",
        (Some(Failed), None) => "tunnel probe failed",
        (Some(Nothing), None) => "tunnel probe not possible",
        (None, Some(Passed)) => "direct probe ok",
        (None, Some(Failed)) => "direct probe failed",
        (None, Some(Nothing)) => "direct probe not possible",
        (Some(Passed), Some(Passed)) => "tunnel probe ok, direct probe ok",
        (Some(Passed), Some(Failed)) => "tunnel probe ok, direct probe failed",
        (Some(Passed), Some(Nothing)) => "tunnel probe ok, direct probe not possible",
        (Some(Failed), Some(Passed)) => "tunnel probe failed, direct probe ok",
        (Some(Failed), Some(Failed)) => "tunnel probe failed, direct probe failed",
        (Some(Failed), Some(Nothing)) => "tunnel probe failed, direct probe not possible",
        (Some(Nothing), Some(Passed)) => "tunnel probe not possible, direct probe ok",
        (Some(Nothing), Some(Failed)) => "tunnel probe not possible, direct probe failed",
        (Some(Nothing), Some(Nothing)) => "tunnel probe not possible, direct probe not possible",
    }
}

/// What a round says of its backend, by the legs that decide.
pub(crate) fn judged(legs: &[Leg], results: &[LegResult]) -> Outcome {
    let deciding = legs.iter().zip(results).filter(|(leg, _)| leg.decides);
    outcome(deciding.map(|(_, result)| result))
}

fn outcome<'a>(results: impl Iterator<Item = &'a LegResult>) -> Outcome {
    let mut outcome = Outcome::Passed;
    for result in results {
        match result {
            Ok(_) => {}
            Err(fault) if fault.is_local() => outcome = Outcome::Nothing,
            Err(_) => return Outcome::Failed,
        }
    }
    outcome
}
