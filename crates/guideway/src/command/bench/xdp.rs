//! `guideway bench xdp`: how long a packet takes in the kernel.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use guideway_control::engine::Engine;
use guideway_forward::Verdict;
use guideway_soft::{Limits, Memory, Worker};
use guideway_wire::SliceFrame;
use guideway_xdp::harness::{Harness, Steps, stay_on_this_cpu};
use guideway_xdp::pins::{DEFAULT_ROOT, Pins};
use guideway_xdp::{Action, Balancer};
use indicatif::{ProgressBar, ProgressStyle};

use super::cases::{self, Case};
use super::failed;
use super::reads::Reads;
use super::show::{self, Report, Timed};
use super::world::{Group, fill};
use crate::failure::{Failure, Outcome};
use crate::screen::Screen;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
The program runs on frames by the kernel's test run, many times each. Before every run a small program makes the frame
fresh again and chooses client and service; the same before an empty program is timed in turns with it and taken off.
Of many rounds the fastest counts: what else the machine does only ever adds. Before a case is timed, the program's first
packet is compared byte for byte with the same core's in memory, and counters show that each packet went the way that
the case names. The time of the network card's driver is not in it.

Examples:
  guideway bench xdp
  guideway bench xdp --quick --json

Exit codes:
  0  measured, whether goals are met or not
  1  it could not be measured, or a packet went another way than its case says
  2  the command line is wrong")]
pub(crate) struct Args {
    /// Fewer rounds
    #[arg(long)]
    quick: bool,
    /// Only the cases whose names contain this
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Print everything as JSON
    #[arg(long)]
    json: bool,
}

const FLOW_KEY: [u64; 2] = [0x243f_6a88_85a3_08d3, 0x1319_8a2e_0370_7344];
const HEAD_ROOM: usize = 256;

/// Packets of one run: many times the cache lines of a table. In a short run most slots would be read for the first
/// time since something else had the caches, which no flow under load ever sees.
const PACKETS: u32 = 100_000;

/// Runs of a round, with the program and without in turns.
const TURNS: u32 = 4;

pub(crate) fn run(args: &Args, screen: &mut Screen) -> Result<Outcome, Failure> {
    let rounds = if args.quick { 10 } else { 60 };
    stay_on_this_cpu().map_err(|error| Failure::failed(format_args!("can't stay on one CPU: {error}")))?;
    let ordinary = Limits::default();
    let large = Limits { services: 10_001, backends: 110_000, slots: 11_300_000, ..ordinary };
    let cases = |all: Vec<Case>| -> Vec<Case> {
        let wanted = |case: &Case| args.only.as_ref().is_none_or(|text| case.name.contains(text));
        all.into_iter().filter(wanted).collect()
    };
    let (mut timed, mut steps) = (Vec::new(), Ok(Vec::new()));
    for (groups, cases, limits) in [
        (cases::ordinary_groups(), cases(cases::ordinary()), ordinary),
        (cases::ordinary_groups(), cases(cases::flood()), ordinary),
        (cases::large_groups(), cases(cases::large()), large),
    ] {
        if !cases.is_empty() {
            bench(&groups, &cases, limits, rounds, &mut timed, &mut steps)?;
        }
    }
    let report = Report::new(timed, steps, rounds * TURNS, PACKETS);
    if args.json {
        screen.json(&report)?;
    } else {
        show::table(&report, screen)?;
    }
    screen.flush()?;
    Ok(Outcome::Ok)
}

/// One case, ready to be timed.
struct Lane<'a> {
    case: &'a Case,
    with: Harness,
    without: Harness,
    reads: Option<Reads>,
    /// Nanoseconds a packet of each round, with the program and without.
    rounds: Vec<(f64, f64)>,
}

/// Times these cases over a balancer of their own, and adds what came out; where a case cannot be timed step by step,
/// why.
fn bench(
    groups: &[Group],
    cases: &[Case],
    limits: Limits,
    rounds: u32,
    timed: &mut Vec<Timed>,
    breakdowns: &mut Result<Vec<show::Steps>, String>,
) -> Result<(), Failure> {
    let pins = if cases.iter().any(|case| case.by_steps) { Pinned::new() } else { Err(String::new()) };
    let balancer = match &pins {
        Ok(pins) => Balancer::load_pinned(&limits, FLOW_KEY, &pins.0),
        Err(_) => Balancer::load(&limits, FLOW_KEY),
    };
    let balancer = balancer.map_err(failed)?;
    fill(&balancer, groups).map_err(Failure::failed)?;
    let twin = Twin::new(limits, groups)?;
    let mut lanes = Vec::new();
    for case in cases {
        twin.compare(&balancer, case)?;
        let reads = (!case.reads.is_empty()).then(|| Reads::new(case.reads));
        let lane = Lane::new(case, Harness::before(&balancer, &case.course).map_err(failed)?)?;
        lanes.push(Lane { reads, ..lane });
    }
    let steps = match &pins {
        Ok(pins) => Steps::load(&pins.0).map_err(|error| error.to_string()),
        Err(reason) => Err(reason.clone()),
    };
    let mut step_lanes = Vec::new();
    for case in cases.iter().filter(|case| case.by_steps) {
        match &steps {
            Ok(steps) => {
                for name in Steps::NAMES {
                    let with = steps.until(name, &case.course).map_err(failed)?;
                    step_lanes.push((name, Lane::new(case, with)?));
                }
            }
            Err(reason) => *breakdowns = Err(reason.clone()),
        }
    }
    let progress = ProgressBar::new(u64::from(rounds)).with_style(
        ProgressStyle::with_template("{bar:40} round {pos} of {len}")
            .unwrap_or_else(|_| ProgressStyle::default_bar()),
    );
    // A round that does not count: flows are remembered for the first time.
    for lane in &mut lanes {
        lane.time_alone(&balancer)?;
        lane.rounds.clear();
    }
    for _ in 0..rounds {
        for lane in &mut lanes {
            lane.time(&balancer)?;
            lane.reads.iter_mut().for_each(Reads::time);
        }
        for (_, lane) in &mut step_lanes {
            lane.time_alone(&balancer)?;
        }
        progress.inc(1);
    }
    progress.finish_and_clear();
    timed.extend(lanes.iter().map(|lane| Timed::new(lane.case, &lane.rounds, lane.reads.as_ref())));
    if let Ok(breakdowns) = breakdowns {
        for of_case in step_lanes.chunk_by(|(_, one), (_, other)| std::ptr::eq(one.case, other.case)) {
            let Some((_, first)) = of_case.first() else { continue };
            let mut steps = show::Steps::of(first.case.name);
            of_case.iter().for_each(|(name, lane)| steps.push(name, &lane.rounds));
            breakdowns.push(steps);
        }
    }
    Ok(())
}

