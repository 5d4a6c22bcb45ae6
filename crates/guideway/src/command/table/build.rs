//! `guideway table build`.

use std::fmt;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use guideway_hash::Table;
use guideway_hash::churn::Balance;
use guideway_hash::vectors::sha256;
use serde::Serialize;

use super::backends::{Backend, BackendArgs};
use super::recipe::{Assignment, Recipe, RecipeArgs};
use crate::columns::{Align, Columns};
use crate::failure::{Failure, Outcome};
use crate::output_file::{OutputFile, unwritable};
use crate::screen::{Screen, Style};

/// Build a table: shares, balance, digest; or the slots as JSON or binary
///
/// The text form tells what each backend owns, how even that is, and the digest: a fingerprint that is equal on two machines
/// exactly when they would answer every flow alike.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  guideway table build --backends 10.0.0.1:443,10.0.0.2:443=2
  guideway table build --file backends.json --size auto --json | jq .balance
  guideway table build --file backends.json --format bin --out table.bin
  guideway table build --profile envoy --backends 127.0.0.1:90,127.0.0.1:91 --size 7 --slots
  echo '{\"name\":\"a\",\"weight\":3} {\"name\":\"b\"}' | guideway table build

Formats:
  text  a summary; with --slots also the owner of each slot
  json  the summary and `slots`: for each slot, the place of its owner in the list of backends
  bin   the same places, a little-endian u32 a slot, nothing else")]
pub(crate) struct Args {
    #[command(flatten)]
    backends: BackendArgs,
    #[command(flatten)]
    recipe: RecipeArgs,

    /// What to print
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: Format,

    /// The same as --format json
    #[arg(long, conflicts_with = "format")]
    json: bool,

    /// List the owner of every slot (text)
    #[arg(long)]
    slots: bool,

    /// Write to FILE rather than standard output
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
    Bin,
}

/// Tables up to this size show their slots without being asked.
const SMALL: u32 = 64;

pub(crate) fn run(args: &Args, screen: &mut Screen) -> Result<Outcome, Failure> {
    let format = if args.json { Format::Json } else { args.format };
    if format == Format::Bin && args.out.is_none() && screen.is_terminal() {
        return Err(Failure::usage(
            "the binary form would garble the terminal; add --out FILE, or redirect standard output",
        ));
    }
    if format == Format::Text && args.out.is_some() {
        return Err(Failure::usage("--out takes a table; add --format json or --format bin"));
    }
    let backends = args.backends.read()?;
    let assignment = Recipe::new(&args.recipe)?.build(&backends)?;
    let table = assignment.require_table()?;
    assignment.warn();
    let inputs: Vec<&Path> = args.backends.file.iter().map(PathBuf::as_path).collect();
    match (format, &args.out) {
        (Format::Text, _) => text(&assignment, table, &backends, args.slots, screen)?,
        (Format::Json, None) => screen.json(&Report::new(&assignment, table, &backends))?,
        (Format::Bin, None) => screen.write_all(&table.to_le_u32_bytes())?,
        (Format::Json, Some(path)) => {
            let report = Report::new(&assignment, table, &backends);
            to_file(path, &inputs, |file| {
                serde_json::to_writer_pretty(file, &report).map_err(io::Error::from)
            })?;
        }
        (Format::Bin, Some(path)) => to_file(path, &inputs, |file| file.write_all(&table.to_le_u32_bytes()))?,
    }
    Ok(Outcome::Ok)
}

fn to_file(
    path: &Path,
    inputs: &[&Path],
    write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> Result<(), Failure> {
    let output = OutputFile::create(path, inputs)?;
    let written = output.handle().and_then(|file| {
        let mut file = BufWriter::new(file);
        write(&mut file)?;
        file.flush()
    });
    written.and_then(|()| output.keep()).map_err(|error| unwritable(path, &error))
}

#[derive(Serialize)]
struct Report<'a> {
    profile: &'static str,
    policy: &'static str,
    table_size: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    digest: Option<String>,
    sha256_le_u32: String,
    memory_bytes: usize,
    balance: Option<BalanceReport>,
    warnings: &'a [String],
    backends: Vec<Row<'a>>,
    slots: Vec<u32>,
}

#[derive(Serialize)]
struct Row<'a> {
    index: usize,
    name: &'a str,
    weight: u32,
    state: &'static str,
    slots: u32,
    share: f64,
}

