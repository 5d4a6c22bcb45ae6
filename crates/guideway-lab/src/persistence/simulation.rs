//! The run: events in order of the virtual clock, every packet through Guideway and through what it is compared with.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use guideway_control::controller::ChangeError;
use guideway_wire::FlowKey;

use super::balancer::{View, Went};
use super::fleet::Fleet;
use super::frame;
use super::history::{self, Change, Server, World};
use super::oracle::{Evidence, Fate, Judgement, Reason, Scene, reached};
use super::report::{Break, MAX_BREAKS, Report, kind_name};
use super::rivals::Rivals;
use super::settings::{Settings, SettingsError};
use super::strategy::{self, Arrival, PlainError};
use super::tally::Tally;
use super::traffic::{Flow, Kind, Millis, Send, Step, Traffic};
use crate::random::Random;

/// A run could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PersistenceError {
    /// The settings make no sense.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The controller refused a change.
    #[error("the controller refused a change of the history: {0}")]
    Change(#[from] ChangeError),
    /// A table to compare with could not be built.
    #[error("the table to compare with can't be built: {0}")]
    Plain(#[from] PlainError),
    /// The books of a balancer do not balance.
    #[error(transparent)]
    Unbalanced(#[from] guideway_soft::Unbalanced),
}

/// Milliseconds that a restarting balancer is away.
const AWAY: Millis = 10_000;

/// Percent of the flows for which a re-steering chooses anew.
const RESTEERED_PERCENT: u64 = 40;

/// Percent of a controller's ticks that come late, by up to three seconds.
const LATE_PERCENT: u64 = 3;

/// What is due, in the order in which it is done at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    Stop(usize),
    Return(usize),
    Change(usize),
    Tick(usize),
    Resteer,
    Begin(usize),
    Packet(usize),
    Census,
}

/// A flow that lives, and what each strategy did with it.
#[derive(Debug)]
struct Live {
    flow: Flow,
    /// The next step.
    next: usize,
    port: u16,
    key: FlowKey,
    fate: Fate,
    evidence: Option<Evidence>,
    rivals: Vec<Fate>,
}

pub(crate) struct Simulation<'a> {
    settings: &'a Settings,
    world: World,
    fleet: Fleet,
    rivals: Rivals,
    traffic: Traffic,
    steering: Random,
    queue: BinaryHeap<Reverse<(Millis, u64, Due)>>,
    queued: u64,
    live: Vec<Option<Live>>,
    changes: Vec<(Millis, Change)>,
    resteers: Vec<Millis>,
    restarts: Vec<Millis>,
    generation: u32,
    tally: Tally,
    packets: u64,
    flows: BTreeMap<&'static str, u64>,
    breaks: Vec<Break>,
    trace: Vec<String>,
    frame: Vec<u8>,
}

impl<'a> Simulation<'a> {
    /// A run with the history that the seed gives.
    pub(crate) fn new(settings: &'a Settings) -> Result<Self, PersistenceError> {
        settings.check()?;
        Self::with_changes(settings, history::draw(settings))
    }

    /// A run with this history, in order of time.
    pub(crate) fn with_changes(
        settings: &'a Settings,
        changes: Vec<(Millis, Change)>,
    ) -> Result<Self, PersistenceError> {
        let world = World::new(settings);
        let fleet = Fleet::start(settings, &world)?;
        let mut simulation = Self {
            settings,
            rivals: Rivals::new(settings, &world)?,
            fleet,
            world,
            traffic: Traffic::new(settings),
            steering: Random::stream(settings.seed, 3),
            queue: BinaryHeap::new(),
            queued: 0,
            live: (0..settings.flows).map(|_| None).collect(),
            changes,
            resteers: Vec::new(),
            restarts: Vec::new(),
            generation: 0,
            tally: Tally::default(),
            packets: 0,
            flows: BTreeMap::new(),
            breaks: Vec::new(),
            trace: Vec::new(),
            frame: Vec::new(),
        };
        simulation.plan();
        Ok(simulation)
    }

    /// Runs to the end. `progress` is told how many milliseconds of how many are over, about once a second of them.
    pub(crate) fn run(mut self, mut progress: impl FnMut(u64, u64)) -> Result<Report, PersistenceError> {
        let end = self.end();
        while let Some(Reverse((now, _, due))) = self.queue.pop() {
            if now >= end {
                break;
            }
            match due {
                Due::Begin(place) => self.begin(place, now),
                Due::Packet(place) => self.packet(place, now),
                Due::Tick(balancer) => self.tick(balancer, now),
                Due::Change(number) => self.change(number, now)?,
                Due::Resteer => self.resteer(now),
                Due::Stop(balancer) => self.fleet.stop(balancer),
                Due::Return(balancer) => {
                    self.fleet.restart(self.settings, &self.world, balancer, now)?;
                    self.rivals.restart(balancer);
                    self.notice_changes(now);
                }
                Due::Census => {
                    progress(now, end);
                    self.census(now);
                }
            }
        }
        progress(end, end);
        self.fleet.present().try_for_each(|balancer| balancer.balance())?;
        Ok(self.report())
    }

