//! What a change did, and why one was refused.

use super::table::TableError;
use crate::engine::EngineError;

/// What a change did to one service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceChange {
    /// The service's name.
    pub service: String,
    /// The generation that is committed now; it rises only when a table or its place changed.
    pub generation: u32,
    /// Slots of its table.
    pub slots: u32,
    /// Slots whose owner changed. Of another size or seed, the same share of its slots as of flows that change theirs.
    pub moved: u32,
    /// Those of them for which nothing asked: old and new owner took new flows before and take them now, and neither did
    /// the old one lose weight nor the new one gain any. Another size or seed asks for nothing by itself, so that its
    /// whole price is seen.
    pub needless: u32,
    /// Remembered live flows on backends that are down since this change.
    pub voided_flows: u32,
    /// Backends that kept flows before and keep none since this change: their flows end, those that nothing remembers too.
    pub cut_backends: u32,
    /// Backends that take new flows.
    pub eligible: u32,
    /// Whether those are in use although their checks fail.
    pub last_resort: bool,
    /// Whether that was so before this change, and is over.
    pub last_resort_over: bool,
    /// Whether a new size or seed waits until the table before the present one is given up.
    pub resize_waits: bool,
}

impl ServiceChange {
    /// This change and the next of the same service as one.
    #[must_use]
    pub fn then(self, next: ServiceChange) -> ServiceChange {
        ServiceChange {
            moved: self.moved + next.moved,
            needless: self.needless + next.needless,
            voided_flows: self.voided_flows + next.voided_flows,
            cut_backends: self.cut_backends + next.cut_backends,
            last_resort_over: (self.last_resort_over || next.last_resort_over) && !next.last_resort,
            ..next
        }
    }
}

/// A change was refused; everything is as it was.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChangeError {
    /// There is no such service.
    #[error("there is no service {service:?}; it has to be added first")]
    UnknownService {
        /// The name.
        service: String,
    },
    /// There is such a service already.
    #[error("there is a service {service:?} already; change it, or choose another name")]
    DuplicateService {
        /// The name.
        service: String,
    },
    /// The service has no such backend.
    #[error("service {service:?} has no backend {backend:?}; `status` lists those it has")]
    UnknownBackend {
        /// The service.
        service: String,
        /// The identity.
        backend: String,
    },
    /// Two backends of a service have one identity.
    #[error("service {service:?} names backend {backend:?} twice; remove one of them")]
    DuplicateBackend {
        /// The service.
        service: String,
        /// The identity.
        backend: String,
    },
    /// Two services listen at one place.
    #[error(
        "service {service:?} listens on {listen}, where {other:?} listens already; give it another port or address"
    )]
    ListensTwice {
        /// The service.
        service: String,
        /// The place.
        listen: String,
        /// Who has it.
        other: String,
    },
    /// The table can't be built.
    #[error("the table of service {service:?} can't be built: {source}")]
    Table {
        /// The service.
        service: String,
        /// Why.
        source: TableError,
    },
    /// The forwarder's memory is too small.
    #[error(
        "service {service:?} needs {asked} more {what}, but only {free} of {capacity} are free in one piece; a forwarder that is made anew is as large as its configuration needs"
    )]
    Full {
        /// The service.
        service: String,
        /// What is short.
        what: &'static str,
        /// How many it needs.
        asked: u32,
        /// The longest free run.
        free: u32,
        /// The limit.
        capacity: u32,
    },
    /// The forwarder did not take the change.
    #[error("service {service:?} is as it was: {source}")]
    Forwarder {
        /// The service.
        service: String,
        /// Why.
        source: EngineError,
    },
}
