//! The network of a test: client, router, balancers and backends, each a namespace.
//!
//! ```text
//!                              ┌─ lb1, lb2, …   10.0.1.1 …  2001:db8:ffff::1:1 …
//! client ───── router ─(bridge)┤
//! 198.51.100.7                 └─ be1, be2, …   10.0.0.1 …  2001:db8:ffff::1 …
//! 2001:db8:100::7
//! ```
//!
//! With [`Arms::Two`] each balancer has a link of its own to the router beside: what is for the virtual addresses comes
//! by it, and leaves by the underlay.
//!
//! The router sends what is for the virtual addresses, 192.0.2.10 and 2001:db8::10, to the balancers: of equal cost, by
//! the ports of each flow. Balancers and backends share one link layer, the underlay. Backends have the virtual
//! addresses on their loopback interface and answer by the router, past the balancers.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

use crate::error::Result;
use crate::namespace::Namespace;
use crate::netlink::{Hop, Link, Route, veth_pair};

/// The virtual address of IPv4.
pub const VIP_V4: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 10));
/// The virtual address of IPv6.
pub const VIP_V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0x10));
/// Both of them.
pub const VIPS: [IpAddr; 2] = [VIP_V4, VIP_V6];
/// The client's address of IPv4.
pub const CLIENT_V4: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 51, 100, 7));
/// The client's address of IPv6.
pub const CLIENT_V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0x100, 0, 0, 0, 0, 7));

const ROUTER_ACCESS: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::new(198, 51, 100, 1)),
    IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0x100, 0, 0, 0, 0, 1)),
];
const ROUTER_UNDERLAY: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::new(10, 0, 255, 254)),
    IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0xffff, 0, 0, 0, 0, 0xfffe)),
];

/// What a bed is to have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Balancers, at most 200.
    pub balancers: u8,
    /// Backends, at most 200.
    pub backends: u8,
    /// The links of a balancer.
    pub arms: Arms,
    /// The MTU between client and router, bytes.
    pub access_mtu: u16,
    /// The MTU between router, balancers and backends, bytes.
    pub underlay_mtu: u16,
    /// The greatest segment that backends announce to IPv4 clients, bytes, 20 less to those of IPv6, so that no
    /// segment is too big for the tunnel. `None`: what their link takes.
    pub clamp_mss: Option<u16>,
    /// Where `ip netns` shall show the namespaces: the first part of their names.
    pub prefix: Option<String>,
}

impl Default for Plan {
    fn default() -> Self {
        // 1500, less 20 + 20 of the client's headers and at most 52 of the tunnel's.
        Self {
            balancers: 2,
            backends: 3,
            arms: Arms::One,
            access_mtu: 1500,
            underlay_mtu: 1500,
            clamp_mss: Some(1500 - 40 - 52),
            prefix: None,
        }
    }
}

/// The links of a balancer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Arms {
    /// One, to the underlay: packets leave by the link that they came by.
    #[default]
    One,
    /// Two: packets come from the router by one and leave to the underlay by the other.
    Two,
}

/// A network of namespaces; gone when it is dropped.
#[derive(Debug)]
pub struct Network {
    /// The client.
    pub client: Host,
    /// The router.
    pub router: Router,
    /// The balancers' machines, without a balancer so far.
    pub balancers: Vec<Host>,
    /// The backends' machines.
    pub backends: Vec<Host>,
    /// What it was built by.
    pub plan: Plan,
}

/// A machine with one link.
#[derive(Debug, Clone)]
pub struct Host {
    /// Its name: `client`, `lb1`, `be1`.
    pub name: String,
    /// Where it is.
    pub namespace: Namespace,
    /// Its link.
    pub link: Link,
    /// Its address of IPv4.
    pub v4: IpAddr,
    /// Its address of IPv6.
    pub v6: IpAddr,
    /// The router's end of its link.
    pub port: Link,
    /// Of a balancer of two arms: the link that its packets come by.
    pub front: Option<Front>,
}

/// A balancer's link to the router.
#[derive(Debug, Clone)]
pub struct Front {
    /// The balancer's end.
    pub link: Link,
    /// The router's end.
    pub port: Link,
    /// The balancer's addresses on it, IPv4 and IPv6.
    pub addresses: [IpAddr; 2],
    /// The router's.
    pub routers: [IpAddr; 2],
}

/// The router between the client and the rest.
#[derive(Debug)]
pub struct Router {
    /// Where it is.
    pub namespace: Namespace,
    /// Its link to the client.
    pub access: Link,
    /// Its link to balancers and backends: a bridge.
    pub underlay: Link,
}

