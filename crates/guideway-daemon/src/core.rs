//! What the daemon decides, without I/O: it is told the time and what happened, and says what is to be done.
//!
//! ```text
//! configuration, operators ─┐
//! answers of probes ────────┼─▶ Desired, Board, Drains ──(coalesced)──▶ Controller ──▶ forwarder
//! routes and neighbours ────┘
//! ```
//! Changes mark services; marked services are committed at once after a quiet time, and otherwise once in
//! [`COMMIT_EVERY`], so that whatever flaps costs no more than that.

mod commit_text;
mod crowding;
mod drains;
#[cfg(test)]
mod flapping;
mod impossible;
pub(crate) mod links;
mod next_hops;
pub(crate) mod routed;
mod sources;
mod unheard;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use guideway_control::config::{self, Config, Encapsulation, HealthVia, OnExit, Renames};
use guideway_control::controller::{ChangeError, Controller};
use guideway_control::desired::{Committed, Desired, Outcome};
use guideway_control::drain::Drains;
use guideway_control::health::{self, Answer, Board, Change, Finding, Round, Verdict, Who};
use guideway_control::histogram::Histogram;
use guideway_control::overrides::{AdminState, Overrides, WeightError};
use guideway_forward::record::{self, BackendSpec, NextHop};
use guideway_wire::{Address, Tunnel, gue};

use crate::api::Places;
use crate::api::model::{ConfigStatus, Interface};
use crate::audit::Audit;
use crate::drift::Drift;
use crate::engine::Plane;
use crate::journal::{Grade, Journal, Kind};
use crate::log::Log;
use crate::manager::Heartbeat;
use crate::slack::Slack;
use crate::ways::{Lost, Ways};
use crowding::Crowding;

/// The least time from one commit to the next.
const COMMIT_EVERY: Duration = Duration::from_millis(20);

/// From one look at what time brings to the next.
const TICK_EVERY: Duration = Duration::from_secs(1);

/// A refused service is tried again so often: memory may have come free.
const RETRY_EVERY: Duration = Duration::from_secs(5);

/// Everything that the daemon knows and wants.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) config: Config,
    pub(crate) desired: Desired,
    pub(crate) board: Board,
    pub(crate) controller: Controller<Plane>,
    pub(crate) drains: Drains,
    pub(crate) journal: Journal,
    /// Who changed what.
    pub(crate) audit: Audit,
    committed_at: Option<Instant>,
    /// How long commits took.
    pub(crate) commits: Histogram,
    /// Refused services wait until then.
    retry_at: Option<Instant>,
    tick_at: Instant,
    /// Whether what outlives the process has changed.
    pub(crate) unsaved: Unsaved,
    /// Files that could not be written at the last try, and why.
    pub(crate) unwritten: BTreeMap<&'static str, String>,
    /// Services of which it was told that checks cannot be made.
    impossible: BTreeSet<String>,
    /// Interfaces of which it was told that they are down.
    down: BTreeSet<String>,
    /// When failures tell something of backends again, after all interfaces were down.
    cut_off_until: Option<Instant>,
    /// Whether links were not heard of yet.
    awaits_links: bool,
    /// What does not follow from the rest.
    pub(crate) about: About,
    /// Changes of what is wanted so far.
    changes: u64,
    pub(crate) drift: Drift,
    pub(crate) ways: Ways,
    /// Backends that no frame can be sent to, and when that was looked at last.
    pub(crate) lost: BTreeMap<IpAddr, Lost>,
    /// Interfaces that do not send what native mode has for them, and why.
    refusing: BTreeMap<u32, String>,
    /// Whether ways changed since it was asked which those are.
    pub(crate) egress_stale: bool,
    /// The interfaces, beside the first one, that answers of probes through tunnels are heard by.
    pub(crate) hears_at: BTreeSet<u32>,
    lost_looked_at: Option<Instant>,
    /// The names of interfaces that frames leave by.
    links: BTreeMap<u32, String>,
    /// Sources of tunnels that are no addresses of this machine.
    foreign_sources: BTreeSet<IpAddr>,
    /// Where the kernel routes what the software forwarder forwards.
    routed: Vec<routed::Routed>,
    /// Whether tunnels of probes may have changed since they were told.
    pub(crate) tunnels_stale: bool,
    pub(crate) slack: Slack,
    pub(crate) crowding: Crowding,
    /// Fed by work that takes long.
    pub(crate) heartbeat: Heartbeat,
    /// When drains are to be looked at after a change, and before when they rest.
    drains_due: Option<Instant>,
    drains_rest_until: Option<Instant>,
}

