//! A backend host's programs: the decapsulator, and the clamp of announced segment sizes.

mod attach;

pub use attach::{
    Attached, Hook, InFront, Pinned, Wish, are_of_here, attached, detach, in_front, is_clamped, leftovers,
    pinned,
};

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use aya::maps::lpm_trie::Key;
use aya::maps::{Array, HashMap, LpmTrie, MapData, PerCpuArray};
use aya::programs::{Program, ProgramError, SchedClassifier, TestRun as _, TestRunOptions, Xdp};
use aya::{Ebpf, EbpfLoader};
use guideway_forward::record::Tally;
use guideway_forward::tunnel_end::{Clamped, EndOutcome, EndSettings, Role};
use guideway_wire::Address;

use crate::balancer::describe;
use crate::error::Error;
use crate::object;

/// The decapsulator of the XDP hook.
pub(crate) const XDP: &str = "decap_xdp";
/// The decapsulator of the TC hook.
const TC: &str = "decap_tc";
/// The clamp.
const CLAMP: &str = "clamp_mss";

const ADDRESSES: &str = "ADDRESSES";
const SOURCES: &str = "SOURCES";
const SETTINGS: &str = "END_SETTINGS";
const COUNTS: &str = "END_COUNTS";
const CLAMP_COUNTS: &str = "CLAMP_COUNTS";

/// All of them.
const MAPS: [&str; 5] = [ADDRESSES, SOURCES, SETTINGS, COUNTS, CLAMP_COUNTS];

/// Words of a count: packets and bytes.
const TALLY: usize = 2;

/// The programs, loaded, with their maps.
pub struct Decapsulator {
    ebpf: Ebpf,
    addresses: HashMap<MapData, [u8; 16], u32>,
    sources: LpmTrie<MapData, [u8; 16], u32>,
    settings: Array<MapData, u64>,
    counts: PerCpuArray<MapData, [u64; TALLY * EndOutcome::COUNT]>,
    clamps: PerCpuArray<MapData, [u64; TALLY * Clamped::COUNT]>,
    pins: Option<PathBuf>,
}

impl fmt::Debug for Decapsulator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decapsulator").field("pins", &self.pins).finish_non_exhaustive()
    }
}

/// A program of the object, to be run on given bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// The decapsulator of the XDP hook.
    Xdp,
    /// The decapsulator of the TC hook.
    Tc,
    /// The clamp of the TC hook.
    Clamp,
}

impl Which {
    const fn name(self) -> &'static str {
        match self {
            Which::Xdp => XDP,
            Which::Tc => TC,
            Which::Clamp => CLAMP,
        }
    }
}

impl Decapsulator {
    /// Loads the programs. With `pins`, a directory of a BPF file system, their maps are those pinned there, which
    /// outlive the process; what is not there yet is made.
    ///
    /// # Errors
    /// [`Error::Elsewhere`] when another network namespace uses these pins, [`Error::NotPermitted`], [`Error::Refused`],
    /// [`Error::Load`], [`Error::Map`].
    pub fn load(pins: Option<&Path>) -> Result<Decapsulator, Error> {
        let mut loader = EbpfLoader::new();
        if let Some(pins) = pins {
            // Before its maps: they are what would be another's.
            are_of_here(pins)?;
            for map in MAPS {
                loader.map_pin_path(map, pins.join(map));
            }
        }
        let mut ebpf =
            loader.load(object::decapsulator()).map_err(|error| load_error("decapsulator", &error))?;
        for name in [XDP, TC, CLAMP] {
            let loaded = match ebpf.program_mut(name) {
                Some(Program::Xdp(program)) => program.load(),
                Some(Program::SchedClassifier(program)) => program.load(),
                _ => return Err(missing_program(name)),
            };
            loaded.map_err(|error| refused(name, error))?;
        }
        Ok(Decapsulator {
            addresses: map(&mut ebpf, ADDRESSES)?,
            sources: map(&mut ebpf, SOURCES)?,
            settings: map(&mut ebpf, SETTINGS)?,
            counts: map(&mut ebpf, COUNTS)?,
            clamps: map(&mut ebpf, CLAMP_COUNTS)?,
            ebpf,
            pins: pins.map(Path::to_path_buf),
        })
    }