impl Network {
    /// Makes the network, with routes for the virtual addresses to all balancers.
    ///
    /// # Errors
    /// [`crate::Error`].
    pub fn build(plan: &Plan) -> Result<Self> {
        let space = plan.namespace("router")?;
        let underlay = space.add_bridge("underlay")?;
        underlay.set_mtu(plan.underlay_mtu.into())?;
        let client = Self::client(plan.namespace("client")?, &space, plan)?;
        let router = Router { access: client.port.clone(), underlay, namespace: space };
        router.configure()?;
        let (balancers, backends) = (Vec::new(), Vec::new());
        let mut network = Self { client, router, balancers, backends, plan: plan.clone() };
        for number in 1..=plan.balancers {
            network.add_balancer(number)?;
        }
        for _ in 0..plan.backends {
            network.add_backend()?;
        }
        let all: Vec<_> = network.balancers.iter().collect();
        network.router.route_vips(&all)?;
        Ok(network)
    }

    /// Adds a backend's machine; its number, from 0.
    ///
    /// # Errors
    /// [`crate::Error`].
    pub fn add_backend(&mut self) -> Result<usize> {
        let number = self.backends.len();
        let place = u8::try_from(number + 1).unwrap_or(u8::MAX);
        let name = format!("be{place}");
        let namespace = self.plan.namespace(&name)?;
        let host = self.router.attach(name, namespace, [0, place], self.plan.underlay_mtu.into())?;
        become_backend(&host, self.plan.clamp_mss)?;
        self.backends.push(host);
        Ok(number)
    }

    fn add_balancer(&mut self, number: u8) -> Result<()> {
        let name = format!("lb{number}");
        let namespace = self.plan.namespace(&name)?;
        let mtu = self.plan.underlay_mtu.into();
        let mut host = self.router.attach(name, namespace, [1, number], mtu)?;
        if self.plan.arms == Arms::Two {
            host.front = Some(self.router.front(&host, number, mtu)?);
        }
        self.balancers.push(host);
        Ok(())
    }

    /// Links a balancer of one arm to the router again, whose link was deleted.
    ///
    /// # Errors
    /// [`crate::Error`].
    pub fn link_again(&mut self, number: u8) -> Result<()> {
        let mtu = self.plan.underlay_mtu.into();
        for host in self.balancers.iter_mut().filter(|host| host.name == format!("lb{number}")) {
            *host = self.router.attach(host.name.clone(), host.namespace.clone(), [1, number], mtu)?;
        }
        Ok(())
    }

    /// Has balancers of two arms send by the front what is not for the underlay, and backends answer them by the underlay.
    ///
    /// # Errors
    /// [`crate::Error::System`].
    pub fn part_arms(&self) -> Result<()> {
        for balancer in &self.balancers {
            let Some(front) = &balancer.front else { continue };
            for (address, router) in front.addresses.into_iter().zip(front.routers) {
                let world = Route::new(default_of(address), vec![Hop::via(router, &front.link)]);
                balancer.namespace.set_route(&world)?;
                for backend in &self.backends {
                    let answers = vec![Hop::via(balancer.address(address), &backend.link)];
                    backend.namespace.set_route(&Route::new(address.into(), answers))?;
                }
            }
        }
        Ok(())
    }

    fn client(namespace: Namespace, router: &Namespace, plan: &Plan) -> Result<Host> {
        let (link, port) = veth_pair((&namespace, "eth0"), (router, "access"), plan.access_mtu.into())?;
        for (client, router) in [CLIENT_V4, CLIENT_V6].into_iter().zip(ROUTER_ACCESS) {
            link.add_address(in_network(client))?;
            port.add_address(in_network(router))?;
            namespace.set_route(&Route::new(default_of(router), vec![Hop::via(router, &link)]))?;
        }
        Ok(Host {
            name: "client".to_owned(),
            namespace,
            link,
            v4: CLIENT_V4,
            v6: CLIENT_V6,
            port,
            front: None,
        })
    }
}

impl Plan {
    fn namespace(&self, label: &str) -> Result<Namespace> {
        match &self.prefix {
            Some(prefix) => Namespace::named(prefix, label),
            None => Namespace::new(label),
        }
    }
}

impl Host {
    /// All its links: the underlay's first.
    pub fn links(&self) -> Vec<Link> {
        std::iter::once(&self.link).chain(self.front.as_ref().map(|front| &front.link)).cloned().collect()
    }

    /// The router's ends of them, in the same order.
    pub fn ports(&self) -> Vec<Link> {
        std::iter::once(&self.port).chain(self.front.as_ref().map(|front| &front.port)).cloned().collect()
    }

    /// Switches all its links on or off.
    ///
    /// # Errors
    /// [`crate::Error::System`].
    pub fn set_up(&self, up: bool) -> Result<()> {
        self.links().iter().try_for_each(|link| link.set_up(up))
    }

    /// Its address of the family of `like`.
    pub fn address(&self, like: IpAddr) -> IpAddr {
        same_family([self.v4, self.v6], like)
    }
}