/// How even shares are; see [`Balance`] for what the fields mean.
#[derive(Serialize)]
pub(super) struct BalanceReport {
    backends: usize,
    min: u64,
    max: u64,
    mean: f64,
    min_over_mean: f64,
    max_over_mean: f64,
    coefficient_of_variation: f64,
    over_provisioning: f64,
}

impl fmt::Display for BalanceReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} backends own {} to {} each; load {:.4} to {:.4} of the fair share, coefficient of variation {:.4}, \
             over-provisioning {:.2} %",
            self.backends,
            self.min,
            self.max,
            self.min_over_mean,
            self.max_over_mean,
            self.coefficient_of_variation,
            self.over_provisioning * 100.0,
        )
    }
}

impl From<Balance> for BalanceReport {
    fn from(balance: Balance) -> Self {
        Self {
            backends: balance.backends,
            min: balance.min,
            max: balance.max,
            mean: balance.mean,
            min_over_mean: balance.min_over_mean,
            max_over_mean: balance.max_over_mean,
            coefficient_of_variation: balance.variation,
            over_provisioning: balance.over_provisioning,
        }
    }
}

impl<'a> Report<'a> {
    fn new(assignment: &'a Assignment, table: &Table, backends: &'a [Backend]) -> Self {
        let recipe = &assignment.recipe;
        Self {
            profile: recipe.profile.name(),
            policy: recipe.policy.name(),
            table_size: table.size(),
            seed: recipe.profile.params().contains(&"seed").then_some(recipe.params.seed),
            digest: assignment.digest(backends),
            sha256_le_u32: sha256(table),
            memory_bytes: table.memory_bytes(),
            balance: balance(assignment, table, backends).map(BalanceReport::from),
            warnings: &assignment.warnings,
            backends: rows(assignment, table, backends),
            slots: table.iter().collect(),
        }
    }
}

fn rows<'a>(assignment: &Assignment, table: &Table, backends: &'a [Backend]) -> Vec<Row<'a>> {
    let counts = table.counts(backends.len());
    let row = |(index, (backend, slots)): (usize, (&'a Backend, u32))| Row {
        index,
        name: &backend.name,
        weight: backend.weight(assignment.recipe.profile),
        state: backend.state().name(),
        slots,
        share: f64::from(slots) / f64::from(table.size()),
    };
    backends.iter().zip(counts).enumerate().map(row).collect()
}

/// The balance over the backends that may own slots, by weight where the rule heeds weights.
fn balance(assignment: &Assignment, table: &Table, backends: &[Backend]) -> Option<Balance> {
    let profile = assignment.recipe.profile;
    let weight = |backend: &Backend| match backend.is_eligible(profile) {
        false => 0,
        true if assignment.recipe.is_weighted() => backend.weight(profile),
        true => 1,
    };
    let counts = table.counts(backends.len()).into_iter().map(u64::from);
    let loads: Vec<_> = counts.zip(backends.iter().map(weight)).collect();
    Balance::of(loads)
}

fn text(
    assignment: &Assignment,
    table: &Table,
    backends: &[Backend],
    slots: bool,
    screen: &mut Screen,
) -> Result<(), Failure> {
    let title = screen.paint(Style::Heading, assignment.title());
    writeln!(screen, "{title}")?;
    if let Some(digest) = assignment.digest(backends) {
        writeln!(screen, "digest {digest}")?;
    }
    writeln!(screen, "sha256 {}", sha256(table))?;
    if let Some(balance) = balance(assignment, table, backends) {
        writeln!(screen, "{}", BalanceReport::from(balance))?;
    }
    writeln!(screen)?;
    let mut columns = Columns::new([
        ("backend", Align::Left),
        ("weight", Align::Right),
        ("state", Align::Left),
        ("slots", Align::Right),
        ("share", Align::Right),
    ]);
    for row in rows(assignment, table, backends) {
        let share = format!("{:.3} %", row.share * 100.0);
        let cells = [row.name.into(), row.weight.to_string(), row.state.into(), row.slots.to_string(), share];
        columns.row(cells);
    }
    columns.write(screen)?;
    if slots || table.size() <= SMALL {
        writeln!(screen)?;
        let mut columns = Columns::new([("slot", Align::Right), ("owner", Align::Left)]);
        for (slot, owner) in table.iter().enumerate() {
            columns.row([slot.to_string(), backends[owner as usize].name.clone()]);
        }
        columns.write(screen)?;
    }
    Ok(())
}
