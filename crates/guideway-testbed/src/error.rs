//! What can go wrong in a test bed.

use std::io;
use std::time::Duration;

/// A test bed could not be built, changed or used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The kernel refused something.
    #[error("{what}: {source}")]
    System {
        /// What was tried, and where.
        what: String,
        /// Why it failed.
        source: io::Error,
    },
    /// Namespaces may not be made here.
    #[error(
        "network namespaces need CAP_SYS_ADMIN and CAP_NET_ADMIN ({source}); run as root, or in a user namespace"
    )]
    Privilege {
        /// What the kernel says.
        source: io::Error,
    },
    /// A packet path may not run here.
    #[error("{missing}")]
    NotPermitted {
        /// What it says.
        missing: String,
    },
    /// Something did not happen in time.
    #[error("{what} did not happen within {waited:?}{}", detail(.last))]
    Deadline {
        /// What was waited for.
        what: String,
        /// How long.
        waited: Duration,
        /// What the last try said.
        last: Option<String>,
    },
    /// A program that is not part of this one is missing.
    #[error("the program {program:?} is not installed: {source}")]
    NoProgram {
        /// Its name.
        program: String,
        /// What the system says.
        source: io::Error,
    },
    /// A program failed.
    #[error("{program:?} ended with {status}: {output}")]
    Program {
        /// Its name.
        program: String,
        /// How it ended.
        status: String,
        /// What it printed on its error output, or else on its output.
        output: String,
    },
    /// The kernel answered something else than was asked.
    #[error("unexpected answer to {what}: {answer}")]
    Answer {
        /// What was asked.
        what: String,
        /// What came.
        answer: String,
    },
    /// A change of a balancer was refused.
    #[error(transparent)]
    Change(#[from] guideway_control::controller::ChangeError),
    /// The packet path in the kernel could not be loaded, attached or changed.
    #[error(transparent)]
    Kernel(#[from] guideway_xdp::Error),
}

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Says what was tried when a system call fails.
pub(crate) trait Context<T> {
    fn context(self, what: impl FnOnce() -> String) -> Result<T>;
}

impl<T, E: Into<io::Error>> Context<T> for std::result::Result<T, E> {
    fn context(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|error| Error::System { what: what(), source: error.into() })
    }
}

fn detail(last: &Option<String>) -> String {
    last.as_ref().map_or_else(String::new, |last| format!("; last: {last}"))
}
