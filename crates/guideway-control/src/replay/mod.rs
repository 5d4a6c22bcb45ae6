//! Replay: a capture's frames through the real forwarding core, by the capture's own clock, with scripted changes.
//!
//! The caller reads and writes files; this holds the balancer. [`Replay::frame`] takes one frame and says what leaves,
//! [`Replay::books`] what became of everything.
//!
//! ```
//! use guideway_control::replay::auto;
//!
//! // A TCP SYN makes its destination a server.
//! let mut servers = auto::Servers::default();
//! servers.observe(&[0; 60]);
//! assert!(servers.found().is_empty());
//! ```

pub mod auto;
mod books;

use std::sync::Arc;
use std::time::Duration;

use guideway_forward::Verdict;
use guideway_forward::record::MAX_SERVICES;
use guideway_soft::{Limits, Memory, Worker};
use guideway_wire::SliceFrame;

pub use books::{BackendBooks, Books, ChangeBooks, ServiceBooks};

use crate::config::Config;
use crate::config::events::{Action, Event};
use crate::controller::spec::{Admin, BackendSpec, Health, ServiceSpec, TableSizeSpec};
use crate::controller::{ChangeError, Controller, Removal, ServiceChange, from_config};

/// Room before a frame: the largest outer headers, and an Ethernet header with tags.
pub const HEAD_ROOM: usize = 256;

/// Room after it: the largest answer that is made of a short frame.
const TAIL_ROOM: usize = 256;

/// The key of flow table and fragment cache: fixed, so that a replay gives the same result each time.
const REPLAY_KEY: [u64; 2] = [0x6775_6964_6577_6179, 0x7265_706c_6179_2031];

/// A balancer that a capture is fed to.
#[derive(Debug)]
pub struct Replay {
    controller: Controller<Arc<Memory>>,
    worker: Worker,
    buffer: Vec<u8>,
    first: Option<Duration>,
    /// Whole seconds since the first frame.
    second: u32,
    events: std::vec::IntoIter<Change>,
    next: Option<Change>,
    changes: Vec<(Duration, ServiceChange)>,
}

/// A change of one backend at a time of the capture.
#[derive(Debug, Clone)]
pub struct Change {
    /// When, after the first frame.
    pub at: Duration,
    /// The service's name.
    pub service: String,
    /// The backend's identity.
    pub backend: String,
    /// What happens.
    pub action: ChangeAction,
}

/// What happens to a backend.
#[derive(Debug, Clone)]
pub enum ChangeAction {
    /// It takes no new flows.
    Drain,
    /// Its checks fail.
    Down,
    /// Its checks pass, and it takes new flows.
    Up,
    /// It joins.
    Add(Box<BackendSpec>),
    /// Its share changes.
    Weight(u32),
    /// It leaves at once.
    Remove,
}

/// What a frame became.
#[derive(Debug)]
pub struct Output<'a> {
    /// What was decided.
    pub verdict: Verdict,
    /// The frame that leaves: to a backend, as an answer, or as it was for those that are passed; `None` for drops.
    pub frame: Option<&'a [u8]>,
}

