//! What backends may do, by operators and the configuration.

use std::collections::HashSet;
use std::net::IpAddr;

use guideway_control::config;
use guideway_control::health::Who;
use guideway_control::overrides::{AdminState, Override};

use crate::core::Core;

/// What operators said of a backend. Mostly nothing was said of any, and then none is looked for.
pub(super) fn said_of(core: &Core, service: &str, backend: &str) -> Override {
    if core.desired.overrides().is_empty() {
        return Override::default();
    }
    core.desired.overrides().of(&Who { service: service.to_owned(), backend: backend.to_owned() })
}

/// What a backend may do: what operators said of it, or else what the configuration says; one that left drains.
pub(super) fn admin(said: &Override, configured: Option<&config::Backend>) -> AdminState {
    said.admin.unwrap_or(match configured.map(|backend| backend.state) {
        Some(config::BackendState::Active) => AdminState::Ready,
        Some(config::BackendState::Draining) | None => AdminState::Drain,
        Some(config::BackendState::Down | config::BackendState::Maintenance) => AdminState::Maintenance,
    })
}

/// Where the backends are that take new flows as far as operators and the configuration go.
pub(crate) fn ready_addresses(core: &Core) -> HashSet<IpAddr> {
    let backends = core
        .config
        .services
        .iter()
        .flat_map(|service| service.backends.iter().map(move |backend| (service.name.as_str(), backend)));
    let ready = backends.filter(|(service, backend)| {
        admin(&said_of(core, service, &backend.name), Some(*backend)) == AdminState::Ready
    });
    ready.map(|(_, backend)| backend.address).collect()
}
