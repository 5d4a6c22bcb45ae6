//! Service look-up: exact address and port, any port of an address, and prefixes by longest match.

use std::collections::{BTreeSet, HashMap};

use guideway_forward::record::{ServiceId, ServiceKey, Vip};

use crate::exact::{Index, Key, mix};

/// Where a service listens, in the terms of the packet path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Binding {
    /// The virtual address, or the first of the prefix; IPv4 as `::ffff:a.b.c.d`.
    pub address: [u8; 16],
    /// Significant bits of `address`, 128 for one address; an IPv4 prefix counts 96 more.
    pub prefix_bits: u8,
    /// The port in host order; 0 is any port.
    pub port: u16,
    /// The IP protocol number.
    pub protocol: u8,
    /// The service that listens there.
    pub service: ServiceId,
}

/// All bindings, indexed. Immutable: a change builds another.
#[derive(Debug)]
pub struct Lookup {
    exact: Index<ServiceKey, ServiceId>,
    addresses: Index<Masked, Vip>,
    /// Longest prefix first.
    prefixes: Vec<PrefixLength>,
    bindings: Vec<Binding>,
}

/// The prefix services of one prefix length.
#[derive(Debug)]
struct PrefixLength {
    bits: u8,
    services: Index<ServiceKey, ServiceId>,
    addresses: Index<Masked, Vip>,
}

impl Lookup {
    /// Indexes the bindings. Of two that are alike the later wins; who calls this refuses such pairs before.
    pub fn build(bindings: &[Binding]) -> Self {
        let around = Around::build(bindings);
        let single: Vec<_> = bindings.iter().filter(|binding| binding.prefix_bits == 128).collect();
        let mut lengths: Vec<u8> =
            bindings.iter().map(|binding| binding.prefix_bits).filter(|&bits| bits < 128).collect();
        lengths.sort_unstable_by(|a, b| b.cmp(a));
        lengths.dedup();
        let prefixes = lengths
            .into_iter()
            .map(|bits| {
                let of_length: Vec<_> =
                    bindings.iter().filter(|binding| binding.prefix_bits == bits).collect();
                PrefixLength {
                    bits,
                    services: Index::build(of_length.iter().map(|binding| (binding.key(), binding.service))),
                    addresses: around.index(&of_length),
                }
            })
            .collect();
        Self {
            exact: Index::build(single.iter().map(|binding| (binding.key(), binding.service))),
            addresses: around.index(&single),
            prefixes,
            bindings: bindings.to_vec(),
        }
    }

    /// The service of exactly this key.
    #[inline]
    pub fn exact(&self, key: &ServiceKey) -> Option<ServiceId> {
        self.exact.find(key)
    }

    /// The service of the longest prefix that holds the key's address, with the key's own port.
    #[inline]
    pub fn prefix(&self, key: &ServiceKey) -> Option<ServiceId> {
        self.prefixes.iter().find_map(|length| {
            length.services.find(&ServiceKey { address: mask(key.address, length.bits), ..*key })
        })
    }

    /// What is known of an address, if it is virtual.
    #[inline]
    pub fn vip(&self, address: &[u8; 16]) -> Option<Vip> {
        self.addresses.find(&Masked(*address)).or_else(|| {
            self.prefixes
                .iter()
                .find_map(|length| length.addresses.find(&Masked(mask(*address, length.bits))))
        })
    }

    /// Whether some service listens on every port of an address.
    pub fn has_any_port(&self) -> bool {
        self.bindings.iter().any(|binding| binding.port == 0)
    }

    /// Whether some service listens on a prefix.
    pub fn has_prefixes(&self) -> bool {
        !self.prefixes.is_empty()
    }

    /// What this was built from.
    pub fn bindings(&self) -> &[Binding] {
        &self.bindings
    }

    /// Bytes held.
    pub fn memory_bytes(&self) -> usize {
        let prefixes: usize = self
            .prefixes
            .iter()
            .map(|length| length.services.memory_bytes() + length.addresses.memory_bytes())
            .sum();
        self.exact.memory_bytes()
            + self.addresses.memory_bytes()
            + prefixes
            + size_of_val(self.bindings.as_slice())
    }
}

/// All services of each prefix of each length, whatever the port.
#[derive(Default)]
struct Around {
    /// By length and address.
    vips: HashMap<(u8, [u8; 16]), Vip>,
    lengths: BTreeSet<u8>,
}

impl Around {
    fn build(bindings: &[Binding]) -> Self {
        let mut around = Self::default();
        for binding in bindings {
            let prefix = (binding.prefix_bits, mask(binding.address, binding.prefix_bits));
            let vip = around.vips.entry(prefix).or_insert(Vip::EMPTY);
            *vip = vip.with(binding.protocol, binding.service);
            around.lengths.insert(binding.prefix_bits);
        }
        around
    }

    /// What is known of a binding's address or prefix: by itself, and by all prefixes around it.
    fn vip(&self, binding: &Binding) -> Vip {
        let wider = self.lengths.range(..=binding.prefix_bits);
        wider
            .filter_map(|&bits| self.vips.get(&(bits, mask(binding.address, bits))))
            .fold(Vip::EMPTY, |vip, other| vip.with(6, other.tcp).with(17, other.udp))
    }

    /// The same of each of these bindings.
    fn index(&self, of: &[&Binding]) -> Index<Masked, Vip> {
        let vip =
            |binding: &&Binding| (Masked(mask(binding.address, binding.prefix_bits)), self.vip(binding));
        Index::build(of.iter().map(vip))
    }
}

