//! What policies cost, measured here and now: time to build, time to change, time to look up, memory.
//!
//! Unlike all other experiments this one depends on the machine and its mood. Cases take turns, round by round, on one thread; each
//! figure is the median of its rounds. Memory is what is held, counted from the sizes of what is built; a test holds it to what the
//! allocator says.

use std::hint::black_box;
use std::time::{Duration, Instant};

use guideway_hash::policy::{
    Balancer, Candidate, Jump, Maglev, Modulo, Policy, Rendezvous, RendezvousTable, Ring, Rule, State,
};
use guideway_hash::{NativeHasher, TableSize};
use serde::Serialize;

use crate::population::{Weights, candidates, names};
use crate::random::Random;
use crate::refusal::{Refusal, some, within};
use crate::{Contender, Execution};

/// What is to be measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Settings {
    /// Decides hashes and flows.
    pub seed: u64,
    /// How often each case is measured.
    pub rounds: u32,
    /// The policies.
    pub contenders: Vec<Contender>,
    /// Numbers of backends.
    pub backends: Vec<u32>,
    /// Slots of the tables.
    #[serde(serialize_with = "crate::numbers")]
    pub slots: Vec<TableSize>,
    /// Look-ups in a round.
    pub look_ups: u32,
}

impl Default for Settings {
    /// All policies with 10, 100 and 1,000 backends and 65,537 slots.
    fn default() -> Self {
        Self {
            seed: 1,
            rounds: 7,
            contenders: Contender::ALL.to_vec(),
            backends: vec![10, 100, 1_000],
            slots: vec![TableSize::DEFAULT],
            look_ups: 1 << 14,
        }
    }
}

/// What was measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// What was asked for.
    pub settings: Settings,
    /// Where: processor, system, cores.
    pub machine: String,
    /// One case a row.
    pub rows: Vec<Row>,
}

/// What one case costs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// The policy.
    pub policy: Contender,
    /// How many backends.
    pub backends: u32,
    /// Slots of the table; `None` for a policy without one.
    pub slots: Option<u32>,
    /// Seconds to build from nothing.
    pub build: f64,
    /// Seconds to drain one backend, from what was built.
    pub change: f64,
    /// Seconds a look-up, of a flow that is hashed already.
    pub look_up: f64,
    /// Bytes that look-ups read.
    pub bytes: usize,
    /// Bytes beside them: the list of backends.
    pub roster_bytes: usize,
}

/// Measures all cases. Of the execution the progress alone matters: measurements share no time.
///
/// # Errors
/// [`Refusal`]: the settings make no sense, or a policy refuses the backends.
pub fn run(settings: &Settings, execution: &Execution<'_>) -> Result<Report, Refusal> {
    settings.check()?;
    let mut cases = Vec::new();
    for &backends in &settings.backends {
        for &contender in &settings.contenders {
            let sizes = if contender.has_table() { &settings.slots[..] } else { &settings.slots[..1] };
            cases.extend(sizes.iter().map(|&size| Case { contender, backends, size, times: Vec::new() }));
        }
    }
    let mut random = Random::stream(settings.seed, 0);
    let hasher = NativeHasher::new(random.word());
    let flows: Vec<u64> = (0..settings.look_ups).map(|_| random.word()).collect();
    let pieces = cases.len() * settings.rounds as usize;
    for round in 0..settings.rounds as usize {
        for number in 0..cases.len() {
            let case = &mut cases[number];
            let times = case.measure(hasher, &flows)?;
            case.times.push(times);
            (execution.progress)(round * cases.len() + number + 1, pieces);
        }
    }
    let rows = cases.iter().map(|case| {
        let median = |part: fn(&Times) -> Duration| {
            let mut times: Vec<Duration> = case.times.iter().map(part).collect();
            times.sort_unstable();
            times[times.len() / 2].as_secs_f64()
        };
        Row {
            policy: case.contender,
            backends: case.backends,
            slots: case.contender.has_table().then(|| case.size.get()),
            build: median(|times| times.build),
            change: median(|times| times.change),
            look_up: median(|times| times.look_ups) / f64::from(settings.look_ups),
            bytes: held(case.contender, case.backends, case.size),
            roster_bytes: roster(&names(case.backends)),
        }
    });
    Ok(Report { settings: settings.clone(), machine: machine(), rows: rows.collect() })
}

struct Case {
    contender: Contender,
    backends: u32,
    size: TableSize,
    times: Vec<Times>,
}

#[derive(Clone, Copy)]
struct Times {
    build: Duration,
    change: Duration,
    look_ups: Duration,
}

