//! `guideway lab persistence`: which connections survive changes of the backends.

use guideway_control::counted;
use guideway_lab::persistence::{self, Kind, PersistenceError, Reason, Report, Row, Settings};
use guideway_lab::plot::{Axis, Chart, Point, Scale, Series, Style, Unit};

use super::output::{Csv, Findings, OutputArgs, bar, grouped};
use crate::columns::{Align, Columns};
use crate::failure::{Failure, Outcome};
use crate::screen::{Screen, Style as Paint};

/// Count the connections that changes of the backends break, beside plain Maglev and LRU tables
///
/// Simulated clients send real frames through the real controller and forwarding core, by a virtual clock, while backends join, leave,
/// drain, die and return, and weights, table size and seed change. Routers re-steer flows between a balancer's two network cards and,
/// with several balancers, between those, which restart without their memory now and then. A flow is lost when its backend died, and
/// broken when a packet misses a backend that would have served it. The same settings give the same result.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  guideway lab persistence
  guideway lab persistence --balancers 3
  guideway lab persistence --balancers 3 --seed 7 --changes 40 --minutes 60 --json
  guideway lab persistence --trace 17

Exit codes:
  0  the promise held: no flow broke but for a reason that the design states
  1  a flow broke without such a reason, or the run failed
  2  the command line is wrong")]
pub(crate) struct Args {
    /// What decides history, traffic and steering
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Flows alive at a time
    #[arg(long, value_name = "COUNT", default_value_t = 1_500)]
    flows: u32,
    /// Changes of the backends in the whole time
    #[arg(long, value_name = "COUNT", default_value_t = 12)]
    changes: u32,
    /// Balancers, each with a controller and a flow table of its own
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    balancers: u32,
    /// Minutes of the virtual clock
    #[arg(long, value_name = "MINUTES", default_value_t = 20)]
    minutes: u32,
    /// Backends at the start
    #[arg(long, value_name = "COUNT", default_value_t = 40)]
    backends: u32,
    /// Slots of a table at the start, a prime
    #[arg(long, value_name = "SLOTS", default_value_t = 4_093)]
    slots: u32,
    /// Entries of a balancer's flow table
    #[arg(long, value_name = "COUNT", default_value_t = 65_536)]
    flow_table: u32,
    /// Entries of the smaller LRU table to compare with [default: two thirds of the flows]
    #[arg(long, value_name = "COUNT")]
    lru: Option<u32>,
    /// CPUs of a balancer, for the rows whose LRU tables are each CPU's own
    #[arg(long, value_name = "COUNT", default_value_t = 8)]
    cpus: u32,
    /// Seconds after which a silent TCP flow is over
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    tcp_idle: u32,
    /// Seconds after which a silent UDP flow is over
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    udp_idle: u32,
    /// Moments at which routers choose anew for two flows in five: a balancer, and one of its two network cards
    #[arg(long, value_name = "COUNT", default_value_t = 10)]
    resteers: u32,
    /// Restarts of a balancer without its memory [default: 2 with several balancers, else 0]
    #[arg(long, value_name = "COUNT")]
    restarts: Option<u32>,
    /// Leave table size and seed as they are
    #[arg(long)]
    no_resize: bool,
    /// Tell every packet of one flow: where it went on each row, and why
    ///
    /// FLOW is a number from the list of Guideway's broken flows (`breaks` in --json), or any other below the number of flows.
    #[arg(long, value_name = "FLOW")]
    trace: Option<u32>,
    #[command(flatten)]
    output: OutputArgs,
}

impl Args {
    fn settings(&self) -> Settings {
        Settings {
            seed: self.seed,
            flows: self.flows,
            changes: self.changes,
            balancers: self.balancers,
            minutes: self.minutes,
            backends: self.backends,
            slots: self.slots,
            flow_entries: self.flow_table,
            lru_entries: self.lru.unwrap_or((self.flows / 3).saturating_mul(2).max(1)),
            cpus: self.cpus,
            tcp_idle_seconds: self.tcp_idle,
            udp_idle_seconds: self.udp_idle,
            resteers: self.resteers,
            restarts: self.restarts.unwrap_or(if self.balancers > 1 { 2 } else { 0 }),
            resizes: !self.no_resize,
            trace: self.trace,
        }
    }
}

pub(crate) fn run(args: &Args, screen: &mut Screen) -> Result<Outcome, Failure> {
    args.output.ready()?;
    let bar = bar("{percent:>3} % {bar:40} {pos} of {len} virtual seconds");
    let report = persistence::run(&args.settings(), |done, of| {
        bar.set_length(of / 1000);
        bar.set_position(done / 1000);
    });
    bar.finish_and_clear();
    let report = report.map_err(|error| match error {
        PersistenceError::Settings(error) => Failure::usage(error),
        error => Failure::failed(error),
    })?;
    let findings = Findings {
        about: report
            .trace
            .iter()
            .chain([&about(&report)])
            .map(String::as_str)
            .collect::<Vec<_>>()
            .join("\n"),
        tables: tables(&report),
        notes: vec![verdict(&report, screen)],
        csv: csv(&report),
        chart: chart(&report),
        report: &report,
    };
    let outcome = if report.holds() { Outcome::Ok } else { Outcome::Differs };
    outcome.told(args.output.tell(&findings, screen))
}

