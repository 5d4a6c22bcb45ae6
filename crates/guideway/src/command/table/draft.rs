//! `guideway table draft`.

use std::io::Write;

use guideway_hash::TableSize;
use guideway_hash::maglev::{
    BuildError, Draft, MaglevBuilder, Preference, RoundRobin, Turn, Turns, Weighted,
};
use guideway_hash::profile::{Profile, reference};
use serde::Serialize;

use super::backends::{Backend, BackendArgs, same_identity};
use super::recipe::{PolicyName, Recipe, RecipeArgs, SizeChoice};
use crate::failure::{Failure, Outcome};
use crate::screen::{Screen, Style, printable};

/// Show the build turn by turn: who asked for which slots, and who got which
///
/// Each backend wants all slots in an order of its own: `offset`, then `offset + skip`, and so on modulo the size. Whose turn it is
/// takes the first slot of that order that is still free. Tables of up to 64 slots are drawn after every turn, with one
/// letter for each backend. The size is 7 unless --size says otherwise.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  guideway table draft --backends a,b,c
  guideway table draft --backends a,b,c=2 --size 31
  guideway table draft --backends a,b,c --size 65537 --limit 20
  guideway table draft --preference B0=3/4 --preference B1=0/2 --preference B2=3/1   the example of the Maglev paper

Profiles native and reference have drafts.")]
pub(crate) struct Args {
    #[command(flatten)]
    backends: BackendArgs,
    #[command(flatten)]
    recipe: RecipeArgs,

    /// A backend whose offset and skip are given rather than hashed. May be given several times
    #[arg(long, value_name = "NAME=OFFSET/SKIP", value_parser = parse_preference, conflicts_with_all = ["backends", "file"])]
    preference: Vec<(String, Preference)>,

