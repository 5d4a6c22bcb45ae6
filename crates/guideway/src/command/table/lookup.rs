//! `guideway table lookup`.

use std::io::Write;
use std::net::{IpAddr, SocketAddr};

use guideway_hash::profile::{Flow, Profile};
use guideway_hash::{StableHasher, hash};
use guideway_wire::flow::{FlowHasher, FlowKey, HashKey};
use guideway_wire::ip::IpProtocol;
use serde::Serialize;

use super::backends::BackendArgs;
use super::recipe::{Answers, Assignment, Recipe, RecipeArgs};
use crate::failure::{Failure, Outcome};
use crate::screen::{Screen, Style, printable};

/// Show the three steps for a key or a flow: hash, slot, backend
///
/// A key is any text, hashed as the profile hashes keys. A flow is hashed as the profile's own packet path does it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  guideway table lookup user-42 --backends a,b,c
  guideway table lookup --flow tcp,198.51.100.7:40000,192.0.2.10:443 --backends a,b,c
  guideway table lookup user-42 --backends a,b,c=3 --policy rendezvous
  guideway table lookup --flow udp,[2001:db8::7]:5000,[2001:db8::10]:53 --profile katran-v2 --backends fc00::1,fc00::2")]
pub(crate) struct Args {
    /// The key
    #[arg(value_name = "KEY", required_unless_present = "flow", conflicts_with = "flow")]
    key: Option<String>,

    /// A packet's flow in place of a key: protocol, client, service
    #[arg(long, value_name = "PROTOCOL,SOURCE:PORT,DESTINATION:PORT", value_parser = parse_flow)]
    flow: Option<Flow>,

    #[command(flatten)]
    backends: BackendArgs,
    #[command(flatten)]
    recipe: RecipeArgs,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Steps<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    flow: Option<String>,
    profile: &'static str,
    policy: &'static str,
    hash: u64,
    table_size: Option<u32>,
    slot: Option<u32>,
    backend_index: u32,
    backend: &'a str,
}

pub(crate) fn run(args: &Args, screen: &mut Screen) -> Result<Outcome, Failure> {
    let backends = args.backends.read()?;
    let assignment = Recipe::new(&args.recipe)?.build(&backends)?;
    assignment.warn();
    let recipe = &assignment.recipe;
    let (hash, slot) = locate(args, &assignment, recipe.size(&backends))?;
    let owner = match (&assignment.answers, slot) {
        (Answers::Table(table), Some(slot)) => table.owner(slot),
        _ => assignment.owner(hash),
    };
    let steps = Steps {
        key: args.key.as_deref(),
        flow: args.flow.as_ref().map(describe),
        profile: recipe.profile.name(),
        policy: recipe.policy.name(),
        hash,
        table_size: assignment.table().map(guideway_hash::Table::size),
        slot,
        backend_index: owner,
        backend: &backends[owner as usize].name,
    };
    if args.json {
        screen.json(&steps)?;
    } else {
        text(&steps, &assignment, screen)?;
    }
    Ok(Outcome::Ok)
}

/// The hash, and the slot where there is a table.
fn locate(args: &Args, assignment: &Assignment, size: u32) -> Result<(u64, Option<u32>), Failure> {
    let recipe = &assignment.recipe;
    let native = match (recipe.profile, &args.flow, &args.key) {
        (Profile::Native, Some(flow), _) => {
            Some(FlowHasher::new(recipe.params.seed).hash(&flow_key(flow)?, HashKey::FiveTuple))
        }
        (Profile::Native, None, Some(key)) => Some(recipe.hasher().hash(hash::FLOW, key.as_bytes())),
        _ => None,
    };
    if let Some(hash) = native {
        return Ok((hash, assignment.table().map(|table| table.slot(hash))));
    }
    let located = match (&args.flow, &args.key) {
        (Some(flow), _) => recipe.profile.locate_flow(flow, size, &recipe.params),
        (None, Some(key)) => recipe.profile.locate_key(key, size, &recipe.params),
        (None, None) => return Err(Failure::usage("give a key, or a flow with --flow")),
    };
    let located = located.map_err(|error| {
        let option = if args.flow.is_some() {
            ""
        } else {
            "; for a flow say --flow tcp,198.51.100.7:40000,192.0.2.10:443"
        };
        Failure::usage(format!("{error}{option}"))
    })?;
    Ok((located.hash, Some(located.slot)))
}

fn text(steps: &Steps<'_>, assignment: &Assignment, screen: &mut Screen) -> Result<(), Failure> {
    let title = screen.paint(Style::Heading, assignment.title());
    writeln!(screen, "{title}")?;
    let what = steps.flow.as_deref().or(steps.key).unwrap_or_default();
    writeln!(screen, "  hash     {:#018x}  of {}", steps.hash, printable(what))?;
    match (steps.slot, steps.table_size) {
        (Some(slot), Some(size)) => writeln!(screen, "  slot     {slot}  of {size}")?,
        _ => writeln!(screen, "  slot     none: {} has no table", steps.policy)?,
    }
    let backend = screen.paint(Style::Good, printable(steps.backend));
    writeln!(screen, "  backend  {backend}")?;
    Ok(())
}

fn describe(flow: &Flow) -> String {
    let protocol = match flow.protocol {
        6 => "tcp".to_owned(),
        17 => "udp".to_owned(),
        number => number.to_string(),
    };
    let source = SocketAddr::new(flow.source, flow.source_port);
    let destination = SocketAddr::new(flow.destination, flow.destination_port);
    format!("{protocol} {source} to {destination}")
}

/// The flow as the native packet path keys it.
fn flow_key(flow: &Flow) -> Result<FlowKey, Failure> {
    let (ports, protocol) = ((flow.source_port, flow.destination_port), IpProtocol(flow.protocol));
    match (flow.source, flow.destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            Ok(FlowKey::v4(source.octets(), destination.octets(), ports.0, ports.1, protocol))
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            Ok(FlowKey::v6(source.octets(), destination.octets(), ports.0, ports.1, protocol))
        }
        _ => Err(Failure::usage("--flow has one IPv4 and one IPv6 address; give two of one family")),
    }
}

/// Reads `tcp,198.51.100.7:40000,192.0.2.10:443`.
fn parse_flow(text: &str) -> Result<Flow, String> {
    let parts: Vec<&str> = text.split(',').map(str::trim).collect();
    let [protocol, source, destination] = parts[..] else {
        return Err("write three parts, such as tcp,198.51.100.7:40000,192.0.2.10:443".into());
    };
    let protocol = match protocol {
        "tcp" => 6,
        "udp" => 17,
        other => other
            .parse()
            .map_err(|_| format!("protocol {other:?} is neither tcp nor udp nor a number up to 255"))?,
    };
    let end = |text: &str| -> Result<SocketAddr, String> {
        let wrong =
            |_| format!("{text:?} is no address and port; write 192.0.2.10:443 or [2001:db8::10]:443");
        text.parse().map_err(wrong)
    };
    let (source, destination) = (end(source)?, end(destination)?);
    if source.is_ipv4() != destination.is_ipv4() {
        return Err("source and destination are of different families; give two of one".into());
    }
    Ok(Flow {
        source: source.ip(),
        destination: destination.ip(),
        source_port: source.port(),
        destination_port: destination.port(),
        protocol,
    })
}
