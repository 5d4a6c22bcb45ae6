//! How far a leg is, for the one who has to say where it stopped.

use std::io;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use crate::health::round::{Fault, Stage};

const STAGES: [Stage; 7] = [
    Stage::Connect,
    Stage::Handshake,
    Stage::Request,
    Stage::Head,
    Stage::Body,
    Stage::Datagram,
    Stage::Exit,
];

/// The stage that a leg has reached.
#[derive(Debug, Default)]
pub(super) struct Progress(AtomicU8);

impl Progress {
    pub(super) fn enter(&self, stage: Stage) {
        let place = STAGES.iter().position(|&known| known == stage).unwrap_or(0);
        self.0.store(place as u8, Relaxed);
    }

    pub(super) fn stage(&self) -> Stage {
        STAGES.get(usize::from(self.0.load(Relaxed))).copied().unwrap_or(Stage::Connect)
    }

    /// What an error of the system means here.
    pub(super) fn fault(&self, error: &io::Error) -> Fault {
        use io::ErrorKind::*;
        let stage = self.stage();
        match error.kind() {
            ConnectionRefused => Fault::Refused,
            ConnectionReset | ConnectionAborted | BrokenPipe | UnexpectedEof | NotConnected => {
                Fault::Closed { stage }
            }
            // No route, and the network's word that there is none, look alike; both keep clients out.
            HostUnreachable | NetworkUnreachable | NetworkDown | TimedOut => {
                Fault::Unreachable { said: words(error), stage }
            }
            _ => Fault::Local { said: words(error) },
        }
    }
}

/// The system's words without the number, in the middle of a sentence.
pub(super) fn words(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let mut letters = text.chars();
    match letters.next() {
        Some(first) => first.to_lowercase().chain(letters).collect(),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stage_is_remembered() {
        let progress = Progress::default();
        assert_eq!(progress.stage(), Stage::Connect);
        for stage in STAGES {
            progress.enter(stage);
            assert_eq!(progress.stage(), stage);
        }
    }

    #[test]
    fn what_is_lacking_here_is_told_from_what_is_wrong_there() {
        let progress = Progress::default();
        // EMFILE, EPERM, ENETUNREACH, EHOSTUNREACH, ECONNREFUSED, ECONNRESET of Linux.
        let fault = |code| progress.fault(&io::Error::from_raw_os_error(code));
        assert_eq!(fault(24), Fault::Local { said: "too many open files".into() });
        assert!(fault(1).is_local());
        let unreachable = fault(101);
        assert_eq!(unreachable.to_string(), "network is unreachable connecting");
        assert!(!unreachable.is_local() && !fault(113).is_local());
        assert_eq!((fault(111), fault(104)), (Fault::Refused, Fault::Closed { stage: Stage::Connect }));
    }
}
