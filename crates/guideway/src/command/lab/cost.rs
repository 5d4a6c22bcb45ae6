//! `guideway lab cost`.

use guideway_hash::TableSize;
use guideway_lab::Contender;
use guideway_lab::cost::{self, Report, Settings};
use guideway_lab::plot::{Axis, Chart, Point, Scale, Series, Unit};

use super::output::{Csv, Findings, OutputArgs, bar, counted, grouped, refused};
use super::sweep;
use crate::columns::{Align, Columns};
use crate::failure::{Failure, Outcome};
use crate::screen::Screen;

/// Measure, here and now, what policies cost: to build, to change, to look up, and in memory
///
/// Cases take turns on one thread; each figure is the median of its rounds. A change drains one backend from what was built. A look-up is
/// of a flow that is hashed already. Memory is the library's: 2 bytes a slot for up to 32,767 backends, where the packet path takes 4. Unlike the other experiments, the figures are this machine's and this moment's.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  guideway lab cost
  guideway lab cost --backends 10,30,100,300,1000 --slots 65537,655373 --plot cost.svg
  guideway lab cost --policies maglev,ring:1000 --csv")]
pub(super) struct Args {
    /// How many backends there are [default: 10,100,1000]
    #[arg(long, value_name = "COUNT,…", value_delimiter = ',', value_parser = sweep::number)]
    backends: Vec<u32>,
    /// Slots of tables, primes [default: 65537]
    #[arg(long, value_name = "SLOTS,…", value_delimiter = ',', value_parser = sweep::table_size)]
    slots: Vec<TableSize>,
    /// Policies: maglev, rendezvous-table, rendezvous, ring, ring:POINTS, jump, modulo [default: all]
    #[arg(long, value_name = "POLICY,…", value_delimiter = ',', value_parser = sweep::contender)]
    policies: Vec<Contender>,
    /// How often each case is measured
    #[arg(long, value_name = "COUNT", default_value_t = 7)]
    rounds: u32,
    /// Look-ups in a round
    #[arg(long, value_name = "COUNT", default_value = "16384", value_parser = sweep::number)]
    look_ups: u32,
    /// Decides the hash and the flows
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// What the picture shows
    #[arg(long, value_name = "FIGURE", default_value = "look-up")]
    figure: Figure,
    #[command(flatten)]
    output: OutputArgs,
}

/// A figure for the picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Figure {
    /// Time to build from nothing
    Build,
    /// Time to drain one backend
    Change,
    /// Time to look a flow up
    LookUp,
    /// Memory that look-ups read
    Memory,
}

pub(super) fn run(args: &Args, screen: &mut Screen) -> Result<Outcome, Failure> {
    args.output.ready()?;
    let usual = Settings::default();
    let settings = Settings {
        seed: args.seed,
        rounds: args.rounds,
        contenders: if args.policies.is_empty() { usual.contenders } else { args.policies.clone() },
        backends: if args.backends.is_empty() { usual.backends } else { args.backends.clone() },
        slots: if args.slots.is_empty() { usual.slots } else { args.slots.clone() },
        look_ups: args.look_ups,
    };
    let bar = bar("{percent:>3} % {bar:40} {pos} of {len} measurements, {eta} left");
    let progress = |done: usize, of: usize| {
        bar.set_length(of as u64);
        bar.set_position(done as u64);
    };
    let execution = guideway_lab::Execution { threads: None, progress: &progress };
    let report = cost::run(&settings, &execution).map_err(refused);
    bar.finish_and_clear();
    let report = report?;
    let findings = Findings {
        about: format!(
            "{}. Medians of {}, in turns, on one thread.",
            report.machine,
            counted(report.settings.rounds, "round")
        ),
        tables: vec![table(&report)],
        notes: vec![
            "Memory is what look-ups read; every policy holds the list of its backends beside it.".into(),
        ],
        csv: csv(&report),
        chart: chart(&report, args.figure),
        report: &report,
    };
    args.output.tell(&findings, screen)?;
    Ok(Outcome::Ok)
}

fn table(report: &Report) -> Columns {
    let mut columns = Columns::new([
        ("backends", Align::Right),
        ("policy", Align::Left),
        ("slots", Align::Right),
        ("build", Align::Right),
        ("drain one", Align::Right),
        ("look-up", Align::Right),
        ("memory", Align::Right),
    ]);
    for row in &report.rows {
        columns.row([
            grouped(row.backends),
            row.policy.to_string(),
            row.slots.map_or("-".into(), grouped),
            Unit::Seconds.write(row.build),
            Unit::Seconds.write(row.change),
            Unit::Seconds.write(row.look_up),
            Unit::Bytes.write(row.bytes as f64),
        ]);
    }
    columns
}

fn csv(report: &Report) -> Csv {
    let mut csv = Csv::new([
        "backends",
        "policy",
        "slots",
        "build_seconds",
        "change_seconds",
        "look_up_seconds",
        "bytes",
        "roster_bytes",
    ]);
    for row in &report.rows {
        csv.row([
            row.backends.to_string(),
            row.policy.to_string(),
            row.slots.map_or(String::new(), |slots| slots.to_string()),
            format!("{:e}", row.build),
            format!("{:e}", row.change),
            format!("{:e}", row.look_up),
            row.bytes.to_string(),
            row.roster_bytes.to_string(),
        ]);
    }
    csv
}

fn chart(report: &Report, figure: Figure) -> Chart {
    let Settings { backends, slots, .. } = &report.settings;
    let over_slots = slots.len() > backends.len();
    let mut points = Vec::new();
    for row in &report.rows {
        let mut name = row.policy.to_string();
        match row.slots {
            Some(slots) if !over_slots && report.settings.slots.len() > 1 => {
                name += &format!(", M = {}", grouped(slots));
            }
            _ if over_slots && backends.len() > 1 => name += &format!(", N = {}", grouped(row.backends)),
            _ => {}
        }
        let value = match figure {
            Figure::Build => row.build,
            Figure::Change => row.change,
            Figure::LookUp => row.look_up,
            Figure::Memory => row.bytes as f64,
        };
        let places: Vec<f64> = match (over_slots, row.slots) {
            (false, _) => vec![f64::from(row.backends)],
            (true, Some(slots)) => vec![f64::from(slots)],
            (true, None) => slots.iter().map(|size| f64::from(size.get())).collect(),
        };
        points.extend(places.into_iter().map(|x| (name.clone(), Point::new(x, value))));
    }
    let (title, unit) = match figure {
        Figure::Build => ("Time to build from nothing", Unit::Seconds),
        Figure::Change => ("Time to drain one backend", Unit::Seconds),
        Figure::LookUp => ("Time to look a flow up", Unit::Seconds),
        Figure::Memory => ("Memory that look-ups read", Unit::Bytes),
    };
    Chart {
        title: title.into(),
        subtitle: report.machine.clone(),
        x: Axis::new(if over_slots { "slots of the table" } else { "backends" }, Scale::Log, Unit::Number),
        y: Axis::new(if unit == Unit::Bytes { "memory" } else { "time" }, Scale::Log, unit),
        series: Series::lines(points),
    }
}
