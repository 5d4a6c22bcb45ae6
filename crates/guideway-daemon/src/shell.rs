//! The daemon's I/O: one loop that waits for whatever happens, tells the core, and does what the core says.

use std::time::{Duration, Instant, SystemTime};

use guideway_control::config::Source;
use guideway_control::health::Answer;
use guideway_control::health::probe::{Driver, Options as ProbeOptions};
use guideway_control::neighbour::Follower;
use sd_notify::NotifyState;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

use crate::core::{Core, Unsaved};
use crate::error::RunError;
use crate::forwarder::Forwarder;
use crate::journal::{Grade, Kind};
use crate::options::{OnExit, Options};
use crate::start::{self, Started};
use crate::store::{LastGood, Store};
use crate::watch::FileWatch;

/// Verdicts are written so often at most; what operators say is written at once.
const SAVE_HEALTH_EVERY: Duration = Duration::from_millis(100);

/// After netlink failed it is tried again so much later.
const NETLINK_REST: Duration = Duration::from_secs(1);

/// Threads for probes and requests, beside the one that decides.
const THREADS: usize = 2;

/// Runs the daemon until it is asked to end by SIGTERM, SIGINT or SIGUSR2.
///
/// SIGHUP has the configuration read again. SIGTERM and SIGINT end the forwarder as [`Options`] say; SIGUSR2 leaves the
/// kernel's at work whatever they say, for a daemon that is to follow at once.
///
/// # Errors
/// [`RunError`]; nothing was changed then, or it was brought back.
pub fn run(options: &Options) -> Result<(), RunError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .enable_all()
        .build()
        .map_err(RunError::system("start threads"))?;
    runtime.block_on(async {
        let mut shell = Shell::start(options)?;
        let asked = shell.work().await;
        shell.end(asked)
    })
}

struct Shell<'a> {
    options: &'a Options,
    core: Core,
    forwarder: Forwarder,
    store: Store,
    source: Source,
    driver: Driver,
    answers: mpsc::Receiver<Answer>,
    follower: Follower,
    signals: Signals,
    watch: Option<FileWatch>,
    health_saved: Option<Instant>,
}

/// Why the loop ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    /// To end as the options say.
    End,
    /// To leave the forwarder to the next daemon.
    HandOver,
}

