//! From the configuration file's terms to what is to be checked.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;

use super::check::{Check, Wanted, Way, Who};
use super::machine::Thresholds;
use super::pace::Times;
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
    /// That of any backend, but for the address.
    check: Check,
    thresholds: Thresholds,
    slow_start: Duration,
}

impl ServiceCheck {
    /// How this one's are; `None` where nothing checks them.
    pub fn of(service: &Service) -> Option<Self> {
        let health = service.health.as_ref()?;
        let Health { interval, recheck, timeout, rise, fall, .. } = *health;
        let check = Check {
            address: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            port: health.port,
            probe: Arc::new(health.probe.clone()),
            ca_file: health.ca_file.as_deref().map(Arc::from),
            ways: ways(service, health).into(),
            times: Times { interval, recheck, timeout },
        };
        let thresholds = Thresholds { rise, fall };
        Some(Self { service: service.name.clone(), check, thresholds, slow_start: health.slow_start })
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
        Wanted {
            who: Who { service: self.service.clone(), backend: backend.to_owned() },
            check: Arc::new(Check { address, ..self.check.clone() }),
            thresholds: self.thresholds,
            slow_start: self.slow_start,
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