    /// Changes what the host is set to, at once.
    ///
    /// # Errors
    /// [`Error::Map`].
    pub fn set(&mut self, settings: &EndSettings) -> Result<(), Error> {
        let word: u64 = zerocopy::transmute!(*settings);
        self.settings.set(0, word, 0).map_err(|error| map_error(SETTINGS, &error))
    }

    /// What the host is set to.
    ///
    /// # Errors
    /// [`Error::Map`].
    pub fn settings(&self) -> Result<EndSettings, Error> {
        let word = self.settings.get(&0, 0).map_err(|error| map_error(SETTINGS, &error))?;
        Ok(zerocopy::transmute!(word))
    }

    /// Makes the host's addresses these and no others: first what is new, then what is gone.
    ///
    /// # Errors
    /// [`Error::Map`].
    pub fn set_addresses(&mut self, addresses: &BTreeMap<IpAddr, Role>) -> Result<(), Error> {
        let wanted: BTreeMap<[u8; 16], Role> =
            addresses.iter().map(|(address, role)| (Address::from(*address).octets(), *role)).collect();
        for (address, role) in &wanted {
            let inserted = self.addresses.insert(address, role.0, 0);
            inserted.map_err(|error| map_error(ADDRESSES, &error))?;
        }
        let present: Vec<[u8; 16]> = self.addresses.keys().flatten().collect();
        for address in present.iter().filter(|address| !wanted.contains_key(*address)) {
            self.addresses.remove(address).map_err(|error| map_error(ADDRESSES, &error))?;
        }
        Ok(())
    }

    /// Has tunnels come from these prefixes, of an address and a length in bits, and no others, where
    /// [`EndSettings::KNOWN_SOURCES`] is set: first what is new, then what is gone.
    ///
    /// # Errors
    /// [`Error::Map`].
    pub fn set_sources(&mut self, sources: &BTreeSet<(IpAddr, u8)>) -> Result<(), Error> {
        let wanted: BTreeSet<(u32, [u8; 16])> = sources.iter().map(|source| prefix(*source)).collect();
        for (bits, address) in &wanted {
            let inserted = self.sources.insert(&Key::new(*bits, *address), 1, 0);
            inserted.map_err(|error| map_error(SOURCES, &error))?;
        }
        let present: Vec<_> = self.sources.keys().flatten().collect();
        for key in present.iter().filter(|key| !wanted.contains(&(key.prefix_len(), key.data()))) {
            self.sources.remove(key).map_err(|error| map_error(SOURCES, &error))?;
        }
        Ok(())
    }

    /// The host's addresses.
    pub fn addresses(&self) -> BTreeMap<IpAddr, Role> {
        let entries = self.addresses.iter().flatten();
        entries.map(|(address, role)| (Address::v6(address).to_ip(), Role(role))).collect()
    }

    /// Packets that came so far, by what became of them.
    ///
    /// # Errors
    /// [`Error::Map`].
    pub fn counts(&self) -> Result<BTreeMap<&'static str, Tally>, Error> {
        let values = self.counts.get(&0, 0).map_err(|error| map_error(COUNTS, &error))?;
        let all = EndOutcome::ALL.iter();
        Ok(all.map(|outcome| (outcome.as_str(), sum(values.iter(), outcome.index()))).collect())
    }

    /// Packets with this outcome so far.
    ///
    /// # Errors
    /// [`Error::Map`].
    pub fn count(&self, outcome: EndOutcome) -> Result<Tally, Error> {
        let values = self.counts.get(&0, 0).map_err(|error| map_error(COUNTS, &error))?;
        Ok(sum(values.iter(), outcome.index()))
    }

    /// SYN packets of virtual addresses that left so far, by what was done about the segment size that they announce.
    ///
    /// # Errors
    /// [`Error::Map`].
    pub fn clamped(&self, clamped: Clamped) -> Result<Tally, Error> {
        let values = self.clamps.get(&0, 0).map_err(|error| map_error(CLAMP_COUNTS, &error))?;
        Ok(sum(values.iter(), clamped.index()))
    }

    /// Runs a program on a frame: what it returns, and the frame as it was left.
    ///
    /// # Errors
    /// [`Error::Run`].
    pub fn run(&self, which: Which, frame: &[u8]) -> Result<(i32, Vec<u8>), Error> {
        let failed = |reason: String| Error::Run { bytes: frame.len(), reason };
        let mut out = vec![0; frame.len() + ROOM];
        let options =
            TestRunOptions { data_in: Some(frame), data_out: Some(&mut out), ..TestRunOptions::new() };
        let result = match self.ebpf.program(which.name()) {
            Some(Program::Xdp(program)) => program.test_run(options),
            Some(Program::SchedClassifier(program)) => program.test_run(options),
            _ => return Err(missing_program(which.name())),
        };
        let result = result.map_err(|error| failed(describe(&error)))?;
        out.truncate(result.data_size_out as usize);
        Ok((result.return_value.cast_signed(), out))
    }

    /// Instructions that the verifier went through, if the kernel tells.
    pub fn verified_instructions(&self, which: Which) -> Option<u32> {
        let info = match self.ebpf.program(which.name())? {
            Program::Xdp(program) => program.info(),
            Program::SchedClassifier(program) => program.info(),
            _ => return None,
        };
        info.ok()?.verified_instruction_count()
    }

    fn xdp(&mut self) -> Result<&mut Xdp, Error> {
        match self.ebpf.program_mut(XDP) {
            Some(Program::Xdp(program)) => Ok(program),
            _ => Err(missing_program(XDP)),
        }
    }

    fn classifier(&mut self, name: &'static str) -> Result<&mut SchedClassifier, Error> {
        match self.ebpf.program_mut(name) {
            Some(Program::SchedClassifier(program)) => Ok(program),
            _ => Err(missing_program(name)),
        }
    }
}

