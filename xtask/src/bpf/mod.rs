//! `cargo xtask bpf`: compiles the kernel programs and puts their objects where guideway-xdp embeds them, or says whether
//! those in the repository are what its sources compile to.

mod manifest;
mod normal;
mod stack;
mod stage;
mod toolchain;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use manifest::Manifest;
use toolchain::Toolchain;

/// Options of `cargo xtask bpf`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Compare the objects with their sources, and rebuild them where the compiler that built them is at hand.
    #[arg(long)]
    check: bool,
}

/// Builds or checks the objects.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let repository = repository()?;
    if arguments.check { check(&repository) } else { build(&repository) }
}

/// Compiles, and replaces objects and manifest.
fn build(repository: &Path) -> Result<()> {
    let (stage, toolchain) = (stage::Stage::new(repository)?, Toolchain::find()?);
    let objects = toolchain.compile(&stage)?;
    let directory = directory(repository);
    std::fs::create_dir_all(&directory)?;
    let mut stack = BTreeMap::new();
    for (name, bytes) in &objects {
        let path = directory.join(name);
        std::fs::write(&path, bytes).with_context(|| format!("writing {}", path.display()))?;
        let chain = stack::deepest(bytes)?;
        println!("{} ({} bytes): {chain}", path.display(), bytes.len());
        chain.check(name)?;
        stack.insert(name.clone(), chain);
    }
    Manifest::new(&toolchain, &stage, &objects, stack).write(&directory)
}

/// Compares the manifest with the sources, and the objects with a fresh build where the same compiler is at hand.
fn check(repository: &Path) -> Result<()> {
    let directory = directory(repository);
    let manifest = Manifest::read(&directory)?;
    let stage = stage::Stage::new(repository)?;
    manifest.check_sources(&stage)?;
    manifest.check_objects(&directory)?;
    let toolchain = match Toolchain::find() {
        Ok(toolchain) if manifest.is_of(&toolchain) => toolchain,
        Ok(toolchain) => {
            println!(
                "sources unchanged; not rebuilt: built by {}, here is {}",
                manifest.compiler, toolchain.compiler
            );
            return Ok(());
        }
        Err(error) => {
            println!("sources unchanged; not rebuilt: {error:#}");
            return Ok(());
        }
    };
    for (name, bytes) in toolchain.compile(&stage)? {
        let path = directory.join(&name);
        if std::fs::read(&path).with_context(|| format!("reading {}", path.display()))? != bytes {
            bail!(
                "{} is not what its sources compile to: run `cargo xtask bpf` and commit the result",
                path.display()
            );
        }
        println!("{}: the same bytes", path.display());
    }
    Ok(())
}

/// Where guideway-xdp embeds the objects from.
fn directory(repository: &Path) -> PathBuf {
    repository.join("crates/guideway-xdp/bpf")
}

fn repository() -> Result<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
    Ok(root.context("xtask lies in the repository")?.to_path_buf())
}
