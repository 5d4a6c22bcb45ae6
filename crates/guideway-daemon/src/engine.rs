//! Either forwarder as one engine, so that the daemon is written once.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use guideway_control::Engine;
use guideway_control::engine::{Capacity, EngineError, Repaired};
use guideway_forward::record::{Backend, Bucket, Service, ServiceId, Settings};
use guideway_soft::{Binding, Count, Memory, QuicBinding, Totals};
use guideway_xdp::Balancer;

/// A forwarder's state.
#[derive(Debug, Clone)]
pub(crate) enum Plane {
    /// In this process.
    Soft(Arc<Memory>),
    /// In the kernel.
    Kernel(Arc<Balancer>),
}

/// Does the same with whichever it is.
macro_rules! either {
    ($plane:expr, $inner:ident => $body:expr) => {
        match $plane {
            Plane::Soft($inner) => $body,
            Plane::Kernel($inner) => $body,
        }
    };
}

impl Plane {
    /// What forwards, in a word.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Soft(_) => "soft",
            Self::Kernel(_) => "xdp",
        }
    }

    /// The totals over all packet threads or CPUs.
    pub(crate) fn totals(&self) -> Totals {
        either!(self, inner => inner.totals())
    }
}

impl Engine for Plane {
    fn capacity(&self) -> Capacity {
        either!(self, inner => inner.capacity())
    }

    fn now_seconds(&self) -> u32 {
        either!(self, inner => inner.now_seconds())
    }

    fn service(&self, id: ServiceId) -> Option<&Service> {
        either!(self, inner => inner.service(id))
    }

    fn backend(&self, global: u32) -> Option<&Backend> {
        either!(self, inner => inner.backend(global))
    }

    fn reach_slots(&self, slots: u32) -> Result<(), EngineError> {
        either!(self, inner => Engine::reach_slots(&**inner, slots))
    }

    fn slots(&self) -> &[AtomicU32] {
        either!(self, inner => inner.slots())
    }

    fn flows(&self) -> &[Bucket] {
        either!(self, inner => inner.flows())
    }

    fn settings(&self) -> &Settings {
        either!(self, inner => inner.settings())
    }

    fn publish(&self, bindings: &[Binding], quic: &[QuicBinding]) -> Result<(), EngineError> {
        either!(self, inner => Engine::publish(&**inner, bindings, quic))
    }

    fn published(&self) -> (Vec<Binding>, Vec<QuicBinding>) {
        either!(self, inner => Engine::published(&**inner))
    }

    fn repair(&self) -> Result<Repaired, EngineError> {
        either!(self, inner => Engine::repair(&**inner))
    }

    fn begin_grace(&self) -> u64 {
        either!(self, inner => inner.begin_grace())
    }

    fn grace_is_over(&self, epoch: u64) -> bool {
        either!(self, inner => inner.grace_is_over(epoch))
    }

    fn service_count(&self, id: ServiceId) -> Count {
        either!(self, inner => inner.service_count(id))
    }

    fn backend_count(&self, global: u32) -> Count {
        either!(self, inner => inner.backend_count(global))
    }
}
