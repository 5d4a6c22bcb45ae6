//! One loaded balancer: its program, and all that it holds.

use std::collections::HashMap;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aya::maps::{Map, MapData};
use aya::programs::{ProgramError, TestRun, TestRunOptions, Xdp};
use aya::{Ebpf, EbpfLoader};
use guideway_forward::record::{Backend, Bucket, FragmentBucket, Service, ServiceId, Settings};
use guideway_soft::{Binding, Count, Limits, QuicBinding, Totals};
use rustix::time::{ClockId, clock_gettime};

use crate::counters::Counters;
use crate::descriptors;
use crate::directory::Directory;
use crate::error::Error;
use crate::grace::{GRACE, Grace};
use crate::halves::Halves;
use crate::object;
use crate::pins::Pins;
use crate::tables::{self, Shape, Tables};

/// The program's name in the object.
pub(crate) const PROGRAM: &str = "balancer";

/// What the program did with a frame in a test run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// What became of it.
    pub action: Action,
    /// The frame as it was left.
    pub frame: Vec<u8>,
}

/// What an XDP program tells the kernel to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A fault of the program.
    Aborted,
    /// The packet ends here.
    Drop,
    /// The packet goes on to the host.
    Pass,
    /// It leaves by the interface it came from.
    Transmit,
    /// It leaves by another interface.
    Redirect,
    /// None of these.
    Unknown(u32),
}

/// A loaded balancer.
#[derive(Debug)]
pub struct Balancer {
    limits: Limits,
    listens: u32,
    ebpf: Mutex<Ebpf>,
    tables: Tables,
    directory: Mutex<Directory>,
    counters: Counters,
    grace: Grace,
    pub(crate) pins: Option<Pins>,
    /// Handles of all maps, for pinning.
    maps: HashMap<&'static str, MapData>,
    /// What was set last.
    icmp_per_second: AtomicU32,
    clock_is_stopped: AtomicBool,
    /// Whether packets are being sampled: another program stands before this one then.
    pub(crate) sampling: Arc<AtomicBool>,
}

impl Balancer {
    /// Loads the program with maps of the sizes that `limits` ask for. Nothing is attached yet.
    ///
    /// `flow_key` keys flow table and fragment cache: random bytes, so that no stranger can aim at a bucket.
    ///
    /// # Errors
    /// [`Error::NotPermitted`], [`Error::Refused`], [`Error::Load`], [`Error::Map`], [`Error::Mapping`].
    pub fn load(limits: &Limits, flow_key: [u64; 2]) -> Result<Balancer, Error> {
        let balancer = Balancer::load_with(limits, None)?;
        balancer.settings().set_flow_key(flow_key);
        balancer.set_icmp_per_second(limits.icmp_per_second);
        Ok(balancer)
    }

    /// Loads the program with the maps that are pinned, with all that is in them and of the sizes that they have; or, if
    /// none are, as [`Balancer::load`] does, and pins them. Whether they were there is [`Pins::is_taken`] before.
    ///
    /// # Errors
    /// As [`Balancer::load`]; [`Error::Layout`] when a pinned map is not of the shape that this version reads,
    /// [`Error::Elsewhere`] when another network namespace uses these pins.
    pub fn load_pinned(limits: &Limits, flow_key: [u64; 2], pins: &Pins) -> Result<Balancer, Error> {
        pins.are_of_here()?;
        if !pins.is_taken() {
            // Some are there when a process was killed while it pinned them, or when somebody took others away. What is no
            // map of ours is left alone.
            for shape in tables::ALL.iter().filter(|shape| pins.map(shape.name).exists()) {
                pinned_entries(pins, *shape)?;
            }
            pins.forget_maps()?;
            let mut balancer = Balancer::load(limits, flow_key)?;
            for shape in tables::ALL {
                balancer.pin(pins, *shape)?;
            }
            balancer.pins = Some(pins.clone());
            return Ok(balancer);
        }
        let mut sizes = *limits;
        let entries = |shape| pinned_entries(pins, shape);
        for shape in tables::ALL {
            entries(*shape)?;
        }
        sizes.services = entries(tables::SERVICES)?.try_into().unwrap_or(u16::MAX);
        sizes.backends = entries(tables::BACKENDS)?;
        sizes.slots = entries(tables::SLOTS)? * tables::SLOTS_A_LINE;
        sizes.flows = entries(tables::FLOWS)? * guideway_forward::record::flow::ENTRIES as u32;
        sizes.fragments =
            entries(tables::FRAGMENTS)? * guideway_forward::record::fragment::FRAGMENT_ENTRIES as u32;
        let mut balancer = Balancer::load_with(&sizes, Some(pins))?;
        balancer.pins = Some(pins.clone());
        Ok(balancer)
    }

