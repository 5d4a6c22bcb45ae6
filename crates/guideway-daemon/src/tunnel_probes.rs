//! Health checks through the tunnel: the kernel wraps marked probes as it wraps clients' packets.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use guideway_control::health::MAX_MARKS;
use guideway_forward::record::BackendSpec;
use guideway_xdp::prober::Prober;
use nix::net::if_::{if_indextoname, if_nametoindex};

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
    /// What has answers heard that come by other interfaces, by index.
    heard: BTreeMap<u32, Box<dyn Any>>,
    /// Interfaces that have it not, and why not.
    unheard: BTreeMap<u32, String>,
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
            heard: BTreeMap::new(),
            unheard: BTreeMap::new(),
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

    /// Has answers heard that come by these interfaces, as well as those that come by its own; what cannot be heard, told
    /// once.
    pub(crate) fn hear(&mut self, interfaces: &BTreeSet<u32>) -> Vec<String> {
        let others: BTreeSet<u32> =
            interfaces.iter().copied().filter(|&index| self.index != Some(index)).collect();
        self.heard.retain(|index, _| others.contains(index));
        let before = std::mem::take(&mut self.unheard);
        let mut told = Vec::new();
        for index in others {
            // One that is gone has no answers.
            let Ok(name) = if_indextoname(index) else { continue };
            if self.heard.contains_key(&index) {
                continue;
            }
            let name = name.to_string_lossy();
            let why = match self.prober.hear(&name) {
                Ok(Some(link)) => {
                    self.heard.insert(index, Box::new(link));
                    continue;
                }
                Ok(None) => "this kernel has no links for TC (6.6 has)".to_owned(),
                Err(error) => error.to_string(),
            };
            let text =
                format!("answers to probes through tunnels are not heard where they come by {name}: {why}");
            if before.get(&index) != Some(&text) {
                told.push(text.clone());
            }
            self.unheard.insert(index, text);
        }
        told
    }

    /// The interfaces beside its own that answers are heard by.
    pub(crate) fn heard(&self) -> BTreeSet<u32> {
        self.heard.keys().copied().collect()
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
