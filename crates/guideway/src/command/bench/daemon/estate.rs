//! The network that the daemon is measured in: its own machine, and one that is all of its backends.

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::thread;
use std::time::Duration;

use guideway_testbed::{Hop, Link, Namespace, Route, veth_pair};
use ipnet::{IpNet, Ipv4Net};

use crate::failure::Failure;

/// The port of every service and of every check.
const PORT: u16 = 80;

/// Connections that wait to be taken.
const WAITING: i32 = 4096;

/// The daemon's machine, and that of the backends.
const DAEMON: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const BACKENDS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

/// Where backends are: each is an address of one machine.
const POOL: Ipv4Addr = Ipv4Addr::new(10, 16, 0, 0);
const POOL_BITS: u8 = 15;

/// The backend that fails when it is told to: outside the pool's half that always answers.
const SICK: Ipv4Addr = Ipv4Addr::new(10, 17, 0, 1);

/// Virtual addresses: 198.18.0.0/15 is for benchmarks (RFC 2544).
const VIPS: u32 = 0xc612_0000;

/// Two namespaces. Gone when it is dropped.
#[derive(Debug)]
pub(super) struct Estate {
    /// Where the daemon forwards.
    pub(super) front: Link,
    loopback: Link,
}

impl Estate {
    pub(super) fn build() -> Result<Self, Failure> {
        build().map_err(Failure::failed)
    }

    /// Has the sick backend fail its checks, or pass them.
    pub(super) fn set_sick(&self, sick: bool) -> Result<(), Failure> {
        let address = host(SICK);
        let done =
            if sick { self.loopback.remove_address(address) } else { self.loopback.add_address(address) };
        done.map_err(Failure::failed)
    }

    /// How many connections were opened to the backends so far, to the end or not.
    pub(super) fn connections(&self) -> Result<u64, Failure> {
        let read = || std::fs::read_to_string("/proc/thread-self/net/snmp");
        let text = self.loopback.namespace().run(read).map_err(Failure::failed)?;
        let opened = text.map_err(Failure::failed).map(|text| opened(&text))?;
        opened.ok_or_else(|| Failure::failed("the kernel's account of the backends' connections"))
    }
}

/// The connections of `/proc/net/snmp` that were opened from elsewhere, and those that a reset ended before they were open
/// (RFC 4022, `tcpPassiveOpens` and `tcpAttemptFails`).
fn opened(snmp: &str) -> Option<u64> {
    let mut lines = snmp.lines().filter_map(|line| line.strip_prefix("Tcp: "));
    let (names, counts) = (lines.next()?.split(' '), lines.next()?.split(' '));
    let wanted = names.zip(counts).filter(|(name, _)| ["PassiveOpens", "AttemptFails"].contains(name));
    wanted.map(|(_, count)| count.parse::<u64>().ok()).sum()
}

fn build() -> guideway_testbed::Result<Estate> {
    let (daemon, backends) = (Namespace::new("daemon")?, Namespace::new("backends")?);
    let (front, back) = veth_pair((&daemon, "eth0"), (&backends, "eth0"), 1500)?;
    front.add_address(net(DAEMON, 24))?;
    back.add_address(net(BACKENDS, 24))?;
    // By a router, as a large site has it: next hops are few.
    daemon.set_route(&Route::new(net(POOL, POOL_BITS), vec![Hop::via(IpAddr::V4(BACKENDS), &front)]))?;
    // A network of a loopback interface is the machine's own, every address of it.
    let loopback = backends.link("lo")?;
    loopback.add_address(net(Ipv4Addr::from(u32::from(POOL) + 1), 16))?;
    loopback.add_address(host(SICK))?;
    // Connections of checks come and go by the thousand.
    daemon.set("ipv4/ip_local_port_range", "1024 65535")?;
    let listen = || {
        let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::UNSPECIFIED, PORT)))?;
        // It stands for all backends, each of which would have a queue of its own.
        rustix::net::listen(&listener, WAITING)?;
        Ok(listener)
    };
    let listener = backends.run(listen)?.map_err(|source| guideway_testbed::Error::System {
        what: "listening in the backends' namespace".to_owned(),
        source,
    })?;
    // It ends with the process: nobody waits for it.
    thread::spawn(move || listener.incoming().for_each(drop));
    Ok(Estate { front, loopback })
}

fn net(address: Ipv4Addr, bits: u8) -> IpNet {
    Ipv4Net::new_assert(address, bits).into()
}

fn host(address: Ipv4Addr) -> IpNet {
    net(address, 32)
}

