//! How answers come out. Whoever waits for them is woken at once by one that may take a backend down; those that passed are
//! taken when it comes by anyway, or woken for a while later, many at a time.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

use crate::health::round::Answer;

/// Answers that may wait to be taken; those who asked wait then, too. So many that an answer is never late because whoever
/// takes it is busy for a second with thousands of others.
const WAITING: usize = 1 << 16;

/// How long an answer that passed waits at most before somebody is woken for it.
const QUIET: Duration = Duration::from_millis(40);

/// Where answers come out.
#[derive(Debug)]
pub struct Answers {
    answers: mpsc::Receiver<Answer>,
    ready: Arc<Notify>,
}

impl Answers {
    /// Waits until answers should be [taken](Self::take). It can be dropped while it waits.
    pub async fn ready(&self) {
        self.ready.notified().await;
    }

    /// The next answer, if one is there.
    pub fn take(&mut self) -> Option<Answer> {
        self.answers.try_recv().ok()
    }

    /// Waits for the next answer, whatever it is; `None` when nobody asks any more.
    pub async fn next(&mut self) -> Option<Answer> {
        self.answers.recv().await
    }
}

/// Where answers go in.
#[derive(Debug, Clone)]
pub(super) struct Teller {
    answers: mpsc::Sender<Answer>,
    ready: Arc<Notify>,
    tells_at: Option<Instant>,
}

pub(super) fn channel() -> (Teller, Answers) {
    let (sender, receiver) = mpsc::channel(WAITING);
    let ready = Arc::new(Notify::new());
    let teller = Teller { answers: sender, ready: Arc::clone(&ready), tells_at: None };
    (teller, Answers { answers: receiver, ready })
}

impl Teller {
    /// Hands an answer over, and tells of it: of a failure at once, of what passed [later](Self::tells_at).
    pub(super) async fn answer(&mut self, answer: Answer) {
        let failed = answer.results.iter().any(Result::is_err);
        if self.all_are_taken() {
            self.tells_at = None;
        }
        // Nobody listens any more when the daemon is about to end.
        let _ = self.answers.send(answer).await;
        if failed {
            self.ready.notify_one();
        } else {
            self.tells_at.get_or_insert_with(|| Instant::now() + QUIET);
        }
    }

    /// When [`tell`](Self::tell) has something to do.
    pub(super) fn tells_at(&self) -> Option<Instant> {
        self.tells_at
    }

    /// Tells of what passed, if it is time and it has not been taken.
    pub(super) fn tell(&mut self, now: Instant) {
        if self.tells_at.is_some_and(|at| at <= now) {
            self.tells_at = None;
            if !self.all_are_taken() {
                self.ready.notify_one();
            }
        }
    }

    fn all_are_taken(&self) -> bool {
        self.answers.capacity() == self.answers.max_capacity()
    }

    /// Tells of whatever has been handed over.
    pub(super) fn tell_now(&mut self) {
        self.tells_at = None;
        self.ready.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;
    use crate::health::round::{Fault, Passed, RoundId};

    fn is_ready(future: impl Future) -> bool {
        pin!(future).poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    fn answer(number: u64, passed: bool) -> Answer {
        let result = if passed { Ok(Passed { took: Duration::ZERO }) } else { Err(Fault::Refused) };
        Answer { id: RoundId { stream: 1, number }, results: [result].into() }
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_is_told_at_once_and_what_passed_later_unless_it_has_been_taken() {
        let (mut teller, mut answers) = channel();
        let begin = Instant::now();
        teller.answer(answer(1, true)).await;
        assert!(!is_ready(answers.ready()));
        teller.answer(answer(2, false)).await;
        assert!(is_ready(answers.ready()));
        let taken: Vec<u64> = std::iter::from_fn(|| answers.take()).map(|answer| answer.id.number).collect();
        assert_eq!(taken, [1, 2]);
        assert_eq!(teller.tells_at(), Some(begin + QUIET));
        teller.tell(begin + QUIET);
        assert!(!is_ready(answers.ready()), "all was taken");
        assert_eq!(teller.tells_at(), None);
        teller.answer(answer(3, true)).await;
        tokio::time::advance(QUIET / 2).await;
        answers.take();
        teller.answer(answer(4, true)).await;
        assert_eq!(teller.tells_at(), Some(begin + QUIET / 2 + QUIET), "the one before was taken");
        teller.tell(begin + QUIET);
        assert!(!is_ready(answers.ready()), "it is not time yet");
        teller.tell(begin + QUIET / 2 + QUIET);
        assert!(is_ready(answers.ready()));
    }
}
