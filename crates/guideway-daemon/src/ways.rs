//! Where frames go: as routes and neighbours say, except where the configuration names a MAC address.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use guideway_control::config::{Config, MacAddr};
use guideway_forward::record::NextHop;

/// A neighbour that is being resolved is no fault for so long.
const RESOLVING: Duration = Duration::from_secs(1);

/// What the kernel said last of the way to each backend, and what the configuration says instead.
#[derive(Debug, Default)]
pub(crate) struct Ways {
    found: HashMap<IpAddr, NextHop>,
    neighbours: HashMap<IpAddr, MacAddr>,
    own_mac: Option<MacAddr>,
    /// The interface that each way leads by, or led by last.
    interfaces: HashMap<IpAddr, u32>,
    /// Backends that no frame can be sent to, and since when.
    lost: BTreeMap<IpAddr, Instant>,
}

/// Why no frame can be sent to a backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Lost {
    /// No route leads there; the last one led by this interface.
    Route(Option<u32>),
    /// The next hop does not answer at this interface.
    Neighbour(u32),
    /// The interface is down, gone or without a carrier.
    Link(u32),
    /// The interface does not send what native mode has for it.
    Refused(u32),
}

impl Ways {
    /// Takes what a configuration says; the ways that are others now.
    pub(crate) fn configure(&mut self, config: &Config, now: Instant) -> Vec<(IpAddr, NextHop)> {
        for backend in config.services.iter().flat_map(|service| &service.backends) {
            if !self.found.contains_key(&backend.address) {
                self.lost.entry(backend.address).or_insert(now);
            }
        }
        let before: HashMap<IpAddr, NextHop> =
            self.found.iter().map(|(&backend, &found)| (backend, self.way(backend, found))).collect();
        self.own_mac = config.underlay.mac_is_set.then_some(config.underlay.mac);
        let backends = config.services.iter().flat_map(|service| &service.backends);
        let named = backends.filter(|backend| backend.next_hop_mac_is_set);
        // Of an address that has one of its own in one service and none in another, its own counts.
        self.neighbours.clear();
        for backend in named {
            let own = backend.next_hop_mac != config.underlay.next_hop_mac;
            if own || !self.neighbours.contains_key(&backend.address) {
                self.neighbours.insert(backend.address, backend.next_hop_mac);
            }
        }
        let after = self.found.iter().map(|(&backend, &found)| (backend, self.way(backend, found)));
        after.filter(|(backend, way)| before.get(backend) != Some(way)).collect()
    }

    /// Takes what the kernel says; the ways to those backends.
    pub(crate) fn find(&mut self, changes: &[(IpAddr, NextHop)], now: Instant) -> Vec<(IpAddr, NextHop)> {
        self.found.extend(changes.iter().copied());
        let ways: Vec<_> =
            changes.iter().map(|&(backend, found)| (backend, self.way(backend, found))).collect();
        for (backend, way) in &ways {
            if way.interface != 0 {
                self.interfaces.insert(*backend, way.interface);
            }
            if way.neighbour == [0; 6] {
                self.lost.entry(*backend).or_insert(now);
            } else {
                self.lost.remove(backend);
            }
        }
        ways
    }

    /// Why no frame can be sent to a backend with this way.
    pub(crate) fn why_lost(&self, backend: IpAddr, way: NextHop) -> Option<Lost> {
        (way.neighbour == [0; 6]).then(|| match way.interface {
            0 => Lost::Route(self.interfaces.get(&backend).copied()),
            interface => Lost::Neighbour(interface),
        })
    }

    /// How many backends each interface leads to with a smaller MTU than is wanted, by interface and MTU.
    pub(crate) fn narrow(&self, wanted: u16) -> BTreeMap<(u32, u16), u64> {
        let mut narrow = BTreeMap::new();
        for way in self.found.values().filter(|way| way.interface != 0 && way.limit(wanted) < wanted) {
            *narrow.entry((way.interface, way.limit(wanted))).or_default() += 1;
        }
        narrow
    }

    /// The interfaces that frames leave by.
    pub(crate) fn egress(&self) -> BTreeSet<u32> {
        self.found.values().map(|way| way.interface).filter(|interface| *interface != 0).collect()
    }

    /// The backends that these interfaces lead to.
    pub(crate) fn by(&self, is_one: impl Fn(u32) -> bool) -> impl Iterator<Item = (IpAddr, u32)> {
        let ways = self.found.iter().map(|(&backend, way)| (backend, way.interface));
        ways.filter(move |(_, interface)| is_one(*interface))
    }

