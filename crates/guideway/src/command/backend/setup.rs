//! What a backend is to be.

use std::fmt;
use std::net::IpAddr;

use clap::ValueEnum;
use guideway_forward::tunnel_end::EndSettings;
use guideway_wire::encap::overhead;
use guideway_wire::{IpVersion, Tunnel, gue};
use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::failure::Failure;

/// A tunnel, by the name that the configuration gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Encapsulation {
    /// IP in IP, any family in any
    Ipip,
    /// GRE
    Gre,
    /// GUE variant 1: IP directly in UDP
    Gue,
    /// GUE variant 0: with a header of four bytes
    GueHeader,
}

impl Encapsulation {
    pub(crate) const ALL: [Encapsulation; 4] =
        [Encapsulation::Ipip, Encapsulation::Gre, Encapsulation::Gue, Encapsulation::GueHeader];

    pub(crate) const fn tunnel(self) -> Tunnel {
        match self {
            Encapsulation::Ipip => Tunnel::Ipip,
            Encapsulation::Gre => Tunnel::Gre,
            Encapsulation::Gue => Tunnel::GueDirect,
            Encapsulation::GueHeader => Tunnel::GueHeader,
        }
    }
}

/// What `up` and `script` are told.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Setup {
    /// A virtual address that this backend serves; several by commas or by repeating
    #[arg(long = "vip", value_name = "ADDRESS", value_delimiter = ',', required = true)]
    pub(crate) vips: Vec<IpAddr>,
    /// The interface that the balancer's packets come by
    #[arg(long, value_name = "INTERFACE")]
    pub(crate) listen_on: String,
    /// The interface that answers to clients leave by, if it is another: announced segments are lowered there
    #[arg(long, value_name = "INTERFACE")]
    egress: Option<String>,
    /// An address where tunnels end; unless given, every address of the interface
    #[arg(long = "address", value_name = "ADDRESS", value_delimiter = ',')]
    pub(crate) addresses: Vec<IpAddr>,
    /// A tunnel to take; unless given, all of them
    #[arg(long = "encap", value_name = "TUNNEL", value_delimiter = ',')]
    pub(crate) encapsulations: Vec<Encapsulation>,
    /// Where tunnels may come from: balancers' outer addresses or their prefixes; unless given, everywhere
    #[arg(long = "from", value_name = "PREFIX", value_delimiter = ',', value_parser = prefix)]
    pub(crate) sources: Vec<IpNet>,
    /// The UDP port of GUE
    #[arg(long, value_name = "PORT", default_value_t = gue::PORT, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) gue_port: u16,
    /// The MTU of the way from the balancer, in bytes; unless given, the interface's
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u16).range(576..))]
    pub(crate) mtu: Option<u16>,
}

/// The segment sizes that servers announce at most, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Clamp {
    /// To IPv4 clients.
    #[serde(rename = "ipv4")]
    pub(crate) v4: u16,
    /// To IPv6 clients.
    #[serde(rename = "ipv6")]
    pub(crate) v6: u16,
}

impl Setup {
    /// As it was told, each address once; or what makes no sense about it.
    pub(crate) fn checked(&self) -> Result<Setup, Failure> {
        let mut setup = self.clone();
        for addresses in [&mut setup.vips, &mut setup.addresses] {
            let mut seen = Vec::new();
            addresses.retain(|address| {
                let is_new = !seen.contains(address);
                seen.push(*address);
                is_new
            });
        }
        let for_one_host = |address: &IpAddr| {
            let broadcast = matches!(address, IpAddr::V4(v4) if v4.is_broadcast());
            !(address.is_unspecified() || address.is_loopback() || address.is_multicast() || broadcast)
        };
        if let Some(wrong) = setup.vips.iter().chain(&setup.addresses).find(|address| !for_one_host(address))
        {
            return Err(Failure::usage(format_args!("{wrong} can't be the address of a host on a network")));
        }
        let is_of_one_link = |address: &&IpAddr| match address {
            IpAddr::V4(v4) => v4.is_link_local(),
            IpAddr::V6(v6) => v6.is_unicast_link_local(),
        };
        if let Some(vip) = setup.vips.iter().find(is_of_one_link) {
            return Err(Failure::usage(format_args!(
                "{vip} is known on one link only, and no router passes its packets on: it can't be a virtual address"
            )));
        }
        if let Some(mapped) =
            setup.vips.iter().chain(&setup.addresses).find(|address| address.to_canonical() != **address)
        {
            return Err(Failure::usage(format_args!(
                "{mapped} is an IPv4 address in disguise: write {}",
                mapped.to_canonical()
            )));
        }
        if let Some(both) = setup.addresses.iter().find(|address| setup.vips.contains(address)) {
            return Err(Failure::usage(format_args!(
                "{both} is given both as a virtual address and as one where tunnels end; they have to differ"
            )));
        }
        Ok(setup)
    }

    pub(crate) fn egress(&self) -> &str {
        self.egress.as_deref().unwrap_or(&self.listen_on)
    }

