//! Builds that cargo alone can't express. `cargo xtask --help` lists them; one module a command.

mod bpf;
mod lab_docs;
mod source;
mod wasm;

use clap::{Parser, Subcommand};

/// Builds that cargo alone can't express.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Build the kernel programs' objects and their manifest.
    Bpf(bpf::Arguments),
    /// Fill the documents' tables and pictures from the experiments.
    LabDocs(lab_docs::Arguments),
    /// Build the laboratory page's WebAssembly module and its manifest.
    Wasm(wasm::Arguments),
}

fn main() -> anyhow::Result<()> {
    match Arguments::parse().command {
        Command::Bpf(arguments) => bpf::run(&arguments),
        Command::LabDocs(arguments) => lab_docs::run(&arguments),
        Command::Wasm(arguments) => wasm::run(&arguments),
    }
}
