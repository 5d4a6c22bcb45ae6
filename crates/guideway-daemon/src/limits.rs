//! How large a forwarder is made: what its configuration needs, with room to grow.

use guideway_control::config::{Config, MAX_SERVICES};
use guideway_soft::Limits;

/// Room beside what is configured at the start, so that later configurations fit without a restart.
const SPARE_SERVICES: usize = 1_024;
const SPARE_BACKENDS: usize = 8_192;
const SPARE_SLOTS: u64 = 1 << 21;

/// The limits for a configuration: twice its services, and three times its tables, of which a change of size needs two
/// at once.
pub(crate) fn of(config: &Config) -> Limits {
    let services = config.services.len() * 2 + SPARE_SERVICES;
    let backends: usize = config.services.iter().map(|service| 4 * (service.backends.len() + 4)).sum();
    let slots: u64 = config.services.iter().map(|service| 3 * u64::from(service.table_size.get())).sum();
    Limits {
        services: u16::try_from(services.min(MAX_SERVICES)).unwrap_or(u16::MAX),
        backends: u32::try_from(backends + SPARE_BACKENDS).unwrap_or(u32::MAX),
        slots: u32::try_from(slots + SPARE_SLOTS).unwrap_or(u32::MAX),
        flows: config.flow_table_entries,
        threads: 1,
        ..Limits::default()
    }
}
