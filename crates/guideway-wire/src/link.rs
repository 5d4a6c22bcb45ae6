//! The Ethernet header with its tags, taken out of a frame and put back.

use crate::ethernet::{EtherType, EthernetHeader, MacAddr, VlanTag};
use crate::packet::{Packet, PacketRead};

/// An Ethernet header with up to two VLAN tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    ethernet: EthernetHeader,
    outer: VlanTag,
    inner: VlanTag,
    length: usize,
}

impl Link {
    /// Reads the header of `length` bytes (14, 18 or 22) at the front of a frame.
    #[inline(always)]
    pub(crate) fn read<P: PacketRead + ?Sized>(packet: &P, length: usize) -> Option<Self> {
        let none = VlanTag { control: 0.into(), ethertype: 0.into() };
        let ethernet = packet.read(0)?;
        let outer = if length > EthernetHeader::LEN { packet.read(EthernetHeader::LEN)? } else { none };
        let inner = if length > ONE_TAG { packet.read(ONE_TAG)? } else { none };
        Some(Self { ethernet, outer, inner, length })
    }

    /// Writes the header back to the front of a frame.
    #[inline(always)]
    pub(crate) fn write<P: Packet>(&self, packet: &mut P) -> Option<()> {
        packet.write(0, &self.ethernet)?;
        if self.length > EthernetHeader::LEN {
            packet.write(EthernetHeader::LEN, &self.outer)?;
        }
        if self.length > ONE_TAG {
            packet.write(ONE_TAG, &self.inner)?;
        }
        Some(())
    }

    /// This header with other addresses.
    #[inline(always)]
    pub(crate) fn between(mut self, source: MacAddr, destination: MacAddr) -> Self {
        self.ethernet.source = source;
        self.ethernet.destination = destination;
        self
    }

    /// This header on its way back.
    #[inline(always)]
    pub(crate) fn turned(self) -> Self {
        self.between(self.ethernet.destination, self.ethernet.source)
    }

    /// This header announcing something else behind its tags.
    #[inline(always)]
    pub(crate) fn announcing(mut self, ethertype: EtherType) -> Self {
        let ethertype = ethertype.0.into();
        if self.length > ONE_TAG {
            self.inner.ethertype = ethertype;
        } else if self.length > EthernetHeader::LEN {
            self.outer.ethertype = ethertype;
        } else {
            self.ethernet.ethertype = ethertype;
        }
        self
    }
}

/// Length of an Ethernet header with one tag.
const ONE_TAG: usize = EthernetHeader::LEN + VlanTag::LEN;
