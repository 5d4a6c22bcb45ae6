//! The cases, grouped by what they are about.

mod edges;
mod families;
mod fragments;
mod icmp;
mod quic;
mod sizes;
mod tcp;
mod udp;

use std::string::String;
use std::vec;
use std::vec::Vec;

use guideway_wire::Tunnel;

use super::packets::tunnelled;
use super::world::World;
use super::{Case, Expect, Output, Step};
use crate::outcome::{Event, Outcome};
use crate::record::Slot;

/// Every case.
pub fn all() -> Vec<Case> {
    let mut cases = families::cases();
    cases.extend(tcp::cases());
    cases.extend(udp::cases());
    cases.extend(icmp::cases());
    cases.extend(sizes::cases());
    cases.extend(fragments::cases());
    cases.extend(quic::cases());
    cases.extend(edges::cases());
    cases
}

fn case(name: impl Into<String>, world: World, steps: Vec<Step>) -> Case {
    Case { name: name.into(), world, steps }
}

/// `input` must reach backend `10.0.0.last` by IPIP.
fn reaches(input: &[u8], last: u8) -> Step {
    let output = Output::Frame(tunnelled(input, Tunnel::Ipip, true, last), Vec::new());
    step(input, Outcome::Forwarded, output)
}

fn step(input: &[u8], outcome: Outcome, output: Output) -> Step {
    Step::Frame { input: input.to_vec(), expect: Expect { outcome, output, event: None } }
}

fn counting(step: Step, event: Event) -> Step {
    match step {
        Step::Frame { input, expect } => {
            Step::Frame { input, expect: Expect { event: Some(event), ..expect } }
        }
        other => other,
    }
}

fn passes(input: &[u8], outcome: Outcome) -> Step {
    step(input, outcome, Output::Same)
}

fn drops(input: &[u8], outcome: Outcome) -> Step {
    step(input, outcome, Output::Any)
}

const fn family(v4: bool) -> &'static str {
    if v4 { "IPv4" } else { "IPv6" }
}

fn with_prior(prior: Slot) -> World {
    let mut world = World::usual(Slot::settled_on(1));
    for service in &mut world.services {
        service.prior = vec![prior; 7];
    }
    world
}
