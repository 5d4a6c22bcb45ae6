//! `guideway lab migrate`.

use std::collections::HashMap;
use std::net::SocketAddr;

use guideway_hash::TableSize;
use guideway_hash::profile::{Params, Profile};
use guideway_lab::Contender;
use guideway_lab::migrate::{self, Backend, MigrateError, Report, Settings, Side, System};
use guideway_lab::plot::{Axis, Chart, Point, Scale, Series, Style, Unit};

use super::output::{Csv, Findings, OutputArgs, grouped, percent};
use super::sweep;
use crate::columns::{Align, Columns};
use crate::command::table::backends::{BackendArgs, same_identity};
use crate::failure::{Failure, Outcome};
use crate::nearest::nearest;
use crate::screen::Screen;

/// Count what resolves elsewhere after a migration, from one policy or system to another on the same backends
///
/// Flows of made-up clients are resolved as either side's packet path would, each by its own flow hash and its own table. What moves is
/// counted by flow, by client and by backend, with what to look at before the change. A side is one of Guideway's policies (maglev,
/// rendezvous-table, rendezvous, ring, ring:POINTS, jump, modulo) or a system whose tables are reproduced bit for bit (`guideway table
/// profiles` lists them). Name backends by address and port where a side needs them; each side hashes what its system would.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  guideway lab migrate --from maglev --to rendezvous-table --made-up 40
  guideway lab migrate --from katran-v2 --to maglev --backends 10.0.0.1:443,10.0.0.2:443=2,10.0.0.3:443
  guideway lab migrate --from ipvs-mh --to maglev --to-by-source --file backends.json --json
  guideway lab migrate --from maglev --from-slots 65537 --to maglev --to-slots 655373 --made-up 100")]
pub(super) struct Args {
    /// Before: a policy or a profile
    #[arg(long, value_name = "NAME", value_parser = named)]
    from: Named,
    /// After: a policy or a profile
    #[arg(long, value_name = "NAME", value_parser = named)]
    to: Named,
    /// Slots before [default: 65537 for a policy, a profile's own]
    #[arg(long, value_name = "SLOTS", value_parser = sweep::number)]
    from_slots: Option<u32>,
    /// Slots after
    #[arg(long, value_name = "SLOTS", value_parser = sweep::number)]
    to_slots: Option<u32>,
    /// A parameter of the side before: `seed` of a policy; those of a profile as `guideway table profiles NAME` lists them
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    from_param: Vec<(String, String)>,
    /// A parameter of the side after
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    to_param: Vec<(String, String)>,
    /// Before, a policy hashes the client's address alone
    #[arg(long)]
    from_by_source: bool,
    /// After, a policy hashes the client's address alone
    #[arg(long)]
    to_by_source: bool,
    #[command(flatten)]
    backends: BackendArgs,
    /// Make up this many equal backends instead
    #[arg(long, value_name = "COUNT", conflicts_with_all = ["backends", "file"], value_parser = clap::value_parser!(u32).range(1..=30_000))]
    made_up: Option<u32>,
    /// Address and port of the service; clients are of its family
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "192.0.2.10:443")]
    service: SocketAddr,
    /// Flows of UDP rather than TCP
    #[arg(long)]
    udp: bool,
    /// Clients, each with an address of its own
    #[arg(long, value_name = "COUNT", default_value = "5000", value_parser = sweep::number)]
    clients: u32,
    /// Flows of each client, from ports in a row
    #[arg(long, value_name = "COUNT", default_value_t = 4)]
    flows_per_client: u32,
    /// Decides the clients
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    output: OutputArgs,
}

/// What a side is called.
#[derive(Debug, Clone, Copy)]
enum Named {
    Policy(Contender),
    Profile(Profile),
}

