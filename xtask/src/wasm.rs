//! `cargo xtask wasm`: guideway-hash as the laboratory page loads it.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, bail, ensure};
use serde::{Deserialize, Serialize};

use crate::source;

const TARGET: &str = "wasm32-unknown-unknown";
const MODULE: &str = "web/lab/guideway.wasm";
const MANIFEST: &str = "web/lab/guideway.wasm.json";
/// All that the module is made of, besides the compiler and the crates that Cargo.lock names.
const SOURCES: [&str; 4] = [
    "crates/guideway-wasm/Cargo.toml",
    "crates/guideway-wasm/src",
    "crates/guideway-hash/Cargo.toml",
    "crates/guideway-hash/src",
];

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Change nothing: fail unless the module in the repository is what its sources build to.
    #[arg(long)]
    check: bool,
    /// With --check: build nothing, compare sources and module with the manifest. For machines without the target.
    #[arg(long, requires = "check")]
    sources_only: bool,
}

/// What the module in the repository was made from.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Manifest {
    /// What `rustc --version` said.
    compiler: String,
    /// SHA-256 over the sources: see [`source::hash`].
    source_sha256: String,
    /// SHA-256 of the module.
    module_sha256: String,
    /// Its size.
    module_bytes: usize,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let root = source::root();
    if arguments.sources_only {
        let kept = kept(&root)?;
        compare_sources(&kept, &source::hash(&root, &SOURCES)?)?;
        println!("{MODULE}: sources compared, bytes not");
        return Ok(());
    }
    let module = build(&root)?;
    let fresh = Manifest {
        compiler: compiler()?,
        source_sha256: source::hash(&root, &SOURCES)?,
        module_sha256: source::sha256(&module),
        module_bytes: module.len(),
    };
    if arguments.check {
        return check(&root, &fresh);
    }
    fs::write(root.join(MODULE), &module)?;
    fs::write(root.join(MANIFEST), serde_json::to_string_pretty(&fresh)? + "\n")?;
    println!("{MODULE}: {} bytes, {}", fresh.module_bytes, fresh.compiler);
    Ok(())
}

/// Builds the module. Paths are kept out of it, so that every checkout gives the same bytes.
fn build(root: &Path) -> anyhow::Result<Vec<u8>> {
    let cargo_home = std::env::var("CARGO_HOME")
        .or_else(|_| std::env::var("HOME").map(|home| format!("{home}/.cargo")))
        .context("neither CARGO_HOME nor HOME is set")?;
    let flags = format!(
        "--remap-path-prefix={}=/guideway\x1f--remap-path-prefix={cargo_home}=/cargo",
        root.display()
    );
    let target = root.join("target/wasm");
    let status = Command::new(env!("CARGO"))
        .args(["build", "--locked", "--package", "guideway-wasm", "--profile", "wasm", "--target", TARGET])
        .arg("--target-dir")
        .arg(&target)
        .current_dir(root)
        .env_remove("RUSTFLAGS")
        .env("CARGO_ENCODED_RUSTFLAGS", flags)
        .status()
        .context("running cargo")?;
    if !status.success() {
        bail!(
            "the module could not be built; if the target is missing, `rustup target add {TARGET}` installs it"
        );
    }
    let path = target.join(TARGET).join("wasm/guideway_wasm.wasm");
    fs::read(&path).with_context(|| format!("reading {}", path.display()))
}

fn compiler() -> anyhow::Result<String> {
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let output =
        Command::new(&rustc).arg("--version").output().with_context(|| format!("running {rustc}"))?;
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

/// Holds the repository's module to a fresh build.
///
/// Another compiler gives other bytes from the same sources; then the sources alone are compared.
fn check(root: &Path, fresh: &Manifest) -> anyhow::Result<()> {
    let kept = kept(root)?;
    if kept.compiler != fresh.compiler {
        compare_sources(&kept, &fresh.source_sha256)?;
        println!(
            "{MODULE} was built by {}; this is {}: sources compared, bytes not",
            kept.compiler, fresh.compiler
        );
        return Ok(());
    }
    // Sources that differ in comments or tests alone may build to the same bytes.
    ensure!(
        kept.module_sha256 == fresh.module_sha256,
        "{MODULE} differs from what its sources build to; {REMEDY}"
    );
    println!("{MODULE} is what its sources build to");
    Ok(())
}

/// The manifest, which must tell of the module beside it.
fn kept(root: &Path) -> anyhow::Result<Manifest> {
    let kept: Manifest = serde_json::from_slice(&fs::read(root.join(MANIFEST)).context(MANIFEST)?)?;
    let module = fs::read(root.join(MODULE)).context(MODULE)?;
    ensure!(
        source::sha256(&module) == kept.module_sha256 && module.len() == kept.module_bytes,
        "{MODULE} is not the module that its manifest tells of; {REMEDY}"
    );
    Ok(kept)
}

fn compare_sources(kept: &Manifest, source_sha256: &str) -> anyhow::Result<()> {
    ensure!(
        kept.source_sha256 == source_sha256,
        "the sources have changed since {MODULE} was built; {REMEDY}"
    );
    Ok(())
}

const REMEDY: &str = "run `cargo xtask wasm` and commit what it writes";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manifest_tells_of_the_module_beside_it() {
        let root = source::root();
        let kept: Manifest = serde_json::from_slice(&fs::read(root.join(MANIFEST)).unwrap()).unwrap();
        let module = fs::read(root.join(MODULE)).unwrap();
        assert_eq!((kept.module_bytes, kept.module_sha256), (module.len(), source::sha256(&module)));
        assert!(module.starts_with(b"\0asm"));
    }
}
