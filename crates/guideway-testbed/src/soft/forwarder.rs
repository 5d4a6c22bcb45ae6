//! The forwarding core in user space, on packet sockets.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Instant;

use guideway_soft::live::LiveForwarder;
use guideway_soft::{Limits, Memory, Totals};

use super::SoftDecapsulator;
use crate::error::{Error, Result};
use crate::forwarder::Forwarder;
use crate::topology::Host;

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
    live: LiveForwarder,
}

impl SoftForwarder {
    /// Frames that the kernel did not take: too long for the link, or the link is down.
    pub fn unsent(&self) -> u64 {
        self.live.unsent()
    }

    /// Frames that were several packets in one, and fit no tunnel.
    pub fn joined(&self) -> u64 {
        self.live.joined()
    }
}

impl Forwarder for SoftForwarder {
    type Engine = Arc<Memory>;
    type Decapsulator = SoftDecapsulator;

    fn attach(machine: &Host, limits: Limits) -> Result<Self> {
        let memory = Arc::new(Memory::new(Limits { threads: 1, ..limits }, FLOW_KEY));
        let interfaces: Vec<u32> = machine.links().iter().map(|link| link.index()).collect();
        let started = machine.namespace.run(|| LiveForwarder::start(&memory, &interfaces))?;
        let live = started.map_err(|error| Error::Answer {
            what: "starting a packet thread".into(),
            answer: error.to_string(),
        })?;
        Ok(Self { memory, started: Instant::now(), ahead: AtomicU32::new(0), live })
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

    fn advance(&self, seconds: u32) {
        self.ahead.fetch_add(seconds, Relaxed);
        self.beat();
    }
}
