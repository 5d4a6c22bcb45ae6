//! The figures of `guideway bench xdp`.

use std::io::{self, Write};

use serde::Serialize;

use super::cases::{Case, Goal, MANY_FLOWS};
use super::reads::Reads;
use super::rig::{kernel, machine, rounded};
use crate::columns::{Align, Columns};
use crate::screen::{Screen, Style};

/// All that was measured.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    machine: String,
    kernel: String,
    rounds: u32,
    packets_a_round: u32,
    cases: Vec<Row>,
    /// Where the time of some cases goes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    breakdowns: Vec<Breakdown>,
    #[serde(skip_serializing_if = "Option::is_none")]
    no_steps: Option<String>,
}

/// A case as it was measured, nanoseconds.
pub(super) struct Timed {
    name: &'static str,
    goal: Goal,
    net: f64,
    median: f64,
    harness: f64,
    reads: Option<f64>,
}

/// The steps of a case as they were measured, each in nanoseconds from the beginning.
pub(super) struct Steps {
    case: &'static str,
    steps: Vec<(&'static str, f64)>,
}

#[derive(Debug, Serialize)]
struct Row {
    name: &'static str,
    net_ns: f64,
    median_net_ns: f64,
    harness_ns: f64,
    goal_ns: Option<f64>,
    of_goal: Option<f64>,
    of_base: Option<f64>,
    met: Option<bool>,
    /// What the reads that follow from one another take by themselves, in memory of the same size.
    #[serde(skip_serializing_if = "Option::is_none")]
    reads_alone_ns: Option<f64>,
}

/// Where a packet's time goes; each step less the one before it.
#[derive(Debug, Serialize)]
struct Breakdown {
    case: &'static str,
    steps: Vec<StepRow>,
}

#[derive(Debug, Serialize)]
struct StepRow {
    name: &'static str,
    net_ns: f64,
    until_here_ns: f64,
}

impl Timed {
    pub(super) fn new(case: &Case, rounds: &[(f64, f64)], reads: Option<&Reads>) -> Timed {
        let (net, harness) = net(rounds);
        let mut differences: Vec<f64> = rounds.iter().map(|(with, without)| with - without).collect();
        differences.sort_by(f64::total_cmp);
        let median = differences.get(differences.len() / 2).copied().unwrap_or_default();
        let reads = reads.map(|reads| self::net(&reads.rounds).0);
        Timed { name: case.name, goal: case.goal, net, median, harness, reads }
    }
}

impl Steps {
    pub(super) const fn of(case: &'static str) -> Steps {
        Steps { case, steps: Vec::new() }
    }

