//! The profiles by name, and what is fixed about each.

use alloc::string::String;
use core::{fmt, str::FromStr};

use super::{ProfileError, cilium, ipvs};
use crate::prime;

/// A system whose tables can be reproduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Profile {
    /// Guideway's own.
    Native,
    /// The algorithm as its specification documents give it.
    Reference,
    /// Envoy's Maglev load-balancing policy.
    Envoy,
    /// Cilium's service load balancing.
    Cilium,
    /// Katran's default ring.
    KatranV1,
    /// Katran's second ring, which honours weights.
    KatranV2,
    /// The `mh` scheduler of Linux IPVS.
    IpvsMh,
    /// VPP's load-balancer plugin since April 2026.
    Vpp,
    /// VPP's load-balancer plugin up to release 26.02.
    Vpp2602,
    /// Damian Gryski's Go library.
    GoMaglev,
    /// The `Maglev` policy of the crate `poise-core` 0.1.
    Poise,
    /// GitHub's GLB director.
    Glb,
}

/// The sizes up to which powers of two are built: what the tables here hold, not a limit of VPP.
pub(super) const MAX_POWER_OF_TWO: u32 = 1 << 22;

const PRIME: &str = "the size must be a prime from 2 to 5,000,011";
const TEN_PRIMES: &str = "the sizes are 251, 509, 1021, 2039, 4093, 8191, 16381, 32749, 65521 and 131071";
const POWER_OF_TWO: &str = "the size must be a power of two from 1 to 4,194,304";
const FROM_TWO: &str = "the size must be from 2 to 5,000,011; prime, or a walk may miss slots";
const GLB_ROWS: &str = "the size is 65536";

impl Profile {
    /// All profiles.
    pub const ALL: [Self; 12] = [
        Self::Native,
        Self::Reference,
        Self::Envoy,
        Self::Cilium,
        Self::KatranV1,
        Self::KatranV2,
        Self::IpvsMh,
        Self::Vpp,
        Self::Vpp2602,
        Self::GoMaglev,
        Self::Poise,
        Self::Glb,
    ];

