//! `guideway lab churn`.

use guideway_hash::TableSize;
use guideway_lab::churn::{self, Change, Moved, Report, Settings, paper};
use guideway_lab::plot::{Axis, Chart, Point, Scale, Series, Style, Unit};
use guideway_lab::{Contender, Estimate, Weights};

use super::output::{Csv, Findings, OutputArgs, WorkArgs, counted, estimate_cells, grouped, percent};
use super::sweep;
use crate::columns::{Align, Columns};
use crate::failure::{Failure, Outcome};
use crate::screen::Screen;

/// Measure what a change of the backends moves, and how much of it needlessly
///
/// Some of N backends are drained, joined by others, or given another weight. Flows are resolved before and after, and of policies
/// with a table all slots are read. What moved did so because its old owner departed, because the change asked for it (its new owner
/// joined or gained weight, or the old one lost some), or needlessly. Each case is run with several seeds, which decide the hash, the
/// flows, and which backends change; figures are means with the 95 % confidence interval.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  guideway lab churn                                         drain 1 of 4, all policies, five table sizes
  guideway lab churn --backends 100 --drain 1,5,10 --plot churn.svg
  guideway lab churn --backends 10,100,1000 --add 1 --policies maglev --slots 65537
  guideway lab churn --backends 12 --weights 1:2 --reweight 3 --to 4 --csv
  guideway lab churn --paper                                 the experiment of the Maglev paper's figure 12")]
pub(super) struct Args {
    /// Drain this many of the backends; several cases with commas between [default: 1]
    #[arg(long, value_name = "COUNT,…", value_delimiter = ',', value_parser = sweep::number)]
    drain: Vec<u32>,
    /// Add this many
    #[arg(long, value_name = "COUNT,…", value_delimiter = ',', value_parser = sweep::number)]
    add: Vec<u32>,
    /// Give this many another weight, that of --to
    #[arg(long, value_name = "COUNT,…", value_delimiter = ',', value_parser = sweep::number, requires = "to")]
    reweight: Vec<u32>,
    /// The new weight
    #[arg(long, value_name = "WEIGHT", value_parser = sweep::number, requires = "reweight")]
    to: Option<u32>,
    /// How many backends there are before the change [default: 4]
    #[arg(long, value_name = "COUNT,…", value_delimiter = ',', value_parser = sweep::number)]
    backends: Vec<u32>,
    /// Slots of tables, primes [default: those of 251, 1021, 4093, 16381 and 65537 that have room]
    #[arg(long, value_name = "SLOTS,…", value_delimiter = ',', value_parser = sweep::table_size)]
    slots: Vec<TableSize>,
    /// Policies: maglev, rendezvous-table, rendezvous, ring, ring:POINTS, jump, modulo [default: all]
    #[arg(long, value_name = "POLICY,…", value_delimiter = ',', value_parser = sweep::contender)]
    policies: Vec<Contender>,
    /// Weights of the backends, a pattern that repeats, such as 1:1:4 [default: all equal]
    #[arg(long, value_name = "W:W:…", value_parser = sweep::weights)]
    weights: Option<Weights>,
    /// Flows that are resolved before and after
    #[arg(long, value_name = "COUNT", value_parser = sweep::number, default_value = "20000")]
    flows: u32,
    /// Decides hashes, flows, and which backends change
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How often each case is run, each time with another hash [default: 10, with --paper 200]
    #[arg(long, value_name = "COUNT")]
    runs: Option<u32>,
    /// Repeat the paper's experiment: of 1,000 backends 1 to 50 fail at once, tables of 65,537 and 655,373 slots
    #[arg(long, conflicts_with_all = ["drain", "add", "reweight", "backends", "slots", "policies", "weights"])]
    paper: bool,
    #[command(flatten)]
    work: WorkArgs,
    #[command(flatten)]
    output: OutputArgs,
}

impl Args {
    fn settings(&self) -> Settings {
        let usual = if self.paper { Settings::paper() } else { Settings::default() };
        let or = |given: &Vec<u32>, usual: Vec<u32>| if given.is_empty() { usual } else { given.clone() };
        let to = self.to.unwrap_or(1);
        let drains = self.drain.iter().map(|&count| Change::Drain(count));
        let adds = self.add.iter().map(|&count| Change::Add(count));
        let weighs = self.reweight.iter().map(|&count| Change::Reweight { count, to });
        let changes: Vec<Change> = drains.chain(adds).chain(weighs).collect();
        let backends = or(&self.backends, usual.backends);
        let most = |numbers: &[u32]| numbers.iter().copied().max().unwrap_or(0);
        let most = most(&backends).saturating_add(most(&self.add));
        Settings {
            seed: self.seed,
            runs: self.runs.unwrap_or(usual.runs),
            contenders: if self.policies.is_empty() { usual.contenders } else { self.policies.clone() },
            slots: sweep::sizes(&self.slots, usual.slots, most),
            backends,
            weights: self.weights.clone().unwrap_or(usual.weights),
            changes: if changes.is_empty() { usual.changes } else { changes },
            flows: self.flows,
        }
    }
}