impl<'a> Lane<'a> {
    fn new(case: &'a Case, with: Harness) -> Result<Lane<'a>, Failure> {
        let without = Harness::before_nothing(&case.course).map_err(failed)?;
        Ok(Lane { case, with, without, reads: None, rounds: Vec::new() })
    }

    /// One round, with proof that all packets went the way that was meant.
    fn time(&mut self, balancer: &Balancer) -> Result<(), Failure> {
        let before = balancer.totals();
        self.time_alone(balancer)?;
        let after = balancer.totals();
        let outcome = self.case.outcome;
        let packets = after.outcome(outcome).since(before.outcome(outcome)).packets;
        let wrong = |what: String| Failure::failed(format_args!("{}: {what}", self.case.name));
        let opener = u64::from(self.case.opener.is_some());
        let expected = u64::from(WARM_UP + TURNS * PACKETS);
        if packets < expected || packets > expected + opener {
            return Err(wrong(format!("{packets} of {expected} packets were {}", outcome.as_str())));
        }
        if let Some(event) = self.case.event {
            let counted = after.event(event) - before.event(event);
            // Flows for which there is no room, and those that come twice, are few.
            if counted < expected - expected / 20 {
                return Err(wrong(format!("{counted} times {} in {expected} packets", event.as_str())));
            }
        }
        Ok(())
    }

    fn time_alone(&mut self, balancer: &Balancer) -> Result<(), Failure> {
        if let Some(opener) = &self.case.opener {
            balancer.run(opener).map_err(failed)?;
        }
        let nanoseconds = |time: Duration| time.as_nanos() as f64 / f64::from(PACKETS);
        self.without.run(WARM_UP).map_err(failed)?;
        self.with.run(WARM_UP).map_err(failed)?;
        for _ in 0..TURNS {
            let without = nanoseconds(self.without.run(PACKETS).map_err(failed)?);
            let with = nanoseconds(self.with.run(PACKETS).map_err(failed)?);
            self.rounds.push((with, without));
        }
        Ok(())
    }
}

/// Packets before each round: what was measured before has used the caches.
const WARM_UP: u32 = 20_000;

/// The same core over memory.
struct Twin {
    worker: Worker,
}

impl Twin {
    fn new(limits: Limits, groups: &[Group]) -> Result<Twin, Failure> {
        let memory = Arc::new(Memory::new(limits, FLOW_KEY));
        fill(&memory, groups).map_err(Failure::failed)?;
        let mut worker = memory.worker().ok_or_else(|| Failure::failed("the memory has no packet thread"))?;
        worker.refresh();
        Ok(Twin { worker })
    }

    /// Runs the case's packets through both and compares what comes out.
    fn compare(&self, balancer: &Balancer, case: &Case) -> Result<(), Failure> {
        self.worker.memory().set_now_seconds(Engine::now_seconds(balancer));
        for input in case.opener.iter().chain([&case.course.frame]) {
            let mut buffer = vec![0; HEAD_ROOM];
            buffer.extend(input);
            let differs = |what: &str| {
                Failure::failed(format_args!("{}: the program's first packet {what}", case.name))
            };
            let Some(mut frame) = SliceFrame::new(&mut buffer, HEAD_ROOM, input.len()) else {
                return Err(differs("does not fit"));
            };
            let verdict = self.worker.process(&mut frame);
            let run = balancer.run(input).map_err(failed)?;
            let action = match verdict {
                Verdict::Forward(_) | Verdict::Answer(_) => Action::Transmit,
                Verdict::Pass(_) => Action::Pass,
                Verdict::Drop(_) => Action::Drop,
            };
            if run.action != action || run.frame != frame.bytes() {
                return Err(differs("is not what the core in memory makes of it"));
            }
        }
        Ok(())
    }
}

/// A pin directory of this process alone, gone with it.
struct Pinned(Pins);

impl Pinned {
    fn new() -> Result<Pinned, String> {
        let root = Path::new(DEFAULT_ROOT).with_file_name(format!("guideway-bench-{}", std::process::id()));
        Pins::new(&root).map(Pinned).map_err(|error| error.to_string())
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // What cannot be removed stays visible in the BPF file system.
        let _ = self.0.remove();
    }
}
