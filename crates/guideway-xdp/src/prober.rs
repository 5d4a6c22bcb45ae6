//! The probe encapsulator: what a socket with a backend's mark sends to a virtual address leaves through the tunnel to
//! that backend, and what is answered at another interface comes to the one that the socket belongs to.
//!
//! ```no_run
//! use std::collections::{BTreeMap, BTreeSet};
//!
//! use guideway_forward::record::{BackendSpec, BackendState, NextHop};
//! use guideway_wire::{Address, Tunnel, gue};
//! use guideway_xdp::prober::Prober;
//!
//! let mut prober = Prober::load(16, 16, None)?;
//! let tunnel = BackendSpec {
//!     state: BackendState::Active,
//!     address: Address::v4([10, 0, 0, 1]).octets(),
//!     tunnel: Tunnel::Ipip,
//!     outer_source: Address::v4([10, 0, 1, 1]).octets(),
//!     source_entropy_bits: 0,
//!     gue_port: gue::PORT,
//!     mtu: 1500,
//!     next_hop: NextHop { interface: 2, neighbour: [2, 0, 0, 0, 0, 1], own_mac: [2, 0, 0, 0, 0, 2], link_mtu: None },
//! };
//! prober.set_vips(&BTreeSet::from(["192.0.2.10".parse().unwrap()]))?;
//! prober.set_tunnels(&BTreeMap::from([(0x6777_0001, tunnel)]))?;
//! let attached = prober.attach("eth0")?; // until it is dropped
//! // A socket with the mark 0x6777_0001 now reaches 192.0.2.10 on 10.0.0.1, whatever the routes say.
//! let heard = prober.hear("eth1")?; // and takes answers that come by eth1, though it is bound to eth0
//! # Ok::<(), guideway_xdp::Error>(())
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;
use std::path::Path;

use aya::maps::{Array, HashMap, MapData, PerCpuArray};
use aya::programs::links::FdLink;
use aya::programs::{Program, SchedClassifier, TcAttachType, TestRun as _, TestRunOptions};
use aya::{Ebpf, EbpfLoader};
use guideway_forward::Outcome;
use guideway_forward::probe::Home;
use guideway_forward::record::{Backend, BackendSpec, Tally};
use guideway_wire::Address;
use nix::ifaddrs::getifaddrs;
use nix::net::if_::if_nametoindex;

use crate::balancer::describe;
use crate::end::{load_error, map, map_error, missing_program, refused};
use crate::error::Error;
use crate::{object, tc};

pub(crate) const PROGRAM: &str = "encap_probe";
const ANSWERS: &str = "bring_answer";
const MARKS: &str = "MARKS";
const BACKENDS: &str = "BACKENDS";
const VIPS: &str = "VIPS";
const HOME: &str = "HOME";
const COUNTS: &str = "PROBE_COUNTS";

/// Words of a backend's record.
const RECORD: usize = size_of::<Backend>() / size_of::<u64>();

/// The program, loaded, with its maps.
pub struct Prober {
    ebpf: Ebpf,
    /// By mark: where its record is, and what it says; those of [`Prober::set_tunnels`].
    tunnels: BTreeMap<u32, (u32, BackendSpec)>,
    /// Records that no mark names.
    free: Vec<u32>,
    marks: HashMap<MapData, u32, u32>,
    backends: Array<MapData, [u64; RECORD]>,
    vips: HashMap<MapData, [u8; 16], u32>,
    home: Array<MapData, [u8; size_of::<Home>()]>,
    counts: PerCpuArray<MapData, [u64; 2 * Outcome::COUNT]>,
}

impl fmt::Debug for Prober {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prober").field("tunnels", &self.tunnels).finish_non_exhaustive()
    }
}

impl Prober {
    /// Loads the program with room for so many tunnels, each to a backend, and virtual addresses. With `balancer`, the pin directory of a
    /// balancer's maps, its backends and virtual addresses are that one's, and the sizes theirs.
    ///
    /// # Errors
    /// [`Error::NotPermitted`], [`Error::Refused`], [`Error::Load`], [`Error::Map`].
    pub fn load(tunnels: u32, vips: u32, balancer: Option<&Path>) -> Result<Prober, Error> {
        let mut loader = EbpfLoader::new();
        // One more, so that a tunnel can change while it is in use: see `set_tunnels`.
        let backends = tunnels.saturating_add(1);
        loader.map_max_entries(BACKENDS, backends).map_max_entries(VIPS, vips);
        if let Some(pins) = balancer {
            loader.map_pin_path(BACKENDS, pins.join(BACKENDS)).map_pin_path(VIPS, pins.join(VIPS));
        }
        let mut ebpf = loader.load(object::prober()).map_err(|error| load_error(PROGRAM, &error))?;
        for name in [PROGRAM, ANSWERS] {
            classifier(&mut ebpf, name)?.load().map_err(|error| refused(name, error))?;
        }
        Ok(Prober {
            marks: map(&mut ebpf, MARKS)?,
            backends: map(&mut ebpf, BACKENDS)?,
            vips: map(&mut ebpf, VIPS)?,
            home: map(&mut ebpf, HOME)?,
            counts: map(&mut ebpf, COUNTS)?,
            ebpf,
            tunnels: BTreeMap::new(),
            free: if balancer.is_none() { (0..backends).rev().collect() } else { Vec::new() },
        })
    }

