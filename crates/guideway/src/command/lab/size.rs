//! `guideway lab size`.

use guideway_lab::churn::Change;
use guideway_lab::plot::{Axis, Chart, Point, Scale, Series, Style, Unit};
use guideway_lab::sizing::{self, Limits, Report, Settings, Trial};
use guideway_lab::{Contender, Weights};

use super::output::{Csv, Findings, OutputArgs, WorkArgs, counted, estimate_cells, grouped, percent};
use super::sweep;
use crate::columns::{Align, Columns};
use crate::failure::{Failure, Outcome};
use crate::screen::{Screen, Style as Paint};

/// Find the smallest table that keeps imbalance, needless churn and memory within limits
///
/// Sizes are tried from the smallest that has room, and primes are halved down to the first that meets the limits. A limit of a share
/// is met when the upper end of the 95 % confidence interval meets it. The picture shows the trade-off.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  guideway lab size --backends 100 --max-imbalance 1%
  guideway lab size --backends 40 --weights 1:1:4 --max-imbalance 2% --max-needless 0.5% --plot size.svg
  guideway lab size --backends 1000 --max-needless 1% --max-memory 4MiB --drain 3

Exit codes:
  0  found
  1  no size meets the limits, or the work failed
  2  the command line is wrong")]
pub(super) struct Args {
    /// How many backends there are
    #[arg(long, value_name = "COUNT", value_parser = sweep::number)]
    backends: u32,
    /// The most that the busiest backend may carry above its fair share, such as 1%
    #[arg(long, value_name = "PERCENT", value_parser = sweep::percentage)]
    max_imbalance: Option<f64>,
    /// The most of all slots that may move needlessly at the change, such as 0.5%
    #[arg(long, value_name = "PERCENT", value_parser = sweep::percentage)]
    max_needless: Option<f64>,
    /// The most memory of the table in the packet path, such as 512KiB; a slot takes 4 bytes
    #[arg(long, value_name = "BYTES", value_parser = sweep::bytes)]
    max_memory: Option<u64>,
    /// The change: drain this many backends
    #[arg(long, value_name = "COUNT", default_value_t = 1, conflicts_with = "add")]
    drain: u32,
    /// The change: add this many backends
    #[arg(long, value_name = "COUNT")]
    add: Option<u32>,
    /// Weights of the backends, a pattern that repeats, such as 1:1:4 [default: all equal]
    #[arg(long, value_name = "W:W:…", value_parser = sweep::weights)]
    weights: Option<Weights>,
    /// The policy: maglev or rendezvous-table
    #[arg(long, value_name = "POLICY", default_value = "maglev", value_parser = sweep::contender)]
    policy: Contender,
    /// Decides hashes and which backends change
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How often each size is tried, each time with another hash
    #[arg(long, value_name = "COUNT", default_value_t = 10)]
    runs: u32,
    #[command(flatten)]
    work: WorkArgs,
    #[command(flatten)]
    output: OutputArgs,
}

pub(super) fn run(args: &Args, screen: &mut Screen) -> Result<Outcome, Failure> {
    args.output.ready()?;
    let settings = Settings {
        seed: args.seed,
        runs: args.runs,
        contender: args.policy,
        backends: args.backends,
        weights: args.weights.clone().unwrap_or_else(Weights::equal),
        change: args.add.map_or(Change::Drain(args.drain), Change::Add),
        limits: Limits { imbalance: args.max_imbalance, needless: args.max_needless, bytes: args.max_memory },
    };
    let report = args.work.carry_out(|execution| sizing::run(&settings, execution))?;
    let verdict = verdict(&report);
    let style = if report.smallest.is_some() { Paint::Good } else { Paint::Bad };
    let findings = Findings {
        about: format!("{}{}", about(&report), screen.paint(style, &verdict)),
        tables: vec![table(&report)],
        notes: Vec::new(),
        csv: csv(&report),
        chart: chart(&report, &verdict),
        report: &report,
    };
    let outcome = if report.smallest.is_some() { Outcome::Ok } else { Outcome::Differs };
    outcome.told(args.output.tell(&findings, screen))
}

fn about(report: &Report) -> String {
    let Settings { seed, runs, contender, backends, weights, change, .. } = &report.settings;
    format!(
        "{contender}, {}{}, {}; seed {seed}, {} a size.\n",
        counted(*backends, "backend"),
        sweep::and_weights(weights),
        change.among(*backends),
        counted(*runs, "run")
    )
}