    /// The backends that no frame can be sent to, and have not been for a while.
    pub(crate) fn lost(&self, now: Instant) -> impl Iterator<Item = (IpAddr, Lost)> {
        let lost =
            self.lost.iter().filter(move |(_, since)| now.saturating_duration_since(**since) >= RESOLVING);
        lost.filter_map(|(&backend, _)| {
            let way = self.way(backend, self.found.get(&backend).copied().unwrap_or_default());
            Some((backend, self.why_lost(backend, way)?))
        })
    }

    /// The interface follows from the routes, whatever else is configured: without a route there is no way.
    fn way(&self, backend: IpAddr, found: NextHop) -> NextHop {
        if found.interface == 0 {
            return found;
        }
        NextHop {
            interface: found.interface,
            neighbour: self.neighbours.get(&backend).map_or(found.neighbour, |mac| mac.0),
            own_mac: self.own_mac.map_or(found.own_mac, |mac| mac.0),
            link_mtu: found.link_mtu,
        }
    }
}

#[cfg(test)]
mod tests {
    use guideway_control::config::{Source, parse};

    use super::*;

    fn config(underlay: &str, backend: &str) -> Config {
        let text = format!(
            "[underlay]\nsource_v4 = \"10.0.0.254\"\n{underlay}\n[[service]]\nname = \"web\"\nvip = \"192.0.2.10\"\n\
             port = 80\nprotocol = \"tcp\"\nbackend = [{{ name = \"be1\", address = \"10.0.0.1\"{backend} }}]\n"
        );
        parse(&Source::new("test", text)).unwrap()
    }

    #[test]
    fn what_the_configuration_names_wins_over_neighbours_and_goes_with_it() {
        let (backend, mut ways, now) = (IpAddr::from([10, 0, 0, 1]), Ways::default(), Instant::now());
        assert_eq!(ways.configure(&config("", ""), now), []);
        let found = NextHop { interface: 3, neighbour: [7; 6], own_mac: [8; 6], link_mtu: Some(1_400) };
        assert_eq!(ways.find(&[(backend, found)], now), [(backend, found)]);
        let set = "mac = \"02:00:00:00:00:0a\"\nnext_hop_mac = \"02:00:00:00:00:0b\"";
        let (own_mac, neighbour) = ([2, 0, 0, 0, 0, 10], [2, 0, 0, 0, 0, 11]);
        let fixed = NextHop { interface: 3, neighbour, own_mac, link_mtu: Some(1_400) };
        assert_eq!(ways.configure(&config(set, ""), now), [(backend, fixed)]);
        assert_eq!(ways.configure(&config(set, ""), now), []);
        let own = ", next_hop_mac = \"02:00:00:00:00:0c\"";
        let by_itself = NextHop { neighbour: [2, 0, 0, 0, 0, 12], ..fixed };
        assert_eq!(ways.configure(&config(set, own), now), [(backend, by_itself)]);
        let none = NextHop::default();
        assert_eq!(ways.find(&[(backend, none)], now), [(backend, none)], "no route, no way");
        ways.find(&[(backend, found)], now);
        assert_eq!(ways.configure(&config("", ""), now), [(backend, found)]);
    }

    #[test]
    fn a_backend_without_a_way_is_told_with_the_reason_once_it_had_time_to_be_resolved() {
        let (backend, mut ways, now) = (IpAddr::from([10, 0, 0, 1]), Ways::default(), Instant::now());
        ways.configure(&config("", ""), now);
        let lost = |ways: &Ways, after| ways.lost(now + after).collect::<Vec<_>>();
        let found = NextHop { interface: 3, neighbour: [7; 6], own_mac: [8; 6], link_mtu: None };
        let silent = NextHop { neighbour: [0; 6], ..found };
        assert_eq!(lost(&ways, Duration::from_millis(999)), []);
        assert_eq!(lost(&ways, RESOLVING), [(backend, Lost::Route(None))]);
        ways.find(&[(backend, silent)], now + RESOLVING);
        assert_eq!(lost(&ways, RESOLVING), [(backend, Lost::Neighbour(3))], "since the first of both");
        ways.find(&[(backend, found)], now);
        assert_eq!(lost(&ways, RESOLVING), []);
        ways.find(&[(backend, NextHop::default())], now);
        assert_eq!(lost(&ways, RESOLVING), [(backend, Lost::Route(Some(3)))]);
    }
}
