//! A packet thread that reads the frames of links and forwards them.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use guideway_forward::Verdict;
use guideway_wire::SliceFrame;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};

use super::socket::{MAX_FRAME, PacketSocket, Way};
use super::sys;
use crate::memory::Memory;
use crate::worker::Worker;

/// Room before and behind a frame: the largest outer headers, and the largest answer to a short frame.
const ROOM: usize = 256;

/// The longest Ethernet header that is understood, with two tags, bytes.
const LONGEST_HEADER: usize = 14 + 2 * 4;

/// Frames read from one link before the others have their turn.
const TURN: usize = 64;

/// The thread says so often at least that it holds nothing old.
const IDLE: Duration = Duration::from_millis(20);

/// The packet path in user space: one thread reads the frames that come to the links' own addresses. It ends when this
/// is dropped.
#[derive(Debug)]
pub struct LiveForwarder {
    stop: Arc<Stop>,
    links: Vec<Arc<Link>>,
    unsent: Arc<AtomicU64>,
    joined: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

/// The packet thread could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// A link refuses.
    #[error(
        "cannot read the frames of interface {interface}: {error}; \
         it takes CAP_NET_RAW and an interface that is there"
    )]
    Socket {
        /// The index of the interface.
        interface: u32,
        /// What the kernel says.
        error: io::Error,
    },
    /// The memory was made for fewer packet threads.
    #[error("the memory has no room for another packet thread; raise its limit of threads")]
    NoRoom,
    /// The system has no thread.
    #[error("cannot start the packet thread: {0}")]
    Thread(io::Error),
}

/// Tells the thread to end, and wakes it.
#[derive(Debug)]
struct Stop {
    event: EventFd,
    asked: AtomicBool,
}

impl LiveForwarder {
    /// Starts the thread for the interfaces with these indices, in the network namespace of the calling thread.
    ///
    /// # Errors
    /// [`StartError`].
    pub fn start(memory: &Arc<Memory>, interfaces: &[u32]) -> Result<Self, StartError> {
        let open = |&interface: &u32| {
            let socket =
                PacketSocket::open(interface).map_err(|error| StartError::Socket { interface, error })?;
            Ok(Arc::new(Link { interface: AtomicU32::new(interface), socket }))
        };
        let links = interfaces.iter().map(open).collect::<Result<Vec<_>, StartError>>()?;
        let ports = links.iter().map(|link| Port { link: Arc::clone(link), mtu: (0, 0) }).collect();
        let worker = memory.worker().ok_or(StartError::NoRoom)?;
        let event = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)
            .map_err(|error| StartError::Thread(error.into()))?;
        let stop = Arc::new(Stop { event, asked: AtomicBool::new(false) });
        let unsent = Arc::new(AtomicU64::new(0));
        let joined = Arc::new(AtomicU64::new(0));
        let mut path = Path {
            worker,
            ports,
            unsent: Arc::clone(&unsent),
            joined: Arc::clone(&joined),
            buffer: vec![0; MAX_FRAME + 2 * ROOM],
        };
        let theirs = Arc::clone(&stop);
        let thread = thread::Builder::new()
            .name("packets".to_owned())
            .spawn(move || path.run(&theirs))
            .map_err(StartError::Thread)?;
        Ok(Self { stop, links, unsent, joined, thread: Some(thread) })
    }

    /// The index of the interface that frames of this link are read at, counted from 0 in the order of the start; `None` since
    /// it was deleted or left the namespace, also when it is back.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn interface(&self, link: usize) -> io::Result<Option<u32>> {
        self.links.get(link).map_or(Ok(None), |link| link.socket.interface())
    }

    /// Reads frames of this link at the interface with this index from now on.
    ///
    /// # Errors
    /// [`StartError::Socket`].
    pub fn follow(&self, link: usize, interface: u32) -> Result<(), StartError> {
        let Some(link) = self.links.get(link) else { return Ok(()) };
        link.socket.bind(interface).map_err(|error| StartError::Socket { interface, error })?;
        link.interface.store(interface, Relaxed);
        Ok(())
    }

    /// Frames that the kernel did not take: too long for the link, or the link is down.
    pub fn unsent(&self) -> u64 {
        self.unsent.load(Relaxed)
    }

    /// Frames that came longer than their link takes: several packets in one, joined by the other end of a veth pair
    /// (TSO, GSO) or by this host (GRO). They fit no tunnel; the joining has to be switched off.
    pub fn joined(&self) -> u64 {
        self.joined.load(Relaxed)
    }
}

