//! Starting, holding and ending the forwarder.

mod remains;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read};
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use guideway_control::neighbour;
use guideway_soft::live::{LiveForwarder, StartError};
use guideway_soft::memory::NoMemory;
use guideway_soft::{Limits, Memory};
use guideway_xdp::attach::{Attachment, Mode, Standing, Wish};
use guideway_xdp::balancer::Balancer;
use guideway_xdp::egress;
use guideway_xdp::hold::Hold;
use guideway_xdp::occupant::{self, Occupant, name_of};
use guideway_xdp::pins::Pins;
use rustix::time::{ClockId, clock_gettime};

pub use remains::{Detached, Remains, detach, remains};

use crate::api::model::Interface;
use crate::engine::Plane;
use crate::options::{EngineOptions, OnExit};
use crate::patience::Patience;

/// A forwarder at work.
#[derive(Debug)]
pub(crate) struct Forwarder {
    plane: Plane,
    held: Held,
    ports: Vec<Interface>,
    /// Interfaces that an earlier daemon's program was taken off as this one began.
    pub(crate) let_go: Vec<String>,
}

#[derive(Debug)]
enum Held {
    /// With whether it was told that packets come joined.
    Soft {
        live: LiveForwarder,
        told_joined: bool,
    },
    Kernel {
        balancer: Arc<Balancer>,
        attachments: Vec<Attachment>,
        mode: Wish,
        pins: Pins,
        hold: Hold,
    },
}

