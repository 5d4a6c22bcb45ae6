//! `cargo xtask lab-docs`: the documents' tables and pictures, from the experiments themselves.
//!
//! A document marks a place by a command, and all up to the end of the place is what the command prints:
//!
//! ```text
//! <!-- lab: churn --backends 4 --plot laboratory/churn.svg -->
//! (the command, its tables as Markdown, its picture)
//! <!-- /lab -->
//! ```

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail, ensure};

use crate::source;

const BEGIN: &str = "<!-- lab: ";
const BEGIN_ENDS: &str = " -->\n";
const END: &str = "<!-- /lab -->";

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Change nothing: fail unless the documents hold what the experiments print.
    #[arg(long)]
    check: bool,
    /// The command to ask, rather than one that is built for it.
    #[arg(long, value_name = "FILE")]
    guideway: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let root = source::root();
    let docs = root.join("docs");
    let guideway = match &arguments.guideway {
        Some(path) => path.canonicalize().with_context(|| path.display().to_string())?,
        None => build(&root)?,
    };
    let pictures = if arguments.check {
        env::temp_dir().join(format!("lab-docs-{}", std::process::id()))
    } else {
        docs.clone()
    };
    let mut stale = Vec::new();
    let mut places = 0;
    for document in documents(&docs)? {
        let text = fs::read_to_string(&document)?;
        let experiments = Experiments { guideway: &guideway, pictures: &pictures };
        let (fresh, commands) = fill(&text, |command| experiments.ask(command))
            .with_context(|| document.display().to_string())?;
        places += commands.len();
        if arguments.check {
            stale.extend((fresh != text).then(|| document.clone()));
            for picture in commands.iter().filter_map(|command| picture(command)) {
                let same = fs::read(docs.join(picture)).ok() == Some(fs::read(pictures.join(picture))?);
                stale.extend((!same).then(|| docs.join(picture)));
            }
        } else if fresh != text {
            fs::write(&document, fresh)?;
            println!("{}: written anew", document.display());
        }
    }
    if arguments.check {
        let _ = fs::remove_dir_all(&pictures);
    }
    ensure!(places > 0, "no document of {} has a place for an experiment", docs.display());
    if let Some(first) = stale.first() {
        bail!(
            "{} is not what the experiments print; run `cargo xtask lab-docs` and look at what changed",
            first.display()
        );
    }
    println!("{places} experiments of the documents are up to date");
    Ok(())
}

/// The command, built as tests build it, so that a check after them builds nothing.
fn build(root: &Path) -> anyhow::Result<PathBuf> {
    let status = Command::new(env!("CARGO"))
        .args(["build", "--package", "guideway", "--locked"])
        .current_dir(root)
        .status()?;
    ensure!(status.success(), "the command could not be built");
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    Ok(target.join("debug/guideway"))
}

fn documents(docs: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(docs)? {
        let path = entry?.path();
        found.extend(path.extension().is_some_and(|ending| ending == "md").then_some(path));
    }
    found.sort();
    Ok(found)
}

/// Fills every place of `text` by asking for its command. Returns the commands too.
fn fill(
    text: &str,
    mut ask: impl FnMut(&str) -> anyhow::Result<String>,
) -> anyhow::Result<(String, Vec<String>)> {
    let (mut fresh, mut commands) = (String::new(), Vec::new());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(BEGIN) {
        let (command, body) =
            after.split_once(BEGIN_ENDS).context("a place begins and its comment does not end")?;
        let (_, after) =
            body.split_once(END).with_context(|| format!("the place of `{command}` does not end"))?;
        let answer = ask(command)?;
        fresh += &format!("{before}{BEGIN}{command}{BEGIN_ENDS}{}\n{END}", answer.trim_end());
        commands.push(command.to_owned());
        rest = after;
    }
    Ok((fresh + rest, commands))
}

/// The file that a command draws into.
fn picture(command: &str) -> Option<&str> {
    command.split_whitespace().skip_while(|word| *word != "--plot").nth(1)
}

struct Experiments<'a> {
    guideway: &'a Path,
    /// Where pictures go.
    pictures: &'a Path,
}

impl Experiments<'_> {
    fn ask(&self, command: &str) -> anyhow::Result<String> {
        println!("guideway lab {command}");
        if let Some(folder) = picture(command).and_then(|picture| Path::new(picture).parent()) {
            fs::create_dir_all(self.pictures.join(folder))?;
        }
        fs::create_dir_all(self.pictures)?;
        let output = Command::new(self.guideway)
            .arg("lab")
            .args(command.split_whitespace())
            .arg("--markdown")
            .current_dir(self.pictures)
            .output()
            .with_context(|| format!("running {}", self.guideway.display()))?;
        ensure!(
            output.status.success(),
            "`guideway lab {command}` failed: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        let mut answer =
            format!("`guideway lab {command}`\n\n{}", String::from_utf8(output.stdout)?.trim_end());
        if let Some(picture) = picture(command) {
            answer += &format!("\n\n![What the experiment found, as a chart]({picture})");
        }
        Ok(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_filled_and_the_rest_is_left_alone() {
        let text = "before\n<!-- lab: churn --plot a/b.svg -->\nold\n<!-- /lab -->\nbetween <!-- lab: cost -->\n<!-- /lab --> after\n";
        let (fresh, commands) = fill(text, |command| Ok(format!("[{command}]\n"))).unwrap();
        assert_eq!(
            fresh,
            "before\n<!-- lab: churn --plot a/b.svg -->\n[churn --plot a/b.svg]\n<!-- /lab -->\nbetween <!-- lab: cost -->\n[cost]\n<!-- /lab --> after\n"
        );
        assert_eq!(commands, ["churn --plot a/b.svg", "cost"]);
        assert_eq!(fill(&fresh, |command| Ok(format!("[{command}]"))).unwrap().0, fresh);
        assert_eq!((picture(&commands[0]), picture(&commands[1])), (Some("a/b.svg"), None));
    }

    #[test]
    fn a_place_that_does_not_end_is_an_error() {
        for text in ["<!-- lab: churn", "<!-- lab: churn -->\nold"] {
            assert!(fill(text, |_| Ok(String::new())).is_err());
        }
    }

    #[test]
    fn every_picture_that_a_document_shows_is_there() {
        let docs = source::root().join("docs");
        for document in documents(&docs).unwrap() {
            let text = fs::read_to_string(document).unwrap();
            let (_, commands) = fill(&text, |_| Ok(String::new())).unwrap();
            for picture in commands.iter().filter_map(|command| picture(command)) {
                assert!(docs.join(picture).exists(), "{picture}");
            }
        }
    }
}