    fn end(&self) -> Millis {
        u64::from(self.settings.minutes) * 60_000
    }

    fn plan(&mut self) {
        let end = self.end();
        let mut random = Random::stream(self.settings.seed, 4);
        for place in 0..self.live.len() {
            // They come over the first twenty seconds.
            self.at(random.between(0, 20_000.min(end)), Due::Begin(place));
        }
        for number in 0..self.changes.len() {
            self.at(self.changes[number].0, Due::Change(number));
        }
        for balancer in 0..self.settings.balancers as usize {
            self.at(random.between(0, 1000), Due::Tick(balancer));
        }
        self.resteers = (0..self.settings.resteers).map(|_| random.between(20_000.min(end), end)).collect();
        self.resteers.sort_unstable();
        for at in self.resteers.clone() {
            self.at(at, Due::Resteer);
        }
        // Each in a part of the run of its own, so that never two are away.
        let part = end / u64::from(self.settings.restarts.max(1));
        for number in 0..u64::from(self.settings.restarts) {
            let at = number * part + random.between(0, part.saturating_sub(AWAY).max(1));
            let balancer = random.index(self.settings.balancers as usize);
            self.restarts.push(at);
            self.at(at, Due::Stop(balancer));
            // The only balancer is away for no packet's time: its clients would only wait and repeat.
            self.at(if self.settings.balancers > 1 { at + AWAY } else { at }, Due::Return(balancer));
        }
        self.at(0, Due::Census);
    }

    fn at(&mut self, when: Millis, due: Due) {
        self.queued += 1;
        self.queue.push(Reverse((when, self.queued, due)));
    }

    fn begin(&mut self, place: usize, now: Millis) {
        let flow = self.traffic.flow(now);
        *self.flows.entry(kind_name(flow.kind)).or_default() += 1;
        let key = frame::key(flow.kind, flow.client, flow.port);
        let first = flow.steps.first().map_or(0, |step| step.after);
        self.live[place] = Some(Live {
            port: flow.port,
            key,
            next: 0,
            fate: Fate::default(),
            evidence: None,
            rivals: vec![Fate::default(); self.rivals.len()],
            flow,
        });
        self.at(now + first, Due::Packet(place));
    }

    fn tick(&mut self, place: usize, now: Millis) {
        if let Some(balancer) = self.fleet.get_mut(place) {
            balancer.tick(now);
            if self.fleet.generation() != self.generation {
                self.notice_changes(now);
            }
        }
        let late = if self.steering.chance(LATE_PERCENT) { self.steering.between(0, 3_000) } else { 0 };
        self.at(now + 1_000 + late, Due::Tick(place));
    }

    fn change(&mut self, number: usize, now: Millis) -> Result<(), PersistenceError> {
        let change = self.changes[number].1;
        self.world.apply(change);
        self.fleet.apply(change, &self.world, now)?;
        self.rivals.change(&self.world)?;
        self.notice_changes(now);
        if self.settings.trace.is_some() {
            self.trace.push(format!("{:>9.3} s  change {change:?}", now as f64 / 1000.0));
        }
        Ok(())
    }

    /// Notes which flows' slots have changed owner.
    fn notice_changes(&mut self, now: Millis) {
        self.generation = self.fleet.generation();
        for live in self.live.iter_mut().flatten() {
            if let Some(evidence) = &mut live.evidence
                && evidence.changed.is_none()
                && self.fleet.has_changed(&live.key, evidence.owner)
            {
                evidence.changed = Some(now);
            }
        }
    }

    fn resteer(&mut self, now: Millis) {
        for live in self.live.iter_mut().flatten() {
            if self.steering.chance(RESTEERED_PERCENT) {
                live.flow.salt = self.steering.word();
            }
        }
        if self.settings.trace.is_some() {
            self.trace.push(format!("{:>9.3} s  routers choose anew", now as f64 / 1000.0));
        }
    }

    fn census(&mut self, now: Millis) {
        for balancer in self.fleet.present() {
            self.tally.remembered(balancer.remembered());
            self.tally.memory(balancer.memory_bytes());
        }
        self.at(now + 1_000, Due::Census);
    }

