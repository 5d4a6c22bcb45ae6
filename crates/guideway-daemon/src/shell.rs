//! The daemon's I/O: one loop that waits for whatever happens, tells the core, and does what the core says.

use std::time::{Duration, Instant};

use guideway_control::config::Source;
use guideway_control::health::Answer;
use guideway_control::health::probe::{Driver, Options as ProbeOptions};
use guideway_control::neighbour::Follower;
use sd_notify::NotifyState;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

use crate::api::model::{Confirmed, Reloaded};
use crate::api::{Desk, Listeners, Order, PAGE, Work};
use crate::core::{Core, Unsaved};
use crate::drift;
use crate::error::RunError;
use crate::forwarder::Forwarder;
use crate::journal::{Grade, Kind};
use crate::options::{OnExit, Options};
use crate::start::{self, Started};
use crate::store::Store;
use crate::tunnel_probes::TunnelProbes;
use crate::watch::FileWatch;

/// Verdicts are written so often at most; what operators say is written at once.
const SAVE_HEALTH_EVERY: Duration = Duration::from_millis(100);

/// After netlink failed it is tried again so much later.
const NETLINK_REST: Duration = Duration::from_secs(1);

/// From one comparison of the forwarder with what it should hold to the next.
const DRIFT_EVERY: Duration = Duration::from_secs(5);

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
        let mut shell = Shell::start(options).await?;
        let asked = shell.work().await;
        shell.end(asked)
    })
}

pub(crate) struct Shell<'a> {
    pub(crate) options: &'a Options,
    pub(crate) core: Core,
    forwarder: Forwarder,
    probes: Option<TunnelProbes>,
    pub(crate) store: Store,
    pub(crate) source: Source,
    driver: Driver,
    answers: mpsc::Receiver<Answer>,
    pub(crate) follower: Follower,
    signals: Signals,
    watch: Option<FileWatch>,
    health_saved: Option<Instant>,
    pub(crate) trial: Option<Trial>,
    work: mpsc::Receiver<Work>,
    _listeners: Listeners,
}

/// A configuration that is taken back unless it is confirmed.
pub(crate) struct Trial {
    pub(crate) until: Instant,
    /// What comes back.
    pub(crate) before: Source,
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
    Work(Work),
    NextHops(Vec<(std::net::IpAddr, guideway_forward::record::backend::NextHop)>),
    Reload(&'static str),
    Asked(Asked, &'static str),
}

impl<'a> Shell<'a> {
    async fn start(options: &'a Options) -> Result<Self, RunError> {
        // Signals first: from here on none of them kills.
        let signals = Signals::new()?;
        let Started { mut core, forwarder, probes, store, source } = start::start(options)?;
        let (listeners, work) = Listeners::open(&options.api).await?;
        if let Some(address) = listeners.address() {
            core.about.page = Some(format!("http://{address}{PAGE}"));
            core.journal.note(Grade::Info, Kind::Daemon, format!("the API listens at {address}"));
        }
        let tunnel_device = probes.as_ref().map(|probes| probes.interface().to_owned());
        let (driver, answers) = Driver::new(ProbeOptions { tunnel_device, ..ProbeOptions::default() })?;
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
            probes,
            store,
            source,
            driver,
            answers,
            follower,
            signals,
            watch,
            health_saved,
            trial: None,
            work,
            _listeners: listeners,
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
            let rounds = self.core.advance(now);
            drift::watch(&mut self.core, &mut self.forwarder, DRIFT_EVERY, now);
            if std::mem::take(&mut self.core.tunnels_stale) {
                self.tell_prober();
            }
            for round in rounds {
                self.driver.start(round);
            }
            self.end_trial(now);
            self.save(now, false);
            if let Some((every, due)) = &mut watchdog
                && *due <= now
            {
                tell_manager(&[NotifyState::Watchdog]);
                *due = now + *every;
            }
            let due = self.core.next_due().min(now + Duration::from_secs(1));
            let due = self.trial.as_ref().map_or(due, |trial| due.min(trial.until));
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
                Some(work) = self.work.recv() => Woken::Work(work),
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
                Woken::Work(work) => self.do_work(work),
                Woken::Reload(why) => {
                    // What was wrong is told by the log and the status.
                    let _ = self.reload(why);
                }
                Woken::Asked(asked, by) => {
                    self.core.journal.note(Grade::Info, Kind::Daemon, format!("asked to end by {by}"));
                    return asked;
                }
            }
        }
    }

    fn do_work(&mut self, work: Work) {
        let mut order = None;
        let tell = work(&mut Desk { core: &mut self.core, order: &mut order });
        // What was answered must survive a kill.
        self.save(Instant::now(), false);
        tell();
        // Whoever asked may have gone away by the time of the answer.
        match order {
            None => {}
            Some(Order::Reload(tell)) => {
                let reloaded = self.reload("the API asked").map(|changed| Reloaded { changed });
                drop(tell.send(reloaded));
            }
            Some(Order::Apply(ask, tell)) => drop(tell.send(self.apply(ask))),
            Some(Order::Confirm(tell)) => {
                drop(tell.send(self.confirm().map(|written| Confirmed { written })));
            }
            Some(Order::Rollback(tell)) => drop(tell.send(self.rollback())),
        }
    }

    /// Reads the configuration again; a bad one changes nothing. Whether there was anything new.
    fn reload(&mut self, why: &str) -> Result<bool, String> {
        if let Ok(usec) = NotifyState::monotonic_usec_now() {
            tell_manager(&[NotifyState::Reloading, usec]);
        }
        let result = self.try_reload().map_err(|error| error.to_string());
        let (grade, text) = match &result {
            Ok(false) => (Grade::Info, format!("{why}: {} is as it was", self.source.name())),
            Ok(true) => (Grade::Info, format!("{why}: {} is in force", self.source.name())),
            Err(error) => (Grade::Error, format!("{why}: {error}\nthe configuration stays as it was")),
        };
        self.core.journal.note(grade, Kind::Config, text);
        let config = &mut self.core.about.config;
        config.last_reload_successful = result.is_ok();
        config.last_reload_error = result.clone().err();
        tell_manager(&[NotifyState::Ready]);
        result
    }

    /// Whether there was anything new.
    fn try_reload(&mut self) -> Result<bool, RunError> {
        let (source, config) = start::read(&self.options.config)?;
        if source.text() == self.source.text() {
            return Ok(false);
        }
        self.take(source, config, true)?;
        // What the file says now is meant for good, whatever was on trial.
        self.trial = None;
        self.core.about.config.confirm_by = None;
        Ok(true)
    }

    /// Has the kernel wrap the probes of every mark as their tunnels are now.
    fn tell_prober(&mut self) {
        let Some(probes) = &mut self.probes else { return };
        if let Err(error) = probes.follow(self.core.probe_tunnels(), self.core.probed_vips()) {
            let text = format!("probes through tunnels cannot follow: {error}");
            self.core.journal.note(Grade::Error, Kind::Health, text);
        }
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
