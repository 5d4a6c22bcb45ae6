//! How commands end.

use std::fmt::Display;
use std::io;
use std::process::ExitCode;

/// How a command that did its work ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// All is well.
    Ok,
    /// What was compared or verified differs.
    Differs,
}

impl Outcome {
    /// This outcome, once it has been written. A reader that went away, as in `… | grep -q`, does not change it.
    pub(crate) fn told(self, written: Result<(), impl Into<Failure>>) -> Result<Self, Failure> {
        match written.map_err(Into::into) {
            Ok(()) | Err(Failure::NobodyReads) => Ok(self),
            Err(failure) => Err(failure),
        }
    }
}

impl From<Outcome> for ExitCode {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Ok => Self::SUCCESS,
            Outcome::Differs => Self::from(1),
        }
    }
}

/// Why a command could not do its work. Its text says what, where, and what to do about it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The work itself failed.
    #[error("{0}")]
    Failed(String),
    /// The daemon knows no such thing.
    #[error("{0}")]
    NotThere(String),
    /// The command line asks for something that makes no sense.
    #[error("{0}")]
    Usage(String),
    /// The daemon cannot be reached.
    #[error("{0}")]
    Unreachable(String),
    /// What was waited for did not come in time.
    #[error("{0}")]
    TimedOut(String),
    /// Nobody reads the output any more, as in `guideway … | head`. That is no error.
    #[error("nobody reads the output")]
    NobodyReads,
}

impl Failure {
    /// The work failed, with this to say.
    pub(crate) fn failed(message: impl Display) -> Self {
        Self::Failed(message.to_string())
    }

    /// The command line is wrong, with this to say.
    pub(crate) fn usage(message: impl Display) -> Self {
        Self::Usage(message.to_string())
    }

    /// Tells the user on standard error; the result is what to exit with.
    pub(crate) fn report(&self) -> ExitCode {
        let code = match self {
            Self::NobodyReads => return ExitCode::SUCCESS,
            Self::Failed(_) | Self::NotThere(_) => 1,
            Self::Usage(_) => 2,
            Self::Unreachable(_) => 3,
            Self::TimedOut(_) => 4,
        };
        crate::screen::report("error", self);
        ExitCode::from(code)
    }
}

/// For errors of the output. Errors of input are to be turned into messages that name the input.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::NobodyReads,
            _ => Self::Failed(format!("can't write the output: {error}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_goes_away_does_not_change_the_outcome() {
        let gone = || Err::<(), _>(io::Error::from(io::ErrorKind::BrokenPipe));
        assert_eq!(Outcome::Differs.told(gone()).unwrap(), Outcome::Differs);
        assert_eq!(Outcome::Ok.told(gone()).unwrap(), Outcome::Ok);
        let full = Err::<(), _>(io::Error::from(io::ErrorKind::StorageFull));
        assert!(matches!(Outcome::Ok.told(full), Err(Failure::Failed(_))));
    }
}