/// What woke the loop.
enum Woken {
    Time,
    Answer(Answer),
    NextHops(Vec<(std::net::IpAddr, guideway_forward::record::backend::NextHop)>),
    Reload(&'static str),
    Asked(Asked, &'static str),
}

impl<'a> Shell<'a> {
    fn start(options: &'a Options) -> Result<Self, RunError> {
        // Signals first: from here on none of them kills.
        let signals = Signals::new()?;
        let Started { mut core, forwarder, store, source } = start::start(options)?;
        let (driver, answers) = Driver::new(ProbeOptions::default())?;
        let mut follower = Follower::new()?;
        follower.follow(core.backends());
        let watch = FileWatch::new(&options.config)
            .inspect_err(|error| {
                let text = format!("cannot watch {}: {error}; SIGHUP reloads it", options.config.display());
                core.journal.note(Grade::Warning, Kind::Config, text);
            })
            .ok();
        let health_saved = None;
        Ok(Self {
            options,
            core,
            forwarder,
            store,
            source,
            driver,
            answers,
            follower,
            signals,
            watch,
            health_saved,
        })
    }

    async fn work(&mut self) -> Asked {
        let mut watchdog = sd_notify::watchdog_enabled().map(|within| (within / 2, Instant::now()));
        let services = self.core.config.services.len();
        let backends = self.core.backends().len();
        let text = format!("ready: {services} services, {backends} backends");
        self.core.journal.note(Grade::Info, Kind::Daemon, text.clone());
        tell_manager(&[NotifyState::Ready, NotifyState::Status(&text)]);
        let mut netlink_rests_until: Option<Instant> = None;
        loop {
            let now = Instant::now();
            self.forwarder.beat();
            for round in self.core.advance(now) {
                self.driver.start(round);
            }
            self.save(now, false);
            if let Some((every, due)) = &mut watchdog
                && *due <= now
            {
                tell_manager(&[NotifyState::Watchdog]);
                *due = now + *every;
            }
            let due = self.core.next_due().min(now + Duration::from_secs(1));
            let due = match self.health_saved {
                Some(saved) if self.core.unsaved.health => due.min(saved + SAVE_HEALTH_EVERY),
                _ => due,
            };
            let due = watchdog.map_or(due, |(_, watchdog)| due.min(watchdog));
            netlink_rests_until = netlink_rests_until.filter(|until| *until > now);
            let follower = &mut self.follower;
            let next_hops = async {
                match netlink_rests_until {
                    Some(_) => std::future::pending().await,
                    None => follower.changes().await,
                }
            };
            let watch = self.watch.as_mut();
            let written = async {
                match watch {
                    Some(watch) => watch.changed().await,
                    None => std::future::pending().await,
                }
            };
            let woken = tokio::select! {
                biased;
                asked = self.signals.next() => asked,
                Some(answer) = self.answers.recv() => Woken::Answer(answer),
                changes = next_hops => match changes {
                    Ok(changes) => Woken::NextHops(changes),
                    Err(error) => {
                        let text = format!("{error}; tried again in {} s", NETLINK_REST.as_secs());
                        self.core.journal.note(Grade::Error, Kind::NextHop, text);
                        netlink_rests_until = Some(Instant::now() + NETLINK_REST);
                        Woken::Time
                    }
                },
                () = written => Woken::Reload("the file was written"),
                () = tokio::time::sleep_until(due.into()) => Woken::Time,
            };
            match woken {
                Woken::Time => {}
                Woken::Answer(answer) => self.core.answer(&answer, Instant::now()),
                Woken::NextHops(changes) => self.core.set_next_hops(&changes),
                Woken::Reload(why) => self.reload(why),
                Woken::Asked(asked, by) => {
                    self.core.journal.note(Grade::Info, Kind::Daemon, format!("asked to end by {by}"));
                    return asked;
                }
            }
        }
    }

    /// Reads the configuration again; a bad one changes nothing.
    fn reload(&mut self, why: &str) {
        if let Ok(usec) = NotifyState::monotonic_usec_now() {
            tell_manager(&[NotifyState::Reloading, usec]);
        }
        let (grade, text) = match self.try_reload() {
            Ok(false) => (Grade::Info, format!("{why}: {} is as it was", self.source.name())),
            Ok(true) => (Grade::Info, format!("{why}: {} is in force", self.source.name())),
            Err(error) => (Grade::Error, format!("{why}: {error}\nthe configuration stays as it was")),
        };
        self.core.journal.note(grade, Kind::Config, text);
        tell_manager(&[NotifyState::Ready]);
    }

    /// Whether there was anything new.
    fn try_reload(&mut self) -> Result<bool, RunError> {
        let (source, config) = start::read(&self.options.config)?;
        if source.text() == self.source.text() {
            return Ok(false);
        }
        self.core.reconfigure(config, Instant::now())?;
        self.follower.follow(self.core.backends());
        self.source = source;
        if let Err(error) = self.store.write_config(&LastGood::new(&self.source, SystemTime::now())) {
            let text = format!("{error}; after a restart the configuration before this one may be used");
            self.core.journal.note(Grade::Error, Kind::State, text);
        }
        Ok(true)
    }

    /// Writes what has changed and may not be lost.
    fn save(&mut self, now: Instant, everything: bool) {
        let Unsaved { health, overrides } = self.core.unsaved;
        let mut failed = Vec::new();
        if overrides {
            self.core.unsaved.overrides = false;
            failed.extend(self.store.write_overrides(self.core.desired.overrides()).err());
        }
        let rested = self.health_saved.is_none_or(|saved| now >= saved + SAVE_HEALTH_EVERY);
        if (health && rested) || everything {
            self.core.unsaved.health = false;
            self.health_saved = Some(now);
            failed.extend(self.store.write_health(&self.core.board.snapshot(now)).err());
        }
        for error in failed {
            self.core.journal.note(Grade::Error, Kind::State, error.to_string());
        }
    }

    fn end(mut self, asked: Asked) -> Result<(), RunError> {
        tell_manager(&[NotifyState::Stopping]);
        self.save(Instant::now(), true);
        let on_exit = match asked {
            Asked::End => None,
            Asked::HandOver => Some(OnExit::Keep),
        };
        let totals = self.forwarder.plane().totals();
        let (received, unsent) = (totals.received.packets, self.forwarder.unsent());
        self.forwarder.end(on_exit)?;
        tracing::info!(received, unsent, "ended");
        Ok(())
    }
}

/// The signals that the daemon heeds.
struct Signals {
    hangup: Signal,
    terminate: Signal,
    interrupt: Signal,
    hand_over: Signal,
}

impl Signals {
    fn new() -> Result<Self, RunError> {
        let listen = |kind| signal(kind).map_err(RunError::system("listen for signals"));
        Ok(Self {
            hangup: listen(SignalKind::hangup())?,
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
            hand_over: listen(SignalKind::user_defined2())?,
        })
    }

    async fn next(&mut self) -> Woken {
        tokio::select! {
            _ = self.terminate.recv() => Woken::Asked(Asked::End, "SIGTERM"),
            _ = self.interrupt.recv() => Woken::Asked(Asked::End, "SIGINT"),
            _ = self.hand_over.recv() => Woken::Asked(Asked::HandOver, "SIGUSR2"),
            _ = self.hangup.recv() => Woken::Reload("SIGHUP"),
        }
    }
}

/// Tells the service manager, if there is one.
fn tell_manager(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!("the service manager cannot be told: {error}");
    }
}
