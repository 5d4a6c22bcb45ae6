//! Health checks through the tunnel: the kernel wraps marked probes as it wraps clients' packets.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use guideway_control::health::MAX_MARKS;
use guideway_forward::record::BackendSpec;
use guideway_xdp::prober::Prober;
use nix::net::if_::if_nametoindex;

use crate::forwarder::Renamed;

/// Virtual addresses that probes can go to at most: services are asked at one address of each family.
const MAX_VIPS: u32 = 1 << 15;

/// The program that wraps probes, at the interface that they leave by. It goes when this is dropped.
#[derive(Debug)]
pub(crate) struct TunnelProbes {
    prober: Prober,
    interface: String,
    /// What it was attached to: an interface that was made again under its name has another.
    index: Option<u32>,
    /// A link, which lives as long as this does.
    attached: Box<dyn Any>,
    tunnels: BTreeMap<u32, BackendSpec>,
    vips: BTreeSet<IpAddr>,
}

impl TunnelProbes {
    /// Puts the program at the interface.
    pub(crate) fn start(interface: &str) -> Result<Self, guideway_xdp::Error> {
        let mut prober = Prober::load(MAX_MARKS as u32, MAX_VIPS, None)?;
        let attached = Box::new(prober.attach(interface)?);
        Ok(Self {
            prober,
            interface: interface.to_owned(),
            index: if_nametoindex(interface).ok(),
            attached,
            tunnels: BTreeMap::new(),
            vips: BTreeSet::new(),
        })
    }

    /// The interface that probes leave by.
    pub(crate) fn interface(&self) -> &str {
        &self.interface
    }

    /// Its index.
    pub(crate) fn index(&self) -> Option<u32> {
        self.index
    }

    /// Takes the new name of an interface, if it is this one; the program stays there.
    pub(crate) fn rename(&mut self, renamed: &Renamed) {
        if self.index == Some(renamed.index) {
            self.interface.clone_from(&renamed.to);
        }
    }

    /// Puts the program at its interface again, where that was taken away and made anew; whether it had to.
    pub(crate) fn follow_interface(&mut self) -> Result<bool, guideway_xdp::Error> {
        // No answer is no interface, and then there is nothing to be at.
        let Ok(index) = if_nametoindex(self.interface.as_str()) else { return Ok(false) };
        if self.index == Some(index) {
            return Ok(false);
        }
        self.attached = Box::new(self.prober.attach(&self.interface)?);
        self.index = Some(index);
        Ok(true)
    }

    /// Has each mark name its tunnel, and probes go to these addresses. Does nothing where nothing has changed.
    pub(crate) fn follow(
        &mut self,
        tunnels: BTreeMap<u32, BackendSpec>,
        vips: BTreeSet<IpAddr>,
    ) -> Result<(), guideway_xdp::Error> {
        if self.vips != vips {
            self.prober.set_vips(&vips)?;
            self.vips = vips;
        }
        if self.tunnels != tunnels {
            self.prober.set_tunnels(&tunnels)?;
            self.tunnels = tunnels;
        }
        Ok(())
    }
}
