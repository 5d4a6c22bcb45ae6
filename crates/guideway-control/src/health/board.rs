//! Every check, every verdict, and what is due next.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::beats::Beats;
use super::check::{Check, Wanted, Way, Who};
use super::machine::{Machine, Thresholds, Verdict};
use super::marks::{Marks, ProbeTunnel};
use super::pace::{Dice, Stand, Times};
use super::ramp::Ramp;
use super::round::{self, Answer, Fault, Finding, Leg, LegResult, Legs, Outcome, Round, RoundId, Tally};
use super::snapshot::{Saved, Snapshot};
use super::stream::{Stream, StreamId, Streams};
use super::subjects::{FIRST_ROUNDS, Subject, SubjectId, Subjects};
use crate::config::Renames;

/// How much later than its time-out a round may be reported; then it counts as timed out.
const REPORT_GRACE: Duration = Duration::from_millis(100);

/// Verdicts on backends that are not wanted any more are kept for so long, in case their configuration comes back.
const SET_ASIDE_FOR: Duration = Duration::from_secs(24 * 3_600);

/// Every check and every verdict.
#[derive(Debug)]
pub struct Board {
    seed: u64,
    streams: Streams,
    by_check: HashMap<Arc<Check>, StreamId>,
    /// Those of which the last round could not be asked, and so tells nothing.
    impossible: BTreeSet<StreamId>,
    subjects: Subjects,
    /// When which stream begins a round, or gives one up.
    queue: Beats,
    ramps: Ramps,
    marks: Marks,
    streams_begun: u64,
    rounds_begun: u64,
    tally: Tally,
    /// From before a restart; used up by the first [`Board::follow`].
    remembered: HashMap<Who, Saved>,
    away: Duration,
    /// On backends that are not wanted any more, and since when.
    set_aside: HashMap<Who, (Instant, Saved)>,
}

/// A verdict changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Whose.
    pub who: Who,
    /// What it was.
    pub from: Verdict,
    /// What it is.
    pub to: Verdict,
    /// What the deciding round found.
    pub finding: Finding,
    /// Whether it changes too often, so that its next rise takes longer.
    pub flapping: bool,
}

/// What time brought.
#[derive(Debug, Default)]
pub struct Advanced {
    /// Rounds to be asked now.
    pub rounds: Vec<Round>,
    /// Verdicts that changed, because a round was not reported in time.
    pub changes: Vec<Change>,
    /// Services of which a backend's share grew a step.
    pub ramped: BTreeSet<String>,
}

/// A backend's health, for people and metrics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// The verdict.
    pub verdict: Verdict,
    /// Since when; over a restart too.
    pub since: Instant,
    /// Results in a row that contradict it, and how many change it.
    pub row: (u16, u16),
    /// Whether it changes too often.
    pub flapping: bool,
    /// The step of its slow start.
    pub ramp: Option<u32>,
    /// What decided the verdict.
    pub because: Option<String>,
    /// What the last round found.
    pub last: Option<Finding>,
}