    pub(super) fn push(&mut self, name: &'static str, rounds: &[(f64, f64)]) {
        self.steps.push((name, net(rounds).0));
    }
}

/// The fastest round with the program less the fastest without, and the latter.
fn net(rounds: &[(f64, f64)]) -> (f64, f64) {
    let least = |values: &mut dyn Iterator<Item = f64>| values.fold(f64::INFINITY, f64::min);
    let with = least(&mut rounds.iter().map(|(with, _)| *with));
    let without = least(&mut rounds.iter().map(|(_, without)| *without));
    (with - without, without)
}

impl Report {
    pub(super) fn new(
        timed: Vec<Timed>,
        steps: Result<Vec<Steps>, String>,
        rounds: u32,
        packets: u32,
    ) -> Report {
        let of = |name: &str| timed.iter().find(|case| case.name == name).map(|case| case.net);
        let base = of(MANY_FLOWS);
        let cases = timed.iter().map(|case| {
            let goal_ns = match case.goal {
                Goal::Within(nanoseconds) => Some(nanoseconds),
                Goal::Times(times, name) => of(name).map(|net| net * times),
                Goal::None => None,
            };
            Row {
                name: case.name,
                net_ns: rounded(case.net),
                median_net_ns: rounded(case.median),
                harness_ns: rounded(case.harness),
                goal_ns: goal_ns.map(rounded),
                of_goal: goal_ns.map(|goal| rounded(case.net / goal)),
                of_base: base.map(|base| rounded(case.net / base)),
                met: goal_ns.map(|goal| case.net <= goal),
                reads_alone_ns: case.reads.map(rounded),
            }
        });
        let breakdown =
            |steps: Steps| Breakdown { case: steps.case, steps: step_rows(&steps, of(steps.case)) };
        let (breakdowns, no_steps) = match steps {
            Ok(steps) => (steps.into_iter().map(breakdown).collect(), None),
            Err(reason) => (Vec::new(), Some(reason)),
        };
        Report {
            machine: machine(),
            kernel: kernel(),
            rounds,
            packets_a_round: packets,
            cases: cases.collect(),
            breakdowns,
            no_steps,
        }
    }
}

fn step_rows(steps: &Steps, whole: Option<f64>) -> Vec<StepRow> {
    let meaning = |name: &'static str| match name {
        "step_enter" => "call, books",
        "step_parse" => "headers",
        "step_service" => "service",
        "step_slot" => "flow hash, slot",
        "step_send" => "backend, outer headers",
        other => other,
    };
    let mut before = 0.0;
    let whole = whole.map(|net| ("counts", net));
    let all = steps.steps.iter().map(|(name, net)| (meaning(name), *net)).chain(whole);
    let row = |(name, net): (&'static str, f64)| {
        let row = StepRow { name, net_ns: rounded(net - before), until_here_ns: rounded(net) };
        before = net;
        row
    };
    all.map(row).collect()
}

pub(super) fn table(report: &Report, screen: &mut Screen) -> io::Result<()> {
    writeln!(screen, "{}, Linux {}", report.machine, report.kernel)?;
    let how = format!(
        "ns a packet, net of the harness: the fastest of {} rounds of {} packets, and the median of the rounds' differences",
        report.rounds, report.packets_a_round
    );
    let how = screen.paint(Style::Faint, how);
    writeln!(screen, "{how}\n")?;
    let mut columns = Columns::new([
        ("", Align::Left),
        ("ns", Align::Right),
        ("median", Align::Right),
        ("of base", Align::Right),
        ("goal", Align::Right),
        ("of goal", Align::Right),
        ("", Align::Left),
    ]);
    for row in &report.cases {
        let ratio = |value: Option<f64>| value.map_or(String::new(), |value| format!("{value:.2}"));
        columns.row([
            row.name.to_owned(),
            format!("{:.1}", row.net_ns),
            format!("{:.1}", row.median_net_ns),
            ratio(row.of_base),
            row.goal_ns.map_or(String::new(), |goal| format!("{goal:.0}")),
            ratio(row.of_goal),
            row.met.map_or("", |met| if met { "met" } else { "missed" }).to_owned(),
        ]);
    }
    columns.write(screen)?;
    writeln!(screen)?;
    for row in &report.cases {
        if let Some(reads) = row.reads_alone_ns {
            let name = row.name;
            writeln!(
                screen,
                "{name}: the reads that follow from one another take {reads:.0} ns by themselves\n"
            )?;
        }
    }
    if let Some(reason) = &report.no_steps {
        return writeln!(screen, "No breakdown by steps: {reason}");
    }
    let Some(first) = report.breakdowns.first() else { return Ok(()) };
    writeln!(screen, "Step by step, and so far:\n")?;
    let head = report.breakdowns.iter().flat_map(|of| [(of.case, Align::Right), ("", Align::Right)]);
    let mut columns = Columns::new(std::iter::once(("", Align::Left)).chain(head));
    for (number, step) in first.steps.iter().enumerate() {
        let cells = report.breakdowns.iter().filter_map(|of| of.steps.get(number));
        let cells = cells.flat_map(|step| [step.net_ns, step.until_here_ns].map(|ns| format!("{ns:.1}")));
        columns.row(std::iter::once(step.name.to_owned()).chain(cells));
    }
    columns.write(screen)
}