/// A configuration.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) services: Services,
    pub(super) backends: usize,
    /// How many machines the backends are; a machine is checked once, however many services it is in.
    pub(super) machines: usize,
    /// How often each is checked; without it none is.
    pub(super) interval: Option<Duration>,
    /// A backend of every service that is in another state than active, as the file has it.
    pub(super) state: Option<(usize, &'static str)>,
    /// A backend of every service that is not there.
    pub(super) without: Option<usize>,
    /// The weight of every service's last backend.
    pub(super) weight: u32,
}

/// What the services are.
#[derive(Debug, Clone, Copy)]
pub(super) enum Services {
    /// So many, each at an address of its own.
    Addresses(usize),
    /// So many, each at a port of one address.
    Ports(usize),
}

/// The service that has the sick backend, and what that is called there.
pub(super) const SICK_SERVICE: &str = "service-0";
pub(super) const SICK_BACKEND: &str = "sick";

impl Plan {
    /// The file.
    pub(super) fn text(&self) -> String {
        let mut text = format!("[underlay]\nsource_v4 = \"{DAEMON}\"\n\n");
        let health = self.interval.map_or(String::new(), |interval| {
            let interval = interval.as_millis();
            format!(
                "health = {{ kind = \"tcp\", via = \"direct\", port = {PORT}, interval = \"{interval}ms\", rise = 2, fall = 2 }}\n"
            )
        });
        let (many, ports) = match self.services {
            Services::Addresses(many) => (many, false),
            Services::Ports(many) => (many, true),
        };
        for number in 0..many {
            let vip = Ipv4Addr::from(VIPS + 1 + if ports { 0 } else { number as u32 });
            let port = if ports { 1 + number } else { usize::from(PORT) };
            // Writing to a string cannot fail.
            let _ = write!(
                text,
                "[[service]]\nname = \"service-{number}\"\nvip = \"{vip}\"\nport = {port}\nprotocol = \"tcp\"\n\
                 {health}backend = [\n"
            );
            for backend in (0..self.backends).filter(|backend| self.without != Some(*backend)) {
                let machine = (number * self.backends + backend) % self.machines;
                let _ = write!(text, "  {{ name = \"be{backend}\", address = \"{}\"", address(machine));
                if let Some((_, state)) = self.state.filter(|(which, _)| *which == backend) {
                    let _ = write!(text, ", state = \"{state}\"");
                }
                if backend + 1 == self.backends {
                    let _ = write!(text, ", weight = {}", self.weight);
                }
                text += " },\n";
            }
            if number == 0 {
                let _ = writeln!(text, "  {{ name = \"{SICK_BACKEND}\", address = \"{SICK}\" }},");
            }
            text += "]\n\n";
        }
        text
    }

    /// How many services there are.
    pub(super) fn many(&self) -> usize {
        match self.services {
            Services::Addresses(many) | Services::Ports(many) => many,
        }
    }

    /// Where checks of all machines go.
    pub(super) fn checked(&self) -> Vec<SocketAddr> {
        (0..self.machines).map(|machine| SocketAddr::from((address(machine), PORT))).collect()
    }

    /// How many backends there are, each counted once for every service.
    pub(super) fn backends_of_all(&self) -> u64 {
        (self.many() * self.backends + 1) as u64
    }
}

fn address(machine: usize) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(POOL) + 16 + machine as u32)
}

#[cfg(test)]
mod tests {
    use guideway_control::config::{self, Source};

    use super::*;

    #[test]
    fn connections_count_whether_they_were_opened_to_the_end_or_not() {
        let snmp = "Ip: Forwarding\nIp: 1\nTcp: ActiveOpens PassiveOpens AttemptFails EstabResets\nTcp: 1 20 300 4000\n";
        assert_eq!(opened(snmp), Some(320));
        assert_eq!(opened("Tcp: PassiveOpens\nTcp: many\n"), None);
        assert_eq!(opened("Tcp: PassiveOpens\n"), None);
    }

    #[test]
    fn every_plan_is_a_configuration_with_all_that_it_names() {
        for services in [Services::Addresses(3), Services::Ports(3)] {
            let plan = Plan {
                services,
                backends: 4,
                machines: 5,
                interval: Some(Duration::from_secs(2)),
                state: Some((1, "draining")),
                without: None,
                weight: 2,
            };
            let config = config::parse(&Source::new("plan", plan.text())).unwrap();
            assert_eq!(config.services.len(), plan.many());
            let backends: usize = config.services.iter().map(|service| service.backends.len()).sum();
            assert_eq!(backends as u64, plan.backends_of_all());
            assert!(config.services.iter().all(|service| service.health.is_some()));
            let less = Plan { state: None, without: Some(1), interval: None, ..plan };
            let config = config::parse(&Source::new("plan", less.text())).unwrap();
            assert_eq!(config.services[1].backends.len(), 3);
            assert!(config.services.iter().all(|service| service.health.is_none()));
        }
    }
}
