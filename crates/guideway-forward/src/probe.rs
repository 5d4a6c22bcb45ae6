//! A health probe's way into the tunnel: it leaves by the very encapsulation that a client's packet gets.
//!
//! A probe is an ordinary connection of the balancer to the virtual address, on a socket whose mark names the backend. The
//! socket belongs to the interface that probes leave by, so an answer that comes by another one has to be brought there.

use guideway_wire::ethernet::EthernetHeader;
use guideway_wire::ipv4::Ipv4Header;
use guideway_wire::ipv6::Ipv6Header;
use guideway_wire::{Address, EtherType, FlowHasher, HashKey, Packet, PacketRead, Parsed};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::outcome::{Drop, Outcome, Verdict};
use crate::process::layers;
use crate::record::{Backend, BackendState};
use crate::send::wrap;

/// The probes to find a backend for.
pub trait Probes {
    /// The backend that a mark names.
    fn backend(&self, mark: u32) -> Option<&Backend>;

    /// Whether probes go to this address; IPv4 as `::ffff:a.b.c.d`.
    fn is_vip(&self, address: &[u8; 16]) -> bool;
}

/// What became of a packet that leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeOutcome {
    /// It is no probe, and as it was.
    NoProbe,
    /// Encapsulated, to leave by this interface.
    Encapsulated(u32),
    /// It cannot get there.
    Dropped(Drop),
}

/// The interface that probes leave by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct Home {
    /// Its index; 0 where there is none.
    pub interface: u32,
    /// Its MAC address: it takes what is for that one.
    pub mac: [u8; 6],
    /// Nothing.
    pub unused: [u8; 2],
}

/// Whether a packet that comes in may be what a backend answers a probe: it is from a virtual address. Of any protocol, as
/// errors are answers too.
#[inline(always)]
pub fn is_answer<P: PacketRead + ?Sized, S: Probes>(packet: &P, probes: &S) -> bool {
    let Some(link) = packet.read::<EthernetHeader>(0) else {
        return false;
    };
    let from = match link.ethertype() {
        EtherType::IPV4 => packet.read(EthernetHeader::LEN).map(|ip: Ipv4Header| Address::v4(ip.source)),
        EtherType::IPV6 => packet.read(EthernetHeader::LEN).map(|ip: Ipv6Header| Address::v6(ip.source)),
        _ => None,
    };
    from.is_some_and(|from| probes.is_vip(&from.octets()))
}

/// Encapsulates what goes to a virtual address with a mark that names a backend.
#[inline(always)]
pub fn encapsulate<P: Packet, S: Probes>(packet: &mut P, mark: u32, probes: &S) -> ProbeOutcome {
    if mark == 0 {
        return ProbeOutcome::NoProbe;
    }
    let parsed = &mut { Parsed::EMPTY };
    if layers(packet, parsed).is_err() {
        return ProbeOutcome::NoProbe;
    }
    if !probes.is_vip(&parsed.key.dst.octets()) {
        return ProbeOutcome::NoProbe;
    }
    let Some(backend) = probes.backend(mark) else {
        return ProbeOutcome::NoProbe;
    };
    let status = backend.status();
    if matches!(status.state(), BackendState::Free) {
        return ProbeOutcome::Dropped(Drop::StaleSlot);
    }
    if parsed.ip_length > status.room() {
        return ProbeOutcome::Dropped(Drop::TooBig);
    }
    // No seed: the hash only spreads probes over the ways to the backend.
    let hash = FlowHasher::new(0).hash(&parsed.key, HashKey::FiveTuple);
    let mut interface = 0;
    match wrap(packet, parsed, backend, hash, &mut interface) {
        Outcome::Forwarded => ProbeOutcome::Encapsulated(interface),
        outcome => match outcome.ending() {
            Some(Verdict::Drop(reason)) => ProbeOutcome::Dropped(reason),
            _ => ProbeOutcome::Dropped(Drop::Truncated),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;
    use std::vec;
    use std::vec::Vec;

    use super::*;

    const VIP: [u8; 4] = [192, 0, 2, 10];

    struct Vips([Address; 2]);

    impl Probes for Vips {
        fn backend(&self, _: u32) -> Option<&Backend> {
            None
        }

        fn is_vip(&self, address: &[u8; 16]) -> bool {
            self.0.iter().any(|vip| vip.octets() == *address)
        }
    }

    /// A frame of this type from this address, which lies so far behind the Ethernet header.
    fn frame(ethertype: EtherType, at: usize, from: &[u8]) -> Vec<u8> {
        let mut frame = vec![0; EthernetHeader::LEN + Ipv6Header::LEN];
        frame[12..14].copy_from_slice(&ethertype.0.to_be_bytes());
        frame[EthernetHeader::LEN + at..][..from.len()].copy_from_slice(from);
        frame
    }

    #[test]
    fn an_answer_is_what_comes_from_a_virtual_address() {
        let v6 = "2001:db8::10".parse::<Ipv6Addr>().unwrap().octets();
        let vips = Vips([Address::v4(VIP), Address::v6(v6)]);
        let is_answer = |frame: &[u8]| is_answer(frame, &vips);
        assert!(is_answer(&frame(EtherType::IPV4, 12, &VIP)));
        assert!(is_answer(&frame(EtherType::IPV6, 8, &v6)));
        assert!(!is_answer(&frame(EtherType::IPV4, 16, &VIP)), "it goes there");
        assert!(!is_answer(&frame(EtherType::IPV4, 12, &[192, 0, 2, 11])));
        assert!(!is_answer(&frame(EtherType::ARP, 12, &VIP)));
        assert!(!is_answer(&frame(EtherType::IPV6, 12, &VIP)));
        assert!(!is_answer(&frame(EtherType::IPV4, 12, &VIP)[..EthernetHeader::LEN + 19]), "cut off");
    }
}
