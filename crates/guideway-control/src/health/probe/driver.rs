//! One task a round, and where their answers come out.

use std::sync::Arc;

use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;

use super::tls::TlsConfigs;
use crate::health::check::Check;
use crate::health::round::{Answer, Fault, Leg, LegResult, Round};

/// Answers that may wait to be taken; those who asked wait then, too. So many that an answer is never late because whoever
/// takes it is busy for a second with thousands of others.
const WAITING_ANSWERS: usize = 1 << 16;

/// How checks are asked.
#[derive(Debug, Clone)]
pub struct Options {
    /// The interface that tunnel probes leave by, where routes do not say so.
    pub tunnel_device: Option<String>,
    /// How many legs may be asked at a time: each holds a socket or a program.
    pub most_at_once: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { tunnel_device: None, most_at_once: 4_096 }
    }
}

/// Asks what is to be asked. It belongs to the tokio runtime that it is used in; dropping it ends all rounds.
#[derive(Debug)]
pub struct Driver {
    shared: Arc<Shared>,
    answers: mpsc::Sender<Answer>,
    rounds: JoinSet<()>,
}

#[derive(Debug)]
struct Shared {
    options: Options,
    tls: TlsConfigs,
    permits: Semaphore,
}

/// TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
#[error("TLS for health checks cannot be set up: {0}")]
pub struct SetUpError(#[from] rustls::Error);

impl Driver {
    /// A driver, and where its answers come out.
    ///
    /// # Errors
    /// [`SetUpError`], when the cryptography lacks what TLS needs.
    pub fn new(options: Options) -> Result<(Self, mpsc::Receiver<Answer>), SetUpError> {
        let permits = Semaphore::new(options.most_at_once.min(Semaphore::MAX_PERMITS));
        let shared = Arc::new(Shared { options, tls: TlsConfigs::new()?, permits });
        let (answers, receiver) = mpsc::channel(WAITING_ANSWERS);
        Ok((Self { shared, answers, rounds: JoinSet::new() }, receiver))
    }

    /// Asks a round. To be called inside a tokio runtime.
    pub fn start(&mut self, round: Round) {
        // Ended tasks are let go here, so that they do not pile up.
        while self.rounds.try_join_next().is_some() {}
        let (shared, answers) = (Arc::clone(&self.shared), self.answers.clone());
        self.rounds.spawn(async move {
            let answer = ask(&shared, &round).await;
            // Nobody listens any more when the daemon is about to end.
            let _ = answers.send(answer).await;
        });
    }

    /// Rounds that are being asked.
    pub fn under_way(&mut self) -> usize {
        while self.rounds.try_join_next().is_some() {}
        self.rounds.len()
    }
}

async fn ask(shared: &Arc<Shared>, round: &Round) -> Answer {
    // Most rounds have one leg, which needs no task of its own.
    if let [leg] = round.legs.as_slice() {
        return Answer { id: round.id, results: vec![ask_one(shared, &round.check, leg).await] };
    }
    let mut legs = JoinSet::new();
    for (place, leg) in round.legs.iter().enumerate() {
        let (shared, check, leg) = (Arc::clone(shared), Arc::clone(&round.check), *leg);
        legs.spawn(async move { (place, ask_one(&shared, &check, &leg).await) });
    }
    let lost = || Err(Fault::Local { said: "the task that asked ended before its time".to_owned() });
    let mut results: Vec<LegResult> = round.legs.iter().map(|_| lost()).collect();
    while let Some(ended) = legs.join_next().await {
        if let Ok((place, result)) = ended {
            results[place] = result;
        }
    }
    Answer { id: round.id, results }
}

async fn ask_one(shared: &Shared, check: &Check, leg: &Leg) -> LegResult {
    let Ok(_permit) = shared.permits.try_acquire() else {
        let limit = shared.options.most_at_once;
        return Err(Fault::Local { said: format!("{limit} are being asked already") });
    };
    super::ask(check, leg, &shared.options, &shared.tls).await
}
