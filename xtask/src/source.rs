//! Where sources are, and a hash over them.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use sha2::{Digest as _, Sha256};

/// The repository's root.
pub(crate) fn root() -> PathBuf {
    // This crate lies directly below it.
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new(".")).to_owned()
}

/// SHA-256 over the Rust sources and manifests in `paths` (files, or folders with all below them), relative to the root,
/// in order of name: for each its path, its length and its bytes.
pub(crate) fn hash(root: &Path, paths: &[&str]) -> anyhow::Result<String> {
    let mut files = Vec::new();
    for path in paths {
        collect(&root.join(path), &mut files)?;
    }
    files.sort();
    let mut sha = Sha256::new();
    for file in files {
        let bytes = fs::read(&file).with_context(|| format!("reading {}", file.display()))?;
        let name = file.strip_prefix(root)?.to_string_lossy().replace('\\', "/");
        sha.update(format!("{name}\0{}\0", bytes.len()));
        sha.update(&bytes);
    }
    Ok(hex(&sha.finalize()))
}

/// SHA-256 of `bytes`.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn collect(path: &Path, files: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    let context = || format!("reading {}", path.display());
    if path.is_file() {
        files.push(path.to_owned());
        return Ok(());
    }
    for entry in fs::read_dir(path).with_context(context)? {
        let entry = entry.with_context(context)?.path();
        let wanted = entry.extension().is_some_and(|e| e == "rs" || e == "toml");
        if entry.is_dir() || wanted {
            collect(&entry, files)?;
        }
    }
    Ok(())
}