impl Board {
    /// A board without checks. The seed spreads them; a test that gives the same one sees the same times.
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            streams: Streams::default(),
            by_check: HashMap::new(),
            impossible: BTreeSet::new(),
            subjects: Subjects::default(),
            queue: Beats::default(),
            ramps: BTreeSet::new(),
            marks: Marks::default(),
            streams_begun: 0,
            rounds_begun: 0,
            tally: Tally::default(),
            remembered: HashMap::new(),
            away: Duration::ZERO,
            set_aside: HashMap::new(),
        }
    }

    /// A board that knows verdicts from before a restart `away` ago. They hold for the backends of the first
    /// [`follow`](Self::follow) that have their name and address still.
    pub fn restore(seed: u64, snapshot: Snapshot, away: Duration) -> Self {
        let remembered = snapshot.backends.into_iter().map(|saved| (saved.who(), saved)).collect();
        Self { remembered, away, ..Self::new(seed) }
    }

    /// Checks what is wanted from now on, and nothing else. A backend that keeps name and address keeps its verdict,
    /// whatever became of its check; one that joins a check which others share takes their verdict.
    pub fn follow(&mut self, wanted: impl IntoIterator<Item = Wanted>, now: Instant) {
        let mut gone: BTreeSet<SubjectId> = self.subjects.ids().collect();
        let (known, new): (Vec<_>, Vec<_>) =
            wanted.into_iter().partition(|wanted| self.knows(&wanted.who, wanted.check.address));
        // Newcomers last, so that whose verdict they may take does not depend on the order.
        for wanted in known.into_iter().chain(new) {
            if let Some(id) = self.subjects.id(&wanted.who) {
                gone.remove(&id);
            }
            self.follow_one(wanted, now);
        }
        self.set_aside.retain(|_, (since, _)| *since + SET_ASIDE_FOR > now);
        for id in gone {
            if let Some(subject) = self.subjects.of(id) {
                self.set_aside.insert(Who::clone(&subject.who), (now, saved(subject, now)));
            }
            self.forget(id);
        }
        self.remembered = HashMap::new();
    }

    /// Has the next [`follow`](Self::follow) take the verdicts that there were on backends which were wanted within this time and
    /// are not now, as a restart does: a configuration that is taken back comes back with them.
    pub fn recall(&mut self, within: Duration, now: Instant) {
        let lately = self.set_aside.drain().filter(|(_, (since, _))| *since + within >= now);
        self.remembered = lately.map(|(who, (since, saved))| (who, saved.aged(now - since))).collect();
        self.away = Duration::ZERO;
    }

    /// Has the next [`follow`](Self::follow) take the verdicts on backends for those on the same backends under their services'
    /// new names, as a restart does.
    pub fn rename(&mut self, names: &Renames, now: Instant) {
        if self.remembered.is_empty() {
            self.away = Duration::ZERO;
        }
        let remembered = std::mem::take(&mut self.remembered).into_iter();
        self.remembered = remembered.map(|(who, saved)| (who.renamed(names), saved)).collect();
        let those = self.subjects.iter().filter(|subject| names.of(&subject.who.service).is_some());
        let present = those.map(|subject| (Who::clone(&subject.who).renamed(names), saved(subject, now)));
        self.remembered.extend(present);
    }

    fn knows(&self, who: &Who, address: IpAddr) -> bool {
        let subject = self.subjects.named(who).map(|subject| subject.address);
        let saved = self.remembered.get(who).map(|saved| saved.address);
        subject == Some(address) || saved == Some(address)
    }

    fn follow_one(&mut self, wanted: Wanted, now: Instant) {
        let Wanted { who, check, thresholds, slow_start } = wanted;
        let address = check.address;
        let mut known = self.subjects.id(&who);
        if let Some(id) = known
            && self.subjects.of(id).is_some_and(|subject| subject.address != address)
        {
            self.forget(id);
            known = None;
        }
        let stream = self.stream(Arc::clone(&check), now);
        if let Some(id) = known
            && let Some(subject) = self.subjects.of_mut(id)
        {
            let before = std::mem::replace(&mut subject.stream, stream);
            if self.streams.get(before).is_some_and(|before| !before.check.asks_as(&check)) {
                subject.machine.begin_row();
            }
            subject.thresholds = thresholds;
            subject.slow_start = slow_start;
            if before != stream {
                self.join(stream, id);
                self.leave(before, id);
            }
            return;
        }
        let mut subject = Subject {
            who: Arc::new(who),
            stream,
            address,
            thresholds,
            slow_start,
            machine: Machine::new(),
            since: now,
            ramp: None,
            heard: 0,
            because: None,
        };
        let saved = self.remembered.remove(&*subject.who).filter(|saved| saved.address == address);
        let mut ramp = None;
        if let Some(saved) = saved {
            subject.machine = saved.machine;
            subject.since = now.checked_sub(saved.age() + self.away).unwrap_or(now);
            ramp = saved.ramp().and_then(|over| Ramp::resume(now, slow_start, over + self.away));
            subject.because = saved.because;
        } else if let Some(sibling) = self.sibling(stream, thresholds) {
            subject.machine = sibling.machine;
            subject.because = sibling.because.clone();
        }
        let id = self.subjects.insert(subject);
        self.join(stream, id);
        if let Some(subject) = self.subjects.of_mut(id) {
            set_ramp(&mut self.ramps, id, subject, ramp, now);
        }
    }

    /// Takes a backend that has never passed, as far as is known here, for one that is up: it was serving when this board
    /// was made. Its checks decide from now on.
    pub fn presume_up(&mut self, who: &Who, now: Instant) {
        let Some(id) = self.subjects.id(who) else { return };
        let Some(subject) = self.subjects.of_mut(id) else { return };
        if subject.machine.verdict() == Verdict::NeverPassed {
            subject.machine.step(true, Thresholds { rise: 1, ..subject.thresholds });
            subject.since = now;
            subject.because = Some("it was serving when the checks began".to_owned());
            if let Some(stream) = self.streams.get_mut(subject.stream) {
                stream.settled = None;
            }
        }
    }

    /// When something is due next.
    pub fn next_due(&self) -> Option<Instant> {
        let round = self.queue.first();
        let ramp = self.ramps.first().map(|&(at, _)| at);
        round.into_iter().chain(ramp).min()
    }

    /// Does what is due.
    pub fn advance(&mut self, now: Instant) -> Advanced {
        let mut advanced = Advanced::default();
        while let Some(due) = self.queue.pop(now) {
            for id in due {
                let Some(stream) = self.streams.get(id) else { continue };
                if stream.asking.is_some() {
                    let fault = Fault::Overdue { limit: stream.times.timeout };
                    let results = vec![Err(fault); stream.legs.len()];
                    advanced.changes.extend(self.conclude(id, &results, now));
                } else {
                    advanced.rounds.extend(self.begin(id, now));
                }
            }
        }
        while let Some(&(at, id)) = self.ramps.first()
            && at <= now
        {
            self.ramps.pop_first();
            if let Some(subject) = self.subjects.of_mut(id) {
                let ramp = subject.ramp.take().map(|(ramp, _)| ramp);
                set_ramp(&mut self.ramps, id, subject, ramp, now);
                advanced.ramped.insert(subject.who.service.clone());
            }
        }
        advanced
    }

    /// Takes what came of a round; returns the verdicts that changed. An answer that is too late changes nothing, and
    /// neither does one to a check that is not wanted any more.
    pub fn answer(&mut self, answer: &Answer, now: Instant) -> Vec<Change> {
        let RoundId { stream, number } = answer.id;
        let expected = |stream: &&Stream| stream.round == number && stream.asking.is_some();
        let legs = self.streams.get(stream).filter(expected).map(|stream| stream.legs.len());
        if legs != Some(answer.results.len()) {
            return Vec::new();
        }
        self.conclude(stream, &answer.results, now)
    }

    /// Whether any backend has never passed because it has not been asked yet.
    pub fn is_new(&self) -> bool {
        let asked =
            |stream: StreamId| self.streams.get(stream).is_some_and(|stream| stream.finding.is_some());
        self.subjects
            .iter()
            .any(|subject| subject.machine.verdict() == Verdict::NeverPassed && !asked(subject.stream))
    }

    /// The services with a backend that has never passed and may do so by its first checks: it has not been asked twice, or
    /// has answered well of late. A service may come more than once.
    pub fn undecided(&self) -> impl Iterator<Item = &str> {
        let undecided = self.subjects.iter().filter(|subject| subject.is_undecided());
        undecided.map(|subject| subject.who.service.as_str())
    }

    /// The verdict on a backend; `None` where nothing checks it.
    pub fn verdict(&self, who: &Who) -> Option<Verdict> {
        Some(self.subjects.named(who)?.machine.verdict())
    }

    /// Every verdict, those on backends that left and are still checked included.
    pub fn verdicts(&self) -> impl Iterator<Item = (&Who, Verdict)> {
        self.subjects.iter().map(|subject| (&*subject.who, subject.machine.verdict()))
    }

    /// How often in a row a backend has passed that is not up yet, of how many times; `None` where it did not pass last.
    pub fn rising(&self, who: &Who) -> Option<(u16, u16)> {
        let Subject { machine, thresholds, .. } = self.subjects.named(who)?;
        let rises = machine.verdict() != Verdict::Up && machine.row() > 0;
        rises.then(|| (machine.row(), machine.needed(*thresholds)))
    }

    /// What decided the verdict on a backend, if anything did.
    pub fn because(&self, who: &Who) -> Option<&str> {
        self.subjects.named(who)?.because.as_deref()
    }

    /// What the last round found of a backend, if there was one.
    pub fn last(&self, who: &Who) -> Option<&Finding> {
        self.streams.get(self.subjects.named(who)?.stream)?.finding.as_ref()
    }

    /// Those whose check could not be made when that was tried last, with what was found then: their verdicts stay as they
    /// are.
    pub fn impossible(&self) -> impl Iterator<Item = (&Who, &Finding)> {
        let streams = self.impossible.iter().filter_map(|&stream| self.streams.get(stream));
        let findings = streams.filter_map(|stream| Some((stream, stream.finding.as_ref()?)));
        findings.flat_map(|(stream, finding)| {
            let subjects = stream.subjects.iter().filter_map(|&id| self.subjects.of(id));
            subjects.map(move |subject| (&*subject.who, finding))
        })
    }

    /// Whether any backend starts slowly.
    pub fn is_ramping(&self) -> bool {
        !self.ramps.is_empty()
    }

    /// The step of a backend's slow start, from 1 to [`RAMP_STEPS`](super::RAMP_STEPS); `None` at its full weight.
    pub fn ramp_step(&self, who: &Who, now: Instant) -> Option<u32> {
        self.subjects.named(who)?.ramp.and_then(|(ramp, _)| ramp.step(now))
    }

    /// A backend's health; `None` where nothing checks it.
    pub fn status(&self, who: &Who, now: Instant) -> Option<Status> {
        let subject = self.subjects.named(who)?;
        Some(Status {
            verdict: subject.machine.verdict(),
            since: subject.since,
            row: (subject.machine.row(), subject.machine.needed(subject.thresholds)),
            flapping: subject.machine.is_flapping(),
            ramp: self.ramp_step(who, now),
            because: subject.because.clone(),
            last: self.streams.get(subject.stream).and_then(|stream| stream.finding.clone()),
        })
    }

    /// Which mark names which tunnel: what the kernel side wraps marked probes in.
    pub fn probe_tunnels(&self) -> impl Iterator<Item = (u32, ProbeTunnel)> {
        self.marks.iter()
    }

    /// How many distinct checks there are.
    pub fn distinct_checks(&self) -> usize {
        self.by_check.len()
    }

    /// The rounds that have ended so far.
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// What a restart must not forget.
    pub fn snapshot(&self, now: Instant) -> Snapshot {
        Snapshot::new(self.subjects.iter().map(|subject| saved(subject, now)).collect())
    }

    fn begin(&mut self, id: StreamId, now: Instant) -> Option<Round> {
        let stream = self.streams.get_mut(id)?;
        if stream.has_other_legs() {
            stream.legs = legs(&self.marks, stream);
        }
        self.rounds_begun += 1;
        stream.round = self.rounds_begun;
        stream.asking = Some(now);
        let round = Round {
            id: RoundId { stream: id, number: stream.round },
            check: Arc::clone(&stream.check),
            legs: stream.legs.clone(),
        };
        let Times { interval, timeout, .. } = stream.times;
        let given_up = self.queue.not_before(now + timeout + REPORT_GRACE, interval);
        self.reschedule(id, given_up);
        Some(round)
    }

    fn conclude(&mut self, id: StreamId, results: &[LegResult], now: Instant) -> Vec<Change> {
        let Some(stream) = self.streams.get_mut(id) else { return Vec::new() };
        let Some(began) = stream.asking.take() else { return Vec::new() };
        let finding = Finding::new(&stream.legs, results, now);
        let judged = match round::judged(&stream.legs, results) {
            Outcome::Passed => Some(true),
            Outcome::Failed => Some(false),
            Outcome::Nothing => None,
        };
        stream.tunnel_failed =
            stream.legs.iter().zip(results).any(|(leg, result)| {
                leg.way.is_tunnel() && matches!(result, Err(fault) if !fault.is_local())
            });
        match judged {
            Some(_) => self.impossible.remove(&id),
            None => self.impossible.insert(id),
        };
        match judged {
            Some(true) => self.tally.passed.note(finding.took.unwrap_or_default()),
            Some(false) => self.tally.failed += 1,
            None => self.tally.impossible += 1,
        }
        let mut changes = Vec::new();
        let mut stand = Stand::Confirmed;
        if stream.settled.is_none() || judged.is_some_and(|passed| stream.settled != Some(passed)) {
            let mut settled = judged;
            for &id in &stream.subjects {
                let Some(subject) = self.subjects.of_mut(id) else { continue };
                subject.heard = subject.heard.saturating_add(1).min(FIRST_ROUNDS);
                if let Some(passed) = judged {
                    changes.extend(step(&mut self.ramps, id, subject, passed, &finding));
                    let is_heard = subject.heard == FIRST_ROUNDS;
                    settled = settled.filter(|&passed| is_heard && subject.machine.is_settled(passed));
                }
                stand = stand.and(subject.stand());
            }
            stream.settled = settled;
        }
        stream.finding = Some(finding);
        let (next, times) = (stream.next_round(began, stand), stream.times);
        // No nearer to the one before than it may be, whatever the beat.
        let due = self.queue.not_after(next, times.longest(stand)).max(began + times.least(stand)).max(now);
        self.reschedule(id, due);
        changes
    }

    fn reschedule(&mut self, id: StreamId, at: Instant) {
        if let Some(stream) = self.streams.get_mut(id) {
            self.queue.remove(stream.due, id);
            stream.due = at;
            self.queue.insert(at, id);
        }
    }

    /// The stream of a check, begun if need be.
    fn stream(&mut self, check: Arc<Check>, now: Instant) -> StreamId {
        if let Some(&id) = self.by_check.get(&check) {
            return id;
        }
        // Far apart, so that no two streams throw the same dice.
        let mut dice = Dice::new(self.seed ^ self.streams_begun.wrapping_mul(0xd6e8_feb8_6659_fd93));
        self.streams_begun += 1;
        let first = now + check.times.first(&mut dice);
        let due = self.queue.not_after(first, check.times.interval).max(now);
        for tunnel in tunnels(&check) {
            // Without a mark left, the leg reports that it cannot be asked.
            let _ = self.marks.take(tunnel);
        }
        let id = self.streams.insert(Stream::new(Arc::clone(&check), dice, due));
        self.by_check.insert(check, id);
        self.queue.insert(due, id);
        id
    }

    /// One more backend listens to a stream.
    fn join(&mut self, stream: StreamId, id: SubjectId) {
        let (Some(stream), Some(subject)) = (self.streams.get_mut(stream), self.subjects.of(id)) else {
            return;
        };
        if let Err(place) = self.subjects.place(&stream.subjects, &subject.who) {
            stream.subjects.insert(place, id);
        }
        stream.settled = None;
    }

    /// One backend less listens to a stream, which ends with the last.
    fn leave(&mut self, id: StreamId, subject: SubjectId) {
        let Some(stream) = self.streams.get_mut(id) else { return };
        if let Some(subject) = self.subjects.of(subject)
            && let Ok(place) = self.subjects.place(&stream.subjects, &subject.who)
        {
            stream.subjects.remove(place);
        }
        if !stream.subjects.is_empty() {
            return;
        }
        self.impossible.remove(&id);
        if let Some(stream) = self.streams.remove(id) {
            self.queue.remove(stream.due, id);
            self.by_check.remove(&stream.check);
            for tunnel in tunnels(&stream.check) {
                self.marks.give_back(tunnel);
            }
        }
    }

    fn forget(&mut self, id: SubjectId) {
        let Some(subject) = self.subjects.of_mut(id) else { return };
        let (stream, now) = (subject.stream, subject.since);
        set_ramp(&mut self.ramps, id, subject, None, now);
        self.leave(stream, id);
        self.subjects.remove(id);
    }

    /// Another backend on the same stream that is judged alike: the same question has the same answer.
    fn sibling(&self, stream: StreamId, thresholds: Thresholds) -> Option<&Subject> {
        let subjects = &self.streams.get(stream)?.subjects;
        subjects
            .iter()
            .filter_map(|&id| self.subjects.of(id))
            .find(|subject| subject.thresholds == thresholds)
    }
}

