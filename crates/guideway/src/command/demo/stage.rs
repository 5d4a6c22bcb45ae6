//! What scenes are played on: the world, its clients, the picture, and the books.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use guideway_daemon::model::Service;
use guideway_testbed::client::{Failed, Progress};
use guideway_testbed::forwarder::Forwarder;

use super::books::Books;
use super::churn::{Change, Ownership};
use super::clients::Clients;
use super::picture::{Picture, Row, Scenery};
use super::world::{SERVICE, World};
use crate::failure::Failure;
use crate::sandbox::{Interrupt, LONG};
use crate::screen::Style;

/// How often anything is looked at.
const BEAT: Duration = Duration::from_millis(50);

/// Everything that a scene needs.
pub(crate) struct Stage<'a, F: Forwarder> {
    // Ended in this order: nobody asks any more when the network goes.
    pub(crate) clients: Clients,
    pub(crate) world: World<F>,
    pub(crate) picture: Picture<'a>,
    pub(crate) interrupt: Interrupt,
    /// How long this scene is shown.
    pub(crate) show: Duration,
    pub(crate) kernel: bool,
    pub(crate) killed: Option<Killed>,
    pub(crate) books: Books,
    /// What the daemon said last.
    service: Option<Service>,
    /// Failures that were judged, and how many of them were on the backend that was killed.
    judged: usize,
}

/// A backend that was killed.
#[derive(Debug, Clone)]
pub(crate) struct Killed {
    pub(crate) backend: String,
    /// Who owned which slot then.
    pub(crate) owners: Vec<Option<String>>,
    pub(crate) at: Instant,
    /// When it took no new flows any more.
    pub(crate) noticed: Option<Instant>,
}

impl<'a, F: Forwarder> Stage<'a, F> {
    pub(crate) fn new(
        world: World<F>,
        clients: Clients,
        picture: Picture<'a>,
        interrupt: Interrupt,
        kernel: bool,
    ) -> Self {
        Self {
            clients,
            world,
            picture,
            interrupt,
            show: Duration::ZERO,
            kernel,
            killed: None,
            books: Books::default(),
            service: None,
            judged: 0,
        }
    }

    /// Begins a scene.
    pub(crate) fn begin(&mut self, title: &str, command: &str) -> Result<(), Failure> {
        self.picture.keep();
        self.picture.say(None, "")?;
        self.picture.say(Some(Style::Heading), title)?;
        if command.is_empty() { Ok(()) } else { self.does(command) }
    }

    /// Says by which command a person would do what comes.
    pub(crate) fn does(&mut self, command: &str) -> Result<(), Failure> {
        self.picture.say(Some(Style::Faint), &format!("  {command}"))
    }

    /// Tells what has come of it.
    pub(crate) fn tell(&mut self, text: &str) -> Result<(), Failure> {
        self.picture.say(None, &format!("  {text}"))
    }

    /// Shows what goes on for so long.
    pub(crate) fn show(&mut self, at_least: Duration) -> Result<(), Failure> {
        let until = Instant::now() + at_least;
        while Instant::now() < until {
            self.beat()?;
        }
        Ok(())
    }

    /// Shows what goes on until `found` finds something.
    pub(crate) fn until<T>(
        &mut self,
        what: &str,
        mut found: impl FnMut(&mut Self) -> Result<Option<T>, Failure>,
    ) -> Result<T, Failure> {
        let begin = Instant::now();
        loop {
            if let Some(found) = found(self)? {
                return Ok(found);
            }
            if begin.elapsed() > LONG {
                return Err(Failure::failed(format!("{what} did not happen within {} s", LONG.as_secs())));
            }
            self.beat()?;
        }
    }

    /// Until all requests that are under way now are over.
    pub(crate) fn until_requests_are_over(&mut self) -> Result<(), Failure> {
        let before = self.clients.ended();
        self.until("the end of the requests under way", |stage| {
            let now = stage.clients.ended();
            Ok(before.iter().zip(now).all(|(before, now)| now > *before).then_some(()))
        })
    }

    /// Until the service is as wanted: that service.
    pub(crate) fn until_service(
        &mut self,
        what: &str,
        wanted: impl Fn(&Service) -> bool,
    ) -> Result<Service, Failure> {
        self.until(what, |stage| {
            let service = stage.world.daemon.service(SERVICE)?;
            Ok(wanted(&service).then_some(service))
        })
    }

    /// Until a backend has answered more requests than it has now.
    pub(crate) fn until_answers_of(&mut self, backend: &str) -> Result<(), Failure> {
        let count = |stage: &Self| stage.clients.seen().answered.get(backend).copied().unwrap_or_default();
        let before = count(self);
        self.until(&format!("an answer of {backend}"), |stage| Ok((count(stage) > before).then_some(())))
    }

