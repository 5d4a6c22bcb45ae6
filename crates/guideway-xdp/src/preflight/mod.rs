//! Before attaching: whether this host and an interface can run the program, and in which mode; each finding with its
//! cause and a remedy.

pub(crate) mod ethtool;
pub(crate) mod features;
mod host;
mod interface;

use std::path::Path;

use crate::attach::{Mode, Wish};

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grade {
    /// Nothing is wrong.
    Ok,
    /// It works, but not as well as it could.
    Warn,
    /// It does not work.
    Fail,
}

impl Grade {
    /// A stable name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Grade::Ok => "ok",
            Grade::Warn => "warn",
            Grade::Fail => "fail",
        }
    }
}

/// What a finding is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// This host, or this process.
    Host,
    /// An interface, by name.
    Interface(String),
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub grade: Grade,
    /// What it is about.
    pub subject: Subject,
    /// What is so.
    pub cause: String,
    /// What to do about it, as a command where there is one.
    pub remedy: Option<String>,
}

impl Finding {
    fn ok(subject: Subject, cause: impl Into<String>) -> Finding {
        Finding { grade: Grade::Ok, subject, cause: cause.into(), remedy: None }
    }

    fn warn(subject: Subject, cause: impl Into<String>, remedy: impl Into<String>) -> Finding {
        Finding { grade: Grade::Warn, subject, cause: cause.into(), remedy: Some(remedy.into()) }
    }

    fn fail(subject: Subject, cause: impl Into<String>, remedy: impl Into<String>) -> Finding {
        Finding { grade: Grade::Fail, subject, cause: cause.into(), remedy: Some(remedy.into()) }
    }
}

/// What was found of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterfaceReport {
    /// Its name.
    pub interface: String,
    /// The mode in which the program would run there; `None` if in none that was asked for.
    pub mode: Option<Mode>,
    /// All findings.
    pub findings: Vec<Finding>,
}

/// Examines this host. `pins` is where programs would be pinned.
pub fn host(pins: &Path) -> Vec<Finding> {
    host::examine(pins)
}

/// Examines an interface of this thread's network namespace. `pins` tells our own program from a foreign one.
pub fn interface(name: &str, wish: Wish, pins: &Path) -> InterfaceReport {
    interface::examine(name, wish, pins)
}
