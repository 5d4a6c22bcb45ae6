//! Where frames go: as routes and neighbours say, except where the configuration names a MAC address.

use std::collections::HashMap;
use std::net::IpAddr;

use guideway_control::config::{Config, MacAddr};
use guideway_forward::record::NextHop;

/// What the kernel said last of the way to each backend, and what the configuration says instead.
#[derive(Debug, Default)]
pub(crate) struct Ways {
    found: HashMap<IpAddr, NextHop>,
    neighbours: HashMap<IpAddr, MacAddr>,
    own_mac: Option<MacAddr>,
}

impl Ways {
    /// Takes what a configuration says; the ways that are others now.
    pub(crate) fn configure(&mut self, config: &Config) -> Vec<(IpAddr, NextHop)> {
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
    pub(crate) fn find(&mut self, changes: &[(IpAddr, NextHop)]) -> Vec<(IpAddr, NextHop)> {
        self.found.extend(changes.iter().copied());
        changes.iter().map(|&(backend, found)| (backend, self.way(backend, found))).collect()
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
        let (backend, mut ways) = (IpAddr::from([10, 0, 0, 1]), Ways::default());
        assert_eq!(ways.configure(&config("", "")), []);
        let found = NextHop { interface: 3, neighbour: [7; 6], own_mac: [8; 6], link_mtu: Some(1_400) };
        assert_eq!(ways.find(&[(backend, found)]), [(backend, found)]);
        let set = "mac = \"02:00:00:00:00:0a\"\nnext_hop_mac = \"02:00:00:00:00:0b\"";
        let (own_mac, neighbour) = ([2, 0, 0, 0, 0, 10], [2, 0, 0, 0, 0, 11]);
        let fixed = NextHop { interface: 3, neighbour, own_mac, link_mtu: Some(1_400) };
        assert_eq!(ways.configure(&config(set, "")), [(backend, fixed)]);
        assert_eq!(ways.configure(&config(set, "")), []);
        let own = ", next_hop_mac = \"02:00:00:00:00:0c\"";
        let by_itself = NextHop { neighbour: [2, 0, 0, 0, 0, 12], ..fixed };
        assert_eq!(ways.configure(&config(set, own)), [(backend, by_itself)]);
        let none = NextHop::default();
        assert_eq!(ways.find(&[(backend, none)]), [(backend, none)], "no route, no way");
        ways.find(&[(backend, found)]);
        assert_eq!(ways.configure(&config("", "")), [(backend, found)]);
    }
}
