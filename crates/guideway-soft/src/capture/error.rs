//! What can be wrong with a capture.

use std::io;
use std::path::PathBuf;

/// Why a capture, or the rest of one, cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CaptureError {
    /// The system refused to open it.
    #[error("cannot open {}: {error}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// The system refused to read on.
    #[error("packet {packet}, at byte {offset}: cannot read on: {error}")]
    Read {
        /// The packet, from 1; 0 before the first.
        packet: u64,
        /// Where in the file.
        offset: u64,
        /// What the system said.
        error: io::Error,
    },
    /// It is something else.
    #[error("this is neither pcap nor pcapng: {0}")]
    NotACapture(&'static str),
    /// The file ends within something.
    #[error(
        "packet {packet}, at byte {offset}: the file is cut: {missing} bytes are missing; what came before is whole"
    )]
    Cut {
        /// The packet, from 1; 0 before the first.
        packet: u64,
        /// Where the part begins that is cut.
        offset: u64,
        /// Bytes that are missing of it.
        missing: u64,
    },
    /// A field says what cannot be.
    #[error("packet {packet}, at byte {offset}: the file is damaged: {what}")]
    Bad {
        /// The packet, from 1; 0 before the first.
        packet: u64,
        /// Where.
        offset: u64,
        /// What is wrong there.
        what: &'static str,
    },
}

/// The same, before it is known which packet it is.
#[derive(Debug)]
pub(super) enum Fault {
    Read { offset: u64, error: io::Error },
    NotACapture(&'static str),
    Cut { offset: u64, missing: u64 },
    Bad { offset: u64, what: &'static str },
}

impl Fault {
    pub(super) fn at(self, packet: u64) -> CaptureError {
        match self {
            Self::Read { offset, error } => CaptureError::Read { packet, offset, error },
            Self::NotACapture(what) => CaptureError::NotACapture(what),
            Self::Cut { offset, missing } => CaptureError::Cut { packet, offset, missing },
            Self::Bad { offset, what } => CaptureError::Bad { packet, offset, what },
        }
    }
}
