//! Timing the program: each run sees a fresh packet, and what the harness itself takes is timed beside it.
//!
//! A repeated test run hands the program its own output again, so timing an encapsulating program by it alone times
//! packets that it lets pass. Here a program before the measured one makes the packet fresh and chooses flow and
//! destination; before an empty program it is what there is to subtract.

use std::time::Duration;

use aya::maps::{Map, MapData, ProgramArray};
use aya::programs::{ProgramFd, TestRun, TestRunOptions, Xdp};
use aya::{Ebpf, EbpfLoader};
use nix::sched::{CpuSet, sched_getcpu, sched_setaffinity};
use nix::unistd::Pid;
use rustix::time::{ClockId, clock_gettime};

use crate::balancer::{Balancer, describe};
use crate::error::Error;
use crate::object;
use crate::pins::Pins;
use crate::tables;

/// The packet that each run sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Course {
    /// The frame, as it comes in.
    pub frame: Vec<u8>,
    /// The source address, if it is not always the one in the frame.
    pub clients: Option<Clients>,
    /// The destination address, if it is not always the one in the frame.
    pub services: Option<Services>,
}

/// Source addresses that follow one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clients {
    /// Where in the frame the address's last four bytes are.
    pub at: u32,
    /// What they are first.
    pub first: u32,
    /// Which bits of them vary.
    pub mask: u32,
}

/// Destination addresses, one at random for each run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Services {
    /// Where in the frame the address's last four bytes are.
    pub at: u32,
    /// What they are first.
    pub first: u32,
    /// How many there are.
    pub count: u32,
}

/// A program behind the harness.
pub struct Harness {
    ebpf: Ebpf,
    frame: Vec<u8>,
    /// Holds the measured program.
    _next: ProgramArray<MapData>,
}

impl std::fmt::Debug for Harness {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Harness").finish_non_exhaustive()
    }
}

impl Harness {
    /// The balancer behind the harness.
    ///
    /// # Errors
    /// [`Error::Load`], [`Error::Map`].
    pub fn before(balancer: &Balancer, course: &Course) -> Result<Harness, Error> {
        balancer.with_program(|program| {
            Harness::new(course, Some(program.fd().map_err(|error| load(&describe(&error)))?))
        })
    }

    /// The harness alone.
    ///
    /// # Errors
    /// As [`Harness::before`].
    pub fn before_nothing(course: &Course) -> Result<Harness, Error> {
        Harness::new(course, None)
    }

    fn new(course: &Course, next: Option<&ProgramFd>) -> Result<Harness, Error> {
        let mut header = [0; 16];
        for (to, from) in header.iter_mut().zip(course.frame.iter().take(ETHERNET)) {
            *to = *from;
        }
        let [first, last]: [u64; 2] = zerocopy::transmute!(header);
        let clients = course.clients.unwrap_or(Clients { at: 0, first: 0, mask: 0 });
        let services = course.services.unwrap_or(Services { at: 0, first: 0, count: 1 });
        let length = course.frame.len() as u32;
        let mut loader = EbpfLoader::new();
        loader.override_global("LENGTH", &length, true);
        loader.override_global("LINK_FIRST", &first, true);
        loader.override_global("LINK_LAST", &last, true);
        loader.override_global("CLIENT_AT", &clients.at, true);
        loader.override_global("CLIENT_FIRST", &clients.first, true);
        loader.override_global("CLIENT_MASK", &clients.mask, true);
        loader.override_global("SERVICE_AT", &services.at, true);
        loader.override_global("SERVICE_FIRST", &services.first, true);
        loader.override_global("SERVICE_COUNT", &services.count, true);
        let mut ebpf = loader.load(object::harness()).map_err(|error| load(&describe(&error)))?;
        let wrong = |reason: String| Error::Map { map: NEXT, reason };
        let map: Map = ebpf.take_map(NEXT).ok_or_else(|| wrong("it is missing".into()))?;
        let mut array = ProgramArray::try_from(map).map_err(|error| wrong(describe(&error)))?;
        program(&mut ebpf, EMPTY)?.load().map_err(|error| load(&describe(&error)))?;
        program(&mut ebpf, HARNESS)?.load().map_err(|error| load(&describe(&error)))?;
        let empty = program(&mut ebpf, EMPTY)?.fd().map_err(|error| load(&describe(&error)))?;
        array.set(0, next.unwrap_or(empty), 0).map_err(|error| wrong(describe(&error)))?;
        Ok(Harness { ebpf, frame: course.frame.clone(), _next: array })
    }