/// What the daemon says of itself.
#[derive(Debug, Clone)]
pub(crate) struct About {
    pub(crate) started_at: SystemTime,
    /// Since when the configuration is in force.
    pub(crate) taken_at: SystemTime,
    /// What forwards.
    pub(crate) engine: &'static str,
    pub(crate) interfaces: Vec<Interface>,
    /// Whether the command line named them, whatever the configuration says.
    pub(crate) interfaces_are_given: bool,
    /// The names that interfaces were given by and have no more, each with the one that it has now.
    pub(crate) renamed: BTreeMap<String, String>,
    /// Whether it was asked to end and goes on for a while.
    pub(crate) is_ending: bool,
    /// Whether checks can go through tunnels.
    pub(crate) tunnel_probes: bool,
    pub(crate) config: ConfigStatus,
    /// The socket for operators, with its whole path.
    pub(crate) socket: Option<PathBuf>,
    /// The TCP address at which the API listens.
    pub(crate) address: Option<SocketAddr>,
    /// Connections to the API, for each way in.
    pub(crate) places: Vec<Arc<Places>>,
    /// Where what is logged goes, where that is known.
    pub(crate) log: Option<Log>,
    /// What somebody should see to, as long as this daemon lives.
    pub(crate) faults: Vec<String>,
}

/// What is to be written to files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Unsaved {
    pub(crate) health: bool,
    pub(crate) overrides: bool,
    /// Which records of the forwarder are of removed backends; it may have changed.
    pub(crate) removed: bool,
}

/// A configuration was refused; everything is as it was.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// The forwarder cannot hold it.
    #[error(transparent)]
    Change(#[from] ChangeError),
    /// It asks for other interfaces, which only a restart can give.
    #[error("daemon.interfaces changed, and the forwarder is at work at those of before: restart the daemon")]
    Interfaces,
    /// It asks for a forwarder that outlives the process, and this one cannot.
    #[error(
        "daemon.on_exit is \"keep\", but the software engine forwards in this process and ends with it: \
         leave it out, or run with --engine xdp"
    )]
    OnExit,
    /// It asks for what only a restart can give.
    #[error(
        "flow_table.entries is {asked}, and the forwarder at work was made with {have}: \
         leave it, or end the daemon with its forwarder and start it anew"
    )]
    FlowTable {
        /// What the configuration asks for.
        asked: u32,
        /// What there is.
        have: u32,
    },
}

impl Core {
    /// Wants nothing yet.
    pub(crate) fn new(
        config: Config,
        controller: Controller<Plane>,
        board: Board,
        overrides: Overrides,
        about: About,
        now: Instant,
    ) -> Self {
        Self {
            config,
            desired: Desired::new(overrides),
            board,
            controller,
            drains: Drains::new(),
            journal: Journal::default(),
            audit: Audit::default(),
            committed_at: None,
            commits: Histogram::default(),
            retry_at: None,
            tick_at: now,
            unsaved: Unsaved::default(),
            unwritten: BTreeMap::new(),
            impossible: BTreeSet::new(),
            down: BTreeSet::new(),
            cut_off_until: None,
            awaits_links: false,
            about,
            changes: 0,
            drift: Drift::default(),
            ways: Ways::default(),
            lost: BTreeMap::new(),
            refusing: BTreeMap::new(),
            egress_stale: false,
            hears_at: BTreeSet::new(),
            lost_looked_at: None,
            links: BTreeMap::new(),
            foreign_sources: BTreeSet::new(),
            routed: Vec::new(),
            tunnels_stale: true,
            slack: Slack::default(),
            crowding: Crowding::default(),
            heartbeat: Heartbeat::new(now),
            drains_due: None,
            drains_rest_until: None,
        }
    }

