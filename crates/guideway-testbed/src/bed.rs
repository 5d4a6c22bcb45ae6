//! A whole network at work: balancers that hold services, backends with servers.

use std::net::SocketAddr;

use guideway_control::Controller;
use guideway_control::controller::{ChangeError, ServiceChange};
use guideway_forward::{Event, Outcome};
use guideway_soft::Limits;

use crate::backend::Servers;
use crate::error::Result;
use crate::forwarder::{Balancer, Decapsulator, Forwarder};
use crate::service::Service;
use crate::topology::{Host, Network, Plan, VIP_V4, VIP_V6};

/// A network whose balancers run on packet path `F`.
#[derive(Debug)]
pub struct Bed<F: Forwarder> {
    /// The balancers, by machine; `None` where there is none, or it was killed.
    pub balancers: Vec<Option<Balancer<F>>>,
    /// The backends.
    pub backends: Vec<Backend<F::Decapsulator>>,
    /// The machines.
    pub network: Network,
}

/// A backend at work.
#[derive(Debug)]
pub struct Backend<D> {
    /// Its end of the tunnels.
    pub decapsulator: D,
    /// Its built-in servers.
    pub servers: Servers,
}

/// A balancer's memory, unless a test wants another: enough for some tables of a few thousand slots.
pub const LIMITS: Limits = Limits {
    services: 16,
    backends: 512,
    slots: 262_144,
    flows: 65_536,
    fragments: 1_024,
    threads: 1,
    icmp_per_second: 1_000,
};

impl<F: Forwarder> Bed<F> {
    /// Builds the network, starts what runs on the backends, and balancers that hold `services`.
    ///
    /// # Errors
    /// [`crate::Error`].
    pub fn start(plan: &Plan, services: &[Service]) -> Result<Self> {
        Self::start_with(plan, LIMITS, services)
    }

    /// As [`Bed::start`], with balancers of this size.
    ///
    /// # Errors
    /// [`crate::Error`].
    pub fn start_with(plan: &Plan, limits: Limits, services: &[Service]) -> Result<Self> {
        let mut bed = Self::start_without_balancers(plan)?;
        for balancer in 0..bed.network.balancers.len() {
            bed.balancers[balancer] = Some(bed.balancer(balancer, limits, services)?);
        }
        Ok(bed)
    }

    /// As [`Bed::start`], with nothing on the balancers' machines: for a balancer that is a process of its own.
    ///
    /// # Errors
    /// [`crate::Error`].
    pub fn start_without_balancers(plan: &Plan) -> Result<Self> {
        let network = Network::build(plan)?;
        let backends = network.backends.iter().map(Backend::start).collect::<Result<_>>()?;
        let balancers = network.balancers.iter().map(|_| None).collect();
        Ok(Self { balancers, backends, network })
    }

    /// Makes the same change on every balancer that is alive. `change` is also given the balancer's number.
    ///
    /// # Errors
    /// [`crate::Error::Change`] of the first balancer that refuses; those before it have changed.
    pub fn change(
        &self,
        mut change: impl FnMut(&mut Controller<F::Engine>, usize) -> Result<ServiceChange, ChangeError>,
    ) -> Result<Vec<ServiceChange>> {
        let alive = self.balancers.iter().enumerate();
        let alive = alive.filter_map(|(number, balancer)| Some((number, balancer.as_ref()?)));
        alive.map(|(number, balancer)| Ok(change(&mut balancer.controller(), number)?)).collect()
    }

    /// Kills a balancer: its packet path stops and its link goes down; the router goes on sending to it.
    ///
    /// # Errors
    /// [`crate::Error::System`].
    pub fn kill(&mut self, balancer: usize) -> Result<()> {
        self.balancers[balancer] = None;
        self.network.balancers[balancer].set_up(false)
    }

    /// Adds a machine with servers to the network, as yet unknown to the balancers; its number.
    ///
    /// # Errors
    /// [`crate::Error`].
    pub fn add_backend(&mut self) -> Result<usize> {
        let number = self.network.add_backend()?;
        self.backends.push(Backend::start(&self.network.backends[number])?);
        Ok(number)
    }

    /// Kills a backend, as when its power fails: its link goes down without a word.
    ///
    /// # Errors
    /// [`crate::Error::System`].
    pub fn kill_backend(&self, backend: usize) -> Result<()> {
        self.network.backends[backend].set_up(false)
    }

    /// Has the router send to the balancers that are alive, and to no other.
    ///
    /// # Errors
    /// [`crate::Error::System`].
    pub fn route_to_the_living(&self) -> Result<()> {
        let hosts = self.network.balancers.iter().zip(&self.balancers);
        let alive: Vec<_> = hosts.filter_map(|(host, balancer)| balancer.as_ref().map(|_| host)).collect();
        self.network.router.route_vips(&alive)
    }

    /// The sum of a number over the balancers that are alive.
    pub fn sum(&self, of: impl Fn(&Balancer<F>) -> u64) -> u64 {
        self.balancers.iter().flatten().map(of).sum()
    }

    /// Packets of one outcome, over the balancers that are alive.
    pub fn outcome(&self, outcome: Outcome) -> u64 {
        self.sum(|balancer| balancer.totals().outcome(outcome).packets)
    }

    /// How often something happened, over the balancers that are alive.
    pub fn event(&self, event: Event) -> u64 {
        self.sum(|balancer| balancer.totals().event(event))
    }

    fn balancer(&self, number: usize, limits: Limits, services: &[Service]) -> Result<Balancer<F>> {
        let wanted = services.iter().map(|service| self.network.service(number, service)).collect();
        Balancer::start(&self.network.balancers[number], limits, wanted)
    }
}

impl<D: Decapsulator> Backend<D> {
    /// Starts what runs on a backend's machine.
    ///
    /// # Errors
    /// [`crate::Error`].
    pub fn start(host: &Host) -> Result<Self> {
        Ok(Self { decapsulator: D::attach(host)?, servers: Servers::start(host)? })
    }
}

/// A port of both virtual addresses.
pub fn vips(port: u16) -> [SocketAddr; 2] {
    [SocketAddr::new(VIP_V4, port), SocketAddr::new(VIP_V6, port)]
}
