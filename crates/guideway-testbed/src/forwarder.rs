//! A balancer in a namespace: a packet path, and the controller that decides what it holds.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use guideway_control::controller::spec::{Health, ServiceSpec};
use guideway_control::{Controller, Engine};
use guideway_soft::{Limits, Totals};

use crate::error::Result;
use crate::task::Task;
use crate::topology::Host;

/// How often the packet path is told the time.
const BEAT: Duration = Duration::from_millis(50);

/// A packet path that can be put on the links of a namespace. It leaves them when it is dropped.
pub trait Forwarder: Sized + std::fmt::Debug + Send + Sync + 'static {
    /// Its state, as the controller sees it.
    type Engine: Engine + std::fmt::Debug + Send + 'static;

    /// The other end of its tunnels.
    type Decapsulator: Decapsulator;

    /// Whether this process may run it, beyond making namespaces.
    ///
    /// # Errors
    /// [`crate::Error`], which says what is missing.
    fn permitted() -> Result<()> {
        Ok(())
    }

    /// Puts it on all links of a machine, with an empty state of the given size.
    ///
    /// # Errors
    /// [`crate::Error`].
    fn attach(machine: &Host, limits: Limits) -> Result<Self>;

    /// A handle to its state.
    fn engine(&self) -> Self::Engine;

    /// Its books.
    fn totals(&self) -> Totals;

    /// Called some times a second: one that has no clock of its own takes the time here.
    fn beat(&self) {}

    /// Puts the clock forward, by which it takes flows for old. From then on it may go only when it is put forward.
    fn advance(&self, seconds: u32);
}

/// A backend's end of the tunnels. It leaves the backend when it is dropped.
pub trait Decapsulator: Sized + std::fmt::Debug + Send {
    /// Has the backend receive what comes to its own addresses through a tunnel and is for a virtual address.
    ///
    /// # Errors
    /// [`crate::Error`].
    fn attach(backend: &Host) -> Result<Self>;

    /// Packets taken out of tunnels so far.
    fn accepted(&self) -> u64;

    /// Tunnel packets that were refused so far.
    fn refused(&self) -> u64;
}

/// A balancer: a packet path, a controller, and the controller's tick each second.
#[derive(Debug)]
pub struct Balancer<F: Forwarder> {
    // Stopped before the forwarder goes.
    _ticker: Task,
    controller: Arc<Mutex<Controller<F::Engine>>>,
    forwarder: Arc<F>,
}

impl<F: Forwarder> Balancer<F> {
    /// Puts a packet path on the links of a machine, and has it hold `services`.
    ///
    /// # Errors
    /// [`crate::Error`].
    pub fn start(machine: &Host, limits: Limits, services: Vec<ServiceSpec>) -> Result<Self> {
        let forwarder = Arc::new(F::attach(machine, limits)?);
        forwarder.beat();
        let mut controller = Controller::new(forwarder.engine());
        for service in services {
            controller.add_service(service, Health::Unchecked)?;
        }
        let controller = Arc::new(Mutex::new(controller));
        let (clock, ticked) = (Arc::clone(&forwarder), Arc::clone(&controller));
        let ticker = Task::start("balancer-tick", &machine.namespace, move |stop| {
            let mut last = None;
            while stop.wait(&[], BEAT).is_ok() {
                clock.beat();
                let mut controller = lock(&ticked);
                let now = controller.engine().now_seconds();
                if last.replace(now) != Some(now) {
                    controller.tick();
                }
            }
        })?;
        Ok(Self { _ticker: ticker, controller, forwarder })
    }

    /// The controller; hold it no longer than a change takes.
    pub fn controller(&self) -> MutexGuard<'_, Controller<F::Engine>> {
        lock(&self.controller)
    }

    /// The packet path.
    pub fn forwarder(&self) -> &F {
        &self.forwarder
    }

    /// The books of the packet path.
    pub fn totals(&self) -> Totals {
        self.forwarder.totals()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A change is all or nothing, so a panic elsewhere leaves no half of one.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