    /// What every change of what is wanted changes: of this daemon, and the number of the change.
    pub(crate) fn revision(&self) -> String {
        let since = self.about.started_at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        format!("{:x}-{}", since.as_millis(), self.changes)
    }

    /// Says what state a backend is in, from now on and over restarts. A drain's flows end after `deadline_seconds`.
    pub(crate) fn set_admin(
        &mut self,
        who: &Who,
        admin: AdminState,
        deadline_seconds: Option<u64>,
        now: Instant,
    ) {
        let configured = self.drain_timeout(&who.service).map(|timeout| timeout.as_secs());
        let deadline_seconds = deadline_seconds.or(configured);
        let until = deadline_seconds.and_then(|seconds| {
            SystemTime::now().checked_add(Duration::from_secs(seconds)).filter(|_| admin == AdminState::Drain)
        });
        let text = match deadline_seconds.filter(|_| admin == AdminState::Drain) {
            Some(seconds) => format!("{} for {seconds} s at most", admin.as_str()),
            None => admin.as_str().to_owned(),
        };
        self.operate(who, text, now, |overrides| overrides.set_admin(who, admin, until));
    }

    /// Gives a backend another weight, from now on and over restarts.
    pub(crate) fn set_weight(&mut self, who: &Who, weight: u32, now: Instant) -> Result<(), WeightError> {
        // Tried on a copy, so that nothing is noted of what is refused.
        Overrides::default().set_weight(who, weight)?;
        self.operate(who, format!("weight {weight}"), now, |overrides| {
            // It was tried.
            let _ = overrides.set_weight(who, weight);
        });
        Ok(())
    }

    /// Gives a backend back to the configuration.
    pub(crate) fn clear_override(&mut self, who: &Who, now: Instant) {
        self.operate(who, "as the configuration says".to_owned(), now, |overrides| {
            overrides.clear(who);
        });
    }

    fn operate(&mut self, who: &Who, text: String, now: Instant, change: impl FnOnce(&mut Overrides)) {
        self.desired.override_one(who, &mut self.board, now, change);
        self.unsaved.overrides = true;
        self.tunnels_stale = true;
        self.changes += 1;
        self.journal.note_of(Grade::Info, Kind::Operator, Some(&who.service), Some(&who.backend), text);
        self.commit(now);
    }

    /// Makes the first configuration what the forwarder holds.
    pub(crate) fn begin(&mut self, now: Instant) -> Result<(), Refused> {
        self.accepts(&self.config)?;
        // Of a forwarder that was taken over: frames go on as they do until netlink says otherwise.
        for (backend, next_hop) in self.controller.next_hops().collect::<Vec<_>>() {
            self.desired.assume_next_hop(backend, next_hop);
        }
        let wanted: BTreeSet<&str> =
            self.config.services.iter().map(|service| service.name.as_str()).collect();
        let gone: Vec<String> = self
            .controller
            .service_names()
            .filter(|name| !wanted.contains(name))
            .map(str::to_owned)
            .collect();
        let flows = self.controller.live_flows(gone.iter().map(String::as_str));
        for service in &gone {
            self.controller.remove_service(service)?;
            let (grade, text) = commit_text::removed(flows.get(service.as_str()).copied().unwrap_or(0));
            self.journal.note_of(grade, Kind::Commit, Some(service), None, text);
        }
        self.desired.take_leaving(&self.controller.remaining());
        self.leave_next_hops_open();
        let serving = self.serving();
        self.configure(now);
        for who in serving {
            self.board.presume_up(&who, now);
        }
        match self.commit_all(now) {
            Some(error) => Err(error.into()),
            None => Ok(()),
        }
    }

