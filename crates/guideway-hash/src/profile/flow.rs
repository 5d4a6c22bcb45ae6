//! From a packet's flow, or a bare key, to its slot, as each profile's system finds it.

use core::net::IpAddr;

use super::{
    KernelBits, Params, Profile, VppFlowHash, cilium, envoy, glb, go_maglev, ipvs, katran, poise, reference,
    vpp,
};
use crate::{
    hash::{self, NativeHasher, StableHasher},
    table::FlowRule,
};

/// The flow of a packet as the client sends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Flow {
    /// The client's address.
    pub source: IpAddr,
    /// The service's address.
    pub destination: IpAddr,
    /// The client's port, 0 where the protocol has none.
    pub source_port: u16,
    /// The service's port.
    pub destination_port: u16,
    /// The IP protocol number, such as 6 for TCP.
    pub protocol: u8,
}

/// A flow's hash, and the slot that follows from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Located {
    /// The hash. Systems that hash to 32 bits leave the upper ones 0.
    pub hash: u64,
    /// The slot, below the table's size.
    pub slot: u32,
}

/// A flow, or a key, that a profile has no rule for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("profile {profile} hashes {takes}, so {given} has no slot; {remedy}")]
pub struct FlowError {
    /// The profile.
    pub profile: Profile,
    /// What it does hash.
    pub takes: &'static str,
    /// What it was given.
    pub given: &'static str,
    /// What to do instead.
    pub remedy: &'static str,
}

impl Profile {
    /// The slot of `flow` in a table of `size` slots, one that the profile has.
    ///
    /// # Errors
    /// [`FlowError`] for profiles that hash something other than packets: `native`, whose flow key belongs to the
    /// packet path, `go-maglev`, and `poise`.
    pub fn locate_flow(self, flow: &Flow, size: u32, params: &Params) -> Result<Located, FlowError> {
        let hash = match self {
            Self::Reference => reference::flow_hash(flow),
            Self::Envoy => envoy::source_ip_hash(flow.source),
            Self::Cilium => cilium::flow_hash(flow, params.seeds, params.session_affinity).into(),
            Self::KatranV1 | Self::KatranV2 => katran::flow_hash(flow, params.port_rules).into(),
            Self::IpvsMh => {
                let port = if params.mh_port { flow.source_port } else { 0 };
                ipvs::flow_hash(flow.source, port, params.kernel_bits).into()
            }
            Self::Vpp | Self::Vpp2602 => {
                let words = vpp::flow_words(flow, params.src_ip_sticky);
                match params.vpp_flow_hash {
                    VppFlowHash::Crc32c => vpp::crc32c_hash(words).into(),
                    VppFlowHash::Xxhash => vpp::xxhash_hash(words).into(),
                }
            }
            Self::Glb => glb::flow_hash(flow.source, &params.hash_key),
            Self::Native | Self::GoMaglev | Self::Poise => return Err(self.takes_keys()),
        };
        Ok(locate(hash, size))
    }

    /// The slot of a bare key, for profiles that hash keys: `native` (domain of flows), `reference`, `envoy` (value of a
    /// header, cookie or query parameter), `poise` (request key), and `go-maglev` (the hash itself, a decimal number).
    ///
    /// # Errors
    /// [`FlowError`] for profiles that hash the fields of packets.
    pub fn locate_key(self, key: &str, size: u32, params: &Params) -> Result<Located, FlowError> {
        let hash = match self {
            Self::Native => NativeHasher::new(params.seed).hash(hash::FLOW, key.as_bytes()),
            Self::Reference => reference::hash(0, key.as_bytes()),
            Self::Envoy => envoy::value_hash(key.as_bytes()),
            Self::Poise => poise::request_hash(key),
            Self::GoMaglev => {
                let hash = key.parse().map_err(|_| self.takes_keys())?;
                return Ok(Located { hash, slot: go_maglev::slot(hash, size) });
            }
            _ => {
                return Err(FlowError {
                    profile: self,
                    takes: "addresses and ports of a packet",
                    given: "a bare key",
                    remedy: "give the flow's addresses, ports and protocol",
                });
            }
        };
        Ok(locate(hash, size))
    }

