//! `guideway table profiles`.

use std::io::Write;

use guideway_hash::profile::Profile;
use serde::Serialize;

use super::recipe::profile_parser;
use crate::columns::{Align, Columns};
use crate::failure::{Failure, Outcome};
use crate::screen::{Screen, Style};

/// List the systems whose tables can be reproduced
///
/// A profile is a name for a whole rule: the bytes that are hashed, the hash, the order, what weights mean, the sizes.
/// Name one to see it in full, known defects included.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  guideway table profiles
  guideway table profiles cilium
  guideway table profiles --json | jq '.[].name'")]
pub(crate) struct Args {
    /// The profile to show in full
    #[arg(value_name = "PROFILE", value_parser = profile_parser())]
    profile: Option<Profile>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Sheet {
    name: &'static str,
    title: &'static str,
    source: &'static str,
    key: &'static str,
    sizes: &'static str,
    default_size: u32,
    default_weight: u32,
    flow_hash: &'static str,
    params: &'static [&'static str],
    defects: &'static [&'static str],
}

impl From<Profile> for Sheet {
    fn from(profile: Profile) -> Self {
        Self {
            name: profile.name(),
            title: profile.title(),
            source: profile.source(),
            key: profile.key_form(),
            sizes: profile.size_rule(),
            default_size: profile.default_size(),
            default_weight: profile.default_weight(),
            flow_hash: profile.flow_hash(),
            params: profile.params(),
            defects: profile.defects(),
        }
    }
}

pub(crate) fn run(args: &Args, screen: &mut Screen) -> Result<Outcome, Failure> {
    match args.profile.map(Sheet::from) {
        Some(sheet) if args.json => screen.json(&sheet)?,
        Some(sheet) => in_full(&sheet, screen)?,
        None if args.json => screen.json(&Profile::ALL.map(Sheet::from))?,
        None => {
            let mut columns = Columns::new([
                ("profile", Align::Left),
                ("slots", Align::Right),
                ("reproduces", Align::Left),
            ]);
            for sheet in Profile::ALL.map(Sheet::from) {
                columns.row([sheet.name.into(), sheet.default_size.to_string(), sheet.title.into()]);
            }
            columns.write(screen)?;
            let note = screen.paint(Style::Faint, "`guideway table profiles PROFILE` shows one in full");
            writeln!(screen, "\n{note}")?;
        }
    }
    Ok(Outcome::Ok)
}

fn in_full(sheet: &Sheet, screen: &mut Screen) -> Result<(), Failure> {
    let name = screen.paint(Style::Heading, sheet.name);
    writeln!(screen, "{name}: {}", sheet.title)?;
    let params = if sheet.params.is_empty() { "none".to_owned() } else { sheet.params.join(", ") };
    let sizes = format!("{}; {} unless told otherwise", sheet.sizes, sheet.default_size);
    let weight = sheet.default_weight.to_string();
    for (what, text) in [
        ("key", sheet.key),
        ("sizes", &sizes),
        ("weight", &weight),
        ("flow hash", sheet.flow_hash),
        ("parameters", &params),
        ("source", sheet.source),
    ] {
        writeln!(screen, "  {what:<11} {text}")?;
    }
    if !sheet.defects.is_empty() {
        writeln!(screen, "  known defects, reproduced:")?;
        for defect in sheet.defects {
            writeln!(screen, "  - {defect}")?;
        }
    }
    Ok(())
}
