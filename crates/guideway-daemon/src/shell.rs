//! The daemon's I/O: one loop that waits for whatever happens, tells the core, and does what the core says.

use std::collections::VecDeque;
use std::io;
use std::time::{Duration, Instant, SystemTime};

use guideway_control::config::{Config, Source};
use guideway_control::counted;
use guideway_control::drain;
use guideway_control::health::probe::{Answers, Driver, Options as ProbeOptions};
use guideway_control::neighbour::{Follower, is_local};
use tokio::sync::mpsc;

use crate::api;
use crate::api::{Desk, Listeners, Order, Refusal, Reply, Work};
use crate::audit::Request;
use crate::core::{Core, Unsaved, routed};
use crate::descriptors::{self, Reserve};
use crate::drift;
use crate::error::RunError;
use crate::forwarder::Forwarder;
use crate::journal::{Grade, Kind};
use crate::kept::Kept;
use crate::manager::Manager;
use crate::names::Names;
use crate::options::{EngineOptions, OnExit, Options};
use crate::slack;
use crate::start::{self, Started};
use crate::store::Store;
use crate::trial::{self, Trial};
use crate::tunnel_probes::TunnelProbes;
use crate::watch::FileWatch;

mod reload;
mod signals;

use reload::Reading;
pub(crate) use reload::Reload;
use signals::Signals;

/// Verdicts are written so often at most; what operators say is written at once.
const SAVE_HEALTH_EVERY: Duration = Duration::from_millis(100);

/// Writing verdicts may take one part in so many of the loop's time: those of ten thousand backends are megabytes.
const SAVE_HEALTH_SHARE: u32 = 20;

/// Work that waits is done together for so long at most, before it is answered.
const WORK_TOGETHER: Duration = Duration::from_millis(5);

/// After netlink failed it is tried again so much later.
const NETLINK_REST: Duration = Duration::from_secs(1);

/// From one look at the names of interfaces to the next.
const NAMES_EVERY: Duration = Duration::from_secs(1);

/// The first checks are awaited so long at most before the daemon says that it is ready.
const FIRST_CHECKS: Duration = Duration::from_secs(3);

/// So many checks may be under way however few descriptors there are.
const FEWEST_CHECKS: usize = 8;

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
    api::check(&options.api)?;
    slack::share_one_heap();
    descriptors::raise();
    descriptors::suffice()?;
    let reserve = Reserve::take().map_err(RunError::system("keep descriptors for the end"))?;
    // The loop waits by itself: as a guest of the threads it would be woken by one of them, which was woken first.
    let runtime = |mut builder: tokio::runtime::Builder| {
        builder.enable_all().build().map_err(RunError::system("start threads"))
    };
    let mut several = tokio::runtime::Builder::new_multi_thread();
    several.worker_threads(THREADS);
    let threads = runtime(several)?;
    runtime(tokio::runtime::Builder::new_current_thread())?.block_on(async {
        let mut shell = Shell::start(options, threads.handle()).await?;
        let asked = shell.work().await;
        shell.end(asked, reserve)
    })
}

pub(crate) struct Shell<'a> {
    pub(crate) options: &'a Options,
    pub(crate) core: Core,
    forwarder: Forwarder,
    probes: Option<TunnelProbes>,
    pub(crate) store: Store,
    pub(crate) source: Source,
    /// What restarts and rollbacks need.
    pub(crate) kept: Kept,
    /// The names that services have had.
    pub(crate) names: Names,
    driver: Driver,
    answers: Answers,
    pub(crate) follower: Follower,
    signals: Signals,
    watch: Option<FileWatch>,
    /// The drains as they were written last.
    drains_saved: Option<drain::Snapshot>,
    /// When verdicts may be written next.
    health_rests_until: Option<Instant>,
    pub(crate) trial: Option<Trial>,
    /// What became of the last trial, where nobody ended it on purpose.
    pub(crate) trial_ended: Option<String>,
    /// Configurations taken so far.
    pub(crate) taken: u64,
    /// Files that are being read; what comes of the first is taken first.
    readings: VecDeque<Reading>,
    manager: Manager,
    /// When the names of interfaces are looked at next.
    names_due: Instant,
    /// When it ends, after it was asked to.
    ends_at: Option<Instant>,
    work: mpsc::Receiver<Work>,
    _listeners: Listeners,
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
    Answers,
    Work(Work),
    NextHops(Vec<(std::net::IpAddr, guideway_forward::record::backend::NextHop)>),
    Reload(Reload),
    Read(Result<(Source, Config), RunError>),
    Asked(Asked, &'static str),
}

