//! The user-space side of the kernel programs: load them, attach them, change what they hold, read what they counted.
//!
//! The programs themselves are in `guideway-ebpf`, compiled to BPF and embedded here ([`object`]), so a plain build
//! needs no BPF compiler. A [`Balancer`] is one loaded program with its maps. Records, slots, flow table and
//! settings are mapped into this process: a change is a plain store, and reading flows makes no system call.
//!
//! * [`balancer`]: load, adopt, change, count.
//! * [`attach`]: put the program at an interface, and take it away again.
//! * [`occupant`]: which program an interface has now.
//! * [`peer`]: the other end of a veth pair, and what it needs.
//! * [`pins`]: where programs and maps outlive the process.
//! * [`end`]: the programs of a backend's host.
//! * [`prober`]: the probe encapsulator.
//! * [`sampler`]: packets as they arrive, while somebody looks.
//! * [`harness`]: how long a packet takes.
//! * [`preflight`]: whether a host and an interface can run the program.
//! * [`memory`]: what the maps take.
//! * [`step`]: the steps of a change, for tests.
//! * [`error`]: what can go wrong, and what to do then.
//!
//! All of this needs the capabilities `CAP_BPF`, `CAP_PERFMON` and `CAP_NET_ADMIN`.

pub mod attach;
pub mod balancer;
mod counters;
mod descriptors;
mod directory;
pub mod egress;
pub mod end;
pub mod error;
mod grace;
mod halves;
pub mod harness;
pub mod hold;
mod mapped;
pub mod memory;
mod namespace;
pub mod object;
pub mod occupant;
pub mod ownership;
pub mod peer;
pub mod pins;
pub mod preflight;
pub mod prober;
mod recover;
pub mod sampler;
mod sever;
pub mod step;
mod syscall;
mod tables;
mod tc;
mod whereabouts;

pub use balancer::{Action, Balancer, Run};
pub use error::Error;
