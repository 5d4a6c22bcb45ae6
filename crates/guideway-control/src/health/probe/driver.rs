//! Who makes which round: one thread all that only connect, and else a task each.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::thread;

use smallvec::smallvec;
use tokio::runtime;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinSet;

use super::answers::{self, Answers, Teller};
use super::connections::Connections;
use super::tls::TlsConfigs;
use crate::config::Probe;
use crate::health::check::Check;
use crate::health::round::{Answer, Fault, Leg, LegResult, Results, Round};

/// How checks are asked.
#[derive(Debug, Clone)]
pub struct Options {
    /// The index of the interface that tunnel probes leave by, where routes do not say so; its name may change.
    pub tunnel_device: Option<u32>,
    /// How many legs may be asked at a time: each holds a socket or a program.
    pub most_at_once: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { tunnel_device: None, most_at_once: 4_096 }
    }
}

/// Asks what is to be asked. It belongs to the tokio runtime that it is made in; dropping it ends all rounds, those that only
/// connect a moment later.
#[derive(Debug)]
pub struct Driver {
    shared: Arc<Shared>,
    answers: Teller,
    connections: mpsc::UnboundedSender<Round>,
    runtime: runtime::Handle,
    tasks: JoinSet<()>,
}

/// What all who ask have in common.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) options: Options,
    /// That of the options, or the one that took its place; 0 is none.
    tunnel_device: AtomicU32,
    tls: TlsConfigs,
    permits: Arc<Semaphore>,
}

/// Checks cannot be made at all.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SetUpError {
    /// The cryptography lacks what TLS needs.
    #[error("TLS for health checks cannot be set up: {0}")]
    Tls(#[from] rustls::Error),
    /// The kernel refuses the thread that makes connections, or the means to wait for them.
    #[error("connections of health checks cannot be made: {0}")]
    Connections(#[from] io::Error),
}

impl Driver {
    /// A driver, and where its answers come out. To be called inside a tokio runtime.
    ///
    /// # Errors
    /// [`SetUpError`].
    pub fn new(options: Options) -> Result<(Self, Answers), SetUpError> {
        let permits = Arc::new(Semaphore::new(options.most_at_once.min(Semaphore::MAX_PERMITS)));
        let tunnel_device = AtomicU32::new(options.tunnel_device.unwrap_or(0));
        let shared = Arc::new(Shared { options, tunnel_device, tls: TlsConfigs::new()?, permits });
        let (answers, receiver) = answers::channel();
        let (connections, rounds) = mpsc::unbounded_channel();
        spawn_connections(Arc::clone(&shared), answers.clone(), rounds)?;
        let runtime = runtime::Handle::current();
        Ok((Self { shared, answers, connections, runtime, tasks: JoinSet::new() }, receiver))
    }

    /// Asks a round.
    pub fn start(&mut self, round: Round) {
        if *round.check.probe == Probe::Tcp {
            // Its thread ends with this, and not before.
            let _ = self.connections.send(round);
            return;
        }
        // Ended tasks are let go here, so that they do not pile up.
        while self.tasks.try_join_next().is_some() {}
        let (shared, mut answers) = (Arc::clone(&self.shared), self.answers.clone());
        let asking = async move {
            let answer = ask(&shared, &round).await;
            answers.answer(answer).await;
            answers.tell_now();
        };
        self.tasks.spawn_on(asking, &self.runtime);
    }

    /// Has tunnel probes leave by the interface with this index from now on: the one of before may have been made anew.
    pub fn leave_by(&self, device: u32) {
        self.shared.tunnel_device.store(device, Relaxed);
    }

    /// Legs that are being asked.
    pub fn under_way(&self) -> usize {
        self.shared.options.most_at_once.saturating_sub(self.shared.permits.available_permits())
    }
}

/// Has a thread of its own make connections until nobody can ask for any more. As a task of a runtime with several threads
/// they would wake two or three of those for each batch, to look whether there is more to do.
fn spawn_connections(
    shared: Arc<Shared>,
    answers: Teller,
    rounds: mpsc::UnboundedReceiver<Round>,
) -> io::Result<()> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    let connections = {
        let _inside = runtime.enter();
        Connections::new(shared, answers)?
    };
    let work = move || runtime.block_on(connections.work(rounds));
    thread::Builder::new().name("guideway-checks".to_owned()).spawn(work)?;
    Ok(())
}

impl Shared {
    /// The index of the interface that tunnel probes leave by, where routes do not say so.
    pub(super) fn tunnel_device(&self) -> Option<u32> {
        Some(self.tunnel_device.load(Relaxed)).filter(|device| *device != 0)
    }

    /// Leave to ask a leg, as long as it is held.
    pub(super) fn permit(&self) -> Result<OwnedSemaphorePermit, Fault> {
        Arc::clone(&self.permits).try_acquire_owned().map_err(|_| {
            let limit = self.options.most_at_once;
            Fault::Local { said: format!("{limit} are being asked already") }
        })
    }
}

async fn ask(shared: &Arc<Shared>, round: &Round) -> Answer {
    // Most rounds have one leg, which needs no task of its own.
    if let [leg] = round.legs.as_slice() {
        return Answer { id: round.id, results: smallvec![ask_one(shared, &round.check, leg).await] };
    }
    let mut legs = JoinSet::new();
    for (place, leg) in round.legs.iter().enumerate() {
        let (shared, check, leg) = (Arc::clone(shared), Arc::clone(&round.check), *leg);
        legs.spawn(async move { (place, ask_one(&shared, &check, &leg).await) });
    }
    let lost = || Err(Fault::Local { said: "the task that asked ended before its time".to_owned() });
    let mut results: Results = round.legs.iter().map(|_| lost()).collect();
    while let Some(ended) = legs.join_next().await {
        if let Ok((place, result)) = ended {
            results[place] = result;
        }
    }
    Answer { id: round.id, results }
}

async fn ask_one(shared: &Shared, check: &Check, leg: &Leg) -> LegResult {
    let _permit = shared.permit()?;
    super::ask(check, leg, shared.tunnel_device(), &shared.tls).await
}
