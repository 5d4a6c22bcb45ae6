//! The backend's end of the tunnel in the kernel, at the XDP hook or at the TC hook; and any packet path with it.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::marker::PhantomData;
use std::net::IpAddr;

use guideway_forward::tunnel_end::{EndOutcome, EndSettings, Role};
use guideway_soft::{Limits, Totals};
use guideway_wire::gue;
use guideway_xdp::end::{self, Attached, Hook, Wish};

use crate::error::Result;
use crate::forwarder::{Decapsulator, Forwarder};
use crate::topology::{Host, VIPS};

/// The decapsulator at the XDP hook, in the driver.
#[derive(Debug)]
pub struct XdpDecapsulator(KernelEnd);

/// The decapsulator at the TC hook.
#[derive(Debug)]
pub struct TcDecapsulator(KernelEnd);

/// The program, attached.
#[derive(Debug)]
struct KernelEnd {
    // Taken off the link first.
    _attached: Attached,
    programs: end::Decapsulator,
}

impl KernelEnd {
    fn attach(backend: &Host, hook: Hook) -> Result<Self> {
        let mut programs = end::Decapsulator::load(None)?;
        // What servers announce is the plan's business.
        let settings =
            EndSettings { gue_port: gue::PORT, tunnels: EndSettings::ALL_TUNNELS, ..EndSettings::default() };
        programs.set(&settings)?;
        let own = [backend.v4, backend.v6].map(|address| (address, Role::OWN));
        let roles: BTreeMap<IpAddr, Role> =
            own.into_iter().chain(VIPS.map(|vip| (vip, Role::VIRTUAL))).collect();
        programs.set_addresses(&roles)?;
        let name = backend.link.name();
        // An interface is looked up in the namespace of the thread that asks.
        let attached = backend.namespace.run(|| programs.attach(name, name, Wish::Exactly(hook)))??;
        Ok(Self { _attached: attached, programs })
    }

    /// Packets with outcomes that `wanted` is true of.
    fn packets(&self, wanted: impl Fn(EndOutcome) -> bool) -> u64 {
        let outcomes = EndOutcome::ALL.iter().filter(|outcome| wanted(**outcome));
        outcomes.map(|outcome| self.programs.count(*outcome).map_or(0, |tally| tally.packets)).sum()
    }

    fn accepted(&self) -> u64 {
        self.packets(|outcome| outcome == EndOutcome::Decapsulated)
    }

    fn refused(&self) -> u64 {
        self.packets(|outcome| {
            // What is no tunnel's is nobody's to refuse.
            !matches!(outcome, EndOutcome::Decapsulated | EndOutcome::NotTunnelled | EndOutcome::Malformed)
        })
    }
}

impl Decapsulator for XdpDecapsulator {
    fn attach(backend: &Host) -> Result<Self> {
        KernelEnd::attach(backend, Hook::Native).map(Self)
    }

    fn accepted(&self) -> u64 {
        self.0.accepted()
    }

    fn refused(&self) -> u64 {
        self.0.refused()
    }
}

impl Decapsulator for TcDecapsulator {
    fn attach(backend: &Host) -> Result<Self> {
        KernelEnd::attach(backend, Hook::Tc).map(Self)
    }

    fn accepted(&self) -> u64 {
        self.0.accepted()
    }

    fn refused(&self) -> u64 {
        self.0.refused()
    }
}

/// A packet path with another end of its tunnels.
#[derive(Debug)]
pub struct Ended<F, D> {
    forwarder: F,
    end: PhantomData<fn() -> D>,
}

impl<F: Forwarder, D: Decapsulator + 'static> Forwarder for Ended<F, D> {
    type Engine = F::Engine;
    type Decapsulator = D;

    fn permitted() -> Result<()> {
        F::permitted()?;
        // Whoever may load a program may load this one: it has no maps to speak of.
        end::Decapsulator::load(None)
            .map(drop)
            .map_err(|error| crate::Error::NotPermitted { missing: error.to_string() })
    }

    fn attach(machine: &Host, limits: Limits) -> Result<Self> {
        Ok(Self { forwarder: F::attach(machine, limits)?, end: PhantomData })
    }

    fn engine(&self) -> Self::Engine {
        self.forwarder.engine()
    }

    fn totals(&self) -> Totals {
        self.forwarder.totals()
    }

    fn advance(&self, seconds: u32) {
        self.forwarder.advance(seconds);
    }

    fn beat(&self) {
        self.forwarder.beat();
    }
}
