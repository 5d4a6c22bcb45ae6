//! `guideway lab balance`.

use guideway_hash::TableSize;
use guideway_lab::balance::{self, Report, Settings, paper};
use guideway_lab::plot::{Axis, Chart, Point, Scale, Series, Style, Unit};
use guideway_lab::{Contender, Weights};

use super::output::{
    Csv, Findings, OutputArgs, WorkArgs, counted, estimate_cells, grouped, percent, with_margin,
};
use super::sweep;
use crate::columns::{Align, Columns};
use crate::failure::{Failure, Outcome};
use crate::screen::Screen;

/// Measure how even shares are: by policy, number of backends, table size and weights
///
/// A backend's load is what it owns, divided by its fair share. What is owned are the slots of a table; of a policy without one, as
/// many flows drawn by lot. Each case is run with several seeds of the hash; figures are means with the 95 % confidence interval.
/// Over-provisioning is the highest load less 1: how much more than its fair share each backend must be able to carry.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  guideway lab balance                                        100 backends, all policies, five table sizes
  guideway lab balance --backends 10,100,1000 --slots 65537 --policies maglev,ring,ring:1000
  guideway lab balance --backends 30 --weights 1:1:8 --plot balance.svg
  guideway lab balance --paper                                the Maglev paper's comparison, beside what it prints")]
pub(super) struct Args {
    /// How many backends there are [default: 100]
    #[arg(long, value_name = "COUNT,…", value_delimiter = ',', value_parser = sweep::number)]
    backends: Vec<u32>,
    /// Slots of tables, primes [default: those of 1021, 4093, 16381, 65537 and 262139 that have room]
    #[arg(long, value_name = "SLOTS,…", value_delimiter = ',', value_parser = sweep::table_size)]
    slots: Vec<TableSize>,
    /// Policies: maglev, rendezvous-table, rendezvous, ring, ring:POINTS, jump, modulo [default: all]
    #[arg(long, value_name = "POLICY,…", value_delimiter = ',', value_parser = sweep::contender)]
    policies: Vec<Contender>,
    /// Weights of the backends, a pattern that repeats, such as 1:1:4 [default: all equal]
    #[arg(long, value_name = "W:W:…", value_parser = sweep::weights)]
    weights: Option<Weights>,
    /// Decides hashes and flows
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How often each case is run, each time with another hash
    #[arg(long, value_name = "COUNT", default_value_t = 10)]
    runs: u32,
    /// Repeat the paper's comparison: 1,000 backends, tables of 65,537 and 655,373 slots, filled by Maglev, a ring and rendezvous
    #[arg(long, conflicts_with_all = ["backends", "slots", "policies", "weights"])]
    paper: bool,
    #[command(flatten)]
    work: WorkArgs,
    #[command(flatten)]
    output: OutputArgs,
}

impl Args {
    fn settings(&self) -> Settings {
        let usual = Settings::default();
        let backends = if self.backends.is_empty() { usual.backends } else { self.backends.clone() };
        Settings {
            seed: self.seed,
            runs: self.runs,
            contenders: if self.policies.is_empty() { usual.contenders } else { self.policies.clone() },
            slots: sweep::sizes(&self.slots, usual.slots, backends.iter().copied().max().unwrap_or(0)),
            backends,
            weights: self.weights.clone().unwrap_or(usual.weights),
        }
    }
}

pub(super) fn run(args: &Args, screen: &mut Screen) -> Result<Outcome, Failure> {
    args.output.ready()?;
    if args.paper {
        return run_paper(args, screen);
    }
    let settings = args.settings();
    let report = args.work.carry_out(|execution| balance::run(&settings, execution))?;
    let findings = Findings {
        about: format!(
            "Seed {}, {} a case{}. Means with the 95 % confidence interval; 1 is the fair share.",
            settings.seed,
            counted(settings.runs, "run"),
            sweep::and_weights(&settings.weights)
        ),
        tables: vec![table(&report)],
        notes: Vec::new(),
        csv: csv(&report),
        chart: chart(&report),
        report: &report,
    };
    args.output.tell(&findings, screen)?;
    Ok(Outcome::Ok)
}

fn table(report: &Report) -> Columns {
    let mut columns = Columns::new([
        ("backends", Align::Right),
        ("policy", Align::Left),
        ("slots or flows", Align::Right),
        ("max / mean", Align::Right),
        ("min / mean", Align::Right),
        ("variation", Align::Right),
        ("over-provisioning", Align::Right),
    ]);
    for row in &report.rows {
        columns.row([
            grouped(row.backends),
            row.policy.to_string(),
            grouped(row.slots),
            with_margin(&row.max_over_mean, 1.0),
            with_margin(&row.min_over_mean, 1.0),
            percent(&row.variation),
            percent(&row.over_provisioning),
        ]);
    }
    columns
}

fn csv(report: &Report) -> Csv {
    let mut csv = Csv::of_estimates(
        &["backends", "policy", "slots"],
        &["max_over_mean", "min_over_mean", "variation", "over_provisioning"],
        &[],
    );
    for row in &report.rows {
        let case = [row.backends.to_string(), row.policy.to_string(), row.slots.to_string()];
        let figures = [&row.max_over_mean, &row.min_over_mean, &row.variation, &row.over_provisioning];
        csv.row(case.into_iter().chain(figures.into_iter().flat_map(estimate_cells)));
    }
    csv
}

