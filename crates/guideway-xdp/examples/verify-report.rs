//! Loads the balancer and prints what the kernel's verifier made of it.

use guideway_soft::Limits;
use guideway_xdp::{Balancer, Error};

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
    Ok(())
}
