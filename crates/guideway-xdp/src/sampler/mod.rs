//! Samples of packets as they arrive at the balancer's interfaces.
//!
//! XDP takes packets before packet sockets see them, so another program is put before the balancer's for a while: it
//! copies some packets out and then calls the balancer's, which decides as always. It is put there, and taken away again,
//! by an atomic update of each link. While there is no [`Sampler`], nothing of it is in the packet path.
//!
//! A process that is killed meanwhile leaves it there: it goes on calling the balancer's program, whose place in its map is
//! pinned for that, and the next process puts its own program there as ever.

mod program;

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use aya::maps::perf::{PerfEvent, PerfEventArray, PerfEventArrayBuffer};
use aya::maps::{Map, MapData, ProgramArray};
use aya::programs::ProgramFd;
use aya::util::online_cpus;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::attach::Mode;
use crate::balancer::{Balancer, describe};
use crate::error::Error;
use crate::syscall::{Attributes, Command, call, pinned};

/// Pages of each CPU's ring: room for some hundred packets.
const PAGES: usize = 64;

/// A packet that came in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrival {
    /// The index of the interface.
    pub interface: u32,
    /// Its bytes on the link.
    pub length: u32,
    /// Its bytes, 4,096 at most.
    pub frame: Vec<u8>,
}

/// Samples packets for as long as it lives.
pub struct Sampler {
    links: Vec<OwnedFd>,
    /// The balancer's own program, which comes back.
    own: ProgramFd,
    rings: Vec<PerfEventArrayBuffer<MapData>>,
    pin: PathBuf,
    /// Packets for which there was no room.
    lost: u64,
    /// Tells the balancer that another program at its interfaces is no stranger's.
    known: Arc<AtomicBool>,
    _kept: (PerfEventArray<MapData>, ProgramArray<MapData>),
}

impl std::fmt::Debug for Sampler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sampler")
            .field("links", &self.links)
            .field("lost", &self.lost)
            .finish_non_exhaustive()
    }
}

/// What `BPF_LINK_UPDATE` is told.
#[repr(C)]
struct Update {
    link: u32,
    program: u32,
    flags: u32,
    old_program: u32,
}

// SAFETY: it holds no address.
unsafe impl Attributes for Update {}

fn update(link: BorrowedFd<'_>, program: BorrowedFd<'_>) -> io::Result<()> {
    let descriptor = |fd: BorrowedFd<'_>| fd.as_raw_fd().unsigned_abs();
    let update = Update { link: descriptor(link), program: descriptor(program), flags: 0, old_program: 0 };
    call(Command::LinkUpdate, &update).map(drop)
}

