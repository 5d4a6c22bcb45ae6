//! A profile's parameters, read from names and values as text.

use alloc::{string::String, vec::Vec};

use super::{ParamError, Profile, cilium::Seeds, katran::PortRules};
use crate::hash::native::DEFAULT_SEED;

/// What a profile can be told besides its size and members.
///
/// [`Params::default`] has every system's own defaults. [`Params::parse`] reads the text form that configuration
/// files, command lines and golden records have, and refuses a name that the profile doesn't know. Fields that
/// belong to other profiles have no effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Params {
    /// `native`: the seed of its hash.
    pub seed: u64,
    /// `envoy`: hash a member's host name where it has one, not its address.
    pub use_hostname_for_hashing: bool,
    /// `envoy`: weights of the localities that members name. `None` or empty: localities don't count.
    pub locality_weights: Option<Vec<u32>>,
    /// `cilium`: the agents' common seeds.
    pub seeds: Seeds,
    /// `cilium`: session affinity is on, so the client's port stays out of the flow hash.
    pub session_affinity: bool,
    /// `katran-v1`, `katran-v2`: the flags of the VIP that change which ports and addresses are hashed.
    pub port_rules: PortRules,
    /// `ipvs-mh`: the order in which the kernel's list holds the members.
    pub list_order: ListOrder,
    /// `ipvs-mh`: the director's word size, which chooses between its two hashes.
    pub kernel_bits: KernelBits,
    /// `ipvs-mh`: the client's port takes part in the flow hash (scheduler flag `mh-port`).
    pub mh_port: bool,
    /// `ipvs-mh`: values that follow from size and weights, to be checked against what does follow.
    pub stated: Stated,
    /// `vpp`, `vpp-26.02`: ports stay out of the flow hash.
    pub src_ip_sticky: bool,
    /// `vpp`, `vpp-26.02`: which of its two flow hashes the machine has.
    pub vpp_flow_hash: VppFlowHash,
    /// `go-maglev`: places in the input that take no turn, ascending.
    pub dead: Vec<u32>,
    /// `glb`: the 16-byte table seed.
    pub table_seed: [u8; 16],
    /// `glb`: the 16-byte key of the flow hash.
    pub hash_key: [u8; 16],
}

/// How the members lie in the kernel's list of destinations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ListOrder {
    /// The last member first, as the kernel's list is after members were added in input order.
    #[default]
    Reverse,
    /// As given.
    Input,
}

/// The word size of a director's kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KernelBits {
    /// 32 bits: HalfSipHash-1-3.
    Bits32,
    /// 64 bits: SipHash-1-3.
    #[default]
    Bits64,
}

/// The flow hash that a VPP machine computes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VppFlowHash {
    /// CRC-32C, where the processor has an instruction for it (SSE 4.2, Armv8 CRC).
    #[default]
    Crc32c,
    /// `clib_xxhash`, where it has none.
    Xxhash,
}

/// Values that `ipvs-mh` derives and that a record may state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stated {
    /// The Kconfig index of the table size, 8 to 17.
    pub tab_index: Option<u64>,
    /// Half of it, rounded down.
    pub tab_bits: Option<u64>,
    /// The greatest common divisor of the weights.
    pub gcd: Option<u64>,
    /// By how many bits turns are shifted right.
    pub rshift: Option<u64>,
}

impl Default for Params {
    fn default() -> Self {
        Self {
            seed: DEFAULT_SEED,
            use_hostname_for_hashing: false,
            locality_weights: None,
            seeds: Seeds::DEFAULT,
            session_affinity: false,
            port_rules: PortRules::default(),
            list_order: ListOrder::default(),
            kernel_bits: KernelBits::default(),
            mh_port: false,
            stated: Stated::default(),
            src_ip_sticky: false,
            vpp_flow_hash: VppFlowHash::default(),
            dead: Vec::new(),
            table_seed: [0; 16],
            hash_key: [0; 16],
        }
    }
}