impl Settings {
    fn check(&self) -> Result<(), Refusal> {
        within("the number of rounds", self.rounds, 1, 1_000)?;
        within("the number of look-ups", self.look_ups, 1, 10_000_000)?;
        some("policy", &self.contenders)?;
        some("number of backends", &self.backends)?;
        some("table size", &self.slots)?;
        for &backends in &self.backends {
            // One is drained.
            within("the number of backends", backends, 2, 100_000)?;
            if let Some(size) = self.slots.iter().find(|size| size.get() < backends) {
                return Err(Refusal::Room { backends, slots: size.get() });
            }
        }
        Ok(())
    }
}

impl Case {
    /// One round. The rule's type is known here, so that a look-up is the call that a balancer would make.
    fn measure(&self, hasher: NativeHasher, flows: &[u64]) -> Result<Times, Refusal> {
        match self.contender {
            Contender::Maglev => self.measure_rule(Maglev::new(self.size), hasher, flows),
            Contender::RendezvousTable => self.measure_rule(RendezvousTable::new(self.size), hasher, flows),
            Contender::Rendezvous => self.measure_rule(Rendezvous, hasher, flows),
            Contender::Ring(points) => self.measure_rule(Ring::new(points), hasher, flows),
            Contender::Jump => self.measure_rule(Jump, hasher, flows),
            Contender::Modulo => self.measure_rule(Modulo, hasher, flows),
        }
    }

    fn measure_rule<R: Rule>(&self, rule: R, hasher: NativeHasher, flows: &[u64]) -> Result<Times, Refusal> {
        let refused = |error| Refusal::Policy { policy: self.contender.to_string(), error };
        let names = names(self.backends);
        let all = candidates(&names, &Weights::equal());
        let mut fewer: Vec<Candidate<'_>> = all.clone();
        if let Some(last) = fewer.last_mut() {
            *last = last.with_state(State::Ineligible);
        }
        let mut policy = Balancer::with_hasher(rule, hasher);
        let start = Instant::now();
        policy.reconcile(black_box(&all)).map_err(refused)?;
        let build = start.elapsed();
        // Once for the caches, once for the clock.
        let mut look_ups = Duration::ZERO;
        for _ in 0..2 {
            let start = Instant::now();
            let sum = flows
                .iter()
                .fold(0, |sum, &flow| sum ^ policy.pick_hash(black_box(flow)).unwrap_or_default());
            black_box(sum);
            look_ups = start.elapsed();
        }
        let start = Instant::now();
        policy.reconcile(black_box(&fewer)).map_err(refused)?;
        let change = start.elapsed();
        Ok(Times { build, change, look_ups })
    }
}

/// Bytes that look-ups of `contender` read.
fn held(contender: Contender, backends: u32, size: TableSize) -> usize {
    let backends = backends as usize;
    let slot = if backends <= guideway_hash::table::MAX_NARROW_BACKENDS { 2 } else { 4 };
    match contender {
        Contender::Maglev | Contender::RendezvousTable => size.get() as usize * slot,
        // A key and a weight each, to eight bytes.
        Contender::Rendezvous => 16 * backends,
        // A place and an owner each.
        Contender::Ring(points) => 12 * points as usize * backends,
        Contender::Jump | Contender::Modulo => size_of::<u32>(),
    }
}

/// Bytes of a list of these backends: their names; where each is, its weight and its place; the places in order.
fn roster(names: &[String]) -> usize {
    let entry = 2 * size_of::<usize>() + 2 * size_of::<u32>();
    names.iter().map(String::len).sum::<usize>() + names.len() * (entry + size_of::<u32>())
}

/// What the measurements were made on.
fn machine() -> String {
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model =
        cpu.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": ")).map(|(_, name)| name);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let (os, architecture) = (std::env::consts::OS, std::env::consts::ARCH);
    format!("{} ({architecture}, {os}), {cores} cores", model.unwrap_or("unknown processor"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_is_measured_and_told_of() {
        let settings = Settings {
            rounds: 2,
            backends: vec![4, 9],
            slots: vec![TableSize::new(251).unwrap(), TableSize::new(509).unwrap()],
            look_ups: 100,
            ..Settings::default()
        };
        let told = std::sync::Mutex::new(Vec::new());
        let execution =
            Execution { progress: &|done, of| told.lock().unwrap().push((done, of)), threads: None };
        let report = run(&settings, &execution).unwrap();
        assert_eq!(report.rows.len(), 2 * (2 + 2 + 4));
        assert_eq!(told.into_inner().unwrap().last(), Some(&(32, 32)));
        assert!(report.rows.iter().all(|row| row.build > 0.0 && row.bytes > 0));
    }

    #[test]
    fn what_cannot_be_measured_is_refused() {
        let refused = run(&Settings { backends: vec![1], ..Settings::default() }, &Execution::default());
        assert!(matches!(refused, Err(Refusal::Range { given: 1, .. })));
        let refused = run(&Settings { rounds: 0, ..Settings::default() }, &Execution::default());
        assert!(matches!(refused, Err(Refusal::Range { .. })));
    }
}