    fn load_with(limits: &Limits, pins: Option<&Pins>) -> Result<Balancer, Error> {
        let sizes = tables::sizes(limits);
        let flow_mask = tables::flow_buckets(limits) - 1;
        let fragment_mask = tables::fragment_buckets(limits) - 1;
        let mut loader = EbpfLoader::new();
        if let Some(pins) = pins {
            for shape in tables::ALL {
                loader.map_pin_path(shape.name, pins.map(shape.name));
            }
        }
        for (map, entries) in &sizes {
            loader.map_max_entries(map, *entries);
        }
        loader.override_global("FLOW_MASK", &flow_mask, true);
        loader.override_global("FRAGMENT_MASK", &fragment_mask, true);
        let mut ebpf =
            loader.load(object::balancer()).map_err(|error| load_error(&error, error.to_string()))?;
        let program = xdp(&mut ebpf)?;
        program.load().map_err(|error| match error {
            ProgramError::LoadError { verifier_log, .. } if !verifier_log.to_string().is_empty() => {
                Error::Refused { program: PROGRAM, log: verifier_log.to_string() }
            }
            error => load_error(&error, error.to_string()),
        })?;
        let mut taken = HashMap::new();
        for shape in tables::ALL {
            let map = ebpf.take_map(shape.name).ok_or_else(|| missing(*shape))?;
            taken.insert(shape.name, tables::data(*shape, map)?);
        }
        let grace =
            ebpf.take_map(GRACE).ok_or_else(|| Error::Map { map: GRACE, reason: "it is missing".into() })?;
        Balancer::new(*limits, ebpf, taken, Grace::new(grace)?)
    }

    fn new(
        limits: Limits,
        ebpf: Ebpf,
        maps: HashMap<&'static str, MapData>,
        grace: Grace,
    ) -> Result<Balancer, Error> {
        let again = |shape: Shape| -> Result<MapData, Error> {
            let map = maps.get(shape.name).ok_or_else(|| missing(shape))?;
            tables::check(shape, map)?;
            // Another handle rather than the map's number, which only CAP_SYS_ADMIN may look up.
            let handle = map.fd().as_fd().try_clone_to_owned().map_err(|error| wrong(shape, &error))?;
            MapData::from_fd(handle).map_err(|error| wrong(shape, &error))
        };
        let as_map = |shape: Shape| Map::from_map_data(again(shape)?).map_err(|error| wrong(shape, &error));
        let listens = tables::check(tables::PREFIXES, &again(tables::PREFIXES)?)? / tables::KEYS_A_LISTEN;
        let tables = Tables::new(again)?;
        let directory = Directory::new(as_map, halves(&tables))?;
        let pace = tables.pace.first();
        let (icmp, stopped) = (pace.per_second(), pace.stopped_at().is_some());
        Ok(Balancer {
            icmp_per_second: AtomicU32::new(icmp),
            clock_is_stopped: AtomicBool::new(stopped),
            sampling: Arc::default(),
            listens,
            tables,
            directory: Mutex::new(directory),
            counters: Counters::new(as_map)?,
            limits,
            ebpf: Mutex::new(ebpf),
            grace,
            maps,
            pins: None,
        })
    }

    /// The sizes that it was loaded with.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// How many places services can listen on: addresses or prefixes with a port and a protocol.
    pub fn listens(&self) -> u32 {
        self.listens
    }

    /// Seconds of the clock that flow entries are stamped with: those that the machine was awake since it started.
    pub fn now_seconds(&self) -> u32 {
        // Not where somebody else has stopped the program's clock.
        let stopped = self.tables.pace.first().stopped_at().filter(|_| self.clock_is_stopped.load(Relaxed));
        stopped.unwrap_or_else(|| clock_gettime(ClockId::Monotonic).tv_sec as u32)
    }

    /// Stops the program's clock at this second, or lets it run: for tests.
    pub fn stop_clock(&self, at: Option<u32>) {
        self.clock_is_stopped.store(at.is_some(), Relaxed);
        self.tables.pace.first().stop_clock(at);
    }

    /// Has the program's clock run and sets the limit of ICMP messages, whatever an earlier process has left in the maps;
    /// how many of the two were otherwise.
    pub fn set_pace(&self, icmp_per_second: u32) -> u32 {
        self.clock_is_stopped.store(false, Relaxed);
        self.icmp_per_second.store(icmp_per_second, Relaxed);
        self.repair_limits()
    }

    /// Changes how many ICMP messages of our own are sent a second.
    pub fn set_icmp_per_second(&self, messages: u32) {
        self.icmp_per_second.store(messages, Relaxed);
        self.tables.pace.first().set_per_second(messages);
    }

