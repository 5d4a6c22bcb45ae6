//! The forwarding core in user space, on packet sockets.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use guideway_forward::Verdict;
use guideway_soft::{Limits, Memory, Totals, Worker};
use guideway_wire::SliceFrame;

use super::SoftDecapsulator;
use crate::error::{Error, Result};
use crate::forwarder::Forwarder;
use crate::packet::{MAX_FRAME, PacketSocket, Way};
use crate::task::{Stop, Task};
use crate::topology::Host;

/// Room before and behind a frame: the largest outer headers, and the largest answer to a short frame.
const ROOM: usize = 256;

/// Frames read from one link before the others have their turn.
const TURN: usize = 64;

/// The thread says so often at least that it holds nothing old.
const IDLE: Duration = Duration::from_millis(20);

/// The key of flow table and fragment cache; a test bed has no strangers.
const FLOW_KEY: [u64; 2] = [0x6775_6964_6577_6179, 0x7465_7374_6265_6431];

/// The packet path in user space: one thread reads the frames that come to the links' own addresses.
///
/// The kernel sees the frames as well, so whatever is passed needs no more; the addresses of services must not be
/// local, and the namespace must not forward.
#[derive(Debug)]
pub struct SoftForwarder {
    memory: Arc<Memory>,
    started: Instant,
    ahead: AtomicU32,
    unsent: Arc<AtomicU64>,
    _thread: Task,
}

impl SoftForwarder {
    /// Puts the clock forward.
    pub fn advance(&self, seconds: u32) {
        self.ahead.fetch_add(seconds, Relaxed);
        self.beat();
    }

    /// Frames that the kernel did not take: too long for the link, or the link is down.
    pub fn unsent(&self) -> u64 {
        self.unsent.load(Relaxed)
    }
}

impl Forwarder for SoftForwarder {
    type Engine = Arc<Memory>;
    type Decapsulator = SoftDecapsulator;

    fn attach(machine: &Host, limits: Limits) -> Result<Self> {
        let memory = Arc::new(Memory::new(Limits { threads: 1, ..limits }, FLOW_KEY));
        let worker = memory.worker().ok_or_else(|| Error::Answer {
            what: "starting a packet thread".into(),
            answer: "no room for one".into(),
        })?;
        let ports = machine
            .links()
            .iter()
            .map(|link| Ok(Port { interface: link.index(), socket: PacketSocket::open(link)? }))
            .collect::<Result<Vec<_>>>()?;
        let unsent = Arc::new(AtomicU64::new(0));
        let mut path =
            Path { worker, ports, unsent: Arc::clone(&unsent), buffer: vec![0; MAX_FRAME + 2 * ROOM] };
        let thread = Task::start("balancer", &machine.namespace, move |stop| path.run(stop))?;
        Ok(Self { memory, started: Instant::now(), ahead: AtomicU32::new(0), unsent, _thread: thread })
    }

    fn engine(&self) -> Arc<Memory> {
        Arc::clone(&self.memory)
    }

    fn totals(&self) -> Totals {
        self.memory.totals()
    }

    fn beat(&self) {
        let passed = u32::try_from(self.started.elapsed().as_secs()).unwrap_or(u32::MAX);
        self.memory.set_now_seconds(passed.saturating_add(self.ahead.load(Relaxed)));
    }
}

struct Port {
    interface: u32,
    socket: PacketSocket,
}

/// What the packet thread works with.
struct Path {
    worker: Worker,
    ports: Vec<Port>,
    unsent: Arc<AtomicU64>,
    buffer: Vec<u8>,
}

impl Path {
    fn run(&mut self, stop: &Stop) {
        loop {
            let sources: Vec<_> = self.ports.iter().map(|port| port.socket.as_fd()).collect();
            let Ok(ready) = stop.wait(&sources, IDLE) else { return };
            self.worker.refresh();
            for (port, _) in ready.iter().enumerate().filter(|(_, ready)| **ready) {
                self.turn(port);
            }
        }
    }

    fn turn(&mut self, port: usize) {
        for _ in 0..TURN {
            // A link that went down says so once, and frames come again when it is up.
            let received = self.ports[port].socket.receive(&mut self.buffer[ROOM..ROOM + MAX_FRAME]);
            match received {
                Ok(Some((length, Way::ToUs))) => self.frame(port, length),
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => return,
            }
        }
    }

    fn frame(&mut self, port: usize, length: usize) {
        let Some(mut packet) = SliceFrame::new(&mut self.buffer, ROOM, length) else { return };
        let verdict = self.worker.process(&mut packet);
        let leaves_by = match verdict {
            Verdict::Forward(forward) => {
                self.ports.iter().position(|port| port.interface == forward.interface)
            }
            Verdict::Answer(_) => Some(port),
            // The kernel has its own copy of what is passed.
            Verdict::Pass(_) | Verdict::Drop(_) => return,
        };
        let sent = leaves_by.map(|port| self.ports[port].socket.send(packet.bytes()));
        if !matches!(sent, Some(Ok(()))) {
            self.unsent.fetch_add(1, Relaxed);
        }
    }
}