impl Params {
    /// Reads `pairs` of names and values for `profile`. Names are those of [`Profile::params`].
    ///
    /// Numbers are decimal or, after `0x`, hexadecimal; lists are written `[1,2,3]`; keys of 16 bytes are 32
    /// hexadecimal digits.
    ///
    /// # Errors
    /// [`ParamError`] for a name that the profile doesn't have, one that is given twice, or a value that can't be
    /// read.
    pub fn parse<'a>(
        profile: Profile,
        pairs: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, ParamError> {
        let mut params = Self::default();
        let mut seen: Vec<&str> = Vec::new();
        let mut stated_seeds = [None; 3];
        for (given, value) in pairs {
            let known = profile.params();
            let Some(&name) = known.iter().find(|&&name| name == given) else {
                return Err(ParamError::Unknown { profile, name: given.into(), known });
            };
            if seen.contains(&name) {
                return Err(ParamError::Twice { name: name.into() });
            }
            seen.push(name);
            params.set(Text { name, value: value.trim() }, &mut stated_seeds)?;
        }
        params.settle_seeds(&seen, stated_seeds)?;
        Ok(params)
    }

    fn set(&mut self, text: Text<'_>, stated_seeds: &mut [Option<u32>; 3]) -> Result<(), ParamError> {
        match text.name {
            "seed" => self.seed = text.number(u64::MAX)?,
            "use_hostname_for_hashing" => self.use_hostname_for_hashing = text.flag()?,
            "locality_weights" => self.locality_weights = Some(text.list()?),
            "hash_seed" => {
                self.seeds =
                    Seeds::from_base64(text.value).ok_or_else(|| text.unreadable("base64 of 12 bytes"))?;
            }
            "seed_murmur" => stated_seeds[0] = Some(text.number_u32()?),
            "seed_jhash0" => stated_seeds[1] = Some(text.number_u32()?),
            "seed_jhash1" => stated_seeds[2] = Some(text.number_u32()?),
            "session_affinity" => self.session_affinity = text.flag()?,
            "hash_no_src_port" => self.port_rules.no_source_port = text.flag()?,
            "hash_dport_only" => self.port_rules.destination_port_only = text.flag()?,
            "port_0_vip" => self.port_rules.port_0_vip = text.flag()?,
            "hash_src_dst_port" => self.port_rules.source_and_destination_port = text.flag()?,
            "list_order" => {
                // Records explain themselves after the first word.
                self.list_order = match text.value.split_whitespace().next() {
                    Some("reverse" | "reversed") => ListOrder::Reverse,
                    Some("input") => ListOrder::Input,
                    _ => return Err(text.unreadable("`reverse` or `input`")),
                };
            }
            "kernel_bits" => {
                self.kernel_bits = match text.value {
                    "32" => KernelBits::Bits32,
                    "64" => KernelBits::Bits64,
                    _ => return Err(text.unreadable("32 or 64")),
                };
            }
            "mh_port" => self.mh_port = text.flag()?,
            "tab_index" => self.stated.tab_index = Some(text.number(u64::MAX)?),
            "tab_bits" => self.stated.tab_bits = Some(text.number(u64::MAX)?),
            "gcd" => self.stated.gcd = Some(text.number(u64::MAX)?),
            "rshift" => self.stated.rshift = Some(text.number(u64::MAX)?),
            "src_ip_sticky" => self.src_ip_sticky = text.flag()?,
            "flow_hash" => {
                self.vpp_flow_hash = match text.value {
                    "crc32c" => VppFlowHash::Crc32c,
                    "xxhash" => VppFlowHash::Xxhash,
                    _ => return Err(text.unreadable("`crc32c` or `xxhash`")),
                };
            }
            "dead" => self.dead = text.list()?,
            "table_seed" => self.table_seed = text.key()?,
            "hash_key" => self.hash_key = text.key()?,
            // Every name that a profile lists has an arm above; a test walks through all of them.
            _ => return Err(text.unreadable("a parameter that this version reads")),
        }
        Ok(())
    }

    /// The three words of a Cilium seed may stand in for the base64 text, or restate it.
    fn settle_seeds(&mut self, seen: &[&str], stated: [Option<u32>; 3]) -> Result<(), ParamError> {
        let text_given = seen.contains(&"hash_seed");
        let fields = [&mut self.seeds.murmur, &mut self.seeds.jhash_v4, &mut self.seeds.jhash_v6];
        for ((field, stated), name) in
            fields.into_iter().zip(stated).zip(["seed_murmur", "seed_jhash0", "seed_jhash1"])
        {
            match stated {
                Some(stated) if text_given && stated != *field => {
                    return Err(ParamError::Contradiction {
                        name,
                        stated: stated.into(),
                        derived: (*field).into(),
                    });
                }
                Some(stated) => *field = stated,
                None => {}
            }
        }
        Ok(())
    }
}

