//! This host as it is: its loopback interface, the interface that packets come by, and their addresses.

use std::io;
use std::net::IpAddr;

use super::netlink::{Interface, Netlink};
use super::setup::Setup;
use crate::failure::Failure;

/// What was found.
pub(crate) struct Host {
    pub(crate) netlink: Netlink,
    pub(crate) lo: Interface,
    /// The interface that packets come by.
    pub(crate) interface: Interface,
    /// Its addresses, without those that serve on the link alone.
    pub(crate) addresses: Vec<IpAddr>,
    /// The addresses of the loopback interface.
    pub(crate) on_lo: Vec<IpAddr>,
    /// The addresses of all interfaces.
    everywhere: Vec<IpAddr>,
}

impl Host {
    pub(crate) fn look(listen_on: &str) -> Result<Host, Failure> {
        let failed = |error: io::Error| {
            Failure::failed(format_args!("the kernel does not tell its interfaces: {error}"))
        };
        let mut netlink = Netlink::open().map_err(failed)?;
        let lo = netlink.interface("lo").map_err(failed)?;
        let interface = netlink.interface(listen_on).map_err(|error| match error.raw_os_error() {
            // The second: a name that is too long, or none.
            Some(nix::libc::ENODEV | nix::libc::ERANGE | nix::libc::EINVAL) => Failure::failed(format_args!(
                "there is no interface `{listen_on}`: `ip link` lists those that there are"
            )),
            _ => failed(error),
        })?;
        let addresses = netlink.addresses(Some(interface.index)).map_err(failed)?;
        let on_lo = netlink.addresses(Some(lo.index)).map_err(failed)?;
        let everywhere = netlink.addresses(None).map_err(failed)?;
        Ok(Host { netlink, lo, interface, addresses, on_lo, everywhere })
    }

    /// The index of another interface, where it is there.
    pub(crate) fn index(&mut self, name: &str) -> Option<u32> {
        self.netlink.interface(name).ok().map(|interface| interface.index)
    }

    /// That nothing is in the way which `up` would not change.
    pub(crate) fn can_serve(&self, setup: &Setup) -> Result<(), Failure> {
        let interface = &setup.listen_on;
        if interface == "lo" {
            return Err(Failure::usage(
                "packets from a balancer don't come by lo: name the interface that they come by",
            ));
        }
        if !self.lo.up {
            return Err(Failure::failed(
                "lo is down, and no address on it serves: `ip link set dev lo up` first",
            ));
        }
        if let Some(vip) = setup.vips.iter().find(|vip| self.addresses.contains(vip)) {
            return Err(Failure::failed(format_args!(
                "{vip} is on {interface}: this host claims it on the network, and takes its traffic from the balancer; \
                 `ip address del {vip} dev {interface}` first, with the length that `ip address show dev {interface}` tells"
            )));
        }
        if let Some(nowhere) = setup.addresses.iter().find(|address| !self.everywhere.contains(address)) {
            return Err(Failure::usage(format_args!(
                "--address {nowhere} is on no interface of this host, and no tunnel could end there: `ip address` lists those \
                 that are"
            )));
        }
        Ok(())
    }

    /// Where tunnels end: the addresses that were asked for, or those of the interface.
    pub(crate) fn ends(&self, setup: &Setup) -> Result<Vec<IpAddr>, Failure> {
        let ends: Vec<IpAddr> = if setup.addresses.is_empty() {
            self.addresses.iter().copied().filter(|address| !setup.vips.contains(address)).collect()
        } else {
            setup.addresses.clone()
        };
        if ends.is_empty() {
            return Err(Failure::failed(format_args!(
                "{} has no address where a tunnel could end: give it one, or name one (--address)",
                setup.listen_on
            )));
        }
        Ok(ends)
    }

    /// The MTU that counts: the one that was given, or the interface's.
    pub(crate) fn mtu(&self, setup: &Setup) -> u16 {
        setup.mtu.unwrap_or_else(|| u16::try_from(self.interface.mtu).unwrap_or(u16::MAX))
    }
}