fn tables(report: &Report) -> Vec<Columns> {
    let mut rows = Columns::new([
        ("strategy", Align::Left),
        ("broken", Align::Right),
        ("TCP", Align::Right),
        ("UDP", Align::Right),
        ("QUIC", Align::Right),
        ("lost", Align::Right),
        ("remembered at most", Align::Right),
        ("memory", Align::Right),
        ("packets that ask it", Align::Right),
    ]);
    for row in &report.rows {
        rows.row(cells(row));
    }
    let mut tables = vec![rows];
    if !report.reasons.is_empty() {
        let mut reasons = Columns::new([("flows", Align::Right), ("why Guideway broke them", Align::Left)]);
        for &reason in report.reasons.keys() {
            reasons.row([grouped(report.broken_for(reason)), reason.as_str().to_owned()]);
        }
        tables.push(reasons);
    }
    tables
}

fn verdict(report: &Report, screen: &Screen) -> String {
    if report.holds() {
        let verdict = screen.paint(Paint::Good, "The promise held");
        return format!("{verdict}: every broken flow has a reason that the design states.");
    }
    let verdict = screen.paint(Paint::Bad, "The promise is broken");
    let broken = counted(report.broken_for(Reason::Unexplained), "flow", "flows");
    format!("{verdict}: {broken} broke without a reason; --json lists them.")
}

fn csv(report: &Report) -> Csv {
    let mut csv = Csv::new([
        "strategy",
        "broken",
        "broken_tcp",
        "broken_udp",
        "broken_quic",
        "lost",
        "remembered",
        "slot_bytes",
        "flow_bytes",
        "consulted",
    ]);
    for row in &report.rows {
        let kinds = Kind::ALL.map(|kind| row.broken_of(kind).to_string());
        let sizes = [row.remembered, row.slot_bytes, row.flow_bytes].map(|size| size.to_string());
        let broken = [row.strategy.clone(), row.broken.to_string()].into_iter().chain(kinds);
        csv.row(broken.chain([row.lost.to_string()]).chain(sizes).chain([row.consulted.to_string()]));
    }
    csv
}

/// Broken flows of each strategy, by kind.
fn chart(report: &Report) -> Chart {
    let series = report.rows.iter().map(|row| {
        let counts =
            [row.broken].into_iter().chain(Kind::ALL.map(|kind| row.broken_of(kind))).chain([row.lost]);
        let points = (1u32..).zip(counts).map(|(place, count)| Point::new(f64::from(place), count as f64));
        Series { name: row.strategy.clone(), style: Style::Marks, points: points.collect() }
    });
    let balancers =
        if report.balancers == 1 { "one balancer".into() } else { format!("{} balancers", report.balancers) };
    Chart {
        title: "Flows that broke although their backend lived, and flows that died with it".into(),
        subtitle: format!(
            "{}, {balancers}; {} flows",
            changes(report),
            grouped(report.flows.values().sum::<u64>())
        ),
        x: Axis::of_names("", ["all broken", "TCP", "UDP", "QUIC", "lost"]),
        y: Axis::new("flows", Scale::Log, Unit::Number),
        series: series.collect(),
    }
}

fn about(report: &Report) -> String {
    let flows: u64 = report.flows.values().sum();
    let balancers = match report.balancers {
        1 => "one balancer".to_owned(),
        number => {
            let restarts = counted(report.restarts.len(), "restart", "restarts");
            format!("{number} balancers, {restarts} without memory")
        }
    };
    let resteers = counted(report.resteers.len(), "time", "times");
    format!(
        "Seed {}: {} flows, {} packets and {}; {balancers}, routers that chose anew {resteers}.",
        report.seed,
        grouped(flows),
        grouped(report.packets),
        changes(report)
    )
}

fn changes(report: &Report) -> String {
    let changes = counted(report.changes.len(), "change", "changes");
    format!("{changes} in {}", counted(report.minutes, "minute", "minutes"))
}

fn cells(row: &Row) -> [String; 9] {
    let [tcp, udp, quic] = Kind::ALL.map(|kind| grouped(row.broken_of(kind)));
    [
        row.strategy.clone(),
        grouped(row.broken),
        tcp,
        udp,
        quic,
        grouped(row.lost),
        grouped(row.remembered as u64),
        format!("{} KiB", row.flow_bytes / 1024),
        format!("{:.0} %", 100.0 * row.consulted),
    ]
}