/// Bytes that a frame may grow by in a test run; the programs only take off.
const ROOM: usize = 64;

/// A prefix as the map has it: IPv4 within the addresses that are written `::ffff:a.b.c.d`.
fn prefix((address, bits): (IpAddr, u8)) -> (u32, [u8; 16]) {
    let bits = u32::from(bits) + if address.is_ipv4() { 96 } else { 0 };
    // Bits behind the prefix are none of it.
    let mask = u128::MAX.checked_shl(128_u32.saturating_sub(bits)).unwrap_or(0);
    let address = u128::from_be_bytes(Address::from(address).octets()) & mask;
    (bits.min(128), address.to_be_bytes())
}

fn sum<'a, const N: usize>(cpus: impl Iterator<Item = &'a [u64; N]>, index: u32) -> Tally {
    let at = TALLY * index as usize;
    cpus.fold(Tally::default(), |total, words| Tally {
        packets: total.packets.wrapping_add(words.get(at).copied().unwrap_or_default()),
        bytes: total.bytes.wrapping_add(words.get(at + 1).copied().unwrap_or_default()),
    })
}

pub(crate) fn map<M>(ebpf: &mut Ebpf, name: &'static str) -> Result<M, Error>
where
    M: TryFrom<aya::maps::Map, Error = aya::maps::MapError>,
{
    let map = ebpf.take_map(name);
    let map = map.ok_or_else(|| Error::Map { map: name, reason: "it is missing".into() })?;
    M::try_from(map).map_err(|error| map_error(name, &error))
}

pub(crate) fn map_error(map: &'static str, error: &(dyn std::error::Error + 'static)) -> Error {
    Error::Map { map, reason: describe(error) }
}

pub(crate) fn missing_program(program: &'static str) -> Error {
    Error::Load { program, reason: "the object has no such program".into() }
}

pub(crate) fn load_error(program: &'static str, error: &(dyn std::error::Error + 'static)) -> Error {
    match error_code(error) {
        Some(nix::libc::EPERM | nix::libc::EACCES) => Error::NotPermitted,
        _ => Error::Load { program, reason: describe(error) },
    }
}

pub(crate) fn refused(program: &'static str, error: ProgramError) -> Error {
    match error {
        ProgramError::LoadError { verifier_log, .. } if !verifier_log.to_string().is_empty() => {
            Error::Refused { program, log: verifier_log.to_string() }
        }
        error => load_error(program, &error),
    }
}

pub(crate) fn error_code(error: &(dyn std::error::Error + 'static)) -> Option<i32> {
    let mut cause = Some(error);
    while let Some(inner) = cause {
        if let Some(code) = inner.downcast_ref::<std::io::Error>().and_then(std::io::Error::raw_os_error) {
            return Some(code);
        }
        cause = inner.source();
    }
    None
}
