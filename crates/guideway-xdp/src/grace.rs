//! Waiting until no program that is running now can still run.
//!
//! A program holds what it looked up until it ends, so memory that was unlinked is reused only after that. The kernel
//! tells when: an update of a map of maps returns to user space only after a grace period (`maybe_wait_bpf_programs` in
//! kernel/bpf/syscall.c, since Linux 5.0). It takes milliseconds, so a thread waits and the controller asks it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

use aya::maps::{Array, ArrayOfMaps, Map, MapData};

use crate::error::Error;

/// The map of the object that serves for nothing else.
pub(crate) const GRACE: &str = "GRACE";

/// Counts grace periods.
#[derive(Debug)]
pub(crate) struct Grace {
    asked: AtomicU64,
    passed: Arc<AtomicU64>,
    /// Dropped first, which ends the thread.
    requests: Option<Sender<Request>>,
    thread: Option<JoinHandle<()>>,
}

/// A grace period to wait for, and who waits for the answer, if anybody does.
struct Request(u64, Option<Sender<()>>);

impl Grace {
    /// Starts the waiting thread on the object's map.
    pub(crate) fn new(map: Map) -> Result<Grace, Error> {
        let wrong = |reason: String| Error::Map { map: GRACE, reason };
        let mut outer = ArrayOfMaps::<MapData, Array<MapData, u32>>::try_from(map)
            .map_err(|error| wrong(error.to_string()))?;
        let inner = Array::<MapData, u32>::create(1, 0).map_err(|error| wrong(error.to_string()))?;
        outer.set(0, &inner, 0).map_err(|error| wrong(error.to_string()))?;
        let passed = Arc::new(AtomicU64::new(0));
        let (requests, inbox) = channel::<Request>();
        let done = Arc::clone(&passed);
        let wait = move || {
            while let Ok(Request(mut number, mut waiting)) = inbox.recv() {
                let mut answers: Vec<_> = waiting.take().into_iter().collect();
                // All that came meanwhile is answered by the one wait.
                while let Ok(Request(later, another)) = inbox.try_recv() {
                    number = number.max(later);
                    answers.extend(another);
                }
                // The same call succeeded above; if it fails all the same, the period does not pass and nothing is reused.
                if outer.set(0, &inner, 0).is_ok() {
                    done.fetch_max(number, Release);
                    for answer in answers {
                        // Who asked may be gone.
                        let _ = answer.send(());
                    }
                }
            }
        };
        let thread = std::thread::Builder::new()
            .name("guideway-grace".into())
            .spawn(wait)
            .map_err(|error| wrong(format!("no thread to wait for programs: {error}")))?;
        Ok(Grace { asked: AtomicU64::new(0), passed, requests: Some(requests), thread: Some(thread) })
    }

    /// Begins a grace period and returns its number.
    pub(crate) fn begin(&self) -> u64 {
        self.ask(None)
    }

    /// Whether the period is over.
    pub(crate) fn is_over(&self, number: u64) -> bool {
        self.passed.load(Acquire) >= number
    }

    /// Begins a grace period and waits for its end: some milliseconds. Whether it came.
    pub(crate) fn wait(&self) -> bool {
        let (answer, end) = channel();
        self.ask(Some(answer));
        end.recv().is_ok()
    }

    fn ask(&self, answer: Option<Sender<()>>) -> u64 {
        let number = self.asked.fetch_add(1, Relaxed) + 1;
        if let Some(requests) = &self.requests {
            // The thread ends only when this sender is gone.
            let _ = requests.send(Request(number, answer));
        }
        number
    }
}

impl Drop for Grace {
    fn drop(&mut self) {
        self.requests = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