    /// The tunnels that are taken.
    pub(crate) fn tunnels(&self) -> &[Encapsulation] {
        if self.encapsulations.is_empty() { &Encapsulation::ALL } else { &self.encapsulations }
    }

    /// Their names.
    pub(crate) fn tunnel_words(&self) -> Vec<String> {
        let words = self.tunnels().iter().filter_map(Encapsulation::to_possible_value);
        words.map(|word| word.get_name().to_owned()).collect()
    }

    /// The segments that fit the largest of the tunnels over the families of `ends`.
    pub(crate) fn clamp(&self, mtu: u16, ends: &[IpAddr]) -> Result<Clamp, Failure> {
        let outer = if ends.iter().any(IpAddr::is_ipv6) { IpVersion::V6 } else { IpVersion::V4 };
        let most = self.tunnels().iter().map(|encapsulation| overhead(encapsulation.tunnel(), outer)).max();
        let room = usize::from(mtu).saturating_sub(most.unwrap_or_default());
        let left = |headers: usize| u16::try_from(room.saturating_sub(headers)).unwrap_or(u16::MAX);
        let clamp = Clamp { v4: left(IPV4 + TCP), v6: left(IPV6 + TCP) };
        if clamp.v6 == 0 {
            return Err(Failure::usage(format_args!("an MTU of {mtu} bytes leaves no room inside a tunnel")));
        }
        Ok(clamp)
    }

    /// As the programs are told.
    pub(crate) fn settings(&self, clamp: Clamp) -> EndSettings {
        let bits = self.tunnels().iter().map(|encapsulation| EndSettings::bit(encapsulation.tunnel()));
        let known = if self.sources.is_empty() { 0 } else { EndSettings::KNOWN_SOURCES };
        EndSettings {
            gue_port: self.gue_port,
            tunnels: bits.fold(known, |all, bit| all | bit),
            mss_v4: clamp.v4,
            mss_v6: clamp.v6,
        }
    }
}

/// A prefix, or an address alone.
fn prefix(text: &str) -> Result<IpNet, String> {
    let address = || text.parse::<IpAddr>().map(IpNet::from);
    let prefix = text.parse().or_else(|_| address());
    prefix
        .map(|prefix: IpNet| prefix.trunc())
        .map_err(|_| "neither an address nor a prefix, like 10.0.1.0/24".to_owned())
}

impl fmt::Display for Clamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes (IPv4), {} bytes (IPv6)", self.v4, self.v6)
    }
}

/// Headers without options.
const IPV4: usize = 20;
const IPV6: usize = 40;
const TCP: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn setup(encapsulations: &[Encapsulation]) -> Setup {
        Setup {
            vips: Vec::new(),
            listen_on: "eth0".into(),
            egress: None,
            addresses: Vec::new(),
            encapsulations: encapsulations.to_vec(),
            sources: Vec::new(),
            gue_port: gue::PORT,
            mtu: None,
        }
    }

    #[test]
    fn addresses_that_no_host_has_are_refused() {
        for vip in [
            "0.0.0.0",
            "127.0.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "ff02::1",
            "::ffff:192.0.2.1",
            "169.254.3.4",
            "fe80::10",
        ] {
            let setup = Setup { vips: vec![vip.parse().unwrap()], ..setup(&[]) };
            assert!(matches!(setup.checked(), Err(Failure::Usage(_))), "{vip}");
        }
        let vip: IpAddr = "192.0.2.10".parse().unwrap();
        let twice = Setup { vips: vec![vip, vip], ..setup(&[]) };
        assert_eq!(twice.checked().unwrap().vips, [vip]);
        assert!(Setup { addresses: vec![vip], ..twice }.checked().is_err());
    }

    #[test]
    fn a_source_is_an_address_or_a_prefix() {
        for (text, meant) in
            [("10.0.1.1", "10.0.1.1/32"), ("10.0.1.1/24", "10.0.1.0/24"), ("fd00::/8", "fd00::/8")]
        {
            assert_eq!(prefix(text).unwrap().to_string(), meant);
        }
        assert!(prefix("10.0.1").is_err() && prefix("10.0.1.0/33").is_err());
    }

    #[test]
    fn segments_fit_the_largest_tunnel_that_is_taken() {
        let v4 = ["10.0.0.1".parse().unwrap()];
        let both = [v4[0], "2001:db8::1".parse().unwrap()];
        // 1500 less 20 for IP in IP; less 52 for GUE with its header over IPv6.
        assert_eq!(setup(&[Encapsulation::Ipip]).clamp(1500, &v4).unwrap(), Clamp { v4: 1440, v6: 1420 });
        assert_eq!(setup(&[]).clamp(1500, &both).unwrap(), Clamp { v4: 1408, v6: 1388 });
        assert_eq!(setup(&[]).settings(Clamp::default()).tunnels, EndSettings::ALL_TUNNELS);
        assert!(setup(&[]).clamp(100, &both).is_err());
    }
}