/// The forwarder could not be started or ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ForwarderError {
    /// No interface was named.
    #[error(
        "no interface: say with --interface, or with daemon.interfaces in the configuration, by which the packets of \
         clients come"
    )]
    NoInterface,
    /// An interface is not there.
    #[error("there is no interface `{0}`: `ip link` lists those that there are")]
    UnknownInterface(String),
    /// It is not there, and the program of an earlier daemon is at one that nobody named.
    #[error(
        "there is no interface `{name}`. An earlier daemon's program forwards at {now}: if that is the new name of `{name}`, \
         say it in daemon.interfaces of the configuration, or with --interface; otherwise `guideway detach` ends it"
    )]
    Renamed {
        /// The name that was given.
        name: String,
        /// Those that the program is at.
        now: String,
    },
    /// The software forwarder.
    #[error(transparent)]
    Soft(#[from] StartError),
    /// The kernel's forwarder.
    #[error(transparent)]
    Kernel(#[from] guideway_xdp::Error),
    /// No memory.
    #[error(transparent)]
    Memory(#[from] NoMemory),
    /// No random bytes.
    #[error("cannot read random bytes from /dev/urandom: {0}")]
    Random(io::Error),
}

/// A forwarder that is loaded and can be told what to hold, and that no packet has reached yet, unless it is one that was
/// taken over and is at work.
#[derive(Debug)]
pub(crate) struct Loaded {
    plane: Plane,
    pins: Option<(Pins, Hold, Wish)>,
    interfaces: Vec<(String, u32)>,
    /// Whether an earlier process left it in the kernel, with all that it holds.
    pub(crate) taken_over: bool,
    /// How many limits of one that was taken over were not as they should be.
    pub(crate) put_right: u32,
    /// How many maps of one were not pinned any more, and are again.
    pub(crate) repinned: u32,
    /// The maps that were not, and cannot be: it could not be taken over.
    pub(crate) removed: Vec<&'static str>,
}

impl Loaded {
    /// Loads it for these interfaces, or takes over the one that an earlier process left in the kernel.
    pub(crate) fn load(
        options: &EngineOptions,
        interfaces: &[String],
        limits: Limits,
        patience: &mut Patience,
    ) -> Result<Self, ForwarderError> {
        if interfaces.is_empty() {
            return Err(ForwarderError::NoInterface);
        }
        let named = |name: &String| Ok((name.clone(), index(name)?));
        let found = interfaces.iter().map(named).collect::<Result<Vec<_>, ForwarderError>>();
        let interfaces = found.map_err(|error| match (error, options) {
            (ForwarderError::UnknownInterface(name), EngineOptions::Xdp { pins, .. }) => {
                renamed(name, interfaces, pins)
            }
            (error, _) => error,
        })?;
        match options {
            EngineOptions::Soft => {
                let memory = Arc::new(Memory::try_new(limits, random_key()?)?);
                memory.set_now_seconds(since_boot());
                Ok(Self {
                    plane: Plane::Soft(memory),
                    pins: None,
                    interfaces,
                    taken_over: false,
                    put_right: 0,
                    repinned: 0,
                    removed: Vec::new(),
                })
            }
            EngineOptions::Xdp { mode, pins, .. } => {
                let pins = Pins::new(pins)?;
                let is_held = |error: &guideway_xdp::Error| matches!(error, guideway_xdp::Error::Held { .. });
                let hold = patience.take(is_held, || pins.hold())?;
                pins.are_of_here()?;
                let repinned = pins.recover()?;
                let removed = pins.removed_maps()?;
                let taken_over = pins.is_taken();
                let balancer = Balancer::load_pinned(&limits, random_key()?, &pins);
                // Who may not load programs leaves no directory behind.
                let balancer = balancer.inspect_err(|_| pins.leave())?;
                let put_right = balancer.set_pace(limits.icmp_per_second);
                let plane = Plane::Kernel(Arc::new(balancer));
                let pins = Some((pins, hold, *mode));
                Ok(Self { plane, pins, interfaces, taken_over, put_right, repinned, removed })
            }
        }
    }

    /// Its state.
    pub(crate) fn plane(&self) -> &Plane {
        &self.plane
    }

    /// Takes it away again, where no packet has come to it.
    pub(crate) fn discard(&self) {
        if let (Some((pins, ..)), false) = (&self.pins, self.taken_over) {
            // Whatever fails here tells less than why it is not wanted.
            let _ = pins.remove();
        }
    }

    /// Why native mode is not to be tried although nothing speaks against it where packets come in: an interface towards backends
    /// would lose what is sent. Of a forwarder that was taken over the mode stays what it is.
    fn against_native(&self, backends: &BTreeSet<IpAddr>) -> Option<String> {
        let asked = self.pins.as_ref().is_some_and(|(.., mode)| *mode == Wish::Auto) && !self.taken_over;
        // Where the ways are not known, what is lost is told as soon as they are.
        let ways = asked.then(|| neighbour::egress(backends.iter().copied()).ok()).flatten()?;
        let native: Vec<u32> = self.interfaces.iter().map(|(_, index)| *index).collect();
        ways.into_iter().find_map(|link| {
            let objection = egress::objection(link, native != [link])?;
            let name = name_of(link)?;
            Some(format!("native mode would lose what is sent to backends by {name}: {objection}"))
        })
    }

    /// Has packets come to it, which go on to these backends. An earlier process's program is taken off the interfaces that are
    /// not among these.
    pub(crate) fn attach(self, backends: &BTreeSet<IpAddr>) -> Result<Forwarder, ForwarderError> {
        let against_native = self.against_native(backends);
        let Self { plane, pins, interfaces, taken_over, .. } = self;
        match (&plane, pins) {
            (Plane::Kernel(balancer), Some((pins, hold, mode))) => {
                let mode = if against_native.is_some() { Wish::Exactly(Mode::Generic) } else { mode };
                let attach = |(interface, _): &(String, u32)| balancer.attach(interface, mode);
                let attachments = interfaces.iter().map(attach).collect::<Result<Vec<_>, _>>();
                let mut attachments = attachments.inspect_err(|_| {
                    if !taken_over {
                        // Whatever fails here tells less than what has failed.
                        let _ = pins.remove();
                    }
                })?;
                if let Some(why) = against_native {
                    attachments.iter_mut().for_each(|attachment| attachment.note_fall_back(why.clone()));
                }
                let mut let_go = Vec::new();
                for left in pins.interfaces()? {
                    if interfaces.iter().all(|(_, index)| *index != left) {
                        pins.take_off(left)?;
                        let_go.extend(name_of(left));
                    }
                }
                let ports = attachments.iter().map(port).collect();
                let held = Held::Kernel { balancer: Arc::clone(balancer), attachments, mode, pins, hold };
                Ok(Forwarder { plane, held, ports, let_go })
            }
            (Plane::Soft(memory), _) => {
                let indices: Vec<u32> = interfaces.iter().map(|(_, index)| *index).collect();
                let live = LiveForwarder::start(memory, &indices)?;
                let port = |(name, index)| Interface {
                    name,
                    index,
                    mode: "socket".to_owned(),
                    fell_back: None,
                    lost: None,
                    down: false,
                };
                let ports = interfaces.into_iter().map(port).collect();
                let held = Held::Soft { live, told_joined: false };
                Ok(Forwarder { plane, held, ports, let_go: Vec::new() })
            }
            // A kernel's forwarder of the daemon is always pinned.
            (Plane::Kernel(_), None) => Err(ForwarderError::NoInterface),
        }
    }
}

impl Forwarder {
    /// Its state.
    pub(crate) fn plane(&self) -> &Plane {
        &self.plane
    }

    /// By which interfaces packets come.
    pub(crate) fn ports(&self) -> &[Interface] {
        &self.ports
    }

    /// Tells it the time, where it has no clock of its own.
    pub(crate) fn beat(&self) {
        if let Plane::Soft(memory) = &self.plane {
            memory.set_now_seconds(since_boot());
        }
    }

    /// Takes the names that interfaces have now; those that were renamed since the last call.
    pub(crate) fn follow_names(&mut self) -> Vec<Renamed> {
        let mut renamed = Vec::new();
        for port in &mut self.ports {
            let now = match &mut self.held {
                Held::Kernel { balancer, attachments, .. } => {
                    let attachment = attachments.iter_mut().find(|attachment| attachment.index == port.index);
                    // What the kernel does not tell now it tells at the next look.
                    attachment.and_then(|at| balancer.follow_name(at).ok()?.then(|| at.interface.clone()))
                }
                Held::Soft { .. } => name_of(port.index).filter(|now| *now != port.name),
            };
            if let Some(to) = now {
                let from = std::mem::replace(&mut port.name, to.clone());
                renamed.push(Renamed { index: port.index, from, to });
            }
        }
        renamed
    }

    /// Puts the kernel's program back where somebody has taken it off, and pins its link where the pin is gone; binds packet
    /// sockets again whose interface was made anew: at which interfaces not all was as it should be.
    pub(crate) fn look_after(&mut self) -> Vec<Strayed> {
        let (balancer, attachments, mode, hold) = match &mut self.held {
            Held::Kernel { balancer, attachments, mode, hold, .. } => (balancer, attachments, mode, hold),
            Held::Soft { live, .. } => return bind_again(live, &mut self.ports),
        };
        let mut strayed = Vec::new();
        for attachment in attachments.iter_mut() {
            // Where another process holds the pins by now, they are not to be touched.
            let how = match balancer.standing(attachment) {
                Ok(Standing::Whole) => continue,
                Ok(Standing::Gone) => {
                    let put_back = hold.renew().and_then(|()| balancer.reattach(attachment, *mode));
                    How::Gone(put_back.map(|()| attachment.mode.as_str()))
                }
                Ok(Standing::Unpinned) => {
                    How::Unpinned(hold.renew().and_then(|()| balancer.repin(attachment)))
                }
                Err(error) => How::Unknown(error),
            };
            strayed.push(Strayed { interface: attachment.interface.clone(), how });
        }
        let before = std::mem::replace(&mut self.ports, attachments.iter().map(port).collect());
        for port in &mut self.ports {
            let found = strayed.iter().find(|strayed| strayed.interface == port.name);
            port.lost = match found.map(|strayed| &strayed.how) {
                Some(How::Gone(Err(error))) => Some(error.to_string()),
                // As it was when it could be asked last.
                Some(How::Unknown(_)) => {
                    before.iter().find(|known| known.name == port.name).and_then(|known| known.lost.clone())
                }
                _ => None,
            };
        }
        strayed
    }

    /// Those of these interfaces that do not send what the program has for them, and why.
    pub(crate) fn refusing(&self, egress: impl IntoIterator<Item = u32>) -> BTreeMap<u32, String> {
        let Held::Kernel { attachments, .. } = &self.held else { return BTreeMap::new() };
        let native: Vec<u32> =
            attachments.iter().filter(|port| port.mode == Mode::Native).map(|port| port.index).collect();
        if native.is_empty() {
            return BTreeMap::new();
        }
        let refuses = |link| egress::objection(link, native != [link]).map(|why| (link, why));
        egress.into_iter().filter_map(refuses).collect()
    }

    /// Pins those maps again whose pins somebody has removed; how many.
    pub(crate) fn repin(&mut self) -> Result<u32, guideway_xdp::Error> {
        match &mut self.held {
            Held::Kernel { balancer, hold, .. } => hold.renew().and_then(|()| balancer.repair_pins()),
            Held::Soft { .. } => Ok(0),
        }
    }

    /// Frames that the kernel did not take from the software forwarder.
    pub(crate) fn unsent(&self) -> u64 {
        match &self.held {
            Held::Soft { live, .. } => live.unsent(),
            Held::Kernel { .. } => 0,
        }
    }

    /// What there is to say, once, when packets come to the software forwarder joined.
    pub(crate) fn complaint(&mut self) -> Option<&'static str> {
        match &mut self.held {
            Held::Soft { live, told_joined } if !*told_joined && live.joined() > 0 => {
                *told_joined = true;
                Some(JOINED)
            }
            _ => None,
        }
    }

    /// Ends it; the kernel's is taken away or goes on.
    pub(crate) fn end(self, on_exit: OnExit) -> Result<(), ForwarderError> {
        match self.held {
            Held::Soft { live, .. } => drop(live),
            Held::Kernel { balancer, attachments, pins, .. } => {
                if on_exit == OnExit::Detach {
                    attachments.into_iter().try_for_each(Attachment::detach)?;
                    pins.remove()?;
                    let own = balancer.program_id()?;
                    let left = occupant::balancers()?.into_iter().find(|(_, there)| there.id == own);
                    if let Some((interface, Occupant { id, .. })) = left {
                        return Err(guideway_xdp::Error::Stays { interface, id }.into());
                    }
                }
            }
        }
        Ok(())
    }
}

const JOINED: &str = "packets come joined, longer than the link takes, and fit no tunnel: large uploads stall. With the \
     software engine nobody may join them: `ethtool -K INTERFACE gro off` here, and over a veth pair \
     `ethtool -K PEER tso off gso off` at the other end as well";

/// An interface that has another name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Renamed {
    pub(crate) index: u32,
    pub(crate) from: String,
    pub(crate) to: String,
}

