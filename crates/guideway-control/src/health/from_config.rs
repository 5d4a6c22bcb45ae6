//! From the configuration file's terms to what is to be checked.

use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;

use super::check::{Check, Wanted, Way, Who};
use super::machine::Thresholds;
use crate::config::{Config, Health, HealthVia, Renames, Service};

/// What a configuration wants checked: every backend of every service with a check, whatever state it is in.
pub fn wanted(config: &Config) -> Vec<Wanted> {
    let services = config.services.iter();
    services
        .filter_map(|service| Some((service, ServiceCheck::of(service)?)))
        .flat_map(|(service, check)| {
            service.backends.iter().map(move |backend| check.wanted(&backend.name, backend.address))
        })
        .collect()
}

/// How any backend of a service is checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceCheck {
    service: String,
    health: Health,
    ways: Vec<Way>,
}

impl ServiceCheck {
    /// How this one's are; `None` where nothing checks them.
    pub fn of(service: &Service) -> Option<Self> {
        let health = service.health.clone()?;
        Some(Self { service: service.name.clone(), ways: ways(service, &health), health })
    }

    /// The service's name.
    pub fn service(&self) -> &str {
        &self.service
    }

    /// The same where some services are called otherwise.
    pub(crate) fn renamed(mut self, names: &Renames) -> Self {
        if let Some(name) = names.of(&self.service) {
            self.service = name.to_owned();
        }
        self
    }

    /// The check of a backend with this name, which tells it on the board, and address.
    pub fn wanted(&self, backend: &str, address: IpAddr) -> Wanted {
        let health = &self.health;
        Wanted {
            who: Who { service: self.service.clone(), backend: backend.to_owned() },
            check: Arc::new(Check {
                address,
                port: health.port,
                probe: health.probe.clone(),
                ca_file: health.ca_file.clone(),
                ways: self.ways.clone(),
                interval: health.interval,
                timeout: health.timeout,
            }),
            thresholds: Thresholds { rise: health.rise, fall: health.fall },
            slow_start: health.slow_start,
        }
    }
}

/// The addresses of a service that are asked through its tunnels; `None` where none is.
pub fn probed_vips(service: &Service) -> Option<Vec<IpAddr>> {
    let ways = ways(service, service.health.as_ref()?);
    let vips = ways.into_iter().filter_map(|way| match way {
        Way::Tunnel { vip, .. } => Some(vip),
        Way::Direct => None,
    });
    Some(vips.collect())
}

/// Tunnels carry both families, so each family that the service has an address of is asked through.
fn ways(service: &Service, health: &Health) -> Vec<Way> {
    let encapsulation = service.encapsulation;
    let tunnel = |vip| Way::Tunnel { vip, encapsulation };
    let first = |v6: bool| {
        service.vips.iter().find(|vip| matches!(vip, IpNet::V6(_)) == v6).map(|vip| tunnel(host_of(vip)))
    };
    let tunnels = || [first(false), first(true)].into_iter().flatten();
    match health.via {
        HealthVia::Direct => vec![Way::Direct],
        HealthVia::Tunnel => tunnels().collect(),
        HealthVia::Both => tunnels().chain([Way::Direct]).collect(),
    }
}

/// The address itself, or the first host of a prefix.
fn host_of(network: &IpNet) -> IpAddr {
    network.hosts().next().unwrap_or(network.addr())
}