fn chart(report: &Report) -> Chart {
    let Settings { backends, slots, runs, weights, .. } = &report.settings;
    let over_backends = backends.len() > slots.len();
    let mut points = Vec::new();
    for row in &report.rows {
        let mut name = row.policy.to_string();
        if over_backends && slots.len() > 1 {
            name += &format!(", M = {}", grouped(row.slots));
        } else if !over_backends && backends.len() > 1 {
            name += &format!(", N = {}", grouped(row.backends));
        }
        let x = f64::from(if over_backends { row.backends } else { row.slots });
        let point = Point::estimate(x, &row.over_provisioning);
        points.push((name, point));
    }
    let of = match (&backends[..], &slots[..]) {
        (&[backends], _) => format!(" of {}", counted(backends, "backend")),
        (_, [size]) => format!(" at {} slots", grouped(size.get())),
        _ => String::new(),
    };
    Chart {
        title: format!("Over-provisioning{of}: the highest load less 1"),
        subtitle: format!("{} a case{}", counted(*runs, "run"), sweep::and_weights(weights)),
        x: if over_backends {
            Axis::new("backends", Scale::Log, Unit::Number)
        } else {
            Axis::new("slots, or flows where there is no table", Scale::Log, Unit::Number)
        },
        y: Axis::new("over-provisioning", Scale::Log, Unit::Share),
        series: Series::lines(points),
    }
}

fn run_paper(args: &Args, screen: &mut Screen) -> Result<Outcome, Failure> {
    let report = args.work.carry_out(|execution| paper::run(args.seed, args.runs, execution))?;
    let findings = Findings {
        about: format!(
            "Over-provisioning for 1,000 backends. Seed {}, each table filled {}; means with the 95 % confidence interval.",
            report.seed,
            if report.runs == 1 { "once".into() } else { format!("{} times", grouped(report.runs)) }
        ),
        tables: vec![paper_table(&report)],
        notes: vec![
            "Printed: Eisenbud and others, Maglev, NSDI 2016, section 5.3, from one table each; of Maglev it says \"almost perfect\". How \
             the paper's ring becomes a table it does not say: a ring of as many places as slots gives its figures, a finer circle with \
             hashed slots does not."
                .into(),
        ],
        csv: paper_csv(&report),
        chart: paper_chart(&report),
        report: &report,
    };
    args.output.tell(&findings, screen)?;
    Ok(Outcome::Ok)
}

fn paper_table(report: &paper::Report) -> Columns {
    let mut columns = Columns::new([
        ("slots", Align::Right),
        ("method", Align::Left),
        ("printed", Align::Right),
        ("here", Align::Right),
        ("lowest run", Align::Right),
        ("highest run", Align::Right),
        ("printed is among the runs", Align::Left),
    ]);
    let share = |share: f64| format!("{:.1} %", 100.0 * share);
    for row in &report.rows {
        let answer = row.agrees().map_or("-", |agrees| if agrees { "yes" } else { "no" });
        columns.row([
            grouped(row.slots),
            row.method.title().to_owned(),
            row.published.map_or("-".into(), share),
            percent(&row.over_provisioning),
            share(row.over_provisioning.least),
            share(row.over_provisioning.most),
            answer.to_owned(),
        ]);
    }
    columns
}

fn paper_csv(report: &paper::Report) -> Csv {
    let mut csv = Csv::of_estimates(
        &["slots", "method", "printed"],
        &["over_provisioning"],
        &["lowest_run", "highest_run"],
    );
    for row in &report.rows {
        let case = [
            row.slots.to_string(),
            row.method.title().to_owned(),
            row.published.map_or(String::new(), |share| share.to_string()),
        ];
        let ends = [row.over_provisioning.least, row.over_provisioning.most].map(|end| end.to_string());
        csv.row(case.into_iter().chain(estimate_cells(&row.over_provisioning)).chain(ends));
    }
    csv
}

fn paper_chart(report: &paper::Report) -> Chart {
    let of = |method: paper::Method| report.rows.iter().filter(move |row| row.method == method);
    let mut series: Vec<Series> = paper::Method::ALL
        .into_iter()
        .map(|method| Series {
            name: match method {
                paper::Method::Maglev => "Maglev",
                paper::Method::KargerPlaces => "ring of M places",
                paper::Method::Ring => "ring of 2^64 places",
                paper::Method::Rendezvous => "rendezvous",
            }
            .into(),
            style: Style::Line,
            points: of(method)
                .map(|row| Point::estimate(f64::from(row.slots), &row.over_provisioning))
                .collect(),
        })
        .collect();
    for (method, name) in
        [(paper::Method::KargerPlaces, "printed: Karger"), (paper::Method::Rendezvous, "printed: rendezvous")]
    {
        let printed = of(method).filter_map(|row| Some(Point::new(f64::from(row.slots), row.published?)));
        series.push(Series { name: name.into(), style: Style::Marks, points: printed.collect() });
    }
    Chart {
        title: "Over-provisioning for 1,000 backends, beside what the Maglev paper prints".into(),
        subtitle: format!("{} each here, one table each there", counted(report.runs, "table")),
        x: Axis::new("slots of the table", Scale::Log, Unit::Number),
        y: Axis::new("over-provisioning", Scale::Linear, Unit::Share),
        series,
    }
}