    /// The name by which it is chosen.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Reference => "reference",
            Self::Envoy => "envoy",
            Self::Cilium => "cilium",
            Self::KatranV1 => "katran-v1",
            Self::KatranV2 => "katran-v2",
            Self::IpvsMh => "ipvs-mh",
            Self::Vpp => "vpp",
            Self::Vpp2602 => "vpp-26.02",
            Self::GoMaglev => "go-maglev",
            Self::Poise => "poise",
            Self::Glb => "glb",
        }
    }

    /// One line on what it reproduces.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Native => "Guideway's own: canonical order, exact integer weights, seeded hash",
            Self::Reference => "the algorithm as its specification documents give it, unweighted",
            Self::Envoy => "Envoy's envoy.load_balancing_policies.maglev",
            Self::Cilium => "Cilium's Maglev service tables (2025 and later key form)",
            Self::KatranV1 => "Katran's default ring: weights count in the first round only",
            Self::KatranV2 => "Katran's V2 ring: weights in proportion",
            Self::IpvsMh => "Linux IPVS scheduler mh, and DPVS's port of it",
            Self::Vpp => "FD.io VPP lb plugin since April 2026: weights by replicas",
            Self::Vpp2602 => "FD.io VPP lb plugin up to 26.02: unweighted",
            Self::GoMaglev => "the Go library dgryski/go-maglev, with its dead list",
            Self::Poise => "the Maglev policy of the Rust crate poise-core 0.1",
            Self::Glb => "GitHub's GLB director: a rendezvous-filled table of primaries and secondaries",
        }
    }

    /// Where the rule is from.
    pub const fn source(self) -> &'static str {
        match self {
            Self::Native => "guideway_hash::maglev",
            Self::Reference => "Eisenbud et al., \"Maglev\", NSDI 2016, section 3.4, with an FNV-1a hash",
            Self::Envoy => "envoyproxy/envoy, source/extensions/load_balancing_policies/maglev",
            Self::Cilium => "cilium/cilium, pkg/maglev and bpf/lib/lb.h",
            Self::KatranV1 => "facebookincubator/katran, katran/lib/MaglevHash.cpp",
            Self::KatranV2 => "facebookincubator/katran, katran/lib/MaglevHashV2.cpp",
            Self::IpvsMh => "Linux, net/netfilter/ipvs/ip_vs_mh.c",
            Self::Vpp => "FD.io VPP, src/plugins/lb, commit ca870e99f61 and later",
            Self::Vpp2602 => "FD.io VPP, src/plugins/lb, before commit ca870e99f61",
            Self::GoMaglev => "dgryski/go-maglev, commit 8961b9b",
            Self::Poise => "poise-core 0.1, policy::Maglev",
            Self::Glb => "github/glb-director, src/glb-director/cli",
        }
    }

    /// What a member's key is.
    pub const fn key_form(self) -> &'static str {
        match self {
            Self::Native | Self::Reference | Self::GoMaglev | Self::Poise => "a name",
            Self::Envoy => {
                "address:port, [address]:port for IPv6, or the path of a unix socket; or what the host is hashed by"
            }
            Self::Cilium => "the agent's text, such as [10.0.0.1:8080/TCP,State:active]",
            Self::IpvsMh => "address:port, [address]:port for IPv6; without a port, port 0",
            Self::KatranV1 | Self::KatranV2 | Self::Vpp | Self::Vpp2602 | Self::Glb => {
                "an address without a port"
            }
        }
    }

    /// How a flow finds its slot.
    pub const fn flow_hash(self) -> &'static str {
        match self {
            Self::Native => "the native hash of the flow, modulo the size",
            Self::Reference => "FNV-1a, folded, of addresses, ports and protocol, modulo the size",
            Self::Envoy => {
                "XXH64 of the client's address as text (source-ip policy), modulo the size; other policies hash what they are told"
            }
            Self::Cilium => {
                "jhash of client address, ports and protocol with the agents' seeds, modulo the size"
            }
            Self::KatranV1 | Self::KatranV2 => {
                "jhash of client address and ports, modulo the size; destination and protocol don't count"
            }
            Self::IpvsMh => "SipHash-1-3 of client address plus, with mh-port, client port, modulo the size",
            Self::Vpp | Self::Vpp2602 => {
                "CRC-32C (or xxHash, by machine) of addresses and, unless sticky, ports; the low bits"
            }
            Self::GoMaglev => "none: the caller brings a hash, taken modulo the size",
            Self::Poise => "FNV-1a, mixed, of the request's key, modulo the size",
            Self::Glb => "SipHash-2-4 of the client's address; the low 16 bits",
        }
    }

    /// What is known to hurt, whatever the members. Defects that depend on the members come as
    /// [`Warning`](super::Warning)s with the table.
    pub const fn defects(self) -> &'static [&'static str] {
        match self {
            Self::Native | Self::Reference => &[],
            Self::Envoy => &[
                "hosts with equal keys are ordered by address in memory, so two proxies may disagree",
                "with more hosts than slots, those last in key order get nothing, silently",
            ],
            Self::Cilium => &[
                "weights are ignored when their integer mean is below 2: {1,2} and {1,2,1} split evenly",
                "a skipped turn goes to the next backend in key order",
                "nodes of different byte order build different tables",
                "the key text has changed between releases, and tables with it",
            ],
            Self::KatranV1 => &[
                "weights count in the first round only: they work when they add up to about the ring size",
                "flows to different VIPs or protocols from one client port share a slot",
            ],
            Self::KatranV2 => &["flows to different VIPs or protocols from one client port share a slot"],
            Self::IpvsMh => &[
                "address and port are added, so 10.0.0.1:8081 and 10.0.0.2:8080 compete for the same slots",
                "the table depends on the order in which destinations were added",
                "the keys are public, so anybody can aim at a slot",
                "one changed weight can change divisor and shift, and move most slots",
                "32-bit and 64-bit directors build different tables",
            ],
            Self::Vpp => &[
                "weights above size / members have no effect, because the table is full before their replicas are seen",
                "at the default weight 100 the table differs from the one of release 26.02 and before",
                "machines with and without a CRC instruction send one flow to different backends",
            ],
            Self::Vpp2602 => &[
                "there are no weights",
                "machines with and without a CRC instruction send one flow to different backends",
            ],
            Self::GoMaglev => &[
                "there are no weights",
                "the table depends on the order of the names",
                "a size that is not prime is not refused, and may never fill",
            ],
            Self::Poise => &["there are no weights", "every pick validates all candidates again"],
            Self::Glb => &[
                "shares are uneven by design of rendezvous: 1.015 times the mean with 10 backends, 1.19 with 256",
            ],
        }
    }

    /// The names of its parameters, as [`Params::parse`](super::Params::parse) reads them.
    pub const fn params(self) -> &'static [&'static str] {
        match self {
            Self::Native => &["seed"],
            Self::Reference | Self::Poise => &[],
            Self::Envoy => &["use_hostname_for_hashing", "locality_weights"],
            Self::Cilium => &["hash_seed", "seed_murmur", "seed_jhash0", "seed_jhash1", "session_affinity"],
            Self::KatranV1 | Self::KatranV2 => {
                &["hash_no_src_port", "hash_dport_only", "hash_src_dst_port", "port_0_vip"]
            }
            Self::IpvsMh => {
                &["list_order", "tab_index", "tab_bits", "gcd", "rshift", "kernel_bits", "mh_port"]
            }
            Self::Vpp | Self::Vpp2602 => &["src_ip_sticky", "flow_hash"],
            Self::GoMaglev => &["dead"],
            Self::Glb => &["table_seed", "hash_key"],
        }
    }

    /// The size that the system takes unless told otherwise, in slots.
    pub const fn default_size(self) -> u32 {
        match self {
            Self::Native | Self::Reference | Self::Envoy | Self::Poise => 65_537,
            Self::KatranV1 | Self::KatranV2 | Self::GoMaglev => 65_537,
            Self::Cilium => 16_381,
            Self::IpvsMh => 4_093,
            Self::Vpp | Self::Vpp2602 => 1_024,
            Self::Glb => 65_536,
        }
    }

    /// The weight that the system gives a backend for which none is set.
    pub const fn default_weight(self) -> u32 {
        match self {
            Self::Cilium | Self::Vpp | Self::Vpp2602 => 100,
            _ => 1,
        }
    }

    /// The sizes that it has, in words.
    pub const fn size_rule(self) -> &'static str {
        match self {
            Self::Native | Self::Reference | Self::Envoy | Self::KatranV1 | Self::KatranV2 | Self::Poise => {
                PRIME
            }
            Self::Cilium | Self::IpvsMh => TEN_PRIMES,
            Self::Vpp | Self::Vpp2602 => POWER_OF_TWO,
            Self::GoMaglev => FROM_TWO,
            Self::Glb => GLB_ROWS,
        }
    }

    /// Whether it has tables of `size` slots.
    pub fn has_size(self, size: u32) -> bool {
        match self {
            Self::Native | Self::Reference | Self::Envoy | Self::KatranV1 | Self::KatranV2 | Self::Poise => {
                size <= prime::MAX && prime::is_prime(size)
            }
            Self::Cilium => cilium::SIZES.contains(&size),
            Self::IpvsMh => ipvs::SIZES.contains(&size),
            Self::Vpp | Self::Vpp2602 => size.is_power_of_two() && size <= MAX_POWER_OF_TWO,
            Self::GoMaglev => (2..=prime::MAX).contains(&size),
            Self::Glb => size == 65_536,
        }
    }

    pub(super) fn check_size(self, size: u32) -> Result<(), ProfileError> {
        if self.has_size(size) {
            return Ok(());
        }
        Err(ProfileError::Size { profile: self, size, rule: self.size_rule() })
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Profile {
    type Err = UnknownProfile;

    fn from_str(name: &str) -> Result<Self, UnknownProfile> {
        Self::ALL
            .into_iter()
            .find(|profile| profile.name() == name)
            .ok_or_else(|| UnknownProfile { name: name.into() })
    }
}

/// A name that no profile has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownProfile {
    /// The name.
    pub name: String,
}

impl fmt::Display for UnknownProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "there is no profile {:?}; the profiles are", self.name)?;
        let mut separator = " ";
        for profile in Profile::ALL {
            write!(f, "{separator}{profile}")?;
            separator = ", ";
        }
        Ok(())
    }
}

impl core::error::Error for UnknownProfile {}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn names_round_trip_and_defaults_are_allowed() {
        for profile in Profile::ALL {
            assert_eq!(profile.to_string().parse(), Ok(profile));
            assert!(profile.has_size(profile.default_size()), "{profile}");
        }
        let unknown = "ketama".parse::<Profile>().unwrap_err().to_string();
        assert!(unknown.contains("ketama") && unknown.contains("katran-v2"), "{unknown}");
    }
}