    /// Has each mark name this tunnel to a backend, and every other mark of an earlier call none. 0 is the mark of
    /// every socket without one, and names nobody. A probe sees the old tunnel of its mark or the new one, nothing
    /// between. For a prober with records of its own: not together with [`Prober::set_mark`].
    ///
    /// # Errors
    /// [`Error::Full`] when there are more than it was loaded for, [`Error::Map`]. What was done until then stays; the
    /// next call goes on from there.
    pub fn set_tunnels(&mut self, tunnels: &BTreeMap<u32, BackendSpec>) -> Result<(), Error> {
        let gone: Vec<u32> =
            self.tunnels.keys().copied().filter(|mark| !tunnels.contains_key(mark)).collect();
        for mark in gone {
            self.clear_mark(mark)?;
            self.free.extend(self.tunnels.remove(&mark).map(|(index, _)| index));
        }
        for (&mark, tunnel) in tunnels {
            if self.tunnels.get(&mark).is_some_and(|(_, known)| known == tunnel) {
                continue;
            }
            let full = || Error::Full {
                map: BACKENDS,
                reason: format!("{} tunnels are in use", self.tunnels.len()),
            };
            let index = self.free.pop().ok_or_else(full)?;
            let written = self.set_backend(index, tunnel).and_then(|()| self.set_mark(mark, index));
            if let Err(error) = written {
                self.free.push(index);
                return Err(error);
            }
            // To the other end of the queue: a probe that has just found it may read it still.
            let old = self.tunnels.insert(mark, (index, *tunnel));
            old.into_iter().for_each(|(index, _)| self.free.insert(0, index));
        }
        Ok(())
    }

    /// Has probes go to these virtual addresses and no others, where no balancer says which there are.
    ///
    /// # Errors
    /// [`Error::Map`], also when there are more than it was loaded for.
    pub fn set_vips(&mut self, vips: &BTreeSet<IpAddr>) -> Result<(), Error> {
        let wanted: BTreeSet<[u8; 16]> = vips.iter().map(|vip| Address::from(*vip).octets()).collect();
        let present: BTreeSet<[u8; 16]> = self.vips.keys().flatten().collect();
        for gone in present.difference(&wanted) {
            self.vips.remove(gone).map_err(|error| map_error(VIPS, &error))?;
        }
        for new in wanted.difference(&present) {
            self.vips.insert(new, 0, 0).map_err(|error| map_error(VIPS, &error))?;
        }
        Ok(())
    }

    /// Has a mark name the backend with this index, where a balancer writes the records. 0 is the mark of every socket without one, and names nobody.
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

    fn set_backend(&mut self, index: u32, backend: &BackendSpec) -> Result<(), Error> {
        let words: [u64; RECORD] = zerocopy::transmute!(Backend::new(backend));
        self.backends.set(index, words, 0).map_err(|error| map_error(BACKENDS, &error))
    }

    /// Attaches the program where probes leave, until the result is dropped. What is answered elsewhere comes there.
    ///
    /// # Errors
    /// [`Error::Attach`], [`Error::Map`].
    ///
    /// On kernels without links for TC (before 6.6) the result is `None`, and the filter stays until it is replaced.
    pub fn attach(&mut self, interface: &str) -> Result<Option<FdLink>, Error> {
        let place = tc::Place { interface, attach: TcAttachType::Egress };
        let attached = tc::attach(classifier(&mut self.ebpf, PROGRAM)?, PROGRAM, &place, None)?;
        let home: [u8; size_of::<Home>()] = zerocopy::transmute!(home(interface));
        self.home.set(0, home, 0).map_err(|error| map_error(HOME, &error))?;
        Ok(attached.link)
    }

    /// Has answers that come by another interface heard, too, until the result is dropped: they come to the interface
    /// that probes leave by. Packets from other than the virtual addresses are let alone.
    ///
    /// # Errors
    /// [`Error::Attach`].
    ///
    /// On kernels without links for TC (before 6.6) the result is `None`, and nothing is attached: a filter would stay.
    pub fn hear(&mut self, interface: &str) -> Result<Option<FdLink>, Error> {
        if !tc::has_links() {
            return Ok(None);
        }
        let place = tc::Place { interface, attach: TcAttachType::Ingress };
        tc::attach(classifier(&mut self.ebpf, ANSWERS)?, ANSWERS, &place, None).map(|attached| attached.link)
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

fn classifier<'a>(ebpf: &'a mut Ebpf, name: &'static str) -> Result<&'a mut SchedClassifier, Error> {
    match ebpf.program_mut(name) {
        Some(Program::SchedClassifier(program)) => Ok(program),
        _ => Err(missing_program(name)),
    }
}

/// Where probes leave; nothing where it has no MAC address, as answers cannot be brought there then.
fn home(interface: &str) -> Home {
    let mac = getifaddrs().ok().and_then(|addresses| {
        let mut own = addresses.filter(|address| address.interface_name == interface);
        own.find_map(|address| address.address?.as_link_addr()?.addr())
    });
    let index = if_nametoindex(interface).ok();
    let home = index.zip(mac).map(|(interface, mac)| Home { interface, mac, ..Home::default() });
    home.unwrap_or_default()
}

/// The most that a tunnel adds.
const ROOM: usize = 64;
/// `struct __sk_buff`, and where its mark lies.
const CONTEXT: usize = 192;
const MARK: usize = 8;