    /// Runs so many packets and returns how much of a CPU's time that took, with the system call that starts them. While
    /// another process has the CPU, no time passes.
    ///
    /// # Errors
    /// [`Error::Run`].
    pub fn run(&self, packets: u32) -> Result<Duration, Error> {
        let failed = |reason: String| Error::Run { bytes: self.frame.len(), reason };
        let Some(aya::programs::Program::Xdp(program)) = self.ebpf.program(HARNESS) else {
            return Err(failed("the object has no harness".into()));
        };
        let mut out = vec![0; self.frame.len() + 256];
        let options = TestRunOptions {
            data_in: Some(&self.frame),
            data_out: Some(&mut out),
            repeat: packets,
            ..TestRunOptions::new()
        };
        let start = cpu_time();
        let result = program.test_run(options).map_err(|error| failed(describe(&error)))?;
        let end = cpu_time();
        if result.return_value == ABORTED {
            return Err(failed("the harness could not restore the packet".into()));
        }
        Ok(end.saturating_sub(start))
    }
}

/// The balancer's way cut short after each step, over the maps of a pinned balancer.
#[derive(Debug)]
pub struct Steps {
    ebpf: Ebpf,
}

impl Steps {
    /// The names of the steps, each of which goes on where the one before it ends.
    pub const NAMES: [&'static str; 5] =
        ["step_enter", "step_parse", "step_service", "step_slot", "step_send"];

    /// Loads all of them over the maps that are pinned.
    ///
    /// # Errors
    /// [`Error::Load`], [`Error::Map`].
    pub fn load(pins: &Pins) -> Result<Steps, Error> {
        let mut loader = EbpfLoader::new();
        for shape in tables::ALL {
            loader.map_pin_path(shape.name, pins.map(shape.name));
            let map = MapData::from_pin(pins.map(shape.name))
                .map_err(|error| Error::Map { map: shape.name, reason: describe(&error) })?;
            loader.map_max_entries(shape.name, tables::check(*shape, &map)?);
        }
        let mut ebpf = loader.load(object::steps()).map_err(|error| load(&describe(&error)))?;
        for name in Steps::NAMES {
            program(&mut ebpf, name)?.load().map_err(|error| load(&describe(&error)))?;
        }
        Ok(Steps { ebpf })
    }

    /// The program that ends after this step, behind the harness.
    ///
    /// # Errors
    /// As [`Harness::before`].
    pub fn until(&self, step: &str, course: &Course) -> Result<Harness, Error> {
        let Some(aya::programs::Program::Xdp(program)) = self.ebpf.program(step) else {
            return Err(load("there is no such step"));
        };
        Harness::new(course, Some(program.fd().map_err(|error| load(&describe(&error)))?))
    }
}

/// How much of a CPU's time this thread has had. While another has the CPU, none passes.
pub fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Keeps this thread on the CPU where it runs, so that it keeps its caches.
///
/// # Errors
/// What the kernel says.
pub fn stay_on_this_cpu() -> std::io::Result<()> {
    let mut cpus = CpuSet::new();
    cpus.set(sched_getcpu()?)?;
    Ok(sched_setaffinity(Pid::from_raw(0), &cpus)?)
}

const HARNESS: &str = "harness";
const EMPTY: &str = "empty";
const NEXT: &str = "NEXT";
const ETHERNET: usize = 14;
/// What the harness returns when something is wrong with it.
const ABORTED: u32 = 0;

fn program<'a>(ebpf: &'a mut Ebpf, name: &str) -> Result<&'a mut Xdp, Error> {
    let program = ebpf.program_mut(name).ok_or_else(|| load("the object lacks a program"))?;
    program.try_into().map_err(|_| load("it is no XDP program"))
}

fn load(reason: &str) -> Error {
    Error::Load { program: HARNESS, reason: reason.to_owned() }
}
