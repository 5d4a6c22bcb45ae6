//! `guideway table diff`.

use std::io::Write;
use std::path::PathBuf;

use guideway_hash::churn::{Balance, Churn, flow_hashes};
use guideway_hash::profile::Profile;
use serde::Serialize;

use super::backends::{Backend, BackendArgs, List, parse_list, parse_one, read_file};
use super::build::BalanceReport;
use super::recipe::{Assignment, PolicyName, Recipe, RecipeArgs, SizeChoice, profile_parser};
use crate::columns::{Align, Columns};
use crate::failure::{Failure, Outcome};
use crate::output_file::one_standard_input;
use crate::screen::{Screen, Style};

/// Compare two sets of backends: slots moved, needlessly or not, per backend
///
/// The old set is --backends, --file or standard input. The new set is --to or --to-file, or the old one with --remove, --add and
/// --weight applied. The recipe may change as well: --to-policy, --to-size, --to-profile.
///
/// Two tables of one size are compared slot by slot; anything else over a sample of flows, which both sides are given as the
/// same hash. What moved did so because its old owner departed, because the change asked for it (its new owner joined or gained
/// weight, or the old one lost some), or needlessly.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  guideway table diff --backends a,b,c,d --remove b
  guideway table diff --backends a,b,c --add d=2 --weight a=3
  guideway table diff --file today.json --to-file tomorrow.json --json
  guideway table diff --backends a,b,c,d --remove b --policy rendezvous-table
  guideway table diff --backends a,b,c,d --to-size 655373

Exit codes:
  0  compared
  1  failed; with --exit-code also if anything moved
  2  the command line is wrong")]
pub(crate) struct Args {
    #[command(flatten)]
    backends: BackendArgs,
    #[command(flatten)]
    recipe: RecipeArgs,

    /// The new backends, written as for --backends
    #[arg(long, value_name = "LIST", value_parser = parse_list, conflicts_with_all = ["to_file", "remove", "add", "weight"])]
    to: Option<List>,

    /// Read the new backends from FILE
    #[arg(long, value_name = "FILE", conflicts_with_all = ["remove", "add", "weight"])]
    to_file: Option<PathBuf>,

    /// Take a backend away
    #[arg(long, value_name = "NAME")]
    remove: Vec<String>,

    /// Add a backend: NAME or NAME=WEIGHT
    #[arg(long, value_name = "NAME", value_parser = parse_one)]
    add: Vec<Backend>,

    /// Give a backend another weight
    #[arg(long, value_name = "NAME=WEIGHT", value_parser = parse_one)]
    weight: Vec<Backend>,

    /// The new profile
    #[arg(long, value_name = "PROFILE", value_parser = profile_parser())]
    to_profile: Option<Profile>,

    /// The new policy
    #[arg(long, value_name = "POLICY")]
    to_policy: Option<PolicyName>,

    /// The new size
    #[arg(long, value_name = "N|auto", value_parser = SizeChoice::parse)]
    to_size: Option<SizeChoice>,

    /// Flows in the sample, where there are no slots to compare
    #[arg(long, value_name = "N", default_value = "100000", value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    flows: u64,

