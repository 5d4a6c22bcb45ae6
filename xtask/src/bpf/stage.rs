//! The sources of the kernel programs, copied into a workspace of their own.
//!
//! Cargo mixes the path of a package outside the workspace into its symbols, so an object would follow the place of
//! the checkout. Inside one workspace only relative paths count.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};
use toml::{Table, Value};

/// The package with the programs, and the packages of the repository that it is made of.
const PROGRAMS: &str = "guideway-ebpf";
const PARTS: [&str; 3] = [PROGRAMS, "guideway-forward", "guideway-wire"];

/// The staged workspace.
pub(crate) struct Stage {
    /// Its root.
    pub(crate) root: PathBuf,
    /// The programs' names, one an object.
    pub(crate) programs: Vec<String>,
    /// The hash of all that is in it, in hexadecimal.
    pub(crate) source_hash: String,
}

impl Stage {
    /// Copies the sources below `target`.
    pub(crate) fn new(repository: &Path) -> Result<Stage> {
        let mut files = BTreeMap::new();
        let root_manifest = table(&repository.join("Cargo.toml"))?;
        let mut programs_manifest = table(&repository.join("crates").join(PROGRAMS).join("Cargo.toml"))?;
        programs_manifest.remove("workspace");
        let profile = programs_manifest.remove("profile");
        let programs = names(&programs_manifest)?;
        files.insert(PathBuf::from("Cargo.toml"), workspace(&root_manifest, profile)?.into_bytes());
        let lock = repository.join("crates").join(PROGRAMS).join("Cargo.lock");
        files.insert(PathBuf::from("Cargo.lock"), read(&lock)?);
        for part in PARTS {
            let (from, to) = (repository.join("crates").join(part), Path::new("crates").join(part));
            let mut manifest =
                if part == PROGRAMS { programs_manifest.clone() } else { table(&from.join("Cargo.toml"))? };
            bare(&mut manifest);
            files.insert(to.join("Cargo.toml"), toml::to_string(&manifest)?.into_bytes());
            collect(&from.join("src"), &to.join("src"), &mut files)?;
        }
        let root = repository.join("target/bpf/tree");
        write(&root, &files)?;
        Ok(Stage { root, programs, source_hash: hash(&files) })
    }
}

/// The workspace's manifest: what the parts inherit from the repository's, and the programs' profile.
fn workspace(repository: &Table, profile: Option<Value>) -> Result<String> {
    let mut workspace = Table::new();
    let inherited =
        repository.get("workspace").and_then(Value::as_table).context("Cargo.toml has no workspace")?;
    for section in ["package", "dependencies", "lints", "resolver"] {
        if let Some(value) = inherited.get(section) {
            workspace.insert(section.into(), value.clone());
        }
    }
    let used = ["guideway-forward", "guideway-wire", "thiserror", "zerocopy"];
    if let Some(Value::Table(dependencies)) = workspace.get_mut("dependencies") {
        // Only what the parts use: a new dependency of another crate does not make these sources others.
        dependencies.retain(|name, _| used.contains(&name));
    }
    let members = PARTS.map(|part| Value::String(format!("crates/{part}"))).to_vec();
    workspace.insert("members".into(), Value::Array(members));
    let mut manifest = Table::new();
    manifest.insert("workspace".into(), Value::Table(workspace));
    if let Some(profile) = profile {
        manifest.insert("profile".into(), profile);
    }
    Ok(toml::to_string(&manifest)?)
}

/// Takes off a manifest what the programs do without: dependencies of tests, and optional ones with what asks for them.
fn bare(manifest: &mut Table) {
    manifest.remove("dev-dependencies");
    if let Some(Value::Table(dependencies)) = manifest.get_mut("dependencies") {
        let optional = |value: &Value| value.get("optional").and_then(Value::as_bool).unwrap_or_default();
        dependencies.retain(|_, value| !optional(value));
    }
    if let Some(Value::Table(features)) = manifest.get_mut("features") {
        let names: Vec<String> = features.iter().map(|(name, _)| name.clone()).collect();
        for (_, asks_for) in features.iter_mut() {
            if let Value::Array(asks_for) = asks_for {
                asks_for.retain(|other| {
                    other.as_str().is_some_and(|other| names.iter().any(|name| name == other))
                });
            }
        }
    }
}

fn names(manifest: &Table) -> Result<Vec<String>> {
    let bins = manifest.get("bin").and_then(Value::as_array).context("guideway-ebpf has no programs")?;
    let name = |bin: &Value| bin.get("name").and_then(Value::as_str).map(str::to_owned);
    bins.iter().map(|bin| name(bin).context("a program has no name")).collect()
}

fn collect(from: &Path, to: &Path, files: &mut BTreeMap<PathBuf, Vec<u8>>) -> Result<()> {
    for entry in fs::read_dir(from).with_context(|| format!("reading {}", from.display()))? {
        let entry = entry?;
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type()?.is_dir() {
            collect(&from, &to, files)?;
        } else {
            files.insert(to, read(&from)?);
        }
    }
    Ok(())
}

/// Writes what has changed, so that a second build has nothing to do.
fn write(root: &Path, files: &BTreeMap<PathBuf, Vec<u8>>) -> Result<()> {
    let mut stale = BTreeMap::new();
    if root.exists() {
        collect(root, Path::new(""), &mut stale)?;
    }
    for path in stale.keys().filter(|path| !files.contains_key(*path)) {
        fs::remove_file(root.join(path))?;
    }
    for (path, bytes) in files {
        if stale.get(path) != Some(bytes) {
            let path = root.join(path);
            fs::create_dir_all(path.parent().context("a file lies in a directory")?)?;
            fs::write(&path, bytes).with_context(|| format!("writing {}", path.display()))?;
        }
    }
    Ok(())
}

fn hash(files: &BTreeMap<PathBuf, Vec<u8>>) -> String {
    let mut all = Sha256::new();
    for (path, bytes) in files {
        all.update(path.as_os_str().as_encoded_bytes());
        all.update([0]);
        all.update(Sha256::digest(bytes));
    }
    hexadecimal(&all.finalize())
}

/// Bytes in hexadecimal.
pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn table(path: &Path) -> Result<Table> {
    let text = fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    text.parse().with_context(|| format!("parsing {}", path.display()))
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("reading {}", path.display()))
}