/// An interface at which not all was as it should be.
#[derive(Debug)]
pub(crate) struct Strayed {
    pub(crate) interface: String,
    pub(crate) how: How,
}

/// What was not as it should be, and what came of putting it right.
#[derive(Debug)]
pub(crate) enum How {
    /// The program was not there: in which mode it is back, or why not.
    Gone(Result<&'static str, guideway_xdp::Error>),
    /// The packet socket had lost its interface: whether it is bound to the one of that name now.
    Deaf(Result<(), ForwarderError>),
    /// The pin of its link was not there; packets are forwarded all the same.
    Unpinned(Result<(), guideway_xdp::Error>),
    /// It could not be asked, and was left alone.
    Unknown(guideway_xdp::Error),
}

/// Binds each packet socket that has lost its interface to the one that has the name now.
fn bind_again(live: &LiveForwarder, ports: &mut [Interface]) -> Vec<Strayed> {
    let mut strayed = Vec::new();
    for (link, port) in ports.iter_mut().enumerate() {
        // One that can be bound is no worse for being bound again where the kernel does not tell.
        if matches!(live.interface(link), Ok(Some(_))) {
            continue;
        }
        let bound = index(&port.name).and_then(|index| {
            live.follow(link, index)?;
            port.index = index;
            Ok(())
        });
        port.lost = bound.as_ref().err().map(ToString::to_string);
        strayed.push(Strayed { interface: port.name.clone(), how: How::Deaf(bound) });
    }
    strayed
}

fn port(attachment: &Attachment) -> Interface {
    Interface {
        name: attachment.interface.clone(),
        index: attachment.index,
        mode: attachment.mode.as_str().to_owned(),
        fell_back: attachment.fell_back.clone(),
        lost: None,
        down: false,
    }
}

/// What to say where an interface is not there: also where the program is that is pinned below `root`, of those that nobody
/// named.
fn renamed(name: String, given: &[String], root: &Path) -> ForwarderError {
    let at = Pins::find(root).ok().flatten().and_then(|pins| pins.interfaces().ok()).unwrap_or_default();
    let at: Vec<String> = at.into_iter().filter_map(name_of).filter(|name| !given.contains(name)).collect();
    if at.is_empty() {
        return ForwarderError::UnknownInterface(name);
    }
    let now = at.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    ForwarderError::Renamed { name, now }
}

fn index(name: &str) -> Result<u32, ForwarderError> {
    nix::net::if_::if_nametoindex(name).map_err(|_| ForwarderError::UnknownInterface(name.to_owned()))
}

/// Seconds that the machine was awake since it started: the clock of flow entries.
fn since_boot() -> u32 {
    u32::try_from(clock_gettime(ClockId::Monotonic).tv_sec).unwrap_or(u32::MAX)
}

fn random_key() -> Result<[u64; 2], ForwarderError> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")
        .and_then(|mut file| file.read_exact(&mut bytes))
        .map_err(ForwarderError::Random)?;
    let word = |half: &[u8]| half.iter().fold(0, |word, &byte| word << 8 | u64::from(byte));
    Ok([word(&bytes[..8]), word(&bytes[8..])])
}