    /// Exit with 1 if anything moved
    #[arg(long)]
    exit_code: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, screen: &mut Screen) -> Result<Outcome, Failure> {
    let inputs = [args.backends.file.as_ref(), args.to_file.as_ref()];
    one_standard_input(inputs.into_iter().flatten().map(PathBuf::as_path))?;
    let old_backends = args.backends.read()?;
    let new_backends = changed(args, &old_backends)?;
    let recipe = Recipe::new(&args.recipe)?;
    let new_recipe = new_recipe(args)?;
    let old = recipe.build(&old_backends).map_err(|failure| on_side("old", failure))?;
    let new = new_recipe.build(&new_backends).map_err(|failure| on_side("new", failure))?;
    old.warn();
    new.warn();
    let old_roster = old.roster(&old_backends)?;
    let new_roster = new.roster(&new_backends)?;
    let weighted = old.recipe.is_weighted() || new.recipe.is_weighted();
    let (unit, churn) = match (old.table(), new.table()) {
        (Some(before), Some(after)) if before.size() == after.size() => {
            ("slots", Churn::of_tables((before, &old_roster), (after, &new_roster), weighted))
        }
        _ => {
            let owners = flow_hashes(args.flows).map(|hash| (old.owner(hash), new.owner(hash)));
            ("flows", Churn::of_owners(&old_roster, &new_roster, weighted, owners))
        }
    };
    let churn = churn.map_err(Failure::failed)?;
    let report = Report::new(unit, &churn, (&old, &old_backends), (&new, &new_backends));
    let outcome = if args.exit_code && report.moved > 0 { Outcome::Differs } else { Outcome::Ok };
    if args.json {
        return outcome.told(screen.json(&report));
    }
    outcome.told(text(&report, (&old, &new), screen))
}

fn on_side(side: &str, failure: Failure) -> Failure {
    match failure {
        Failure::Failed(message) => Failure::Failed(format!("the {side} side: {message}")),
        other => other,
    }
}

/// The backends after the change.
fn changed(args: &Args, old: &[Backend]) -> Result<Vec<Backend>, Failure> {
    if let Some(List(list)) = &args.to {
        return Ok(list.clone());
    }
    if let Some(path) = &args.to_file {
        return read_file(path);
    }
    let mut new = old.to_vec();
    let place = |new: &[Backend], name: &str| {
        new.iter().position(|backend| backend.name == name).ok_or_else(|| {
            let hint = crate::nearest::hint(name, new.iter().map(|backend| backend.name.as_str()));
            Failure::usage(format!(
                "there is no backend {name:?} in the old set{hint}; name one of its backends"
            ))
        })
    };
    for name in &args.remove {
        new.remove(place(&new, name)?);
    }
    for change in &args.weight {
        let at = place(&new, &change.name)?;
        let Some(weight) = change.given_weight() else {
            return Err(Failure::usage(format!(
                "--weight {} names no weight; write --weight {0}=2",
                change.name
            )));
        };
        new[at] = new[at].clone().with_weight(weight);
    }
    new.extend(args.add.iter().cloned());
    Ok(new)
}

fn new_recipe(args: &Args) -> Result<Recipe, Failure> {
    let mut new = args.recipe.clone();
    if let Some(profile) = args.to_profile {
        // The old profile's parameters mean nothing to another.
        if profile != new.profile {
            new.params.clear();
            new.seed = new.seed.filter(|_| profile == Profile::Native);
            new.policy = PolicyName::Maglev;
        }
        new.profile = profile;
    }
    new.policy = args.to_policy.unwrap_or(new.policy);
    new.size = args.to_size.or(new.size);
    Recipe::new(&new)
}

#[derive(Serialize)]
struct Report<'a> {
    /// What was compared: `slots` or `flows`.
    unit: &'static str,
    compared: u64,
    moved: u64,
    departed: u64,
    attracted: u64,
    needless: u64,
    /// The fewest that could have moved with the same shares.
    least: u64,
    old: Side,
    new: Side,
    backends: Vec<Row<'a>>,
}

#[derive(Serialize)]
struct Side {
    profile: &'static str,
    policy: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    table_size: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    digest: Option<String>,
    balance: Option<BalanceReport>,
}

#[derive(Serialize)]
struct Row<'a> {
    name: &'a str,
    old_weight: Option<u32>,
    new_weight: Option<u32>,
    before: u64,
    after: u64,
    gained: u64,
    lost: u64,
    lost_needlessly: u64,
}