    /// The record of a service.
    pub fn service(&self, id: ServiceId) -> Option<&Service> {
        self.tables.services.values().get(usize::from(id.0))
    }

    /// The record of the backend with this global index.
    pub fn backend(&self, global: u32) -> Option<&Backend> {
        self.tables.backends.values().get(global as usize)
    }

    /// Maps the first so many slots, or all there are, into this process.
    ///
    /// # Errors
    /// [`Error::Mapping`]; what was mapped before is so still.
    pub fn reach_slots(&self, slots: u32) -> Result<(), Error> {
        self.tables.slots.reach(slots as usize)
    }

    /// The slots of all tables, as far as [`reach_slots`](Self::reach_slots) has come.
    pub fn slots(&self) -> &[AtomicU32] {
        self.tables.slots.values()
    }

    /// The flow table.
    pub fn flows(&self) -> &[Bucket] {
        self.tables.flows.values()
    }

    /// The fragment cache.
    pub fn fragments(&self) -> &[FragmentBucket] {
        self.tables.fragments.values()
    }

    /// What holds for the whole machine.
    pub fn settings(&self) -> &Settings {
        self.tables.settings.first()
    }

    /// Makes these the places where services listen, and these the QUIC server ids.
    ///
    /// # Errors
    /// [`Error::Full`], [`Error::Map`]: everything is as it was. [`Error::Torn`] when even that failed.
    pub fn publish(&self, bindings: &[Binding], quic: &[QuicBinding]) -> Result<(), Error> {
        self.directory().publish(bindings, quic, halves(&self.tables), &self.grace)
    }

    /// Where services listen, and the QUIC server ids: what was published last, by this process or the one before.
    pub fn published(&self) -> (Vec<Binding>, Vec<QuicBinding>) {
        self.directory().published()
    }

    /// Compares where services listen with what was published last, and puts right what somebody else has changed; how
    /// many entries that were. A map of more than 16,384 entries has its turn every fifth call.
    ///
    /// # Errors
    /// [`Error::Full`], [`Error::Map`].
    pub fn repair_directory(&self) -> Result<u32, Error> {
        self.directory().repair(halves(&self.tables), &self.grace)
    }

    /// Sets the limit of ICMP messages again, and has the program's clock run, where somebody else changed them; how many
    /// of them.
    pub fn repair_limits(&self) -> u32 {
        let pace = self.tables.pace.first();
        let messages = pace.per_second() != self.icmp_per_second.load(Relaxed);
        if messages {
            pace.set_per_second(self.icmp_per_second.load(Relaxed));
        }
        let clock = pace.stopped_at().is_some() && !self.clock_is_stopped.load(Relaxed);
        if clock {
            pace.stop_clock(None);
        }
        u32::from(messages) + u32::from(clock)
    }

    /// Pins those maps again whose pins somebody has removed; how many.
    ///
    /// # Errors
    /// [`Error::Pin`].
    pub fn repair_pins(&self) -> Result<u32, Error> {
        let Some(pins) = &self.pins else { return Ok(0) };
        pins.make()?;
        let gone = tables::ALL.iter().filter(|shape| !pins.map(shape.name).exists());
        let again = gone
            .map(|shape| self.pin(pins, *shape))
            .try_fold(0, |count, pinned| pinned.map(|()| count + 1))?;
        // One in a pin's place is nothing now, and the end of the next start.
        pins.refuse_directories()?;
        Ok(again)
    }

    fn pin(&self, pins: &Pins, shape: Shape) -> Result<(), Error> {
        let path = pins.map(shape.name);
        let map = self.maps.get(shape.name).ok_or_else(|| missing(shape))?;
        map.pin(&path).map_err(|error| Error::Pin { path, reason: describe(&error) })
    }

    /// Begins a grace period and returns its number.
    pub fn begin_grace(&self) -> u64 {
        self.grace.begin()
    }

    /// Whether no program still runs that ran when this grace period began.
    pub fn grace_is_over(&self, number: u64) -> bool {
        self.grace.is_over(number)
    }

    /// The totals of all CPUs.
    pub fn totals(&self) -> Totals {
        self.counters.totals()
    }

    /// Packets forwarded for a service.
    pub fn service_count(&self, id: ServiceId) -> Count {
        self.counters.service(u32::from(id.0))
    }

    /// Packets forwarded to the backend with this global index.
    pub fn backend_count(&self, global: u32) -> Count {
        self.counters.backend(global)
    }