    /// Replaces the configuration, all of it or nothing.
    pub(crate) fn reconfigure(&mut self, config: Config, now: Instant) -> Result<(), Refused> {
        self.accepts(&config)?;
        let renames = config::renamed(&self.config, &config);
        let before = std::mem::replace(&mut self.config, config);
        self.changes += 1;
        let overrides = self.desired.overrides().clone();
        self.rename(&renames, now);
        self.forget_cuts(&before, &renames, now);
        self.leave_next_hops_open();
        self.configure(now);
        let Some(error) = self.commit_all(now) else { return Ok(()) };
        self.config = before;
        self.rename(&renames.reversed(), now);
        self.desired.with_overrides(&mut self.board, now, |now| *now = overrides);
        self.configure(now);
        if let Some(again) = self.commit_all(now) {
            self.journal.note(Grade::Error, Kind::Commit, format!("going back failed: {again}"));
        }
        Err(error.into())
    }

    /// Has services be called as the configuration calls them.
    fn rename(&mut self, names: &Renames, now: Instant) {
        if names.is_empty() {
            return;
        }
        self.desired.rename(names, &mut self.controller, &mut self.board, now);
        self.drains.rename(names);
        for (from, to) in names.iter() {
            let text = format!("it was called {from} before");
            self.journal.note_of(Grade::Info, Kind::Config, Some(to), None, text);
        }
    }

    /// The backends that take new flows in the forwarder as it is.
    fn serving(&self) -> Vec<Who> {
        let services = self.controller.status().into_iter();
        services
            .flat_map(|service| {
                let serving = service.backends.into_iter().filter(|backend| backend.slots > 0);
                serving.map(move |backend| Who {
                    service: service.name.clone(),
                    backend: backend.identity.to_string(),
                })
            })
            .collect()
    }

    /// Whether this daemon can honour another configuration, as far as that can be told before.
    pub(crate) fn accepts(&self, config: &Config) -> Result<(), Refused> {
        if config.daemon.on_exit == Some(OnExit::Keep) && matches!(self.controller.engine(), Plane::Soft(_)) {
            return Err(Refused::OnExit);
        }
        let (asked, have) = (config.flow_table_entries, self.config.flow_table_entries);
        if asked != have {
            return Err(Refused::FlowTable { asked, have });
        }
        // A configuration that has the new name of a renamed one means the same interfaces.
        let now = |config: &Config| {
            let names = config.daemon.interfaces.iter();
            names.map(|name| self.about.renamed.get(name).unwrap_or(name).clone()).collect::<Vec<_>>()
        };
        if now(config) != now(&self.config) && !self.about.interfaces_are_given {
            return Err(Refused::Interfaces);
        }
        Ok(())
    }

    fn configure(&mut self, now: Instant) {
        let ways = self.ways.configure(&self.config, now);
        self.follow_ways(&ways);
        if self.about.tunnel_probes {
            self.desired.configure(&self.config, &mut self.board, now);
        } else {
            let mut config = self.config.clone();
            for health in config.services.iter_mut().filter_map(|service| service.health.as_mut()) {
                health.via = HealthVia::Direct;
            }
            self.desired.configure(&config, &mut self.board, now);
        }
        self.unsaved = Unsaved { health: true, overrides: true, removed: true };
        self.tunnels_stale = true;
    }

    /// Backends whose way is not known yet have no neighbour, rather than the one that a replay would use.
    fn leave_next_hops_open(&mut self) {
        for address in self.backends() {
            self.desired.assume_next_hop(address, NextHop::default());
        }
    }