/// When which ramp takes its next step.
type Ramps = BTreeSet<(Instant, SubjectId)>;

/// Takes what a round found of a backend; the change of its verdict, if that changes.
fn step(
    ramps: &mut Ramps,
    id: SubjectId,
    subject: &mut Subject,
    passed: bool,
    finding: &Finding,
) -> Option<Change> {
    let from = subject.machine.verdict();
    if !subject.machine.step(passed, subject.thresholds) {
        return None;
    }
    let (now, to) = (finding.at, subject.machine.verdict());
    subject.since = now;
    subject.because = Some(finding.reason.to_owned());
    // A newcomer joins with its whole weight: at a cold start all are newcomers.
    let ramp =
        if (from, to) == (Verdict::Down, Verdict::Up) { Ramp::begin(now, subject.slow_start) } else { None };
    set_ramp(ramps, id, subject, ramp, now);
    Some(Change {
        who: Who::clone(&subject.who),
        from,
        to,
        finding: finding.clone(),
        flapping: subject.machine.is_flapping(),
    })
}

fn saved(subject: &Subject, now: Instant) -> Saved {
    let ramp = subject.ramp.map(|(ramp, _)| ramp.elapsed(now));
    let age = now.saturating_duration_since(subject.since);
    Saved::new(&subject.who, subject.address, subject.machine, age, ramp, subject.because.clone())
}