    fn packet(&mut self, place: usize, now: Millis) {
        let Some(mut live) = self.live.get_mut(place).and_then(Option::take) else { return };
        let Some(&step) = live.flow.steps.get(live.next) else { return };
        live.next += 1;
        self.packets += 1;
        if step.moves {
            // Above the ephemeral ports that flows begin with there is none; another one of the same client will do.
            live.port = live.port.wrapping_add(1).max(1_024);
            live.key = frame::key(live.flow.kind, live.flow.client, live.port);
        }
        if !live.fate.is_over() {
            self.through_guideway(&mut live, step, now);
        }
        // Routers choose one of the balancer's two links as well.
        let balancer = self.fleet.choose(live.flow.salt).unwrap_or(0);
        let arrival = Arrival { balancer, card: (live.flow.salt >> 32) & 1 };
        let sent = (live.flow.kind, step.send);
        self.rivals.packet(&mut live.rivals, arrival, &live.key, sent, &self.world, now);
        match live.flow.steps.get(live.next) {
            Some(next) => {
                self.at(now + next.after, Due::Packet(place));
                self.live[place] = Some(live);
            }
            None => {
                self.traffic.ended(&live.flow, now);
                let pause = self.steering.between(0, 2_000);
                self.at(now + pause, Due::Begin(place));
            }
        }
    }

    fn through_guideway(&mut self, live: &mut Live, step: Step, now: Millis) {
        let kind = live.flow.kind;
        let Some(place) = self.fleet.choose(live.flow.salt) else { return };
        let home = match live.fate {
            Fate::At(home) => Some(home),
            Fate::Unborn | Fate::Over => None,
        };
        let began_at = self.fleet.place(&live.key);
        let Some(balancer) = self.fleet.get_mut(place) else { return };
        let view = balancer.view(&live.key);
        let server_id = home.map_or(0, |home| home.0);
        frame::write(&mut self.frame, live.flow.client, live.port, kind, step.send, server_id);
        let went = balancer.packet(&self.frame, &live.key, now);
        let named = strategy::by_connection_id((kind, step.send), home, &self.world).is_some();
        self.tally.packet(!named && view.is_some_and(|view| !view.is_settled()));
        let opens = kind == Kind::Tcp && step.send == Send::Open;
        let judgement = live.fate.judge(reached(went), opens, kind, &self.world);
        if self.settings.trace == Some(live.flow.number) {
            self.trace.push(told(now, place, step, view.as_ref(), went, judgement));
        }
        let begins = home.is_none() || opens || judgement == Judgement::Moved;
        if begins {
            let (began_settled, owner) = began_at;
            live.evidence =
                Some(Evidence { began: now, began_settled, owner, changed: None, only: Some(place) });
        } else if let Some(evidence) = &mut live.evidence
            && evidence.only != Some(place)
        {
            evidence.only = None;
        }
        match judgement {
            Judgement::Fine => {}
            Judgement::Lost | Judgement::Moved => self.tally.lost(live.flow.number),
            Judgement::Broken { home } => self.broken(live, (place, home), view.as_ref(), went, now),
        }
    }

    fn broken(
        &mut self,
        live: &Live,
        (place, home): (usize, Server),
        view: Option<&View>,
        went: Went,
        now: Millis,
    ) {
        let (Some(evidence), Some(balancer)) = (live.evidence, self.fleet.get(place)) else { return };
        let crowded = balancer.bucket(&live.key).and_then(|bucket| balancer.crowded.get(&bucket)).copied();
        let scene = Scene { balancer: place, up_since: balancer.began, crowded, view, now };
        let reason = evidence.explain(&scene, home, live.flow.kind, self.settings);
        self.tally.broken(live.flow.kind, reason);
        // The unexplained ones are what a reader looks for.
        if self.breaks.len() < MAX_BREAKS || reason == Reason::Unexplained {
            let settled = view.and_then(|view| balancer.server_at(&live.key, view.slot.settled()));
            self.breaks.push(Break {
                flow: live.flow.number,
                kind: live.flow.kind,
                at: now,
                began: evidence.began,
                balancer: place,
                home,
                went: format!("{went:?}"),
                reason,
                place: format!("{view:?} settled={settled:?} {evidence:?}"),
            });
        }
    }

    fn report(self) -> Report {
        let mut rows = vec![self.tally.row()];
        rows.extend(self.rivals.rows());
        Report {
            seed: self.settings.seed,
            minutes: self.settings.minutes,
            balancers: self.settings.balancers,
            flows_at_a_time: self.settings.flows,
            packets: self.packets,
            flows: self.flows,
            changes: self.changes,
            resteers: self.resteers,
            restarts: self.restarts,
            rows,
            reasons: self.tally.reasons(),
            breaks: self.breaks,
            trace: self.trace,
        }
    }
}

fn told(
    now: Millis,
    place: usize,
    step: Step,
    view: Option<&View>,
    went: Went,
    judgement: Judgement,
) -> String {
    let seconds = now as f64 / 1000.0;
    format!("{seconds:>9.3} s  balancer {place}  {:?} {view:?} -> {went:?} {judgement:?}", step.send)
}
