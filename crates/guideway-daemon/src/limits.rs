//! How large a forwarder is made: what its configuration needs, with room to grow.

use guideway_control::config::{Config, DEFAULT_FLOW_TABLE_ENTRIES, MAX_SERVICES};
use guideway_soft::Limits;

/// Room beside what is configured at the start, so that later configurations fit without a restart.
const SPARE_SERVICES: usize = 1_024;
const SPARE_BACKENDS: usize = 8_192;
const SPARE_SLOTS: u64 = 1 << 21;

/// The limits for a configuration: twice its services, and three times its tables, of which a change of size needs two
/// at once.
pub(crate) fn of(config: &Config) -> Limits {
    let backends: usize = config.services.iter().map(|service| 4 * (service.backends.len() + 4)).sum();
    let slots: u64 = config.services.iter().map(|service| 3 * u64::from(service.table_size.get())).sum();
    with_room(2 * config.services.len(), backends, slots, config.flow_table_entries)
}

/// The limits for a configuration that says nothing: the room alone.
pub fn default_limits() -> Limits {
    with_room(0, 0, 0, DEFAULT_FLOW_TABLE_ENTRIES)
}

fn with_room(services: usize, backends: usize, slots: u64, flows: u32) -> Limits {
    let services = services + SPARE_SERVICES;
    Limits {
        services: u16::try_from(services.min(MAX_SERVICES)).unwrap_or(u16::MAX),
        backends: u32::try_from(backends + SPARE_BACKENDS).unwrap_or(u32::MAX),
        slots: u32::try_from(slots + SPARE_SLOTS).unwrap_or(u32::MAX),
        flows,
        threads: 1,
        ..Limits::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_fits_in_64_mebibytes_on_a_machine_of_64_cpus() {
        let maps = guideway_xdp::memory::report(&default_limits(), 64);
        let total: u64 = maps.iter().map(|map| map.bytes).sum();
        assert!(total <= 64 << 20, "{total}");
    }

    #[test]
    fn a_configuration_that_says_nothing_has_the_default_ones() {
        let source = guideway_control::config::Source::new("guideway.toml", "# no services yet");
        assert_eq!(of(&guideway_control::config::parse(&source).unwrap()), default_limits());
    }
}
