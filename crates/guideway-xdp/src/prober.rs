//! The probe encapsulator: what a socket with a backend's mark sends to a virtual address leaves through the tunnel to
//! that backend.

use std::net::IpAddr;
use std::path::Path;

use aya::maps::{Array, HashMap, MapData, PerCpuArray};
use aya::programs::links::FdLink;
use aya::programs::{Program, TcAttachType, TestRun as _, TestRunOptions};
use aya::{Ebpf, EbpfLoader};
use guideway_forward::Outcome;
use guideway_forward::record::{Backend, BackendSpec, Tally};
use guideway_wire::Address;

use crate::balancer::describe;
use crate::end::{load_error, map, map_error, missing_program, refused};
use crate::error::Error;
use crate::{object, tc};

const PROGRAM: &str = "encap_probe";
const MARKS: &str = "MARKS";
const BACKENDS: &str = "BACKENDS";
const VIPS: &str = "VIPS";
const COUNTS: &str = "PROBE_COUNTS";

/// Words of a backend's record.
const RECORD: usize = size_of::<Backend>() / size_of::<u64>();

/// The program, loaded, with its maps.
pub struct Prober {
    ebpf: Ebpf,
    marks: HashMap<MapData, u32, u32>,
    backends: Array<MapData, [u64; RECORD]>,
    vips: HashMap<MapData, [u8; 16], u32>,
    counts: PerCpuArray<MapData, [u64; 2 * Outcome::COUNT]>,
}

impl Prober {
    /// Loads the program with room for so many backends and virtual addresses. With `balancer`, the pin directory of a
    /// balancer's maps, its backends and virtual addresses are that one's, and the sizes theirs.
    ///
    /// # Errors
    /// [`Error::NotPermitted`], [`Error::Refused`], [`Error::Load`], [`Error::Map`].
    pub fn load(backends: u32, vips: u32, balancer: Option<&Path>) -> Result<Prober, Error> {
        let mut loader = EbpfLoader::new();
        loader.map_max_entries(BACKENDS, backends).map_max_entries(VIPS, vips);
        if let Some(pins) = balancer {
            loader.map_pin_path(BACKENDS, pins.join(BACKENDS)).map_pin_path(VIPS, pins.join(VIPS));
        }
        let mut ebpf = loader.load(object::prober()).map_err(|error| load_error(PROGRAM, &error))?;
        match ebpf.program_mut(PROGRAM) {
            Some(Program::SchedClassifier(program)) => {
                program.load().map_err(|error| refused(PROGRAM, error))?;
            }
            _ => return Err(missing_program(PROGRAM)),
        }
        Ok(Prober {
            marks: map(&mut ebpf, MARKS)?,
            backends: map(&mut ebpf, BACKENDS)?,
            vips: map(&mut ebpf, VIPS)?,
            counts: map(&mut ebpf, COUNTS)?,
            ebpf,
        })
    }

    /// Has a mark name the backend with this index. 0 is the mark of every socket without one, and names nobody.
    ///
    /// # Errors
    /// [`Error::Map`].
    pub fn set_mark(&mut self, mark: u32, backend: u32) -> Result<(), Error> {
        self.marks.insert(mark, backend, 0).map_err(|error| map_error(MARKS, &error))
    }

    /// Has a mark name nobody.
    ///
    /// # Errors
    /// [`Error::Map`], also when it names nobody now.
    pub fn clear_mark(&mut self, mark: u32) -> Result<(), Error> {
        self.marks.remove(&mark).map_err(|error| map_error(MARKS, &error))
    }

    /// Writes a backend's record, where no balancer does.
    ///
    /// # Errors
    /// [`Error::Map`].
    pub fn set_backend(&mut self, index: u32, backend: &BackendSpec) -> Result<(), Error> {
        let words: [u64; RECORD] = zerocopy::transmute!(Backend::new(backend));
        self.backends.set(index, words, 0).map_err(|error| map_error(BACKENDS, &error))
    }

    /// Adds a virtual address, where no balancer does.
    ///
    /// # Errors
    /// [`Error::Map`].
    pub fn add_vip(&mut self, address: IpAddr) -> Result<(), Error> {
        let key = Address::from(address).octets();
        self.vips.insert(key, 0, 0).map_err(|error| map_error(VIPS, &error))
    }

    /// Attaches the program where probes leave, until the result is dropped.
    ///
    /// # Errors
    /// [`Error::Attach`].
    pub fn attach(&mut self, interface: &str) -> Result<Option<FdLink>, Error> {
        let place = tc::Place { interface, attach: TcAttachType::Egress };
        match self.ebpf.program_mut(PROGRAM) {
            Some(Program::SchedClassifier(program)) => {
                tc::attach(program, PROGRAM, &place, None).map(|attached| attached.link)
            }
            _ => Err(missing_program(PROGRAM)),
        }
    }

    /// Probes so far: [`Outcome::Forwarded`], or why they were dropped.
    ///
    /// # Errors
    /// [`Error::Map`].
    pub fn count(&self, outcome: Outcome) -> Result<Tally, Error> {
        let values = self.counts.get(&0, 0).map_err(|error| map_error(COUNTS, &error))?;
        let at = 2 * outcome.index() as usize;
        let word = |words: &[u64], at: usize| words.get(at).copied().unwrap_or_default();
        Ok(values.iter().fold(Tally::default(), |total, words| Tally {
            packets: total.packets.wrapping_add(word(words, at)),
            bytes: total.bytes.wrapping_add(word(words, at + 1)),
        }))
    }

    /// Runs the program on a frame of a socket with this mark: what it returns, and the frame as it was left.
    ///
    /// # Errors
    /// [`Error::Run`].
    pub fn run(&self, frame: &[u8], mark: u32) -> Result<(i32, Vec<u8>), Error> {
        let failed = |reason: String| Error::Run { bytes: frame.len(), reason };
        let mut out = vec![0; frame.len() + ROOM];
        let mut context = [0; CONTEXT];
        context.get_mut(MARK..MARK + 4).into_iter().for_each(|at| at.copy_from_slice(&mark.to_ne_bytes()));
        let options = TestRunOptions {
            data_in: Some(frame),
            data_out: Some(&mut out),
            ctx_in: Some(&context),
            ..TestRunOptions::new()
        };
        let Some(Program::SchedClassifier(program)) = self.ebpf.program(PROGRAM) else {
            return Err(missing_program(PROGRAM));
        };
        let result = program.test_run(options).map_err(|error| failed(describe(&error)))?;
        out.truncate(result.data_size_out as usize);
        Ok((result.return_value.cast_signed(), out))
    }

    /// Instructions that the verifier went through, if the kernel tells.
    pub fn verified_instructions(&self) -> Option<u32> {
        match self.ebpf.program(PROGRAM)? {
            Program::SchedClassifier(program) => program.info().ok()?.verified_instruction_count(),
            _ => None,
        }
    }
}

/// The most that a tunnel adds.
const ROOM: usize = 64;
/// `struct __sk_buff`, and where its mark lies.
const CONTEXT: usize = 192;
const MARK: usize = 8;