fn verdict(report: &Report) -> String {
    let Settings { contender, limits, .. } = &report.settings;
    match (report.smallest, report.listed) {
        (Some(slots), Some(listed)) if listed == slots => {
            format!("{} slots are the smallest of those tried that meet the limits.", grouped(slots))
        }
        (Some(slots), Some(listed)) => format!(
            "{} slots are the smallest of those tried that meet the limits; of the usual sizes, {}.",
            grouped(slots),
            grouped(listed)
        ),
        (Some(slots), None) => {
            format!("{} slots are the smallest of those tried that meet the limits.", grouped(slots))
        }
        (None, _) => {
            let last = report.trials.iter().rev().find(|trial| trial.meets.bytes).or(report.trials.last());
            let missed = last.map_or(String::new(), |trial| {
                let mut missed = Vec::new();
                if !trial.meets.imbalance {
                    missed.push(format!("imbalance is {}", percent(&trial.imbalance)));
                }
                if !trial.meets.needless {
                    missed.push(format!("{} move needlessly", percent(&trial.needless)));
                }
                if !trial.meets.bytes {
                    missed.push(format!("it takes {}", Unit::Bytes.write(trial.bytes as f64)));
                }
                format!(": at {} slots {}", grouped(trial.slots), missed.join(" and "))
            });
            let remedy = match limits.bytes {
                Some(_) => "allow more memory, or a looser limit",
                None if last.is_some_and(|trial| !trial.meets.needless) => {
                    "allow a looser limit, or take rendezvous-table where nothing may move needlessly"
                }
                None if *contender == Contender::RendezvousTable => {
                    "allow a looser limit, or take maglev, whose shares are even to one slot"
                }
                None => "allow a looser limit",
            };
            format!("No size meets the limits{missed}; {remedy}.")
        }
    }
}

fn table(report: &Report) -> Columns {
    let mut columns = Columns::new([
        ("slots", Align::Right),
        ("memory", Align::Right),
        ("imbalance", Align::Right),
        ("moved needlessly", Align::Right),
        ("meets the limits", Align::Left),
    ]);
    for trial in &report.trials {
        let Trial { slots, bytes, imbalance, needless, meets } = trial;
        let mut missed = Vec::new();
        for (met, what) in
            [(meets.imbalance, "imbalance"), (meets.needless, "needless"), (meets.bytes, "memory")]
        {
            if !met {
                missed.push(what);
            }
        }
        let meets = match &missed[..] {
            [] if Some(*slots) == report.smallest => "yes, the smallest".to_owned(),
            [] => "yes".to_owned(),
            missed => format!("no: {}", missed.join(", ")),
        };
        columns.row([
            grouped(*slots),
            Unit::Bytes.write(*bytes as f64),
            percent(imbalance),
            percent(needless),
            meets,
        ]);
    }
    columns
}

fn csv(report: &Report) -> Csv {
    let mut csv = Csv::of_estimates(
        &["slots", "bytes"],
        &["imbalance", "needless"],
        &["meets_imbalance", "meets_needless", "meets_memory"],
    );
    for trial in &report.trials {
        let meets = trial.meets;
        let estimates = [&trial.imbalance, &trial.needless].into_iter().flat_map(estimate_cells);
        let answers = [meets.imbalance, meets.needless, meets.bytes].map(|met| met.to_string());
        csv.row(
            [trial.slots.to_string(), trial.bytes.to_string()].into_iter().chain(estimates).chain(answers),
        );
    }
    csv
}

fn chart(report: &Report, verdict: &str) -> Chart {
    let line = |name: &str, value: fn(&Trial) -> &guideway_lab::Estimate| Series {
        name: name.into(),
        style: Style::Line,
        points: report
            .trials
            .iter()
            .map(|trial| Point::estimate(f64::from(trial.slots), value(trial)))
            .collect(),
    };
    let mut series =
        vec![line("imbalance", |trial| &trial.imbalance), line("moved needlessly", |trial| &trial.needless)];
    let limits = &report.settings.limits;
    for (name, limit) in [("most imbalance", limits.imbalance), ("most needless", limits.needless)] {
        if let (Some(limit), Some(first)) = (limit, report.trials.first()) {
            let points = vec![Point::new(f64::from(first.slots), limit)];
            series.push(Series { name: name.into(), style: Style::Limit, points });
        }
    }
    Chart {
        title: verdict.trim_end_matches('.').to_owned(),
        subtitle: about(report).trim_end().trim_end_matches('.').to_owned(),
        x: Axis::new("slots of the table", Scale::Log, Unit::Number),
        y: Axis::new("share", Scale::Log, Unit::Share),
        series,
    }
}
