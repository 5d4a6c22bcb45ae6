//! Rates, from two readings of counters.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use guideway_daemon::model::{Backend, Service};

/// Counters of services and backends at a moment.
#[derive(Debug)]
pub(crate) struct Reading {
    at: Instant,
    /// Packets and bytes. A backend that left and one that took its name differ by their addresses.
    counts: HashMap<Key, (u64, u64)>,
}

type Key = (String, Option<(String, IpAddr)>);

/// What passes in a second.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Rate {
    pub(crate) packets: f64,
    /// As they came in.
    pub(crate) bits: f64,
}

impl Reading {
    /// What these counters said at a moment.
    pub(crate) fn new(services: &[Service], at: Instant) -> Self {
        let mut counts = HashMap::new();
        for service in services {
            counts.insert(of_service(service), (service.packets_total, service.bytes_total));
            for backend in &service.backends {
                counts.insert(of_backend(backend), (backend.packets_total, backend.bytes_total));
            }
        }
        Self { at, counts }
    }

    /// A service's rate since another reading; `None` where that does not know it, or its counters began anew.
    pub(crate) fn service(&self, service: &Service, before: &Self) -> Option<Rate> {
        self.rate(&of_service(service), before)
    }

    /// A backend's rate since another reading.
    pub(crate) fn backend(&self, backend: &Backend, before: &Self) -> Option<Rate> {
        self.rate(&of_backend(backend), before)
    }

    fn rate(&self, key: &Key, before: &Self) -> Option<Rate> {
        let (packets, bytes) = self.counts.get(key)?;
        let (packets_before, bytes_before) = before.counts.get(key)?;
        let time = self.at.saturating_duration_since(before.at).max(Duration::from_millis(1)).as_secs_f64();
        let per_second = |now: &u64, before: &u64| Some(now.checked_sub(*before)? as f64 / time);
        Some(Rate {
            packets: per_second(packets, packets_before)?,
            bits: 8.0 * per_second(bytes, bytes_before)?,
        })
    }
}

fn of_service(service: &Service) -> Key {
    (service.name.clone(), None)
}

fn of_backend(backend: &Backend) -> Key {
    (backend.service.clone(), Some((backend.name.clone(), backend.address)))
}

/// A number for people: three digits that matter, with its multiple of a thousand.
pub(crate) fn short(number: f64) -> String {
    let (mut number, mut unit) = (number, 0);
    while number >= 999.5 && unit < 4 {
        number /= 1e3;
        unit += 1;
    }
    let unit = ["", "k", "M", "G", "T"][unit];
    let digits = if unit.is_empty() || number >= 99.95 {
        0
    } else if number >= 9.995 {
        1
    } else {
        2
    };
    format!("{number:.digits$}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn services(packets: u64, bytes: u64) -> Vec<Service> {
        let backend = serde_json::json!({
            "service": "web", "name": "be1", "address": "10.0.0.1", "state": "active", "admin": "ready",
            "overridden": false, "removed": false, "weight": 1, "slots": 7, "share": 1.0,
            "packets_total": packets / 2, "bytes_total": bytes,
        });
        let service = serde_json::json!({
            "name": "web", "listen": [], "generation": 1, "digest": "", "slots": 7, "unsettled_slots": 0,
            "prior_table": false, "last_resort": false, "eligible": 1, "packets_total": packets,
            "bytes_total": bytes, "backends": [backend],
        });
        vec![serde_json::from_value(service).unwrap()]
    }

    #[test]
    fn a_rate_is_the_difference_by_the_time() {
        let start = Instant::now();
        let (before, now) = (services(1_000, 10_000), services(3_000, 30_000));
        let first = Reading::new(&before, start);
        let second = Reading::new(&now, start + Duration::from_secs(2));
        assert_eq!(second.service(&now[0], &first), Some(Rate { packets: 1_000.0, bits: 80_000.0 }));
        assert_eq!(second.backend(&now[0].backends[0], &first).unwrap().packets, 500.0);
        // Counters that began anew have no rate.
        assert_eq!(first.service(&before[0], &second), None);
        assert_eq!(second.service(&now[0], &Reading::new(&[], start)), None);
    }

    #[test]
    fn numbers_keep_three_digits() {
        let shown = [0.0, 7.4, 999.4, 999.6, 1_234.0, 12_345.0, 999_600.0, 1e9, 2.5e15].map(short);
        assert_eq!(shown, ["0", "7", "999", "1.00k", "1.23k", "12.3k", "1.00M", "1.00G", "2500T"]);
    }
}
