//! What is replaced whole when services come and go: where each listens, and which server id is which backend.

use guideway_forward::record::ServiceId;

use crate::exact::{Index, Key, mix};
use crate::lookup::{Binding, Lookup};

/// Look-up of services by address, and of backends by QUIC server id. Immutable: a change builds another.
#[derive(Debug)]
pub struct Directory {
    pub(crate) lookup: Lookup,
    quic: Index<QuicKey, u16>,
    server_ids: Vec<QuicBinding>,
}

/// A QUIC server id of a service's backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuicBinding {
    /// The service.
    pub service: ServiceId,
    /// The id, big-endian.
    pub server_id: u64,
    /// The backend's index inside the service.
    pub backend: u16,
}

impl Directory {
    /// Indexes both lists.
    pub fn build(bindings: &[Binding], quic: &[QuicBinding]) -> Self {
        let by_key = quic.iter().map(|binding| {
            (QuicKey { service: binding.service, server_id: binding.server_id }, binding.backend)
        });
        Self { lookup: Lookup::build(bindings), quic: Index::build(by_key), server_ids: quic.to_vec() }
    }

    /// Where each service listens.
    pub fn lookup(&self) -> &Lookup {
        &self.lookup
    }

    /// All server ids.
    pub fn quic(&self) -> &[QuicBinding] {
        &self.server_ids
    }

    /// The backend of a service with this server id.
    #[inline]
    pub fn quic_backend(&self, service: ServiceId, server_id: u64) -> Option<u16> {
        if self.quic.is_empty() { None } else { self.quic.find(&QuicKey { service, server_id }) }
    }

    /// Bytes held.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>()
            + self.lookup.memory_bytes()
            + self.quic.memory_bytes()
            + size_of_val(self.server_ids.as_slice())
    }
}

impl Default for Directory {
    fn default() -> Self {
        Self::build(&[], &[])
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct QuicKey {
    service: ServiceId,
    server_id: u64,
}

impl Key for QuicKey {
    #[inline]
    fn spread(&self) -> u64 {
        mix(self.server_id, 0, u64::from(self.service.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_id_belongs_to_its_service_alone() {
        let id =
            |service, server_id, backend| QuicBinding { service: ServiceId(service), server_id, backend };
        let directory = Directory::build(&[], &[id(1, 3, 7), id(2, 3, 8)]);
        assert_eq!(directory.quic_backend(ServiceId(1), 3), Some(7));
        assert_eq!(directory.quic_backend(ServiceId(2), 3), Some(8));
        assert_eq!(directory.quic_backend(ServiceId(3), 3), None);
        assert_eq!(Directory::default().quic_backend(ServiceId(1), 3), None);
    }
}