fn set_ramp(ramps: &mut Ramps, id: SubjectId, subject: &mut Subject, ramp: Option<Ramp>, now: Instant) {
    if let Some((_, at)) = subject.ramp.take() {
        ramps.remove(&(at, id));
    }
    if let Some(ramp) = ramp.filter(|ramp| ramp.step(now).is_some()) {
        let at = ramp.next(now);
        subject.ramp = Some((ramp, at));
        ramps.insert((at, id));
    }
}

/// What a stream's next round asks.
fn legs(marks: &Marks, stream: &Stream) -> Legs {
    let check = &stream.check;
    let leg = |way: Way, decides: bool| {
        let mark = match way {
            Way::Tunnel { encapsulation, .. } => marks.of(ProbeTunnel::new(check.address, encapsulation)),
            Way::Direct => None,
        };
        Leg { way, mark, decides }
    };
    let beside = stream.asks_beside().then(|| leg(Way::Direct, false));
    check.ways.iter().map(|&way| leg(way, true)).chain(beside).collect()
}

/// The tunnels of a check, each once.
fn tunnels(check: &Check) -> BTreeSet<ProbeTunnel> {
    let ways = check.ways.iter().filter_map(|way| match way {
        Way::Tunnel { encapsulation, .. } => Some(ProbeTunnel::new(check.address, *encapsulation)),
        Way::Direct => None,
    });
    ways.collect()
}
