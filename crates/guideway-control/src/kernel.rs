//! The kernel's balancer as an engine.

use std::sync::atomic::AtomicU32;

use guideway_forward::record::{Backend, Bucket, Service, ServiceId, Settings};
use guideway_soft::{Binding, Count, QuicBinding};
use guideway_xdp::Balancer;

use crate::engine::{Capacity, Engine, EngineError, Repaired};

impl Engine for Balancer {
    fn capacity(&self) -> Capacity {
        let limits = self.limits();
        Capacity {
            services: limits.services,
            backends: limits.backends,
            slots: limits.slots,
            listens: self.listens(),
        }
    }

    fn now_seconds(&self) -> u32 {
        self.now_seconds()
    }

    fn service(&self, id: ServiceId) -> Option<&Service> {
        self.service(id)
    }

    fn backend(&self, global: u32) -> Option<&Backend> {
        self.backend(global)
    }

    fn reach_slots(&self, slots: u32) -> Result<(), EngineError> {
        self.reach_slots(slots).map_err(|error| EngineError::Slots { reason: error.to_string() })
    }

    fn slots(&self) -> &[AtomicU32] {
        self.slots()
    }

    fn flows(&self) -> &[Bucket] {
        self.flows()
    }

    fn settings(&self) -> &Settings {
        self.settings()
    }

    fn publish(&self, bindings: &[Binding], quic: &[QuicBinding]) -> Result<(), EngineError> {
        self.publish(bindings, quic).map_err(|error| EngineError::Listens { reason: error.to_string() })
    }

    fn published(&self) -> (Vec<Binding>, Vec<QuicBinding>) {
        self.published()
    }

    fn repair(&self) -> Result<Repaired, EngineError> {
        let directory =
            self.repair_directory().map_err(|error| EngineError::Repair { reason: error.to_string() })?;
        Ok(Repaired { directory, limits: self.repair_limits() })
    }

    fn begin_grace(&self) -> u64 {
        self.begin_grace()
    }

    fn grace_is_over(&self, epoch: u64) -> bool {
        self.grace_is_over(epoch)
    }

    fn service_count(&self, id: ServiceId) -> Count {
        self.service_count(id)
    }

    fn backend_count(&self, global: u32) -> Count {
        self.backend_count(global)
    }
}
