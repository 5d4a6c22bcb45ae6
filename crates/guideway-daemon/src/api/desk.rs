//! The way from requests to the daemon's loop: work that it does between two of its own.

use std::sync::Arc;
use std::time::Duration;

use guideway_control::config::Config;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use super::intake::Intake;
use super::model::{Applied, Confirmed, Plan, Reloaded};
use super::problem::Refusal;
use crate::audit::Request;
use crate::core::Core;
use crate::manager::Pulse;

/// Work for the daemon's loop; what it returns tells whoever asked, and is called once everything is saved.
pub(crate) type Work = Box<dyn FnOnce(&mut Desk<'_>) -> Told + Send>;

/// Tells whoever asked.
pub(crate) type Told = Box<dyn FnOnce() + Send>;

/// What work can be done on.
pub(crate) struct Desk<'a> {
    pub(crate) core: &'a mut Core,
    /// Set by work that wants another configuration, with who asks.
    pub(crate) order: &'a mut Option<(Order, Request)>,
}

/// Where the answer to an order goes.
pub(crate) type Reply<T> = oneshot::Sender<Result<T, Refusal>>;

/// What only the loop itself can do, since it is about files and time.
pub(crate) enum Order {
    /// Read the configuration file again.
    Reload(Reply<Reloaded>),
    /// Take another configuration.
    Apply(ApplyAsk, Reply<Applied>),
    /// Keep the configuration that was applied on trial.
    Confirm(Reply<Confirmed>),
    /// Go back to the configuration before this one.
    Rollback(Reply<Applied>),
    /// Say what going back would change.
    PlanRollback(Reply<Plan>),
}

/// A configuration that is to be taken.
pub(crate) struct ApplyAsk {
    /// Its text.
    pub(crate) text: String,
    /// What it says, or what is wrong with it: that was found out before the loop heard of it.
    pub(crate) config: Result<Box<Config>, Refusal>,
    /// It is taken back after this time unless it is confirmed.
    pub(crate) confirm_within: Option<Duration>,
}

/// The way from handlers to the loop.
#[derive(Debug, Clone)]
pub(crate) struct Loop {
    work: mpsc::Sender<Work>,
    /// One trace at a time.
    trace: Arc<Semaphore>,
    pub(super) intake: Intake,
    pub(super) pulse: Pulse,
}

impl Loop {
    pub(crate) fn new(work: mpsc::Sender<Work>, pulse: Pulse) -> Self {
        Self { work, trace: Arc::new(Semaphore::new(1)), intake: Intake::new(), pulse }
    }

    /// The right to sample packets, unless somebody has it.
    pub(super) fn trace_alone(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.trace).try_acquire_owned().ok()
    }

    /// Does something on the loop, whoever waits for it still.
    pub(super) async fn on<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Desk<'_>) -> T + Send + 'static,
    ) -> Result<T, Refusal> {
        self.send(true, work).await
    }

    /// Asks the loop something; where whoever asked has gone away by then, nothing is worked out.
    pub(super) async fn ask<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Desk<'_>) -> T + Send + 'static,
    ) -> Result<T, Refusal> {
        self.send(false, work).await
    }

    async fn send<T: Send + 'static>(
        &self,
        for_nobody_too: bool,
        work: impl FnOnce(&mut Desk<'_>) -> T + Send + 'static,
    ) -> Result<T, Refusal> {
        let (tell, told) = oneshot::channel();
        let work: Work = Box::new(move |desk| {
            let answer = (for_nobody_too || !tell.is_closed()).then(|| work(desk));
            // Whoever asked may have gone away.
            Box::new(move || drop(answer.map(|answer| tell.send(answer))))
        });
        self.work.send(work).await.map_err(|_| Refusal::ending())?;
        told.await.map_err(|_| Refusal::ending())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
    use std::time::Instant;

    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn a_question_of_somebody_who_left_is_not_worked_out_and_a_change_is_made_all_the_same() {
        let mut core = crate::in_process::core(crate::in_process::CONFIG, Instant::now()).unwrap();
        let (sender, mut work) = mpsc::channel(2);
        let (to_loop, done) =
            (Loop::new(sender, core.heartbeat.pulse().clone()), Arc::new(AtomicU32::new(0)));
        let add = |number| {
            let done = Arc::clone(&done);
            move |_: &mut Desk<'_>| done.fetch_add(number, Relaxed)
        };
        // Each is polled once, which sends it, and then left.
        drop(timeout(Duration::ZERO, to_loop.ask(add(1))).await);
        drop(timeout(Duration::ZERO, to_loop.on(add(10))).await);
        for _ in 0..2 {
            let asked = work.recv().await.unwrap();
            asked(&mut Desk { core: &mut core, order: &mut None })();
        }
        assert_eq!(done.load(Relaxed), 10);
    }
}
