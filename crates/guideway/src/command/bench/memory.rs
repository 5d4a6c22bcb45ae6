//! `guideway bench memory`: what the kernel's maps take.

use std::io::Write;

use guideway_daemon::default_limits;
use guideway_soft::Limits;
use guideway_xdp::memory::{MapMemory, report};
use serde::Serialize;

use crate::columns::{Align, Columns};
use crate::failure::{Failure, Outcome};
use crate::screen::Screen;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
What is not given is what the daemon takes where its configuration has no services and no `[flow_table]`; for each service
it takes room for two, and for three of its tables. All memory is taken when the program is loaded; nothing is taken while
packets are forwarded.

Exit codes:
  0  ok
  2  the command line is wrong")]
pub(crate) struct Args {
    /// Services
    #[arg(long, value_name = "COUNT", default_value_t = default_limits().services)]
    services: u16,
    /// Places for backends, over all services
    #[arg(long, value_name = "COUNT", default_value_t = default_limits().backends)]
    backends: u32,
    /// Slots, over all tables
    #[arg(long, value_name = "COUNT", default_value_t = default_limits().slots)]
    slots: u32,
    /// Flows that can be remembered
    #[arg(long, value_name = "COUNT", default_value_t = default_limits().flows)]
    flows: u32,
    /// Fragmented datagrams under way
    #[arg(long, value_name = "COUNT", default_value_t = default_limits().fragments)]
    fragments: u32,
    /// CPUs, for what is counted on each [default: those of this machine]
    #[arg(long, value_name = "COUNT")]
    cpus: Option<u32>,
    /// Print everything as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Report {
    cpus: u32,
    total_bytes: u64,
    bytes_a_slot: f64,
    bytes_a_flow: f64,
    maps: Vec<Map>,
}

#[derive(Debug, Serialize)]
struct Map {
    map: &'static str,
    entries: u32,
    entry: &'static str,
    bytes: u64,
}

pub(crate) fn run(args: &Args, screen: &mut Screen) -> Result<Outcome, Failure> {
    let limits = Limits {
        services: args.services,
        backends: args.backends,
        slots: args.slots,
        flows: args.flows,
        fragments: args.fragments,
        ..default_limits()
    };
    let cpus = args.cpus.unwrap_or_else(guideway_xdp::memory::possible_cpus);
    let maps = report(&limits, cpus);
    let bytes = |name: &str| maps.iter().find(|map| map.map == name).map_or(0, |map| map.bytes);
    let total_bytes = maps.iter().map(|map| map.bytes).sum();
    let each = |bytes: u64, count: u32| bytes as f64 / f64::from(count.max(1));
    if args.json {
        let of = |map: &MapMemory| Map {
            map: map.map,
            entries: map.entries,
            entry: map.element,
            bytes: map.bytes,
        };
        screen.json(&Report {
            cpus,
            total_bytes,
            bytes_a_slot: each(bytes("SLOTS"), limits.slots),
            bytes_a_flow: each(bytes("FLOWS"), limits.flows),
            maps: maps.iter().map(of).collect(),
        })?;
        return Ok(Outcome::Ok);
    }
    let mut columns = Columns::new([
        ("map", Align::Left),
        ("entries", Align::Right),
        ("each", Align::Left),
        ("bytes", Align::Right),
    ]);
    for map in &maps {
        columns.row([
            map.map.to_owned(),
            map.entries.to_string(),
            map.element.to_owned(),
            map.bytes.to_string(),
        ]);
    }
    columns.row(["all".into(), String::new(), String::new(), total_bytes.to_string()]);
    columns.write(screen)?;
    writeln!(
        screen,
        "\n{:.1} MiB with {cpus} CPUs; {:.1} bytes a slot, {:.1} a remembered flow",
        total_bytes as f64 / 1_048_576.0,
        each(bytes("SLOTS"), limits.slots),
        each(bytes("FLOWS"), limits.flows),
    )?;
    Ok(Outcome::Ok)
}