    /// Runs the program on a frame, as if it had come in by the loopback interface. It counts and remembers as always.
    ///
    /// # Errors
    /// [`Error::Run`]: the kernel takes 14 to about 3,500 bytes.
    pub fn run(&self, frame: &[u8]) -> Result<Run, Error> {
        let failed = |reason: String| Error::Run { bytes: frame.len(), reason };
        let mut out = vec![0; frame.len() + ROOM];
        let options =
            TestRunOptions { data_in: Some(frame), data_out: Some(&mut out), ..TestRunOptions::new() };
        let result =
            self.with_program(|program| program.test_run(options).map_err(|error| failed(describe(&error))))?;
        out.truncate(result.data_size_out as usize);
        Ok(Run { action: Action::from(result.return_value), frame: out })
    }

    /// Instructions that the verifier went through, if the kernel tells.
    pub fn verified_instructions(&self) -> Option<u32> {
        let info = self.with_program(|program| program.info().map_err(|error| cannot_tell(&error)));
        info.ok()?.verified_instruction_count()
    }

    /// The kernel's number of the program.
    ///
    /// # Errors
    /// [`Error::Load`] when the kernel does not tell.
    pub fn program_id(&self) -> Result<u32, Error> {
        Ok(self.with_program(|program| program.info().map_err(|error| cannot_tell(&error)))?.id())
    }

    /// Does something with the program.
    pub(crate) fn with_program<T>(
        &self,
        work: impl FnOnce(&mut Xdp) -> Result<T, Error>,
    ) -> Result<T, Error> {
        // A panic in between leaves no half-done change: each is one call of the loader.
        let mut ebpf = self.ebpf.lock().unwrap_or_else(PoisonError::into_inner);
        work(xdp(&mut ebpf)?)
    }

    fn directory(&self) -> MutexGuard<'_, Directory> {
        // A panic in between leaves maps and their mirror in step: both change together.
        self.directory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Bytes that a frame can grow by: the largest outer headers.
const ROOM: usize = 128;

impl From<u32> for Action {
    fn from(code: u32) -> Action {
        match code {
            0 => Action::Aborted,
            1 => Action::Drop,
            2 => Action::Pass,
            3 => Action::Transmit,
            4 => Action::Redirect,
            other => Action::Unknown(other),
        }
    }
}

fn xdp(ebpf: &mut Ebpf) -> Result<&mut Xdp, Error> {
    let no = |reason: &str| Error::Load { program: PROGRAM, reason: reason.to_owned() };
    let program = ebpf.program_mut(PROGRAM).ok_or_else(|| no("the object has no such program"))?;
    program.try_into().map_err(|_| no("it is no XDP program"))
}

pub(crate) fn cannot_tell(error: &(dyn std::error::Error + 'static)) -> Error {
    Error::Load { program: PROGRAM, reason: format!("the kernel does not tell of it: {}", describe(error)) }
}

/// How many elements a pinned map has, if it is one of ours.
fn pinned_entries(pins: &Pins, shape: Shape) -> Result<u32, Error> {
    let path = pins.map(shape.name);
    let other = |reason: String| Error::Layout { path: path.clone(), reason };
    // What cannot be opened for want of a descriptor may be as it should be.
    let map = MapData::from_pin(&path).map_err(|error| match descriptors::remedy(&error) {
        Some(_) => Error::Pin { path: path.clone(), reason: describe(&error) },
        None => other(describe(&error)),
    })?;
    tables::check(shape, &map).map_err(|error| match error {
        Error::Map { reason, .. } => other(reason),
        error => error,
    })
}

fn halves(tables: &Tables) -> Halves<'_> {
    Halves { lines: tables.directory.values(), settings: tables.settings.first() }
}

fn missing(shape: Shape) -> Error {
    Error::Map { map: shape.name, reason: "it is missing".into() }
}

fn wrong(shape: Shape, error: &(dyn std::error::Error + 'static)) -> Error {
    match descriptors::remedy(error) {
        Some(_) => Error::Load { program: PROGRAM, reason: format!("{}: {}", shape.name, describe(error)) },
        None => Error::Map { map: shape.name, reason: describe(error) },
    }
}

/// An error with its causes in one line, and what to do where descriptors are lacking.
pub(crate) fn describe(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text = format!("{text}: {inner_text}");
        }
        cause = inner.source();
    }
    if let Some(remedy) = descriptors::remedy(error) {
        text = format!("{text}; {remedy}");
    }
    text
}

fn load_error(error: &(dyn std::error::Error + 'static), text: String) -> Error {
    let mut cause = Some(error);
    while let Some(inner) = cause {
        if let Some(io) = inner.downcast_ref::<std::io::Error>()
            && io.kind() == std::io::ErrorKind::PermissionDenied
        {
            return Error::NotPermitted;
        }
        cause = inner.source();
    }
    let _ = text;
    Error::Load { program: PROGRAM, reason: describe(error) }
}