/// A replay could not start or go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// A service or a scripted change was refused.
    #[error(transparent)]
    Change(#[from] ChangeError),
    /// A scripted change names a backend whose family the underlay has no source for.
    #[error(
        "backend {backend:?} joins service {service:?}, but the underlay has no source address of its family; set source_v4 or source_v6"
    )]
    NoSource {
        /// The service.
        service: String,
        /// The backend.
        backend: String,
    },
    /// The memory has no room for a packet thread, or for the frame.
    #[error("no packet thread or no room for a frame; this is a fault of the replay, please report it")]
    NoThread,
    /// The configuration asks for more memory than the system gives.
    #[error(transparent)]
    Memory(#[from] guideway_soft::NoMemory),
    /// The books do not balance.
    #[error(transparent)]
    Unbalanced(#[from] guideway_soft::Unbalanced),
}

/// A gap between packets beyond which time passes in half-day steps: longer than a flow is usually remembered.
const LONG_GAP_SECONDS: u32 = 86_400;

impl Replay {
    /// A balancer with these services, and changes to come, in any order.
    ///
    /// # Errors
    /// [`ReplayError::Change`] when a service is refused, [`ReplayError::Memory`] when so much memory is not to be had.
    pub fn new(
        services: Vec<ServiceSpec>,
        flows: u32,
        mut changes: Vec<Change>,
    ) -> Result<Self, ReplayError> {
        let memory = Arc::new(Memory::try_new(limits(&services, flows, changes.len()), REPLAY_KEY)?);
        // One thread was asked for, and this is the only one that joins.
        let worker = memory.worker().ok_or(ReplayError::NoThread)?;
        let mut controller = Controller::new(memory);
        controller.add_services(services, Health::Unchecked)?;
        changes.sort_by_key(|change| change.at);
        let mut events = changes.into_iter();
        let next = events.next();
        Ok(Self {
            controller,
            worker,
            buffer: Vec::new(),
            first: None,
            second: 0,
            events,
            next,
            changes: Vec::new(),
        })
    }

    /// The balancer that a configuration describes, with its scripted events.
    ///
    /// # Errors
    /// As [`Replay::new`].
    pub fn from_config(config: &Config, events: &[Event]) -> Result<Self, ReplayError> {
        let changes = events.iter().map(|event| change(config, event)).collect::<Result<_, _>>()?;
        Self::new(from_config::services(config), config.flow_table_entries, changes)
    }

    /// Takes one frame, at its time stamp of the capture. The clock never goes back: a frame that is older than the one
    /// before it counts as of the same time.
    ///
    /// # Errors
    /// [`ReplayError::Change`] when a scripted change that is due is refused.
    pub fn frame(&mut self, stamp: Duration, frame: &[u8]) -> Result<Output<'_>, ReplayError> {
        let first = *self.first.get_or_insert(stamp);
        self.advance(stamp.saturating_sub(first))?;
        self.worker.refresh();
        let needed = HEAD_ROOM + frame.len() + TAIL_ROOM;
        if self.buffer.len() < needed {
            self.buffer.resize(needed, 0);
        }
        self.buffer[HEAD_ROOM..HEAD_ROOM + frame.len()].copy_from_slice(frame);
        let mut packet =
            SliceFrame::new(&mut self.buffer, HEAD_ROOM, frame.len()).ok_or(ReplayError::NoThread)?;
        let verdict = self.worker.process(&mut packet);
        let (start, end) = packet.range();
        let frame = match verdict {
            Verdict::Drop(_) => None,
            Verdict::Forward(_) | Verdict::Answer(_) | Verdict::Pass(_) => self.buffer.get(start..end),
        };
        Ok(Output { verdict, frame })
    }

    /// What became of everything so far. The books are checked.
    ///
    /// # Errors
    /// [`ReplayError::Unbalanced`]: a fault of the forwarder.
    pub fn books(&self) -> Result<Books, ReplayError> {
        let totals = self.controller.engine().totals();
        totals.balance()?;
        Ok(books::compose(totals, &self.controller.status(), &self.changes))
    }

    /// Scripted changes whose time has not come.
    pub fn changes_to_come(&self) -> usize {
        usize::from(self.next.is_some()) + self.events.len()
    }

    /// The controller, for status and look-ups by index.
    pub fn controller(&self) -> &Controller<Arc<Memory>> {
        &self.controller
    }

    /// The controller, for changes that no script makes; each needs room in the memory that was taken at start.
    pub fn controller_mut(&mut self) -> &mut Controller<Arc<Memory>> {
        &mut self.controller
    }

    /// Lets the time pass, second by second where something is due, until `now` after the first frame.
    fn advance(&mut self, now: Duration) -> Result<(), ReplayError> {
        while let Some(change) = self.next.take_if(|change| change.at <= now) {
            self.pass_until(seconds(change.at));
            let at = change.at;
            let done = self.apply(change)?;
            self.changes.push((at, done));
            self.next = self.events.next();
        }
        self.pass_until(seconds(now));
        Ok(())
    }

    fn pass_until(&mut self, second: u32) {
        while self.second < second {
            // A capture with a long gap, or a broken stamp, must not be waited for second by second.
            let gap = second - self.second;
            self.second += if gap > LONG_GAP_SECONDS { LONG_GAP_SECONDS / 2 } else { 1 };
            self.controller.engine().set_now_seconds(self.second);
            self.worker.refresh();
            self.controller.tick();
        }
    }

    fn apply(&mut self, change: Change) -> Result<ServiceChange, ChangeError> {
        let Change { service, backend, action, .. } = change;
        let controller = &mut self.controller;
        match action {
            ChangeAction::Drain => controller.set_admin(&service, &backend, Admin::Draining),
            ChangeAction::Down => controller.set_health(&service, &backend, Health::Down),
            ChangeAction::Up => {
                let first = controller.set_admin(&service, &backend, Admin::Active)?;
                Ok(first.then(controller.set_health(&service, &backend, Health::Up)?))
            }
            ChangeAction::Add(spec) => controller.add_backend(&service, *spec, Health::Unchecked),
            ChangeAction::Weight(weight) => controller.set_weight(&service, &backend, weight),
            ChangeAction::Remove => controller.remove_backend(&service, &backend, Removal::AtOnce),
        }
    }
}

fn change(config: &Config, event: &Event) -> Result<Change, ReplayError> {
    let action = match event.action {
        Action::Drain => ChangeAction::Drain,
        Action::Down => ChangeAction::Down,
        Action::Up => ChangeAction::Up,
        Action::Weight(weight) => ChangeAction::Weight(weight),
        Action::Remove => ChangeAction::Remove,
        Action::Add { address, weight, server_id } => {
            let service = config
                .services
                .iter()
                .find(|service| service.name == event.service)
                .ok_or_else(|| ChangeError::UnknownService { service: event.service.clone() })?;
            let spec =
                from_config::joining_backend(config, service, &event.backend, address, weight, server_id)
                    .ok_or_else(|| ReplayError::NoSource {
                        service: event.service.clone(),
                        backend: event.backend.clone(),
                    })?;
            ChangeAction::Add(Box::new(spec))
        }
    };
    Ok(Change { at: event.at, service: event.service.clone(), backend: event.backend.clone(), action })
}

/// Enough for these services, each of which may grow by all changes and be resized once at a time.
fn limits(services: &[ServiceSpec], flows: u32, changes: usize) -> Limits {
    let slots: u64 = services
        .iter()
        .map(|service| match service.table.size {
            TableSizeSpec::Slots(slots) => u64::from(slots),
            TableSizeSpec::Auto => {
                u64::from(guideway_hash::TableSize::auto(service.backends.len() + changes).get())
            }
        })
        .sum();
    let backends: usize = services.iter().map(|service| 4 * (service.backends.len() + changes) + 16).sum();
    Limits {
        // One more than fits is refused by the controller, with its name.
        services: u16::try_from(services.len()).unwrap_or(u16::MAX).min(MAX_SERVICES),
        backends: u32::try_from(backends).unwrap_or(u32::MAX),
        slots: u32::try_from(2 * slots).unwrap_or(u32::MAX),
        flows,
        ..Limits::default()
    }
}

fn seconds(time: Duration) -> u32 {
    u32::try_from(time.as_secs()).unwrap_or(u32::MAX)
}
