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
}

impl Host {
    pub(crate) fn look(listen_on: &str) -> Result<Host, Failure> {
        let failed = |error: io::Error| {
            Failure::failed(format_args!("the kernel does not tell its interfaces: {error}"))
        };
        let netlink = Netlink::open().map_err(failed)?;
        let lo = netlink.interface("lo").map_err(failed)?;
        let interface = netlink.interface(listen_on).map_err(|error| match error.raw_os_error() {
            Some(nix::libc::ENODEV) => Failure::failed(format_args!(
                "there is no interface `{listen_on}`: `ip link` lists those that there are"
            )),
            _ => failed(error),
        })?;
        let addresses = netlink.addresses(interface.index).map_err(failed)?;
        let on_lo = netlink.addresses(lo.index).map_err(failed)?;
        Ok(Host { netlink, lo, interface, addresses, on_lo })
    }

    /// Where tunnels end: the addresses that were asked for, or those of the interface.
    pub(crate) fn ends(&self, setup: &Setup) -> Result<Vec<IpAddr>, Failure> {
        let ends: Vec<IpAddr> = if setup.addresses.is_empty() {
            self.addresses.iter().copied().filter(|address| !setup.vips.contains(address)).collect()
        } else {
            setup.addresses.clone()
        };
        if let Some(both) = ends.iter().find(|address| setup.vips.contains(address)) {
            return Err(Failure::usage(format_args!(
                "{both} is given both as a virtual address and as one where tunnels end; they have to differ"
            )));
        }
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
