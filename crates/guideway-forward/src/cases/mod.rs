//! Packet in, packet out: the list of cases that every engine must pass, in user space and in the kernel.
//!
//! A case says what the forwarder holds ([`world::World`]) and then, step by step, which frame comes in and what must
//! become of it. Expected frames are built by an independent library or by hand. [`memory::Memory`] is a small state
//! that runs them in user space.

pub mod audit;
mod list;
pub mod memory;
pub mod packets;
pub mod world;

use std::string::String;
use std::vec::Vec;

pub use list::all;

use crate::outcome::{Event, Outcome};
use crate::record::{BackendState, Slot};

/// One scenario.
#[derive(Clone, Debug)]
pub struct Case {
    /// What it shows.
    pub name: String,
    /// What the forwarder holds at the start.
    pub world: world::World,
    /// What happens.
    pub steps: Vec<Step>,
}

/// One step of a scenario.
#[derive(Clone, Debug)]
pub enum Step {
    /// A frame comes in.
    Frame {
        /// The frame.
        input: Vec<u8>,
        /// What must become of it.
        expect: Expect,
    },
    /// The slots of every service's active table become this word.
    Slots(Slot),
    /// A backend changes its state.
    State(usize, BackendState),
    /// Seconds pass.
    Pass(u32),
}

/// What must become of a frame.
#[derive(Clone, Debug)]
pub struct Expect {
    /// The counter that it raises.
    pub outcome: Outcome,
    /// The frame that leaves.
    pub output: Output,
    /// What must be counted besides.
    pub event: Option<Event>,
}

/// The frame that leaves.
#[derive(Clone, Debug)]
pub enum Output {
    /// None, or nothing is said of it.
    Any,
    /// The frame that came in, untouched.
    Same,
    /// These bytes, except at the places listed, which follow the flow hash.
    Frame(Vec<u8>, Vec<usize>),
    /// An ICMP or ICMPv6 "too big" from the VIP to the client that gives this MTU and quotes the frame.
    TooBig(u32),
    /// An ICMP or ICMPv6 "port unreachable" from the VIP to the client that quotes the frame.
    Unreachable,
    /// An echo reply from the VIP with the data of the request.
    Echo,
    /// A reset from the VIP to the client with this sequence number.
    Reset(u32),
}