/// What is known of the address or prefix of each binding, by itself and by all prefixes around it: the address, its
/// significant bits, and that.
pub fn vips(bindings: &[Binding]) -> impl Iterator<Item = ([u8; 16], u8, Vip)> + '_ {
    let around = Around::build(bindings);
    bindings.iter().map(move |binding| {
        (mask(binding.address, binding.prefix_bits), binding.prefix_bits, around.vip(binding))
    })
}

impl Binding {
    /// The key that it is found by, with the bits after the prefix cleared.
    pub fn key(&self) -> ServiceKey {
        ServiceKey::new(mask(self.address, self.prefix_bits), self.port, self.protocol)
    }
}

/// An address, or what a prefix length leaves of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Masked([u8; 16]);

impl Key for Masked {
    #[inline]
    fn spread(&self) -> u64 {
        let (high, low) = words(self.0);
        mix(high, low, 0)
    }
}

impl Key for ServiceKey {
    #[inline]
    fn spread(&self) -> u64 {
        let (high, low) = words(self.address);
        mix(high, low, u64::from(u16::from_be_bytes(self.port)) << 8 | u64::from(self.protocol))
    }
}

#[inline]
fn words(address: [u8; 16]) -> (u64, u64) {
    let whole = u128::from_be_bytes(address);
    ((whole >> 64) as u64, whole as u64)
}

#[inline]
fn mask(address: [u8; 16], bits: u8) -> [u8; 16] {
    let keep = u128::MAX.checked_shl(128 - u32::from(bits.min(128))).unwrap_or(0);
    (u128::from_be_bytes(address) & keep).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use guideway_forward::record::{NO_SERVICE, SEVERAL_SERVICES};

    use super::*;

    fn v4(a: u8, b: u8, c: u8, d: u8) -> [u8; 16] {
        std::net::Ipv4Addr::new(a, b, c, d).to_ipv6_mapped().octets()
    }

    fn binding(address: [u8; 16], prefix_bits: u8, port: u16, protocol: u8, service: u16) -> Binding {
        Binding { address, prefix_bits, port, protocol, service: ServiceId(service) }
    }

    #[test]
    fn the_longest_prefix_wins_whatever_the_order() {
        let mut bindings = vec![
            binding(v4(10, 0, 0, 0), 96 + 8, 80, 6, 1),
            binding(v4(10, 1, 0, 0), 96 + 16, 80, 6, 2),
            binding(v4(10, 1, 1, 1), 128, 80, 6, 3),
        ];
        for _ in 0..bindings.len() {
            bindings.rotate_left(1);
            let lookup = Lookup::build(&bindings);
            let prefix = |address| lookup.prefix(&ServiceKey::new(address, 80, 6));
            assert_eq!(prefix(v4(10, 9, 9, 9)), Some(ServiceId(1)));
            assert_eq!(prefix(v4(10, 1, 9, 9)), Some(ServiceId(2)));
            assert_eq!(prefix(v4(11, 1, 9, 9)), None);
            assert_eq!(lookup.exact(&ServiceKey::new(v4(10, 1, 1, 1), 80, 6)), Some(ServiceId(3)));
            assert_eq!(lookup.exact(&ServiceKey::new(v4(10, 1, 1, 1), 81, 6)), None);
        }
    }

    #[test]
    fn an_address_names_its_only_service_of_a_protocol() {
        let lookup = Lookup::build(&[
            binding(v4(192, 0, 2, 1), 128, 53, 17, 1),
            binding(v4(192, 0, 2, 1), 128, 80, 6, 2),
            binding(v4(192, 0, 2, 1), 128, 443, 6, 3),
        ]);
        let vip = lookup.vip(&v4(192, 0, 2, 1)).unwrap();
        assert_eq!(vip, Vip { tcp: SEVERAL_SERVICES, udp: ServiceId(1) });
        assert_eq!(lookup.vip(&v4(192, 0, 2, 2)), None);
    }

    #[test]
    fn a_service_on_several_ports_is_one_service() {
        let lookup = Lookup::build(&[
            binding(v4(192, 0, 2, 1), 128, 80, 6, 2),
            binding(v4(192, 0, 2, 1), 128, 443, 6, 2),
        ]);
        assert_eq!(lookup.vip(&v4(192, 0, 2, 1)).unwrap().tcp, ServiceId(2));
    }

    #[test]
    fn a_prefix_around_an_address_makes_its_protocol_ambiguous() {
        let lookup = Lookup::build(&[
            binding(v4(192, 0, 2, 0), 96 + 24, 0, 17, 1),
            binding(v4(192, 0, 2, 1), 128, 53, 17, 2),
        ]);
        let vip = |last| lookup.vip(&v4(192, 0, 2, last)).unwrap();
        assert_eq!((vip(1).udp, vip(9).udp), (SEVERAL_SERVICES, ServiceId(1)));
        assert_eq!((vip(1).tcp, vip(9).tcp), (NO_SERVICE, NO_SERVICE));
        assert!(lookup.has_any_port() && lookup.has_prefixes());
    }

    #[test]
    fn the_empty_prefix_holds_everything() {
        let lookup = Lookup::build(&[binding([0; 16], 0, 0, 6, 4)]);
        assert!(lookup.vip(&[0xff; 16]).is_some());
        let key = ServiceKey::new([0xff; 16], 0, 6);
        assert_eq!(lookup.prefix(&key), Some(ServiceId(4)));
    }
}
