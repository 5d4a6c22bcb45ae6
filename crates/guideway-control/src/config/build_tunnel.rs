//! Whether the tunnels of a service can carry its packets, and lead to backends rather than back here.

use std::net::{IpAddr, Ipv4Addr};

use guideway_wire::gue;
use ipnet::IpNet;

use super::build::shown;
use super::model::{Ports, Service, Underlay};
use super::problem::Problem;
use super::raw::{RawBackend, RawPort};
use super::reader::At;
use super::source::Span;
use super::value::OneOrMany;
use super::words::{Encapsulation, Protocol};

/// No IPv6 link may carry less (RFC 8200 section 5).
const IPV6_MIN_MTU: u16 = 1280;

/// A service and the places of what its tunnels depend on.
pub(super) struct TunnelCheck<'a> {
    pub(super) service: &'a Service,
    /// Of each virtual address.
    pub(super) vips: &'a [Span],
    pub(super) ports: Option<&'a At<OneOrMany<RawPort>>>,
    pub(super) backends: &'a [At<RawBackend>],
    pub(super) underlay: &'a Underlay,
}

impl TunnelCheck<'_> {
    pub(super) fn run(&self, problems: &mut Vec<Problem>) {
        self.sources(problems);
        self.own_source(problems);
        self.room(problems);
        self.gue_port(problems);
        for backend in self.backends {
            if let Some(address) = &backend.value.address {
                self.backend(address, problems);
            }
        }
    }

    /// A tunnel has a source address of the backend's family.
    fn sources(&self, problems: &mut Vec<Problem>) {
        let addresses = || self.backends.iter().filter_map(|backend| backend.value.address.as_ref());
        for (family, key, example, v6) in
            [("IPv4", "source_v4", "10.0.0.254", false), ("IPv6", "source_v6", "2001:db8:ffff::1", true)]
        {
            let without = addresses().find(|address| {
                address.value.is_ipv6() == v6 && self.underlay.source_for(address.value).is_none()
            });
            if let Some(address) = without {
                problems.push(
                    Problem::new(
                        address.span.clone(),
                        format!("tunnels to {family} backends need a source address"),
                    )
                    .label(format!("an {family} backend"))
                    .help(format!("add `{key} = \"{example}\"` to `[underlay]`: this machine's own address")),
                );
            }
        }
    }

    /// What comes back to the balancer, errors about tunnels above all, is no client's packet.
    fn own_source(&self, problems: &mut Vec<Problem>) {
        for (vip, span) in self.service.vips.iter().zip(self.vips) {
            let Some(source) = self.source_within(vip) else { continue };
            let vip = shown(vip);
            let message = if vip == source.to_string() {
                format!("`{vip}` is the tunnels' own source, and cannot be a virtual address as well")
            } else {
                format!(
                    "`{vip}` holds `{source}`, the tunnels' own source, which cannot be a virtual address as well"
                )
            };
            let key = if source.is_ipv4() { "source_v4" } else { "source_v6" };
            problems.push(
                Problem::new(span.clone(), message)
                    .label("what comes back to a tunnel's source would be taken for clients' packets")
                    .help(format!(
                        "set `{key}` of `[underlay]` to an address of this machine's own, or serve another one"
                    )),
            );
        }
    }

    /// The source of tunnels that is within a virtual address. One that could not be read was reported, and so is a backend
    /// within the same address.
    fn source_within(&self, vip: &IpNet) -> Option<IpAddr> {
        let (v4, v6) = (self.underlay.source_v4.map(IpAddr::V4), self.underlay.source_v6.map(IpAddr::V6));
        let mut sources = [v4, v6].into_iter().flatten();
        let source = sources.find(|source| !source.is_unspecified() && vip.contains(source))?;
        let mut backends = self.backends.iter().filter_map(|backend| backend.value.address.as_ref());
        backends.all(|backend| !vip.contains(&backend.value)).then_some(source)
    }

    /// IPv6 clients send packets of 1,280 bytes without asking.
    fn room(&self, problems: &mut Vec<Problem>) {
        if !self.service.vips.iter().any(|vip| matches!(vip, IpNet::V6(_))) {
            return;
        }
        let encapsulation = self.service.encapsulation;
        for address in self.backends.iter().filter_map(|backend| backend.value.address.as_ref()) {
            let overhead = encapsulation.overhead(address.value.is_ipv6());
            let room = self.underlay.mtu.saturating_sub(overhead);
            if room < IPV6_MIN_MTU {
                problems.push(
                    Problem::new(
                        address.span.clone(),
                        format!("an IPv6 service needs room for {IPV6_MIN_MTU} bytes, and the tunnel leaves {room}"),
                    )
                    .label(format!("{encapsulation} adds {overhead} bytes"))
                    .help(format!(
                        "`[underlay] mtu` must be {} at least",
                        u32::from(IPV6_MIN_MTU) + u32::from(overhead)
                    )),
                );
                return;
            }
        }
    }

    /// A packet to the port of GUE is never put into GUE again: in a loop it would grow at each turn.
    fn gue_port(&self, problems: &mut Vec<Problem>) {
        let in_gue = matches!(self.service.encapsulation, Encapsulation::Gue | Encapsulation::GueHeader);
        let listed = matches!(&self.service.ports, Ports::List(list) if list.contains(&gue::PORT));
        if !in_gue || !listed || self.service.protocol != Protocol::Udp {
            return;
        }
        let written = self.ports.into_iter().flat_map(|ports| &ports.value.0);
        for port in written.filter(|port| matches!(port.value, RawPort::Port(gue::PORT))) {
            problems.push(
                Problem::new(
                    port.span.clone(),
                    format!(
                        "port {} is that of the tunnels, and what is in `{}` is not wrapped again",
                        gue::PORT,
                        self.service.encapsulation
                    ),
                )
                .label("would be dropped")
                .help("use `encapsulation = \"ipip\"` or `\"gre\"` for this service"),
            );
        }
    }

    fn backend(&self, address: &At<IpAddr>, problems: &mut Vec<Problem>) {
        let ip = address.value;
        let mut refuse = |message: String, label: &str, help: Option<String>| {
            let problem = Problem::new(address.span.clone(), message).label(label);
            problems.push(match help {
                Some(help) => problem.help(help),
                None => problem,
            });
        };
        if ip.is_unspecified()
            || ip.is_multicast()
            || ip.is_loopback()
            || ip == IpAddr::V4(Ipv4Addr::BROADCAST)
        {
            refuse(format!("`{ip}` cannot be a backend"), "not the address of one other host", None);
        }
        if let IpAddr::V6(v6) = ip
            && let Some(v4) = v6.to_ipv4_mapped()
        {
            let message = format!("`{ip}` is how sockets of IPv6 write the IPv4 address {v4}");
            refuse(message, "no packet bears it", Some(format!("write `{v4}`")));
        }
        if matches!(ip, IpAddr::V6(v6) if v6.is_unicast_link_local()) {
            let message = format!("the backend `{ip}` is known on one link only, and which is not told");
            refuse(
                message,
                "not an address that a route leads to",
                Some("give a global or unique local one".to_owned()),
            );
        }
        if self.service.vips.iter().any(|vip| vip.contains(&ip)) {
            refuse(
                format!("the backend `{ip}` lies within a virtual address of the service"),
                "the tunnel would come back here",
                Some("give the backend's own address; the virtual one belongs on its loopback".to_owned()),
            );
        }
        let Some(sources) = self.service.outer_sources(self.underlay, ip) else { return };
        if sources.prefix_len() == sources.max_prefix_len() {
            if sources.addr() == ip {
                refuse(
                    format!("`{ip}` is the balancer's own tunnel source"),
                    "both ends of the tunnel",
                    None,
                );
            }
            return;
        }
        let remedy =
            "take a source in a range that is the balancer's alone, or `outer_source = \"fixed\"`".to_owned();
        if sources.contains(&ip) {
            refuse(
                format!("`{ip}` lies in `{sources}`, where the outer sources vary"),
                "taken by `outer_source = \"entropy\"`",
                Some(remedy.clone()),
            );
        }
        for (vip, span) in self.service.vips.iter().zip(self.vips) {
            let meets = sources.contains(vip) || vip.contains(&sources);
            if meets && self.source_within(vip).is_none() {
                problems.push(
                    Problem::new(
                        span.clone(),
                        format!("`{vip}` meets `{sources}`, where the outer sources vary"),
                    )
                    .label("taken by `outer_source = \"entropy\"`")
                    .help(remedy.clone()),
                );
            }
        }
    }
}
