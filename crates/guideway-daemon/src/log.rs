//! The log, written by a thread of its own: whoever has something to say never waits for whoever reads it.
//!
//! ```text
//!   loop, threads of the API ──▶ queue, bounded ──▶ thread ──▶ standard error
//! ```
//! Where nobody takes what is written, as a journal that hangs or a pipe that is full, the queue fills. What is said then is lost
//! and counted, and one line tells of it when the log is written again.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// What may wait to be written, bytes: a thousand lines and more.
const WAITING: usize = 256 << 10;

/// A log.
#[derive(Debug, Clone)]
pub struct Log(Arc<Queue>);

#[derive(Debug, Default)]
struct Queue {
    state: Mutex<State>,
    /// Something is there to be written, or nothing is any more.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    lines: VecDeque<Vec<u8>>,
    /// Those of all lines that wait.
    bytes: usize,
    /// Whether a line is being written.
    is_writing: bool,
    /// Lines that were lost, and those of them that no line has told of.
    lost: u64,
    untold: u64,
}

impl Log {
    /// A log that a new thread writes to this file.
    ///
    /// # Errors
    /// When there is no thread to be had.
    pub fn to(file: File) -> io::Result<Self> {
        let queue = Arc::new(Queue::default());
        let log = Self(Arc::clone(&queue));
        thread::Builder::new().name("log".to_owned()).spawn(move || queue.write_to(&file))?;
        Ok(log)
    }

    /// Lines that were lost so far.
    pub fn lost(&self) -> u64 {
        self.0.state().lost
    }

    /// What somebody should see to: lines were lost, and the log has not been written since.
    pub(crate) fn fault(&self) -> Option<String> {
        let untold = self.0.state().untold;
        (untold > 0).then(|| {
            format!(
                "the log is not written, and {untold} of its lines are lost: whoever reads standard error stands still or is \
                 gone; `guideway events` has what happened"
            )
        })
    }

    /// Waits until all is written, for so long at most. Whether it is.
    pub fn flush(&self, at_most: Duration) -> bool {
        let waits = |state: &mut State| state.is_writing || !state.lines.is_empty();
        let waited = self.0.changed.wait_timeout_while(self.0.state(), at_most, waits);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }
}

/// Each `write` is a line.
impl Write for Log {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut state = self.0.state();
        // One that is longer than all may be has its turn alone.
        if state.lines.is_empty() || state.bytes + line.len() <= WAITING {
            state.bytes += line.len();
            state.lines.push_back(line.to_owned());
            self.0.changed.notify_all();
        } else {
            state.lose();
        }
        Ok(line.len())
    }

    /// Nothing is waited for here.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Queue {
    /// Every statement leaves the state whole, so a panic elsewhere spoils nothing.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes what comes, as long as the process lives.
    fn write_to(&self, file: &File) {
        loop {
            let written = write(file, &self.next());
            let mut state = self.state();
            state.is_writing = false;
            if written.is_err() {
                state.lose();
            }
            // Behind all that waited: in the order in which it happened.
            let told =
                if written.is_ok() && state.lines.is_empty() { std::mem::take(&mut state.untold) } else { 0 };
            drop(state);
            self.changed.notify_all();
            if told > 0 {
                tracing::warn!(
                    about = "daemon",
                    lost = told,
                    "lines of the log were lost before this one, as nobody took them; `guideway events` has what happened"
                );
            }
        }
    }

    /// Waits for the next line.
    fn next(&self) -> Vec<u8> {
        let waits = |state: &mut State| state.lines.is_empty();
        let mut state = self.changed.wait_while(self.state(), waits).unwrap_or_else(PoisonError::into_inner);
        let line = state.lines.pop_front().unwrap_or_default();
        state.bytes -= line.len();
        state.is_writing = true;
        line
    }
}

impl State {
    fn lose(&mut self) {
        self.lost += 1;
        self.untold += 1;
    }
}

/// Writes all of it, however long that takes.
fn write(mut file: &File, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(length) => bytes = &bytes[length..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // Whoever shares it may have made it one that nobody waits at.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                poll(&mut [PollFd::new(file.as_fd(), PollFlags::POLLOUT)], PollTimeout::NONE)?;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};

    use super::*;

    const SOON: Duration = Duration::from_millis(20);
    const LONG: Duration = Duration::from_secs(20);

    #[test]
    fn who_speaks_never_waits_and_what_is_lost_is_counted() {
        let (reader, writer) = io::pipe().unwrap();
        let mut log = Log::to(File::from(std::os::fd::OwnedFd::from(writer))).unwrap();
        let line = |number: usize| format!("{number:01000}\n");
        // More than pipe and queue together take.
        let many = 2_000;
        (0..many).for_each(|number| log.write_all(line(number).as_bytes()).unwrap());
        assert!(!log.flush(SOON), "nobody reads");
        let lost = log.lost();
        assert!(lost > 0 && log.fault().is_some_and(|text| text.contains(&format!("{lost} of its lines"))));
        // What waited is written in its order.
        let kept = many - usize::try_from(lost).unwrap();
        let lines: Vec<String> = BufReader::new(reader).lines().take(kept).map(Result::unwrap).collect();
        assert!(lines.is_sorted());
        assert!(log.flush(LONG));
        assert_eq!((log.lost(), log.fault()), (lost, None));
    }

    #[test]
    fn a_log_whose_reader_is_gone_loses_its_lines_and_stops_nobody() {
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        let mut log = Log::to(File::from(std::os::fd::OwnedFd::from(writer))).unwrap();
        log.write_all(b"one\n").unwrap();
        assert!(log.flush(LONG));
        assert_eq!(log.lost(), 1);
    }
}