pub(super) fn run(args: &Args, screen: &mut Screen) -> Result<Outcome, Failure> {
    args.output.ready()?;
    let settings = args.settings();
    if args.paper {
        return run_paper(args, &settings, screen);
    }
    let report = args.work.carry_out(|execution| churn::run(&settings, execution))?;
    let findings = Findings {
        about: about(&report),
        tables: vec![table(&report)],
        notes: Vec::new(),
        csv: csv(&report),
        chart: chart(&report),
        report: &report,
    };
    args.output.tell(&findings, screen)?;
    Ok(Outcome::Ok)
}

fn about(report: &Report) -> String {
    let Settings { seed, runs, flows, weights, .. } = &report.settings;
    format!(
        "Seed {seed}, {} a case: {} flows before and after{}. Shares with the 95 % confidence interval.",
        counted(*runs, "run"),
        grouped(*flows),
        sweep::and_weights(weights)
    )
}

fn run_paper(args: &Args, settings: &Settings, screen: &mut Screen) -> Result<Outcome, Failure> {
    let report = args.work.carry_out(|execution| paper::run(settings, execution))?;
    let findings = Findings {
        about: format!(
            "Of 1,000 backends some fail at once. Seed {}, {} a case; shares of the slots with the 95 % confidence interval.",
            settings.seed,
            counted(settings.runs, "run")
        ),
        tables: vec![paper_table(&report)],
        notes: vec![
            "The paper publishes its curve as a picture (figure 12: the share of changed entries over the share of failed backends, \
             the mean of 200 repetitions), without figures. So its curve is drawn again: \"the paper\" is its pseudocode 1, word for word, \
             with hashes of its own. What its text says of the curve holds for both: more failures change more, and the larger table \
             changes less."
                .into(),
        ],
        csv: paper_csv(&report),
        chart: paper_chart(&report),
        report: &report,
    };
    args.output.tell(&findings, screen)?;
    Ok(Outcome::Ok)
}

/// Of our tables and of the paper's pseudocode, in each case: all that moved, and what moved needlessly.
fn paper_rows(report: &paper::Report) -> impl Iterator<Item = (&paper::Point, [&Estimate; 4])> {
    let tables = report.ours.rows.iter().filter_map(|row| row.table.as_ref());
    tables
        .zip(&report.pseudocode)
        .map(|(ours, paper)| (paper, [&ours.moved, &ours.needless, &paper.moved, &paper.needless]))
}

fn paper_table(report: &paper::Report) -> Columns {
    let mut columns = Columns::new([
        ("failed", Align::Right),
        ("slots", Align::Right),
        ("changed, ours", Align::Right),
        ("the paper", Align::Right),
        ("needlessly, ours", Align::Right),
        ("the paper", Align::Right),
    ]);
    for (case, [moved, needless, paper_moved, paper_needless]) in paper_rows(report) {
        let shares = [moved, paper_moved, needless, paper_needless].map(percent);
        columns.row([case.failed.to_string(), grouped(case.slots)].into_iter().chain(shares));
    }
    columns
}

fn paper_csv(report: &paper::Report) -> Csv {
    let mut csv = Csv::of_estimates(
        &["failed", "backends", "slots"],
        &["moved", "needless", "paper_moved", "paper_needless"],
        &[],
    );
    for (case, shares) in paper_rows(report) {
        let case = [case.failed, case.backends, case.slots].map(|number| number.to_string());
        csv.row(case.into_iter().chain(shares.into_iter().flat_map(estimate_cells)));
    }
    csv
}

fn paper_chart(report: &paper::Report) -> Chart {
    let kinds = [
        ("all, ours", Style::Line),
        ("needless, ours", Style::Line),
        ("all, the paper", Style::Marks),
        ("needless, the paper", Style::Marks),
    ];
    let mut series = Vec::new();
    for (which, (kind, style)) in kinds.into_iter().enumerate() {
        for size in &report.ours.settings.slots {
            let cases = paper_rows(report).filter(|(case, _)| case.slots == size.get());
            let point = |(case, shares): (&paper::Point, [&Estimate; 4])| {
                Point::estimate(f64::from(case.failed) / f64::from(case.backends), shares[which])
            };
            let name = format!("{kind}, M = {}", grouped(size.get()));
            series.push(Series { name, style, points: cases.map(point).collect() });
        }
    }
    Chart {
        title: "What changes when backends fail, beside what the Maglev paper's pseudocode changes".into(),
        subtitle: format!("{} a case, of 1,000 backends", counted(report.ours.settings.runs, "run")),
        x: Axis::new("share of the backends that fail", Scale::Log, Unit::Share),
        y: Axis::new("share of the slots", Scale::Log, Unit::Share),
        series,
    }
}