impl Balancer {
    /// Samples one packet in 2^`rarity` at these interfaces, by index and mode; `rarity` is 30 at most.
    ///
    /// # Errors
    /// [`Error::Sample`]: the balancer is not pinned, or the kernel refuses a program, a map or a link.
    pub fn sample(&self, interfaces: &[(u32, Mode)], rarity: u32) -> Result<Sampler, Error> {
        let failed =
            |doing: &'static str| move |error: io::Error| Error::Sample { doing, reason: error.to_string() };
        let not = |doing: &'static str, error: &(dyn std::error::Error + 'static)| Error::Sample {
            doing,
            reason: describe(error),
        };
        let missing = |reason: &str| Error::Sample { doing: "find the balancer", reason: reason.to_owned() };
        let pins = self.pins.as_ref().ok_or_else(|| missing("it is not pinned"))?;
        let own = self.with_program(|program| {
            let program = program.fd().map_err(|error| not("find the balancer", &error))?;
            program.try_clone().map_err(failed("hold the balancer's program"))
        })?;
        let cpus = online_cpus().map_err(|(_, error)| failed("list the CPUs")(error))?;
        let most = cpus.iter().max().map_or(1, |last| last + 1);
        let events = program::events(most).map_err(failed("make a map for packets"))?;
        let next = program::next().map_err(failed("make a map for the balancer's program"))?;
        let mask = ((1_u64 << rarity.min(30)) - 1) as i32;
        let sampling =
            program::load(mask, events.as_fd(), next.as_fd()).map_err(failed("load the sampling program"))?;
        let data = |fd| MapData::from_fd(fd).map_err(|error| not("open a map", &error));
        let mut events = PerfEventArray::try_from(Map::PerfEventArray(data(events)?))
            .map_err(|error| not("open the map for packets", &error))?;
        let mut rings = Vec::new();
        for cpu in cpus {
            rings
                .push(events.open(cpu, Some(PAGES)).map_err(|error| not("open a ring for packets", &error))?);
        }
        let next = data(next)?;
        let pin = pins.map("SAMPLED");
        // One that a process left that was killed; whatever used it uses its own.
        let _ = std::fs::remove_file(&pin);
        next.pin(&pin).map_err(|error| not("pin the map for the balancer's program", &error))?;
        let mut next = ProgramArray::try_from(Map::ProgramArray(next))
            .map_err(|error| not("open the map for the balancer's program", &error))?;
        next.set(0, &own, 0).map_err(|error| not("name the balancer's program", &error))?;
        let known = Arc::clone(&self.sampling);
        known.store(true, Relaxed);
        let mut sampler =
            Sampler { links: Vec::new(), own, rings, pin, lost: 0, known, _kept: (events, next) };
        for &(index, mode) in interfaces {
            let link =
                pinned(&pins.link(mode.as_str(), index)).map_err(failed("open the link of an interface"))?;
            update(link.as_fd(), sampling.as_fd())
                .map_err(failed("put the sampling program at an interface"))?;
            sampler.links.push(link);
        }
        Ok(sampler)
    }
}

impl Sampler {
    /// Packets that came since the last call; waits for one until `patience` is over.
    ///
    /// # Errors
    /// What the system says.
    pub fn wait(&mut self, patience: Duration) -> io::Result<Vec<Arrival>> {
        let mut polled: Vec<PollFd<'_>> =
            self.rings.iter().map(|ring| PollFd::new(ring.as_fd(), PollFlags::POLLIN)).collect();
        let milliseconds = u16::try_from(patience.as_millis()).unwrap_or(u16::MAX);
        match poll(&mut polled, PollTimeout::from(milliseconds)) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        let Self { rings, lost, .. } = self;
        let mut arrivals = Vec::new();
        for ring in rings {
            ring.for_each(|event| match event {
                PerfEvent::Sample { head, tail } => arrivals.extend(arrival(&[head, tail].concat())),
                PerfEvent::Lost { count } => *lost += count,
            });
        }
        Ok(arrivals)
    }

    /// Packets for which there was no room.
    pub fn lost(&self) -> u64 {
        self.lost
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        for link in &self.links {
            // Where that fails the sampling program stays, and goes on calling the balancer's.
            if update(link.as_fd(), self.own.as_fd()).is_err() {
                return;
            }
        }
        self.known.store(false, Relaxed);
        let _ = std::fs::remove_file(&self.pin);
    }
}

/// A packet from what the program wrote: interface and length, the bytes, and what fills up to eight.
fn arrival(bytes: &[u8]) -> Option<Arrival> {
    let word = |at: usize| Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let (interface, length) = (word(0)?, word(4)?);
    let kept = length.min(program::KEPT as u32) as usize;
    let frame = bytes.get(program::HEAD..program::HEAD + kept)?.to_vec();
    Some(Arrival { interface, length, frame })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_arrival_is_its_head_and_its_bytes_without_what_fills_up() {
        let mut bytes = [7_u32.to_ne_bytes(), 3_u32.to_ne_bytes()].concat();
        bytes.extend([1, 2, 3, 0, 0, 0, 0, 0]);
        assert_eq!(arrival(&bytes), Some(Arrival { interface: 7, length: 3, frame: vec![1, 2, 3] }));
        assert_eq!(arrival(&bytes[..10]), None);
    }
}