    /// Who owns each slot.
    pub(crate) fn ownership(&self) -> Result<Ownership, Failure> {
        Ok(Ownership::of(&self.world.daemon.table(SERVICE)?, &self.world.daemon.service(SERVICE)?))
    }

    /// Writes down what has moved since.
    pub(crate) fn moved(&mut self, what: &str, before: &Ownership) -> Result<Change, Failure> {
        let change = before.change(what, &self.ownership()?);
        let Change { slots, moved, needless, .. } = &change;
        let text = format!("{moved} of {slots} slots moved, {needless} of them needlessly");
        self.books.changes.push(change.clone());
        self.tell(&text)?;
        Ok(change)
    }

    /// One look at everything.
    fn beat(&mut self) -> Result<(), Failure> {
        self.interrupt.wait(BEAT)?;
        self.world.daemon.check()?;
        self.clients.sample();
        // One that is starting does not answer yet, one that was killed never will.
        let service =
            self.world.daemon.is_started().then(|| self.world.daemon.service(SERVICE).ok()).flatten();
        if service.is_some() {
            self.judge()?;
        }
        if self.picture.is_due() {
            let scenery = self.scenery(service.as_ref());
            self.picture.draw(&scenery)?;
        }
        self.service = service.or(self.service.take());
        Ok(())
    }

    /// Judges the failures that were not judged yet. To be called while the daemon answers.
    pub(crate) fn judge(&mut self) -> Result<(), Failure> {
        let failed = self.clients.seen().failed;
        if failed.len() == self.judged {
            return Ok(());
        }
        self.judged = failed.len();
        (self.books.failed, self.books.failed_on_killed) = (Vec::new(), Vec::new());
        for failed in failed {
            let was_killed = self.was_on_killed(&failed)?;
            let list = if was_killed { &mut self.books.failed_on_killed } else { &mut self.books.failed };
            list.push(failed.to_string());
        }
        Ok(())
    }

    /// Whether this request belonged to the backend that was killed, at a time when that could do harm.
    fn was_on_killed(&self, failed: &Failed) -> Result<bool, Failure> {
        let (Some(killed), Some(local)) = (&self.killed, failed.local) else { return Ok(false) };
        let unnoticed = killed.noticed.is_none_or(|noticed| failed.began <= noticed);
        if failed.ended < killed.at || !unnoticed {
            return Ok(false);
        }
        // Its slot is by its addresses and ports alone, so it is the same now as it was then.
        let explained = self.world.daemon.explain(&local.to_string(), &failed.server.to_string())?;
        let slot = explained.packets.first().and_then(|packet| packet.slot);
        let owner = slot.and_then(|slot| killed.owners.get(slot as usize)?.as_ref());
        Ok(owner == Some(&killed.backend))
    }

    fn scenery(&self, service: Option<&Service>) -> Scenery {
        let seen = self.clients.seen();
        let rates = self.clients.rates();
        let running: Vec<_> = self.clients.downloads().into_iter().filter(|d| d.end.is_none()).collect();
        let row = |backend: &guideway_daemon::model::Backend| Row {
            name: backend.name.clone(),
            state: state_of(backend).to_owned(),
            slots: service.is_some().then_some(backend.slots),
            rate: rates.get(&backend.name).copied().unwrap_or_default(),
            downloads: downloads_of(&running, &backend.name),
        };
        let backends =
            service.or(self.service.as_ref()).map(|service| service.backends.iter().map(row).collect());
        let daemon = match service {
            Some(_) => None,
            None if self.world.daemon.is_started() => Some("is starting"),
            None => Some("is dead"),
        };
        Scenery {
            backends: backends.unwrap_or_default(),
            daemon,
            requests: seen.total(),
            failed: self.books.failed.len() as u64,
            failed_on_killed: self.books.failed_on_killed.len() as u64,
        }
    }
}

/// A backend's state in a word.
fn state_of(backend: &guideway_daemon::model::Backend) -> &str {
    match (backend.admin.as_str(), &backend.health) {
        ("drain", _) => "draining",
        ("ready", Some(health)) if health.verdict == "never-passed" => "new",
        ("ready", Some(health)) => &health.verdict,
        (admin, _) => admin,
    }
}

fn downloads_of(running: &[Progress], backend: &str) -> Option<(usize, u64)> {
    let here: BTreeMap<_, _> = running.iter().filter(|d| d.backend == backend).enumerate().collect();
    let (bytes, of) = here.values().fold((0, 0), |(bytes, of), d| (bytes + d.bytes, of + d.of));
    (!here.is_empty()).then(|| (here.len(), bytes * 100 / of.max(1)))
}