impl<'a> Report<'a> {
    fn new(
        unit: &'static str,
        churn: &Churn,
        (old, old_backends): (&Assignment, &'a [Backend]),
        (new, new_backends): (&Assignment, &'a [Backend]),
    ) -> Self {
        let weight = |side: &Assignment, backends: &[Backend], place: Option<u32>| {
            place.map(|place| backends[place as usize].weight(side.recipe.profile))
        };
        let rows = churn.backends.iter().map(|row| {
            let name = match (row.new, row.old) {
                (Some(place), _) => &new_backends[place as usize].name,
                (None, Some(place)) => &old_backends[place as usize].name,
                (None, None) => "",
            };
            Row {
                name,
                old_weight: weight(old, old_backends, row.old),
                new_weight: weight(new, new_backends, row.new),
                before: row.before,
                after: row.after,
                gained: row.gained,
                lost: row.lost,
                lost_needlessly: row.lost_needlessly,
            }
        });
        let backends: Vec<_> = rows.collect();
        let side = |side: &Assignment, list: &[Backend], loads: Vec<(u64, Option<u32>)>| {
            let weighted = side.recipe.is_weighted();
            let load = |(count, weight): (u64, Option<u32>)| {
                (count, weight.map_or(0, |weight| if weighted { weight } else { weight.min(1) }))
            };
            Side {
                profile: side.recipe.profile.name(),
                policy: side.recipe.policy.name(),
                table_size: side.table().map(guideway_hash::Table::size),
                digest: side.digest(list),
                balance: Balance::of(loads.into_iter().map(load).collect::<Vec<_>>())
                    .map(BalanceReport::from),
            }
        };
        Self {
            unit,
            compared: churn.moves.compared,
            moved: churn.moves.moved(),
            departed: churn.moves.departed,
            attracted: churn.moves.attracted,
            needless: churn.moves.needless,
            least: churn.least,
            old: side(old, old_backends, backends.iter().map(|row| (row.before, row.old_weight)).collect()),
            new: side(new, new_backends, backends.iter().map(|row| (row.after, row.new_weight)).collect()),
            backends,
        }
    }
}

fn text(
    report: &Report<'_>,
    (old, new): (&Assignment, &Assignment),
    screen: &mut Screen,
) -> Result<(), Failure> {
    for (mark, assignment, side) in [("-", old, &report.old), ("+", new, &report.new)] {
        let title = screen.paint(Style::Heading, assignment.title());
        writeln!(screen, "{mark} {title}")?;
        if let Some(digest) = &side.digest {
            writeln!(screen, "  digest {digest}")?;
        }
        if let Some(balance) = &side.balance {
            writeln!(screen, "  {balance}")?;
        }
    }
    let share = |count: u64| format!("{:.3} %", count as f64 * 100.0 / report.compared.max(1) as f64);
    let (unit, moved) = (report.unit, report.moved);
    writeln!(
        screen,
        "\n{moved} of {} {unit} move ({}), where {} is the least for these shares:",
        report.compared,
        share(moved),
        report.least
    )?;
    for (count, why) in [
        (report.departed, "because their owner departed"),
        (report.attracted, "because the change asked for it"),
        (report.needless, "needlessly"),
    ] {
        writeln!(screen, "  {count:>8}  {:>9}  {why}", share(count))?;
    }
    writeln!(screen)?;
    let mut columns = Columns::new([
        ("backend", Align::Left),
        ("weight", Align::Right),
        ("before", Align::Right),
        ("after", Align::Right),
        ("gained", Align::Right),
        ("lost", Align::Right),
        ("needlessly", Align::Right),
    ]);
    for row in &report.backends {
        let weight = match (row.old_weight, row.new_weight) {
            (Some(old), Some(new)) if old == new => old.to_string(),
            (old, new) => {
                let show = |weight: Option<u32>| weight.map_or("-".to_owned(), |weight| weight.to_string());
                format!("{} > {}", show(old), show(new))
            }
        };
        let number = |count: u64| count.to_string();
        columns.row([
            row.name.to_owned(),
            weight,
            number(row.before),
            number(row.after),
            number(row.gained),
            number(row.lost),
            number(row.lost_needlessly),
        ]);
    }
    columns.write(screen)?;
    Ok(())
}