impl Drop for LiveForwarder {
    fn drop(&mut self) {
        self.stop.asked.store(true, Relaxed);
        // An eventfd of one writer cannot be full.
        let _ = self.stop.event.write(1);
        if let Some(thread) = self.thread.take()
            && let Err(panic) = thread.join()
            && !thread::panicking()
        {
            std::panic::resume_unwind(panic);
        }
    }
}

/// Where frames are read and sent.
#[derive(Debug)]
struct Link {
    socket: PacketSocket,
    /// The index of its interface, or of the one that it was.
    interface: AtomicU32,
}

struct Port {
    link: Arc<Link>,
    /// The MTU in bytes of an interface, as it was when a frame was longer; 0 before the first.
    mtu: (u32, usize),
}

impl Port {
    /// Whether a frame of this length is more than one packet.
    fn is_joined(&mut self, length: usize) -> bool {
        let packet = length.saturating_sub(LONGEST_HEADER);
        let interface = self.link.interface.load(Relaxed);
        if self.mtu.0 == interface && packet <= self.mtu.1 {
            return false;
        }
        // Asked again, because it may have grown.
        let mtu = sys::mtu(self.link.socket.as_fd(), interface).ok();
        let mtu = mtu.and_then(|mtu| usize::try_from(mtu).ok()).unwrap_or(usize::MAX);
        self.mtu = (interface, mtu);
        packet > mtu
    }
}

/// What the packet thread works with.
struct Path {
    worker: Worker,
    ports: Vec<Port>,
    unsent: Arc<AtomicU64>,
    joined: Arc<AtomicU64>,
    buffer: Vec<u8>,
}

impl Path {
    fn run(&mut self, stop: &Stop) {
        let at_most = PollTimeout::try_from(IDLE).unwrap_or(PollTimeout::ZERO);
        while !stop.asked.load(Relaxed) {
            let sources = self.ports.iter().map(|port| port.link.socket.as_fd());
            let mut polled: Vec<_> = sources
                .chain([stop.event.as_fd()])
                .map(|source| PollFd::new(source, PollFlags::POLLIN))
                .collect();
            let ready: Vec<bool> = match poll(&mut polled, at_most) {
                Ok(_) => polled.iter().map(|source| source.any().unwrap_or(true)).collect(),
                // A signal, or want of kernel memory: as if nothing had come.
                Err(_) => Vec::new(),
            };
            self.worker.refresh();
            for port in (0..self.ports.len()).filter(|&port| ready.get(port) == Some(&true)) {
                self.turn(port);
            }
        }
    }

    fn turn(&mut self, port: usize) {
        for _ in 0..TURN {
            // A link that went down says so once, and frames come again when it is up.
            let received = self.ports[port].link.socket.receive(&mut self.buffer[ROOM..ROOM + MAX_FRAME]);
            match received {
                Ok(Some((length, Way::ToUs))) => self.frame(port, length),
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => return,
            }
        }
    }

    fn frame(&mut self, port: usize, length: usize) {
        if self.ports[port].is_joined(length) {
            self.joined.fetch_add(1, Relaxed);
        }
        let Some(mut packet) = SliceFrame::new(&mut self.buffer, ROOM, length) else { return };
        let verdict = self.worker.process(&mut packet);
        let leaves_by = match verdict {
            Verdict::Forward(forward) => {
                self.ports.iter().position(|port| port.link.interface.load(Relaxed) == forward.interface)
            }
            Verdict::Answer(_) => Some(port),
            // The kernel has its own copy of what is passed.
            Verdict::Pass(_) | Verdict::Drop(_) => return,
        };
        let sent = leaves_by.map(|port| self.ports[port].link.socket.send(packet.bytes()));
        if !matches!(sent, Some(Ok(()))) {
            self.unsent.fetch_add(1, Relaxed);
        }
    }
}