/// A side by its name. No list of values will do for the parser: `ring:POINTS` has a number in it.
fn named(name: &str) -> Result<Named, String> {
    if let Ok(contender) = name.parse() {
        return Ok(Named::Policy(contender));
    }
    if let Ok(profile) = name.parse() {
        return Ok(Named::Profile(profile));
    }
    let policies = Contender::ALL.map(|contender| contender.to_string());
    let profiles = Profile::ALL.map(Profile::name);
    // Of a name in several versions the latest.
    let near = nearest(name, policies.iter().map(String::as_str).chain(profiles));
    let near =
        near.or_else(|| profiles.into_iter().rev().find(|known| known.starts_with(&format!("{name}-"))));
    let hint = near.map(|near| format!(" (did you mean {near:?}?)")).unwrap_or_default();
    Err(format!(
        "it is no policy and no profile{hint}; the policies are {}, and the profiles {}",
        policies.join(", "),
        profiles.join(", ")
    ))
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write NAME=VALUE, such as seed=7")?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

pub(super) fn run(args: &Args, screen: &mut Screen) -> Result<Outcome, Failure> {
    args.output.ready()?;
    let settings = Settings {
        seed: args.seed,
        from: system(args.from, args.from_slots, &args.from_param, args.from_by_source)?,
        to: system(args.to, args.to_slots, &args.to_param, args.to_by_source)?,
        backends: backends(args)?,
        service: args.service,
        protocol: if args.udp { 17 } else { 6 },
        clients: args.clients,
        flows_per_client: args.flows_per_client,
    };
    let report = migrate::run(&settings).map_err(|error| match error {
        MigrateError::Refused(refusal) => super::output::refused(refusal),
        error => Failure::failed(error),
    })?;
    let findings = Findings {
        about: about(&report),
        tables: vec![sides(&report), rows(&report)],
        notes: notes(&report),
        csv: csv(&report),
        chart: chart(&report),
        report: &report,
    };
    args.output.tell(&findings, screen)?;
    Ok(Outcome::Ok)
}

/// One side, by the name of a policy or a profile.
fn system(
    named: Named,
    slots: Option<u32>,
    params: &[(String, String)],
    by_source: bool,
) -> Result<System, Failure> {
    let pairs = || params.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let profile = match named {
        Named::Profile(profile) => profile,
        Named::Policy(contender) => {
            if slots.is_some() && !contender.has_table() {
                return Err(Failure::usage(format!(
                    "policy {contender} has no table; drop the option for its slots"
                )));
            }
            let slots = slots.map_or(Ok(TableSize::DEFAULT), TableSize::new).map_err(Failure::usage)?;
            let seed = Params::parse(Profile::Native, pairs()).map_err(Failure::usage)?.seed;
            return Ok(System::Native { contender, slots, seed, by_source });
        }
    };
    if by_source {
        return Err(Failure::usage(format!(
            "profile {profile} has a flow hash of its own ({}); drop the option for hashing by source",
            profile.flow_hash()
        )));
    }
    let slots = slots.unwrap_or(profile.default_size());
    let params = Params::parse(profile, pairs()).map_err(Failure::usage)?;
    Ok(System::Profile { profile, slots, params: Box::new(params) })
}

fn backends(args: &Args) -> Result<Vec<Backend>, Failure> {
    if let Some(count) = args.made_up {
        let name = |i: u32| format!("10.{}.{}.{}:443", i >> 16, i >> 8 & 255, i & 255);
        return Ok((1..=count).map(|i| Backend { name: name(i), weight: 1 }).collect());
    }
    // Both sides get one list, so what is out of it is out on both.
    let given = args.backends.read()?;
    let mut seen = HashMap::new();
    for (place, backend) in given.iter().enumerate() {
        if backend.is_eligible(Profile::Native)
            && let Some(first) = seen.insert(&backend.name, place)
        {
            return Err(same_identity(&given, first, place));
        }
    }
    let taken = given.iter().filter(|backend| backend.is_eligible(Profile::Native));
    let taken: Vec<Backend> = taken
        .map(|backend| Backend { name: backend.name.clone(), weight: backend.weight(Profile::Native) })
        .collect();
    if taken.is_empty() {
        return Err(Failure::failed(
            "none of the backends is active with a weight above 0; at least one must be",
        ));
    }
    Ok(taken)
}

fn about(report: &Report) -> String {
    let Report { flows, clients, moved, least, clients_moved, share, .. } = report;
    format!(
        "From {} to {}: {} of {} flows resolve elsewhere ({}), of {} of {} clients; {} is the least for these shares.",
        report.from.name,
        report.to.name,
        grouped(*moved),
        grouped(*flows),
        percent(share),
        grouped(*clients_moved),
        grouped(*clients),
        grouped(*least)
    )
}

fn sides(report: &Report) -> Columns {
    let mut columns = Columns::new([
        ("", Align::Left),
        ("system", Align::Left),
        ("max / mean", Align::Right),
        ("clients kept together", Align::Right),
        ("flow hash", Align::Left),
    ]);
    for (when, Side { name, flow_hash, max_over_mean, together, .. }) in
        [("before", &report.from), ("after", &report.to)]
    {
        columns.row([
            when.to_owned(),
            name.clone(),
            format!("{max_over_mean:.3}"),
            format!("{:.1} %", 100.0 * together),
            (*flow_hash).to_owned(),
        ]);
    }
    columns
}

fn rows(report: &Report) -> Columns {
    let mut columns = Columns::new([
        ("backend", Align::Left),
        ("weight", Align::Right),
        ("before", Align::Right),
        ("after", Align::Right),
        ("kept", Align::Right),
        ("lost", Align::Right),
        ("of its flows", Align::Right),
        ("gained", Align::Right),
    ]);
    for row in &report.backends {
        columns.row([
            row.name.clone(),
            grouped(row.weight),
            grouped(row.before),
            grouped(row.after),
            grouped(row.kept),
            grouped(row.lost),
            format!("{:.1} %", 100.0 * row.lost as f64 / row.before.max(1) as f64),
            grouped(row.gained),
        ]);
    }
    columns
}

fn notes(report: &Report) -> Vec<String> {
    let mut notes = vec!["What to check before the change:".to_owned()];
    notes.extend(report.checks.iter().map(|check| format!("- {}", check.text())));
    for (when, side) in [("Before", &report.from), ("After", &report.to)] {
        notes.extend(side.warnings.iter().map(|warning| format!("- {when}, {}: {warning}", side.name)));
    }
    notes
}

fn csv(report: &Report) -> Csv {
    let mut csv = Csv::new(["backend", "weight", "before", "after", "kept", "lost", "gained"]);
    for row in &report.backends {
        let counts = [row.before, row.after, row.kept, row.lost, row.gained].map(|count| count.to_string());
        csv.row([row.name.clone(), row.weight.to_string()].into_iter().chain(counts));
    }
    csv
}

/// The flows of each backend, in the order given.
fn chart(report: &Report) -> Chart {
    let series = |name: &str, style, count: fn(&migrate::Row) -> u64| Series {
        name: name.into(),
        style,
        points: (1u32..)
            .zip(&report.backends)
            .map(|(number, row)| Point::new(f64::from(number), count(row) as f64))
            .collect(),
    };
    Chart {
        title: format!("{} of flows resolve elsewhere", percent(&report.share)),
        subtitle: format!("from {} to {}", report.from.name, report.to.name),
        x: Axis::new("backend, in the order given", Scale::Linear, Unit::Number),
        y: Axis::new("flows", Scale::Linear, Unit::Number),
        series: vec![
            series("before", Style::Marks, |row| row.before),
            series("after", Style::Marks, |row| row.after),
            series("kept", Style::Marks, |row| row.kept),
        ],
    }
}