    /// Which mark names which tunnel, for the program that wraps probes.
    pub(crate) fn probe_tunnels(&self) -> BTreeMap<u32, BackendSpec> {
        let underlay = &self.config.underlay;
        let tunnels = self.board.probe_tunnels().filter_map(|(mark, tunnel)| {
            let spec = BackendSpec {
                state: record::BackendState::Active,
                address: Address::from(tunnel.address).octets(),
                tunnel: match tunnel.encapsulation() {
                    Encapsulation::Ipip => Tunnel::Ipip,
                    Encapsulation::Gre => Tunnel::Gre,
                    Encapsulation::Gue => Tunnel::GueDirect,
                    Encapsulation::GueHeader => Tunnel::GueHeader,
                },
                outer_source: Address::from(underlay.source_for(tunnel.address)?).octets(),
                source_entropy_bits: 0,
                gue_port: gue::PORT,
                mtu: underlay.mtu,
                next_hop: self.desired.next_hop(tunnel.address).unwrap_or_default(),
            };
            Some((mark, spec))
        });
        tunnels.collect()
    }

    /// The addresses that probes through tunnels go to.
    pub(crate) fn probed_vips(&self) -> BTreeSet<IpAddr> {
        let services = self.config.services.iter();
        services.filter_map(health::probed_vips).flatten().collect()
    }

    /// The addresses of all backends, those that were removed and drain included.
    pub(crate) fn backends(&self) -> BTreeSet<IpAddr> {
        let services = self.config.services.iter();
        let wanted = services.flat_map(|service| service.backends.iter().map(|backend| backend.address));
        wanted.chain(self.desired.leaving()).collect()
    }

    /// When [`rounds`](Self::rounds) or [`advance`](Self::advance) has something to do.
    pub(crate) fn next_due(&self) -> Instant {
        let commit = self.commit_due();
        let drains = [self.drains.next_due(), self.drains_due].into_iter().flatten().min();
        let first = self.desired.first_verdicts_due();
        [self.board.next_due(), drains, commit, first, self.drift.due(), Some(self.tick_at)]
            .into_iter()
            .flatten()
            .min()
            .unwrap_or(self.tick_at)
    }

    fn commit_due(&self) -> Option<Instant> {
        let rested = self.committed_at.map(|at| at + COMMIT_EVERY);
        self.desired.is_marked().then(|| rested.max(self.retry_at).unwrap_or(self.tick_at - TICK_EVERY))
    }

    /// The rounds of checks that are to be asked now: at once, since their time runs. What else is due comes after, by
    /// [`advance`](Self::advance).
    pub(crate) fn rounds(&mut self, now: Instant) -> Vec<Round> {
        let advanced = self.board.advance(now);
        self.desired.note_advanced(&advanced);
        self.note_changes(&advanced.changes);
        advanced.rounds
    }

    /// Does what is due, but for checks.
    pub(crate) fn advance(&mut self, now: Instant) {
        if [self.drains.next_due(), self.drains_due].into_iter().flatten().any(|due| due <= now) {
            self.look_at_drains(now);
        }
        if self.tick_at <= now {
            self.tick_at = now + TICK_EVERY;
            self.tick(now);
        }
        if self.desired.first_verdicts_due().is_some_and(|due| due <= now) {
            self.desired.note_first_verdicts(&self.board, now);
        }
        if self.commit_due().is_some_and(|due| due <= now) {
            self.commit(now);
        }
    }

    /// Takes what came of a round.
    pub(crate) fn answer(&mut self, answer: &Answer, now: Instant) {
        let changes = self.board.answer(&self.heard(answer, now), now);
        self.desired.note_changes(&changes);
        self.note_changes(&changes);
    }

    fn note_changes(&mut self, changes: &[Change]) {
        if changes.is_empty() {
            return;
        }
        self.unsaved.health = true;
        self.journal.act_for(Some("check"));
        for Change { who, from, to, finding, flapping } in changes {
            let grade = if *to == Verdict::Up { Grade::Info } else { Grade::Warning };
            let flapping = if *flapping { " (flapping)" } else { "" };
            let text = format!("{} to {}{flapping}: {}", from.as_str(), to.as_str(), reason(finding));
            self.journal.note_of(grade, Kind::Health, Some(&who.service), Some(&who.backend), text);
        }
        self.journal.act_for(None);
    }

