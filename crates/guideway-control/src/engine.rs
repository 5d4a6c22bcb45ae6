//! The forwarder as the controller sees it.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use guideway_forward::record::{Backend, Bucket, Service, ServiceId, Settings};
use guideway_soft::{Binding, Count, Directory, Memory, QuicBinding};

/// A forwarder did not take what it was told; it holds what it held before.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// It refused a change of where services listen.
    #[error("the forwarder did not take where services listen: {reason}")]
    Listens {
        /// What it says, with the remedy.
        reason: String,
    },
    /// Slots could not be mapped.
    #[error("the forwarder's slots cannot be mapped: {reason}")]
    Slots {
        /// What the system says.
        reason: String,
    },
    /// What somebody else changed could not be put right.
    #[error(
        "the forwarder's maps could not be compared with what they should hold, or not be repaired: {reason}"
    )]
    Repair {
        /// What it says.
        reason: String,
    },
}

/// How much a forwarder can hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capacity {
    /// Services.
    pub services: u16,
    /// Places for backends, over all services.
    pub backends: u32,
    /// Slots, over all tables.
    pub slots: u32,
    /// Places where services listen, over all services.
    pub listens: u32,
}

/// How much a forwarder held that it should not have, or lacked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Repaired {
    /// Entries of the directory: where services listen, and QUIC server ids.
    pub directory: u32,
    /// Limits.
    pub limits: u32,
}

/// A forwarder's state, mapped: in this process, or from the kernel.
///
/// The controller is the only writer of records and slots; packets read them all the while. Each word is atomic, and
/// the controller's order of stores is what keeps a packet from seeing half a change.
pub trait Engine {
    /// How much it can hold.
    fn capacity(&self) -> Capacity;

    /// Seconds of the clock that flow entries are stamped with.
    fn now_seconds(&self) -> u32;

    /// The record of a service below the capacity.
    fn service(&self, id: ServiceId) -> Option<&Service>;

    /// The record of a backend below the capacity.
    fn backend(&self, global: u32) -> Option<&Backend>;

    /// Has [`slots`](Self::slots) begin with so many at least: of the kernel's only those are mapped that tables need.
    ///
    /// # Errors
    /// [`EngineError::Slots`]; those of before are there still.
    fn reach_slots(&self, slots: u32) -> Result<(), EngineError>;

    /// The slots, as far as they were reached.
    fn slots(&self) -> &[AtomicU32];

    /// The flow table.
    fn flows(&self) -> &[Bucket];

    /// What holds for the whole machine.
    fn settings(&self) -> &Settings;

    /// Replaces, at once, where services listen and which server id is which backend.
    ///
    /// # Errors
    /// [`EngineError`]; then it holds what it held before.
    fn publish(&self, bindings: &[Binding], quic: &[QuicBinding]) -> Result<(), EngineError>;

    /// What was published last, by whatever process.
    fn published(&self) -> (Vec<Binding>, Vec<QuicBinding>);

    /// Compares what packets find services by, and its limits, with what was published and set last, and puts right what
    /// somebody else has changed. Large maps have their turn one a call.
    ///
    /// # Errors
    /// [`EngineError`]: it could not be read, or not be put right.
    fn repair(&self) -> Result<Repaired, EngineError>;

    /// Begins a grace period and returns its number.
    fn begin_grace(&self) -> u64;

    /// Whether no packet still in work began before this grace period did.
    fn grace_is_over(&self, epoch: u64) -> bool;

    /// Packets forwarded for a service.
    fn service_count(&self, id: ServiceId) -> Count;

    /// Packets forwarded to the backend with this global index.
    fn backend_count(&self, global: u32) -> Count;
}

impl Engine for Memory {
    fn capacity(&self) -> Capacity {
        let limits = self.limits();
        Capacity {
            services: limits.services,
            backends: limits.backends,
            slots: limits.slots,
            // Its index is built anew on the heap at each change.
            listens: u32::MAX,
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

    fn reach_slots(&self, _: u32) -> Result<(), EngineError> {
        // All are there.
        Ok(())
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
        self.publish(Directory::build(bindings, quic));
        Ok(())
    }

    fn published(&self) -> (Vec<Binding>, Vec<QuicBinding>) {
        let directory = self.directory();
        (directory.lookup().bindings().to_vec(), directory.quic().to_vec())
    }

    fn repair(&self) -> Result<Repaired, EngineError> {
        // Nobody else has this memory.
        Ok(Repaired::default())
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

impl<E: Engine> Engine for Arc<E> {
    fn capacity(&self) -> Capacity {
        self.deref().capacity()
    }

    fn now_seconds(&self) -> u32 {
        self.deref().now_seconds()
    }

    fn service(&self, id: ServiceId) -> Option<&Service> {
        self.deref().service(id)
    }

    fn backend(&self, global: u32) -> Option<&Backend> {
        self.deref().backend(global)
    }

    fn reach_slots(&self, slots: u32) -> Result<(), EngineError> {
        self.deref().reach_slots(slots)
    }

    fn slots(&self) -> &[AtomicU32] {
        self.deref().slots()
    }

    fn flows(&self) -> &[Bucket] {
        self.deref().flows()
    }

    fn settings(&self) -> &Settings {
        self.deref().settings()
    }

    fn publish(&self, bindings: &[Binding], quic: &[QuicBinding]) -> Result<(), EngineError> {
        self.deref().publish(bindings, quic)
    }

    fn published(&self) -> (Vec<Binding>, Vec<QuicBinding>) {
        self.deref().published()
    }

    fn repair(&self) -> Result<Repaired, EngineError> {
        self.deref().repair()
    }

    fn begin_grace(&self) -> u64 {
        self.deref().begin_grace()
    }

    fn grace_is_over(&self, epoch: u64) -> bool {
        self.deref().grace_is_over(epoch)
    }

    fn service_count(&self, id: ServiceId) -> Count {
        self.deref().service_count(id)
    }

    fn backend_count(&self, global: u32) -> Count {
        self.deref().backend_count(global)
    }
}