    /// Stop after N turns
    #[arg(long, value_name = "N")]
    limit: Option<usize>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Who takes turns, in the order of their turns.
struct Drafters {
    title: String,
    size: u32,
    names: Vec<String>,
    weights: Vec<u32>,
    preferences: Vec<Preference>,
}

pub(crate) fn run(args: &Args, screen: &mut Screen) -> Result<Outcome, Failure> {
    let drafters = if args.preference.is_empty() { hashed(args)? } else { given(args)? };
    let equal = drafters.weights.windows(2).all(|pair| pair[0] == pair[1]);
    if equal {
        show(args, &drafters, RoundRobin::new(drafters.names.len() as u32), screen)?;
    } else {
        let turns = Weighted::new(drafters.size, &drafters.weights).map_err(Failure::failed)?;
        show(args, &drafters, turns, screen)?;
    }
    Ok(Outcome::Ok)
}

/// The size, 7 unless the command line has another.
fn size(recipe: &Recipe, args: &Args, backends: &[Backend]) -> u32 {
    if args.recipe.size.is_some() { recipe.size(backends) } else { 7 }
}

fn hashed(args: &Args) -> Result<Drafters, Failure> {
    let recipe = Recipe::new(&args.recipe)?;
    if recipe.policy != PolicyName::Maglev {
        return Err(Failure::usage(format!("policy {} has no draft; only maglev has", recipe.policy.name())));
    }
    let backends = args.backends.read()?;
    let slots = size(&recipe, args, &backends);
    let mut members: Vec<(&str, u32)> = backends
        .iter()
        .map(|backend| {
            (
                backend.name.as_str(),
                if backend.is_eligible(recipe.profile) { backend.weight(recipe.profile) } else { 0 },
            )
        })
        .collect();
    if recipe.profile == Profile::Reference {
        // It knows no weights: a backend takes part or does not.
        members.iter_mut().for_each(|member| member.1 = member.1.min(1));
    }
    let table_size = TableSize::new(slots).map_err(Failure::usage)?;
    // The plan checks duplicates, counts and order, which both profiles share; only the hash differs.
    let plan =
        MaglevBuilder::new().size(table_size).hasher(recipe.hasher()).plan(&members).map_err(|error| {
            match error {
                BuildError::DuplicateIdentity { first, second } => same_identity(&backends, first, second),
                other => Failure::failed(other),
            }
        })?;
    let names: Vec<String> = plan.order.iter().map(|&place| members[place as usize].0.to_owned()).collect();
    let preferences = match recipe.profile {
        Profile::Native => plan.preferences,
        Profile::Reference => {
            names.iter().map(|name| reference::preference(name.as_bytes(), slots)).collect()
        }
        other => {
            return Err(Failure::usage(format!(
                "profile {other} has no draft to show; take native or reference, or `guideway table build --profile {other} --slots`"
            )));
        }
    };
    let seed = match recipe.profile {
        Profile::Native => format!(", seed {:#x}", recipe.params.seed),
        _ => String::new(),
    };
    let title = format!("draft of a {} table of {slots} slots{seed}", recipe.profile);
    Ok(Drafters { title, size: slots, names, weights: plan.weights, preferences })
}

fn given(args: &Args) -> Result<Drafters, Failure> {
    let size = match args.recipe.size {
        None => 7,
        Some(SizeChoice::Slots(slots)) => slots,
        Some(SizeChoice::Auto) => {
            return Err(Failure::usage("--preference depends on the size; give --size a number"));
        }
    };
    let (names, preferences): (Vec<_>, Vec<_>) = args.preference.iter().cloned().unzip();
    let title = format!("draft of a table of {size} slots, preferences as given");
    Ok(Drafters { title, size, weights: vec![1; names.len()], names, preferences })
}

/// Tables up to this size are drawn.
const DRAWN: u32 = 64;

fn show<T: Turns>(args: &Args, drafters: &Drafters, turns: T, screen: &mut Screen) -> Result<(), Failure> {
    let draft = Draft::new(drafters.size, &drafters.preferences, turns).map_err(Failure::failed)?;
    let draft = draft.take(args.limit.unwrap_or(usize::MAX));
    if args.json { json(drafters, draft, screen) } else { text(drafters, draft, screen) }
}

fn text(drafters: &Drafters, draft: impl Iterator<Item = Turn>, screen: &mut Screen) -> Result<(), Failure> {
    let title = screen.paint(Style::Heading, &drafters.title);
    writeln!(screen, "{title}\n")?;
    let names: Vec<_> = drafters.names.iter().map(|name| printable(name)).collect();
    let wide = names.iter().map(|name| name.chars().count()).max().unwrap_or(0).max(7);
    let heavy = drafters.weights.iter().max().map_or(0, |weight| weight.to_string().len()).max(6);
    let digits = drafters.size.to_string().len().max(4);
    let heading = format!("     {:<wide$}  {:>heavy$}  offset  skip  wants", "backend", "weight");
    let heading = screen.paint(Style::Heading, heading.trim_end());
    writeln!(screen, "{heading}")?;
    for (place, name) in names.iter().enumerate() {
        let Preference { offset, skip } = drafters.preferences[place];
        let (label, weight) = (label(place), drafters.weights[place]);
        let wants = wants(drafters.preferences[place], drafters.size);
        writeln!(screen, "  {label:<2} {name:<wide$}  {weight:>heavy$}  {offset:>6}  {skip:>4}  {wants}")?;
    }
    writeln!(screen)?;
    let drawn = drafters.size <= DRAWN;
    let table = match drawn {
        true => format!("{:<cells$}  ", "table", cells = drafters.size as usize * 2 - 1),
        false => String::new(),
    };
    let heading = format!(
        "  turn  round  {:<named$}  {:>digits$}  {table}found taken",
        "backend",
        "slot",
        named = wide + 3
    );
    let heading = screen.paint(Style::Heading, heading);
    writeln!(screen, "{heading}")?;
    let mut cells = vec![".".to_owned(); if drawn { drafters.size as usize } else { 0 }];
    for (number, turn) in draft.enumerate() {
        let Turn { round, backend, refused, slot } = turn;
        let name = &names[backend as usize];
        let label = label(backend as usize);
        let mut line =
            format!("  {:>4}  {:>5}  {label:<2} {name:<wide$}  {slot:>digits$}", number + 1, round + 1);
        if let Some(cell) = cells.get_mut(slot as usize) {
            *cell = label;
        }
        if drawn {
            line = format!("{line}  {}", cells.join(" "));
        }
        if !refused.is_empty() {
            line = format!("{line}  {}", some(&refused));
        }
        writeln!(screen, "{line}")?;
    }
    Ok(())
}

/// A letter for each of the first 26 backends, then a number.
fn label(place: usize) -> String {
    match u8::try_from(place) {
        Ok(place @ 0..26) => char::from(b'A' + place).to_string(),
        _ => place.to_string(),
    }
}

/// The first slots that a backend wants.
fn wants(preference: Preference, size: u32) -> String {
    let step = |&slot: &u64| Some((slot + u64::from(preference.skip)) % u64::from(size));
    let slots: Vec<String> = std::iter::successors(Some(u64::from(preference.offset)), step)
        .take(size.min(11) as usize)
        .map(|slot| slot.to_string())
        .collect();
    format!("{}{}", slots.join(" "), if size > 11 { " …" } else { "" })
}

/// The slots, or the first ones and how many more there are.
fn some(slots: &[u32]) -> String {
    const SHOWN: usize = 8;
    let shown: Vec<String> = slots.iter().take(SHOWN).map(ToString::to_string).collect();
    match slots.len().saturating_sub(SHOWN) {
        0 => shown.join(" "),
        more => format!("{} and {more} more", shown.join(" ")),
    }
}

#[derive(Serialize)]
struct Report<'a> {
    table_size: u32,
    backends: Vec<Row<'a>>,
    turns: Vec<TurnRow<'a>>,
}

#[derive(Serialize)]
struct Row<'a> {
    name: &'a str,
    weight: u32,
    offset: u32,
    skip: u32,
}

#[derive(Serialize)]
struct TurnRow<'a> {
    turn: usize,
    round: u32,
    backend: &'a str,
    found_taken: Vec<u32>,
    slot: u32,
}

fn json(drafters: &Drafters, draft: impl Iterator<Item = Turn>, screen: &mut Screen) -> Result<(), Failure> {
    let backends = drafters.names.iter().enumerate().map(|(place, name)| Row {
        name,
        weight: drafters.weights[place],
        offset: drafters.preferences[place].offset,
        skip: drafters.preferences[place].skip,
    });
    let turns = draft.enumerate().map(|(number, turn)| TurnRow {
        turn: number + 1,
        round: turn.round + 1,
        backend: &drafters.names[turn.backend as usize],
        found_taken: turn.refused,
        slot: turn.slot,
    });
    screen.json(&Report {
        table_size: drafters.size,
        backends: backends.collect(),
        turns: turns.collect(),
    })?;
    Ok(())
}

/// Reads `B0=3/4`.
fn parse_preference(text: &str) -> Result<(String, Preference), String> {
    let wrong = || format!("{text:?} is no preference; write NAME=OFFSET/SKIP, such as B0=3/4");
    let (name, numbers) = text.rsplit_once('=').ok_or_else(wrong)?;
    let (offset, skip) = numbers.split_once('/').ok_or_else(wrong)?;
    let number = |text: &str| text.trim().parse::<u32>().map_err(|_| wrong());
    Ok((name.to_owned(), Preference { offset: number(offset)?, skip: number(skip)? }))
}