    /// Takes what came of writing a file: a failure is told once, and so is its end.
    pub(crate) fn note_written(&mut self, file: &'static str, failed: Option<String>) {
        match failed {
            Some(error) if self.unwritten.get(file) != Some(&error) => {
                self.journal.note(Grade::Error, Kind::State, error.clone());
                self.unwritten.insert(file, error);
            }
            None if self.unwritten.remove(file).is_some() => {
                self.journal.note(Grade::Info, Kind::State, format!("{file} is written again"));
            }
            _ => {}
        }
    }

    /// Why a restart would not find all that operators said, if it would not.
    pub(crate) fn said_is_not_kept(&self) -> Option<String> {
        let files = ["overrides.json", "drains.json"];
        let why: Vec<&str> =
            files.iter().filter_map(|file| self.unwritten.get(file)).map(String::as_str).collect();
        (!why.is_empty()).then(|| why.join("; "))
    }

    /// Brings a configuration to the forwarder, with what it says of drains; the first refusal, if there is one.
    fn commit_all(&mut self, now: Instant) -> Option<ChangeError> {
        let (_, refused) = self.bring(now);
        self.follow_deadlines(now, |_| true);
        self.look_at_drains(now);
        refused
    }

    /// Brings what is marked to the forwarder, and notes the drains that begin or end with it; the first refusal, if there
    /// is one.
    fn commit(&mut self, now: Instant) -> Option<ChangeError> {
        let (touched, refused) = self.bring(now);
        self.note_drains(&touched, now);
        self.follow_deadlines(now, |service| touched.contains(service));
        self.look_at_drains_soon(now);
        refused
    }

    /// The services that were brought to the forwarder, and the first refusal.
    fn bring(&mut self, now: Instant) -> (HashSet<String>, Option<ChangeError>) {
        let mut refused = None;
        let mut touched = HashSet::new();
        let begin = Instant::now();
        let committed = self.desired.commit(&mut self.controller, &self.board, now);
        if !committed.is_empty() {
            self.commits.note(begin.elapsed());
        }
        for Committed { service, result } in committed {
            match result {
                Ok(Outcome::Removed { flows_ended }) => {
                    let (grade, text) = commit_text::removed(flows_ended);
                    self.journal.note_of(grade, Kind::Commit, Some(&service), None, text);
                }
                Ok(Outcome::Changed(change)) => {
                    let (grade, text) = commit_text::of(&change);
                    self.slack.note_table(change.slots, now);
                    self.journal.note_of(grade, Kind::Commit, Some(&service), None, text);
                }
                Err(error) => {
                    self.journal.note_of(Grade::Error, Kind::Commit, Some(&service), None, error.to_string());
                    refused.get_or_insert(error);
                }
            }
            touched.insert(service);
        }
        self.unsaved.removed |= !touched.is_empty();
        self.committed_at = Some(now);
        self.retry_at = refused.is_some().then(|| now + RETRY_EVERY);
        (touched, refused)
    }

    fn tick(&mut self, now: Instant) {
        let ticked = self.controller.tick();
        for error in &ticked.refused {
            self.journal.note(Grade::Error, Kind::Commit, error.to_string());
        }
        if ticked.settled > 0 {
            tracing::debug!(slots = ticked.settled, "slots settled");
        }
        self.look_at_drains(now);
        self.note_impossible();
        self.note_crowding(now);
    }
}

/// What a round found, with what went wrong.
fn reason(finding: &Finding) -> String {
    if finding.detail.is_empty() {
        return finding.reason.to_owned();
    }
    format!("{} ({})", finding.reason, finding.detail.join("; "))
}