impl<'a> Shell<'a> {
    /// Requests and probes are served by `threads`.
    async fn start(options: &'a Options, threads: &tokio::runtime::Handle) -> Result<Self, RunError> {
        // Signals first: from here on none of them kills.
        let signals = Signals::new()?;
        let Started { mut core, forwarder, probes, mut store, source, kept, names, taken_over, mut patience } =
            start::start(options)?;
        let tunnel_device = probes.as_ref().and_then(TunnelProbes::index);
        // What was begun until now may have taken long.
        core.heartbeat.beat(Instant::now());
        let mut open = || -> Result<_, RunError> {
            let _inside = threads.enter();
            let listening = Listeners::open(&options.api, core.heartbeat.pulse(), &mut patience)?;
            let defaults = ProbeOptions::default();
            let most_at_once = defaults.most_at_once.min(descriptors::part() as usize).max(FEWEST_CHECKS);
            let driver = Driver::new(ProbeOptions { tunnel_device, most_at_once })?;
            Ok((listening, driver))
        };
        // Who follows links and neighbours is the loop.
        let opened = open().and_then(|opened| Ok((opened, Follower::new()?)));
        let (((listeners, work), (driver, answers)), mut follower) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                // As it was before: what an earlier daemon left goes on, and what is new goes.
                forwarder.end(if taken_over { OnExit::Keep } else { OnExit::Detach })?;
                return Err(error);
            }
        };
        core.about.places = listeners.places().to_vec();
        core.about.socket = options.api.socket.as_deref().and_then(|path| std::path::absolute(path).ok());
        if let Some(address) = listeners.address() {
            core.about.address = Some(address);
            core.journal.note(Grade::Info, Kind::Daemon, format!("the API listens at {address}"));
        }
        let trial_ended = trial::ended_with_daemon(&mut store, &mut core);
        follower.follow(core.backends());
        core.await_links(Instant::now());
        core.note_sources(|source| is_local(source).ok());
        core.note_routed(routed::is_on);
        let watch = FileWatch::new(&options.config)
            .inspect_err(|error| {
                let text = format!("cannot watch {}: {error}; SIGHUP reloads it", options.config.display());
                core.journal.note(Grade::Warning, Kind::Config, text);
            })
            .ok();
        Ok(Self {
            options,
            core,
            forwarder,
            probes,
            store,
            source,
            kept,
            names,
            driver,
            answers,
            follower,
            signals,
            watch,
            drains_saved: None,
            health_rests_until: None,
            trial: None,
            trial_ended,
            taken: 0,
            readings: VecDeque::new(),
            manager: Manager::new(),
            names_due: Instant::now(),
            ends_at: None,
            work,
            _listeners: listeners,
        })
    }

    async fn work(&mut self) -> Asked {
        let mut ready_by = Some(Instant::now() + FIRST_CHECKS);
        let mut netlink_rests_until: Option<Instant> = None;
        loop {
            let now = Instant::now();
            if self.ends_at.is_some_and(|at| at <= now) {
                return Asked::End;
            }
            self.forwarder.beat();
            if let Some(complaint) = self.forwarder.complaint() {
                self.core.journal.note(Grade::Warning, Kind::Daemon, complaint);
            }
            // Before a round counts as not answered in time, what has been answered is heard, however long a commit took.
            while let Some(answer) = self.answers.take() {
                self.core.answer(&answer, now);
            }
            if std::mem::take(&mut self.core.tunnels_stale) {
                self.tell_prober();
            }
            if std::mem::take(&mut self.core.egress_stale) {
                let refusing = self.forwarder.refusing(self.core.ways.egress());
                self.core.note_refusing(refusing);
                self.hear_answers();
            }
            self.follow_names(now);
            for round in self.core.rounds(now) {
                self.driver.start(round);
            }
            self.core.advance(now);
            let every = self.core.config.daemon.drift_interval;
            if drift::watch(&mut self.core, &mut self.forwarder, every, now) {
                self.follow_probe_interface();
                self.hear_answers();
                self.core.note_sources(|source| is_local(source).ok());
                self.core.note_routed(routed::is_on);
            }
            let links = self.follower.table();
            if links.knows_links() {
                self.core.links_are_known();
            }
            self.core.note_links(now, |index| links.is_down(index));
            self.core.note_lost_ways(|index| links.is_down(index), now);
            let waits = self.core.desired.first_verdicts_due().is_some();
            if ready_by.is_some_and(|by| !waits && (by <= now || !self.core.board.is_new())) {
                ready_by = None;
                self.tell_ready();
            }
            self.end_trial(now);
            self.save(now, false);
            if self.core.slack.is_due(now) {
                drop(tokio::task::spawn_blocking(slack::give_back));
            }
            let core = &self.core;
            let event = core.journal.last().map_or(0, |event| event.number);
            let watchdog_due = core.heartbeat.beat(now);
            let manager_due = self.manager.advance(now, event, || status_line(core));
            let due = self.core.next_due().min(now + Duration::from_secs(1));
            let due = self.trial.as_ref().map_or(due, |trial| due.min(trial.until));
            let due = match self.health_rests_until {
                Some(until) if self.core.unsaved.health => due.min(until),
                _ => due,
            };
            let due = [watchdog_due, manager_due].into_iter().flatten().fold(due, Instant::min);
            let due = ready_by.filter(|_| !waits).map_or(due, |by| due.min(by));
            let due = self.ends_at.map_or(due, |at| due.min(at));
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
            let reading = self.readings.front_mut();
            let read = async {
                match reading {
                    Some(reading) => (&mut reading.file).await,
                    None => std::future::pending().await,
                }
            };
            let woken = tokio::select! {
                biased;
                asked = self.signals.next() => asked,
                () = self.answers.ready() => Woken::Answers,
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
                read = read => Woken::Read(read.unwrap_or_else(|error| {
                    Err(RunError::system("read the configuration")(io::Error::other(error)))
                })),
                () = written => Woken::Reload(Reload::File),
                () = tokio::time::sleep_until(due.into()) => Woken::Time,
            };
            match woken {
                // Answers are heard as the loop begins anew.
                Woken::Time | Woken::Answers => {}
                Woken::NextHops(changes) => self.core.set_next_hops(&changes, Instant::now()),
                Woken::Work(work) => self.do_work(work),
                Woken::Reload(by) => self.read_file(by, None),
                Woken::Read(read) => self.end_reading(read),
                Woken::Asked(asked, by) => {
                    self.core.journal.act_for(Some(by));
                    self.core.journal.note(Grade::Info, Kind::Daemon, format!("asked to end by {by}"));
                    self.core.journal.act_for(None);
                    self.note_request(Request::new(by, "end"), None);
                    let grace = self.core.config.daemon.shutdown_grace;
                    if asked == Asked::HandOver || grace.is_zero() || self.ends_at.is_some() {
                        return asked;
                    }
                    self.core.about.is_ending = true;
                    self.ends_at = Some(Instant::now() + grace);
                    self.manager.stopping();
                    let text = format!("forwarding on for {} s", grace.as_secs_f64());
                    self.core.journal.note(Grade::Info, Kind::Daemon, text);
                }
            }
        }
    }

    /// Tells everybody that clients can come.
    fn tell_ready(&mut self) {
        let text = format!("ready: {}", counts(&self.core));
        self.core.journal.note(Grade::Info, Kind::Daemon, text);
        self.manager.ready();
    }

    /// Does a piece of work, and what else waits: what they change is written to files once for all of them.
    fn do_work(&mut self, first: Work) {
        let (begin, mut next) = (Instant::now(), Some(first));
        let (mut order, mut told) = (None, Vec::new());
        while let Some(work) = next {
            told.push(work(&mut Desk { core: &mut self.core, order: &mut order }));
            let goes_on = order.is_none() && begin.elapsed() < WORK_TOGETHER;
            next = if goes_on { self.work.try_recv().ok() } else { None };
        }
        // What was answered must survive a kill.
        self.save(Instant::now(), false);
        told.into_iter().for_each(|tell| tell());
        if let Some((order, request)) = order {
            self.follow(order, request);
        }
    }

    fn follow(&mut self, order: Order, request: Request) {
        self.core.journal.act_for(Some(&request.who));
        match order {
            Order::Reload(tell) => {
                self.core.journal.act_for(None);
                self.read_file(Reload::Api, Some((tell, request)));
            }
            Order::Apply(ask, tell) => {
                let applied = self.apply(ask);
                self.followed(request, applied, tell);
            }
            Order::Confirm(tell) => {
                let confirmed = self.confirm();
                self.followed(request, confirmed, tell);
            }
            Order::Rollback(tell) => {
                let applied = self.rollback();
                self.followed(request, applied, tell);
            }
            // A question, which is nobody's change.
            Order::PlanRollback(tell) => {
                self.core.journal.act_for(None);
                if !tell.is_closed() {
                    drop(tell.send(self.plan_rollback()));
                }
            }
        }
    }

    /// Notes what came of an order, and then tells whoever asked, who may have gone away by then.
    fn followed<T>(&mut self, request: Request, result: Result<T, Refusal>, tell: Reply<T>) {
        self.core.journal.act_for(None);
        self.note_request(request, result.as_ref().err().map(|refusal| refusal.detail.as_str()));
        self.save(Instant::now(), false);
        drop(tell.send(result));
    }

    /// Tells the audit log what came of a request.
    pub(crate) fn note_request(&mut self, request: Request, refused: Option<&str>) {
        let revision = self.core.revision();
        self.core.audit.note(request, refused, revision);
    }

    /// Has the kernel wrap the probes of every mark as their tunnels are now.
    fn tell_prober(&mut self) {
        let Some(probes) = &mut self.probes else { return };
        if let Err(error) = probes.follow(self.core.probe_tunnels(), self.core.probed_vips()) {
            let text = format!("probes through tunnels cannot follow: {error}");
            self.core.journal.note(Grade::Error, Kind::Health, text);
        }
    }

    /// Has answers of probes heard where backends are.
    fn hear_answers(&mut self) {
        let Some(probes) = &mut self.probes else { return };
        for text in probes.hear(&self.core.ways.egress()) {
            self.core.journal.note(Grade::Warning, Kind::Health, text);
        }
        self.core.hears_at = probes.heard();
    }

    /// Has people, who go by names, know those that interfaces have now; packets and probes go by indices.
    fn follow_names(&mut self, now: Instant) {
        if now < self.names_due {
            return;
        }
        self.names_due = now + NAMES_EVERY;
        for renamed in self.forwarder.follow_names() {
            if let Some(probes) = &mut self.probes {
                probes.rename(&renamed);
            }
            self.core.note_renamed(renamed);
        }
    }

    /// Has probes wrapped again where their interface was made anew.
    fn follow_probe_interface(&mut self) {
        let Some(probes) = &mut self.probes else { return };
        let (grade, text) = match probes.follow_interface() {
            Ok(false) => return,
            Ok(true) => {
                probes.index().into_iter().for_each(|index| self.driver.leave_by(index));
                (Grade::Warning, "was made anew; probes go through tunnels there again".to_owned())
            }
            Err(error) => {
                (Grade::Error, format!("was made anew, and probes cannot be wrapped there: {error}"))
            }
        };
        let text = format!("{} {text}", probes.interface());
        self.core.journal.note(grade, Kind::Health, text);
    }

    /// Writes what has changed and may not be lost.
    pub(crate) fn save(&mut self, now: Instant, everything: bool) {
        let Unsaved { health, overrides, .. } = self.core.unsaved;
        // What fails is tried again when the loop comes by, which is once a second at least.
        self.kept.save(&self.store, &mut self.core, now);
        self.save_drains();
        if overrides {
            let error = self.store.write_overrides(self.core.desired.overrides()).err();
            self.core.unsaved.overrides = error.is_some();
            let error =
                error.map(|error| format!("{error}; after a restart what operators said is forgotten"));
            self.core.note_written("overrides.json", error);
        }
        let rested = self.health_rests_until.is_none_or(|until| now >= until);
        if (health && rested) || everything {
            let began = Instant::now();
            let error = self.store.write_health(&self.core.board.snapshot(now)).err();
            self.core.unsaved.health = error.is_some();
            self.core.note_written("health.json", error.map(|error| error.to_string()));
            let rest = (began.elapsed() * SAVE_HEALTH_SHARE).max(SAVE_HEALTH_EVERY);
            self.health_rests_until = Some(Instant::now() + rest);
        }
        let entries = self.core.audit.take_unwritten();
        if !entries.is_empty() {
            let path = self.store.audit().path().display();
            let error = self.store.audit().append(&entries).err();
            let error =
                error.map(|error| format!("cannot write {path}, the log alone has what is asked: {error}"));
            if error.is_some() {
                self.core.audit.lost += entries.len() as u64;
            }
            self.core.note_written("audit.jsonl", error);
        }
    }

    /// Writes the drains, and which records in the forwarder are of removed backends, where that has changed.
    fn save_drains(&mut self) {
        let drains_changed = self.core.drains.take_unsaved();
        if !(std::mem::take(&mut self.core.unsaved.removed) | drains_changed) {
            return;
        }
        let drains = self.core.drains.snapshot(Instant::now(), SystemTime::now());
        let drains = drains.with_removed(self.core.controller.removed());
        if self.drains_saved.as_ref() == Some(&drains) {
            return;
        }
        let written = self.store.write_drains(&drains);
        // What fails is tried again when the loop comes by.
        self.core.unsaved.removed = written.is_err();
        let error = written.as_ref().err();
        let error = error.map(|error| format!("{error}; after a restart a drain may last longer"));
        self.drains_saved = written.ok().map(|()| drains);
        self.core.note_written("drains.json", error);
    }

    fn end(mut self, asked: Asked, reserve: Reserve) -> Result<(), RunError> {
        reserve.give();
        self.manager.stopping();
        self.leave_trial();
        self.save(Instant::now(), true);
        let on_exit = match asked {
            Asked::End => match &self.options.engine {
                EngineOptions::Xdp { on_exit: Some(given), .. } => *given,
                _ => self.core.config.daemon.on_exit.map_or(OnExit::default(), OnExit::from),
            },
            Asked::HandOver => OnExit::Keep,
        };
        let totals = self.forwarder.plane().totals();
        let (received, unsent) = (totals.received.packets, self.forwarder.unsent());
        self.forwarder.end(on_exit)?;
        tracing::info!(received, unsent, "ended");
        Ok(())
    }
}

/// How many services and backends are wanted: a backend counts once for each service, as everywhere.
fn counts(core: &Core) -> String {
    let services = core.config.services.len();
    let backends: usize = core.config.services.iter().map(|service| service.backends.len()).sum();
    format!("{}, {}", counted(services, "service", "services"), counted(backends, "backend", "backends"))
}

/// How the daemon is, in a line.
fn status_line(core: &Core) -> String {
    if let Some(error) = &core.about.config.last_reload_error {
        return format!("the last reload failed: {error}");
    }
    let mut line = counts(core);
    if let Some(event) = core.journal.last() {
        let about = event.service.as_deref().map(|service| format!("{service}: ")).unwrap_or_default();
        line += &format!("; last: {about}{}", event.text);
    }
    line
}
