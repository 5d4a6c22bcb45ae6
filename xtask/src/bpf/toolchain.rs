//! A compiler that has `core` for the BPF target, and the linker.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::normal;
use super::stage::Stage;

const TARGET: &str = "bpfel-unknown-none";

/// Instruction set 3 is what Linux 5.12 knows. Misaligned loads and stores are fine for the kernel, and spare a fourth of
/// the instructions.
pub(crate) const FLAGS: [&str; 8] = [
    "-C",
    "debuginfo=2",
    "-C",
    "link-arg=--btf",
    "-C",
    "target-cpu=v3",
    "-C",
    "target-feature=+allows-misaligned-mem-access",
];

/// How to get one, for messages.
const HELP: &str = "on Debian: apt-get install rustc-web cargo-web libstd-rust-web-dev-bpf rust-web-src; elsewhere: \
    rustup toolchain install nightly --component rust-src. The linker: cargo install bpf-linker --version 0.10.3 --locked";

/// Where the compiler comes from.
enum Source {
    /// A packaged compiler with a prebuilt `core` for BPF.
    Packaged { cargo: PathBuf, rustc: PathBuf },
    /// rustup's nightly, which compiles `core` from its sources.
    Nightly,
}

/// A compiler and a linker.
pub(crate) struct Toolchain {
    source: Source,
    /// The compiler's own words.
    pub(crate) compiler: String,
    /// The linker's own words.
    pub(crate) linker: String,
    libraries: Option<PathBuf>,
}

impl Toolchain {
    /// The packaged compiler if it is installed, else a nightly one.
    pub(crate) fn find() -> Result<Toolchain> {
        let linker = output(Command::new("bpf-linker").arg("--version"))
            .with_context(|| format!("no bpf-linker. {HELP}"))?;
        let (rustc, cargo) = (PathBuf::from("/usr/bin/rustc"), PathBuf::from("/usr/bin/cargo"));
        let libraries = output(Command::new("rustup").args(["run", "stable", "rustc", "--print", "sysroot"]))
            .ok()
            .map(|sysroot| PathBuf::from(sysroot).join("lib"));
        if let Ok(sysroot) = output(Command::new(&rustc).args(["--print", "sysroot"]))
            && Path::new(&sysroot).join("lib/rustlib").join(TARGET).exists()
        {
            // The lines of `core` that code was inlined from are part of the object's debug information.
            if !Path::new(&sysroot).join("lib/rustlib/src/rust/library/core").exists() {
                bail!("{} has no sources of `core` beside it. {HELP}", rustc.display());
            }
            let compiler = output(Command::new(&rustc).arg("--version"))?;
            return Ok(Toolchain { source: Source::Packaged { cargo, rustc }, compiler, linker, libraries });
        }
        let compiler = output(Command::new("rustup").args(["run", "nightly", "rustc", "--version"]))
            .with_context(|| format!("no compiler for BPF. {HELP}"))?;
        Ok(Toolchain { source: Source::Nightly, compiler, linker, libraries })
    }

    /// Compiles the staged programs: file name and bytes of each object.
    ///
    /// Each by itself: an object carries the maps of all of its library, and a program's feature leaves out the others'.
    pub(crate) fn compile(&self, stage: &Stage) -> Result<BTreeMap<String, Vec<u8>>> {
        stage.programs.iter().map(|program| self.compile_one(stage, program)).collect()
    }

    fn compile_one(&self, stage: &Stage, program: &str) -> Result<(String, Vec<u8>)> {
        let target = stage.root.with_file_name("target");
        let mut cargo = match &self.source {
            Source::Packaged { cargo, rustc } => {
                let mut command = Command::new(cargo);
                // One unstable feature, inline assembly, in two crates.
                command.env("RUSTC", rustc).env("RUSTC_BOOTSTRAP", "aya_ebpf,guideway_ebpf");
                command
            }
            Source::Nightly => {
                let mut command = Command::new("rustup");
                command.args(["run", "nightly", "cargo", "-Zbuild-std=core"]);
                command
            }
        };
        cargo
            .args([
                "build",
                "--quiet",
                "--release",
                "--locked",
                "--package",
                "guideway-ebpf",
                "--target",
                TARGET,
            ])
            .args(["--no-default-features", "--features", program, "--bin", program])
            .current_dir(&stage.root)
            .env("CARGO_TARGET_DIR", &target)
            .env("CARGO_TARGET_BPFEL_UNKNOWN_NONE_LINKER", "bpf-linker")
            .env("CARGO_ENCODED_RUSTFLAGS", self.flags(stage)?.join("\u{1f}"))
            .env_remove("RUSTFLAGS");
        if let Some(libraries) = &self.libraries {
            // The linker finds its LLVM among the libraries of a compiler.
            let mut path = OsString::from(libraries);
            if let Some(old) = std::env::var_os("LD_LIBRARY_PATH") {
                path.push(":");
                path.push(old);
            }
            cargo.env("LD_LIBRARY_PATH", path);
        }
        let status = cargo.status().context("starting cargo")?;
        if !status.success() {
            bail!("compiling the kernel programs failed (cargo: {status})");
        }
        let path = target.join(TARGET).join("release").join(program);
        let bytes = std::fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
        Ok((format!("{program}.bpf.o"), normal::strip(&bytes)?))
    }

    /// The flags, with paths of this machine replaced, since line numbers in the object name files.
    fn flags(&self, stage: &Stage) -> Result<Vec<String>> {
        let mut flags: Vec<String> = FLAGS.iter().map(|flag| (*flag).to_owned()).collect();
        let mut replace =
            |from: &Path, to: &str| flags.push(format!("--remap-path-prefix={}={to}", from.display()));
        replace(&stage.root.join("crates"), "crates");
        let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
        let home = home.or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cargo")));
        let registry = home.context("neither CARGO_HOME nor HOME is set")?.join("registry/src");
        for entry in std::fs::read_dir(&registry).into_iter().flatten().flatten() {
            replace(&entry.path(), "registry");
        }
        Ok(flags)
    }
}

fn output(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("starting {command:?}"))?;
    if !output.status.success() {
        bail!("{command:?}: {}", output.status);
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