impl Router {
    fn configure(&self) -> Result<()> {
        for address in ROUTER_UNDERLAY {
            self.underlay.add_address(in_network(address))?;
        }
        for (key, value) in [
            ("ipv4/ip_forward", "1"),
            ("ipv6/conf/all/forwarding", "1"),
            // Of equal ways, one by the ports of the flow.
            ("ipv4/fib_multipath_hash_policy", "1"),
            ("ipv6/fib_multipath_hash_policy", "1"),
            ("ipv4/conf/all/send_redirects", "0"),
            ("ipv4/conf/underlay/send_redirects", "0"),
        ] {
            self.namespace.set(key, value)?;
        }
        Ok(())
    }

    /// Adds a machine to the underlay, with addresses that end in group and number.
    fn attach(&self, name: String, namespace: Namespace, place: [u8; 2], mtu: u32) -> Result<Host> {
        let [group, number] = place;
        let v4 = IpAddr::from([10, 0, group, number]);
        let v6 = IpAddr::from([0x2001, 0xdb8, 0xffff, 0, 0, 0, group.into(), number.into()]);
        let (link, port) = veth_pair((&namespace, "eth0"), (&self.namespace, &name), mtu)?;
        port.set_bridge(&self.underlay)?;
        for (address, router) in [v4, v6].into_iter().zip(ROUTER_UNDERLAY) {
            link.add_address(in_network(address))?;
            namespace.set_route(&Route::new(default_of(address), vec![Hop::via(router, &link)]))?;
            // Known from the start, so that no first packet waits or is lost.
            link.set_neighbour(router, self.underlay.mac())?;
            self.underlay.set_neighbour(address, link.mac())?;
        }
        Ok(Host { name, namespace, link, v4, v6, port, front: None })
    }

    /// Links a balancer to the router by a network of its own.
    fn front(&self, host: &Host, number: u8, mtu: u32) -> Result<Front> {
        let network = u16::from(number);
        let v6 = |last: u16| IpAddr::from([0x2001, 0xdb8, 0xf000 + network, 0, 0, 0, 0, last]);
        let addresses = [IpAddr::from([10, FRONT + number, 0, 1]), v6(1)];
        let routers = [IpAddr::from([10, FRONT + number, 255, 254]), v6(0xfffe)];
        let name = format!("{}-front", host.name);
        let (link, port) = veth_pair((&host.namespace, "front"), (&self.namespace, &name), mtu)?;
        for (address, router) in addresses.into_iter().zip(routers) {
            link.add_address(in_network(address))?;
            port.add_address(in_network(router))?;
            port.set_neighbour(address, link.mac())?;
            link.set_neighbour(router, port.mac())?;
        }
        Ok(Front { link, port, addresses, routers })
    }

    /// Sends what is for the virtual addresses to these balancers; without one, nowhere.
    ///
    /// # Errors
    /// [`crate::Error::System`].
    pub fn route_vips(&self, balancers: &[&Host]) -> Result<()> {
        for vip in VIPS {
            let destination = IpNet::from(vip);
            if balancers.is_empty() {
                self.namespace.remove_route(destination)?;
            } else {
                let hops = balancers.iter().map(|host| match &host.front {
                    Some(front) => Hop::via(same_family(front.addresses, vip), &front.port),
                    None => Hop::via(host.address(vip), &self.underlay),
                });
                self.namespace.set_route(&Route::new(destination, hops.collect()))?;
            }
        }
        Ok(())
    }
}

/// The virtual addresses on loopback, silence about them on the link, and the tunnel's room left free.
fn become_backend(host: &Host, clamp_mss: Option<u16>) -> Result<()> {
    host.namespace.set("ipv4/conf/eth0/arp_ignore", "1")?;
    host.namespace.set("ipv4/conf/eth0/arp_announce", "2")?;
    let loopback = host.namespace.link("lo")?;
    for (vip, router) in VIPS.into_iter().zip(ROUTER_UNDERLAY) {
        loopback.add_address(IpNet::from(vip))?;
        let mut route = Route::new(default_of(router), vec![Hop::via(router, &host.link)]);
        let header_difference = if vip.is_ipv4() { 0 } else { 20 };
        route.advertised_mss = clamp_mss.map(|mss| u32::from(mss.saturating_sub(header_difference)));
        host.namespace.set_route(&route)?;
    }
    Ok(())
}

/// Second byte of the addresses between router and balancers, less the balancer's number.
const FRONT: u8 = 10;

fn same_family([v4, v6]: [IpAddr; 2], like: IpAddr) -> IpAddr {
    if like.is_ipv4() { v4 } else { v6 }
}

/// An address with the length of its network here.
fn in_network(address: IpAddr) -> IpNet {
    let bits = match address {
        IpAddr::V4(v4) if v4.octets()[0] == 10 => 16,
        IpAddr::V4(_) => 24,
        IpAddr::V6(_) => 64,
    };
    IpNet::new_assert(address, bits)
}

/// The network of all addresses of this family.
fn default_of(like: IpAddr) -> IpNet {
    match like {
        IpAddr::V4(_) => IpNet::new_assert(Ipv4Addr::UNSPECIFIED.into(), 0),
        IpAddr::V6(_) => IpNet::new_assert(Ipv6Addr::UNSPECIFIED.into(), 0),
    }
}