fn table(report: &Report) -> Columns {
    let mut columns = Columns::new([
        ("change", Align::Left),
        ("policy", Align::Left),
        ("slots", Align::Right),
        ("flows moved", Align::Right),
        ("needlessly", Align::Right),
        ("slots moved", Align::Right),
        ("needlessly", Align::Right),
    ]);
    for row in &report.rows {
        let slots = |show: &dyn Fn(&Moved) -> String| row.table.as_ref().map_or("-".into(), show);
        columns.row([
            row.change.among(row.backends),
            row.policy.to_string(),
            row.slots.map_or("-".into(), grouped),
            percent(&row.flows.moved),
            needless(&row.flows),
            slots(&|table| percent(&table.moved)),
            slots(&needless),
        ]);
    }
    columns
}

/// The share that moved needlessly; a bare 0 where no run moved any.
fn needless(moved: &Moved) -> String {
    if moved.needless_in_all == 0 { "0".into() } else { percent(&moved.needless) }
}

fn csv(report: &Report) -> Csv {
    let mut csv = Csv::of_estimates(
        &["change", "count", "new_weight", "backends", "policy", "slots", "over", "compared"],
        &["moved", "departed", "attracted", "needless", "least"],
        &["needless_in_all_runs"],
    );
    for row in &report.rows {
        for (over, moved) in [("flows", Some(&row.flows)), ("slots", row.table.as_ref())] {
            let Some(moved) = moved else { continue };
            let (change, weight) = match row.change {
                Change::Drain(_) => ("drain", None),
                Change::Add(_) => ("add", None),
                Change::Reweight { to, .. } => ("reweight", Some(to)),
            };
            let show = |number: Option<u32>| number.map_or(String::new(), |number| number.to_string());
            let case = [
                change.to_owned(),
                row.change.count().to_string(),
                show(weight),
                row.backends.to_string(),
                row.policy.to_string(),
                show(row.slots),
                over.to_owned(),
                moved.compared.to_string(),
            ];
            let shares = [&moved.moved, &moved.departed, &moved.attracted, &moved.needless, &moved.least];
            let shares = shares.into_iter().flat_map(estimate_cells);
            csv.row(case.into_iter().chain(shares).chain([moved.needless_in_all.to_string()]));
        }
    }
    csv
}

/// What moves needlessly, over the one thing that is swept most.
fn chart(report: &Report) -> Chart {
    let Settings { backends, slots, changes, runs, flows, weights, .. } = &report.settings;
    let across = if changes.len() > 1 {
        Across::Share
    } else if backends.len() > slots.len() {
        Across::Backends
    } else {
        Across::Slots
    };
    // A line for each policy and whatever else is swept.
    let mut points = Vec::new();
    for row in &report.rows {
        let mut name = row.policy.to_string();
        if across != Across::Slots
            && slots.len() > 1
            && let Some(slots) = row.slots
        {
            name += &format!(", M = {}", grouped(slots));
        }
        if across != Across::Backends && backends.len() > 1 {
            name += &format!(", N = {}", grouped(row.backends));
        }
        let moved = row.table.as_ref().unwrap_or(&row.flows);
        // Without a table the answer is one for all sizes.
        let places = match (across, row.slots) {
            (Across::Slots, None) => slots.iter().map(|size| f64::from(size.get())).collect(),
            (Across::Slots, Some(slots)) => vec![f64::from(slots)],
            (Across::Backends, _) => vec![f64::from(row.backends)],
            (Across::Share, _) => vec![f64::from(row.change.count()) / f64::from(row.backends)],
        };
        points.extend(places.iter().map(|&x| (name.clone(), Point::estimate(x, &moved.needless))));
    }
    let what = "What moves needlessly";
    let title = match report.rows.first() {
        Some(row) if changes.len() == 1 && backends.len() == 1 => {
            format!("{what}: {}", row.change.among(row.backends))
        }
        _ => what.to_owned(),
    };
    Chart {
        title,
        subtitle: format!(
            "{} a case; of slots, or of {} flows where there is no table{}",
            counted(*runs, "run"),
            grouped(*flows),
            sweep::and_weights(weights)
        ),
        x: match across {
            Across::Slots => Axis::new("slots of the table", Scale::Log, Unit::Number),
            Across::Backends => Axis::new("backends", Scale::Log, Unit::Number),
            Across::Share => Axis::new("share of the backends that change", Scale::Log, Unit::Share),
        },
        y: Axis::new("moved needlessly", Scale::Log, Unit::Share),
        series: Series::lines(points),
    }
}

/// What the picture's axis is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Across {
    Slots,
    Backends,
    Share,
}
