//! What is written beside the objects: who compiled them, and from what.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::stack::{self, Chain};
use super::stage::{Stage, hexadecimal};
use super::toolchain::{FLAGS, Toolchain};

const FILE: &str = "manifest.toml";

/// The manifest.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Manifest {
    /// The compiler's version.
    pub(crate) compiler: String,
    linker: String,
    flags: String,
    /// SHA-256 over all sources.
    sources: String,
    /// SHA-256 of each object.
    objects: BTreeMap<String, String>,
    /// The longest chain of calls of each, and the stack that it takes.
    stack: BTreeMap<String, Chain>,
}

impl Manifest {
    /// Of objects just compiled.
    pub(crate) fn new(
        toolchain: &Toolchain,
        stage: &Stage,
        objects: &BTreeMap<String, Vec<u8>>,
        stack: BTreeMap<String, Chain>,
    ) -> Manifest {
        let digest = |(name, bytes): (&String, &Vec<u8>)| (name.clone(), hexadecimal(&Sha256::digest(bytes)));
        Manifest {
            compiler: toolchain.compiler.clone(),
            linker: toolchain.linker.clone(),
            flags: FLAGS.join(" "),
            sources: stage.source_hash.clone(),
            objects: objects.iter().map(digest).collect(),
            stack,
        }
    }

    /// Writes it beside the objects.
    pub(crate) fn write(&self, directory: &Path) -> Result<()> {
        let text = format!("# Written by `cargo xtask bpf`; do not edit.\n{}", toml::to_string(self)?);
        std::fs::write(directory.join(FILE), text).context("writing the manifest")
    }

    /// Reads it.
    pub(crate) fn read(directory: &Path) -> Result<Manifest> {
        let path = directory.join(FILE);
        let text = std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        toml::from_str(&text).with_context(|| format!("parsing {}", path.display()))
    }

    /// Whether this compiler and linker would compile to the same bytes.
    pub(crate) fn is_of(&self, toolchain: &Toolchain) -> bool {
        self.compiler == toolchain.compiler
            && self.linker == toolchain.linker
            && self.flags == FLAGS.join(" ")
    }

    /// That the sources are those that the objects were compiled from.
    pub(crate) fn check_sources(&self, stage: &Stage) -> Result<()> {
        if self.sources != stage.source_hash {
            bail!(
                "the kernel programs' sources have changed since their objects were compiled: run `cargo xtask bpf`"
            );
        }
        Ok(())
    }

    /// That the objects are those that were compiled, and that their calls fit the stack of every kernel.
    pub(crate) fn check_objects(&self, directory: &Path) -> Result<()> {
        for (name, digest) in &self.objects {
            let bytes = std::fs::read(directory.join(name)).with_context(|| format!("reading {name}"))?;
            if hexadecimal(&Sha256::digest(&bytes)) != *digest {
                bail!("{name} is not the object that its manifest tells of: run `cargo xtask bpf`");
            }
            let chain = stack::deepest(&bytes)?;
            if self.stack.get(name) != Some(&chain) {
                bail!("{name} takes other stack than its manifest tells of: run `cargo xtask bpf`");
            }
            chain.check(name)?;
        }
        Ok(())
    }
}