/// A value on its way from text.
#[derive(Clone, Copy)]
struct Text<'a> {
    name: &'static str,
    value: &'a str,
}

impl Text<'_> {
    fn unreadable(&self, wanted: &'static str) -> ParamError {
        ParamError::Value { name: self.name, value: String::from(self.value), wanted }
    }

    fn number(&self, max: u64) -> Result<u64, ParamError> {
        let digits = self.value.strip_prefix("0x").or_else(|| self.value.strip_prefix("0X"));
        digits
            .map_or_else(|| self.value.parse(), |digits| u64::from_str_radix(digits, 16))
            .ok()
            .filter(|&number| number <= max && !self.value.contains('+'))
            .ok_or_else(|| self.unreadable("a whole number in range, decimal or after 0x hexadecimal"))
    }

    fn number_u32(&self) -> Result<u32, ParamError> {
        self.number(u32::MAX.into()).map(|number| number as u32)
    }

    fn flag(&self) -> Result<bool, ParamError> {
        match self.value {
            "true" | "1" => Ok(true),
            "false" | "0" => Ok(false),
            _ => Err(self.unreadable("`true` or `false`")),
        }
    }

    fn list(&self) -> Result<Vec<u32>, ParamError> {
        let wanted = || self.unreadable("a list of whole numbers such as [50,30,20]");
        let inside =
            self.value.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).ok_or_else(wanted)?;
        if inside.trim().is_empty() {
            return Ok(Vec::new());
        }
        inside.split(',').map(|item| item.trim().parse().map_err(|_| wanted())).collect()
    }

    fn key(&self) -> Result<[u8; 16], ParamError> {
        let wanted = || self.unreadable("16 bytes as 32 hexadecimal digits");
        if self.value.len() != 32 || !self.value.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(wanted());
        }
        u128::from_str_radix(self.value, 16).map(u128::to_be_bytes).map_err(|_| wanted())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_listed_parameter_is_read() {
        for profile in Profile::ALL {
            for &name in profile.params() {
                let values = [
                    "1",
                    "true",
                    "64",
                    "[1]",
                    "reverse",
                    "crc32c",
                    "JLfvgnHc2kaSUFaI",
                    "00112233445566778899aabbccddeeff",
                ];
                assert!(
                    values.into_iter().any(|value| Params::parse(profile, [(name, value)]).is_ok()),
                    "{profile}: {name} takes none of {values:?}"
                );
                assert!(Params::parse(profile, [(name, "?")]).is_err(), "{profile}: {name} takes anything");
                assert!(Params::parse(profile, [(name, "")]).is_err(), "{profile}: {name} takes nothing");
            }
            let refused = Params::parse(profile, [("wieght", "1")]);
            assert!(matches!(refused, Err(ParamError::Unknown { .. })), "{profile}: {refused:?}");
        }
    }

    #[test]
    fn seed_words_must_agree_with_the_seed_text() {
        let text = ("hash_seed", "JLfvgnHc2kaSUFaI");
        let good = Params::parse(Profile::Cilium, [("seed_murmur", "0x24b7ef82"), text]).unwrap();
        assert_eq!(good.seeds, Seeds::DEFAULT);
        let bad = Params::parse(Profile::Cilium, [text, ("seed_jhash0", "1")]);
        assert!(matches!(bad, Err(ParamError::Contradiction { name: "seed_jhash0", .. })), "{bad:?}");
        let alone = Params::parse(Profile::Cilium, [("seed_murmur", "7")]).unwrap();
        assert_eq!(alone.seeds.murmur, 7);
    }

    #[test]
    fn twice_is_refused() {
        let twice = Params::parse(Profile::GoMaglev, [("dead", "[]"), ("dead", "[1]")]);
        assert!(matches!(twice, Err(ParamError::Twice { .. })), "{twice:?}");
    }
}
