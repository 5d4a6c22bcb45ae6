//! Loads the balancer and reports what it takes of what the kernel allows: instructions that the verifier goes through, and
//! stack of the longest chain of calls.

use guideway_soft::Limits;
use guideway_xdp::{Balancer, Error};

/// What was written beside the objects when they were compiled.
const MANIFEST: &str = include_str!("../bpf/manifest.toml");

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let balancer = match Balancer::load(&Limits::default(), [1, 2]) {
        Ok(balancer) => balancer,
        Err(Error::Refused { program, log }) => {
            eprintln!("{log}");
            return Err(format!("the verifier refuses {program}").into());
        }
        Err(error) => return Err(error.into()),
    };
    let object = guideway_xdp::object::balancer().len();
    println!("object: {object} bytes");
    match balancer.verified_instructions() {
        Some(count) => println!("verified instructions: {count} of 1,000,000"),
        None => println!("verified instructions: this kernel does not tell"),
    }
    let manifest: toml::Table = MANIFEST.parse()?;
    let chain = manifest.get("stack").and_then(|stack| stack.get("balancer.bpf.o"));
    let bytes = chain.and_then(|chain| chain.get("bytes")).and_then(toml::Value::as_integer);
    let functions = chain.and_then(|chain| chain.get("functions")).and_then(toml::Value::as_array);
    let (Some(bytes), Some(functions)) = (bytes, functions) else {
        return Err("the manifest does not tell of the stack: run `cargo xtask bpf`".into());
    };
    let names: Vec<_> = functions.iter().filter_map(toml::Value::as_str).collect();
    println!(
        "stack: {bytes} of 512 bytes, frames rounded up as kernels before 6.8 do, by {}",
        names.join(" -> ")
    );
    Ok(())
}