    /// What a table's digest has to say of the flow hash: its name, and a number for the parameters that change it.
    pub fn flow_rule(self, params: &Params) -> FlowRule<'static> {
        let (name, seed) = match self {
            Self::Native => ("native", params.seed),
            Self::Cilium => {
                let seeds = u64::from(params.seeds.jhash_v4) << 32 | u64::from(params.seeds.jhash_v6);
                (if params.session_affinity { "cilium-affinity" } else { "cilium" }, seeds)
            }
            // One datapath serves both rings.
            Self::KatranV1 | Self::KatranV2 => {
                let rules = params.port_rules;
                let all = [
                    rules.port_0_vip,
                    rules.no_source_port,
                    rules.destination_port_only,
                    rules.source_and_destination_port,
                ];
                ("katran", flags(&all))
            }
            Self::IpvsMh => ("ipvs-mh", flags(&[params.mh_port, params.kernel_bits == KernelBits::Bits32])),
            Self::Vpp | Self::Vpp2602 => {
                ("vpp", flags(&[params.src_ip_sticky, params.vpp_flow_hash == VppFlowHash::Xxhash]))
            }
            Self::Glb => ("glb", NativeHasher::default().hash(hash::DIGEST, &params.hash_key)),
            Self::Reference | Self::Envoy | Self::GoMaglev | Self::Poise => (self.name(), 0),
        };
        FlowRule { name, seed }
    }

    fn takes_keys(self) -> FlowError {
        let (takes, remedy) = match self {
            Self::GoMaglev => ("nothing itself", "give a 64-bit hash of your own as a decimal number"),
            _ => ("a key", "give the key"),
        };
        FlowError { profile: self, takes, given: "this", remedy }
    }
}

fn flags(flags: &[bool]) -> u64 {
    flags.iter().fold(0, |bits, &flag| bits << 1 | u64::from(flag))
}

/// The remainder; for a power of two these are the low bits.
fn locate(hash: u64, size: u32) -> Located {
    Located { hash, slot: (hash % u64::from(size)) as u32 }
}

/// The four words of an IPv6 address as a little-endian machine loads them.
pub(super) fn le_words(address: core::net::Ipv6Addr) -> [u32; 4] {
    let bits = u128::from_le_bytes(address.octets());
    [bits as u32, (bits >> 32) as u32, (bits >> 64) as u32, (bits >> 96) as u32]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(source: &str, destination: &str) -> Flow {
        let (source, destination) = (source.parse().unwrap(), destination.parse().unwrap());
        Flow { source, destination, source_port: 40_000, destination_port: 443, protocol: 6 }
    }

    #[test]
    fn what_stays_out_of_a_hash_does_not_move_the_flow() {
        let here = flow("192.0.2.1", "198.51.100.10");
        let elsewhere = Flow { destination: [203, 0, 113, 9].into(), ..here };
        let other_protocol = Flow { protocol: 17, ..here };
        let other_port = Flow { source_port: 40_001, ..here };
        let slot = |profile: Profile, flow: &Flow, params: &[(&str, &str)]| {
            let params = Params::parse(profile, params.iter().copied()).unwrap();
            profile.locate_flow(flow, profile.default_size(), &params).unwrap().slot
        };
        for (profile, params, same, differs) in [
            (Profile::Envoy, &[][..], &[&elsewhere, &other_protocol, &other_port][..], &[][..]),
            (Profile::Cilium, &[], &[&elsewhere], &[&other_protocol, &other_port]),
            (
                Profile::Cilium,
                &[("session_affinity", "true")],
                &[&elsewhere, &other_port],
                &[&other_protocol],
            ),
            (Profile::KatranV2, &[], &[&elsewhere, &other_protocol], &[&other_port]),
            (Profile::KatranV2, &[("hash_no_src_port", "true")], &[&other_port], &[]),
            (
                Profile::KatranV2,
                &[("hash_dport_only", "true")],
                &[&other_port, &flow("192.0.2.2", "192.0.2.3")],
                &[],
            ),
            (Profile::IpvsMh, &[], &[&elsewhere, &other_protocol, &other_port], &[]),
            (Profile::IpvsMh, &[("mh_port", "true")], &[&elsewhere], &[&other_port]),
            (Profile::Vpp, &[], &[&other_protocol], &[&elsewhere, &other_port]),
            (Profile::Vpp, &[("src_ip_sticky", "true")], &[&other_port], &[&elsewhere]),
            (Profile::Reference, &[], &[], &[&elsewhere, &other_protocol, &other_port]),
            (Profile::Glb, &[], &[&elsewhere, &other_protocol, &other_port], &[]),
        ] {
            let own = slot(profile, &here, params);
            assert!(same.iter().all(|flow| slot(profile, flow, params) == own), "{profile} {params:?}");
            assert!(differs.iter().all(|flow| slot(profile, flow, params) != own), "{profile} {params:?}");
        }
    }

    #[test]
    fn keys_and_flows_are_not_mixed_up() {
        let params = Params::default();
        let flow = flow("2001:db8::1", "2001:db8::2");
        for profile in Profile::ALL {
            let size = profile.default_size();
            let by_flow = profile.locate_flow(&flow, size, &params);
            let by_key = profile.locate_key("7", size, &params);
            assert!(by_flow.is_ok() || by_key.is_ok(), "{profile}");
            assert!(by_flow.into_iter().chain(by_key).all(|located| located.slot < size), "{profile}");
        }
        assert_eq!(Profile::GoMaglev.locate_key("65538", 65_537, &params).unwrap().slot, 1);
        assert!(Profile::GoMaglev.locate_key("key", 65_537, &params).is_err());
    }
}
