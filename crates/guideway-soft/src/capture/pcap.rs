//! The classic format (draft-ietf-opsawg-pcap).

use std::io::Read;

use super::error::Fault;
use super::input::{Input, Order};
use super::link::LinkType;
use super::{Seen, read_data};

/// The file header after its magic number: version, two unused words, snap length, link type.
const HEADER_WORDS: usize = 5;

pub(super) struct Pcap {
    order: Order,
    ns_per_fraction: u64,
    link_type: LinkType,
}

impl Pcap {
    pub(super) fn open(magic: [u8; 4], input: &mut Input<impl Read>) -> Result<Self, Fault> {
        let (order, ns_per_fraction) = match magic {
            [0xd4, 0xc3, 0xb2, 0xa1] => (Order::Little, 1000),
            [0xa1, 0xb2, 0xc3, 0xd4] => (Order::Big, 1000),
            [0x4d, 0x3c, 0xb2, 0xa1] => (Order::Little, 1),
            [0xa1, 0xb2, 0x3c, 0x4d] => (Order::Big, 1),
            [0x34, 0xcd, 0xb2, 0xa1] | [0xa1, 0xb2, 0xcd, 0x34] => {
                return Err(Fault::NotACapture(
                    "it is the old `modified` pcap: convert it with editcap -F pcap",
                ));
            }
            _ => return Err(Fault::NotACapture("it begins with none of their magic numbers")),
        };
        let mut header = [[0; 4]; HEADER_WORDS];
        input.exact(header.as_flattened_mut())?;
        // The high bits tell of a frame check sequence; the link type is the low 16 (section 4 of the draft).
        let link = order.u32(header[4]) & 0xffff;
        Ok(Self { order, ns_per_fraction, link_type: LinkType(link) })
    }

    pub(super) fn next(
        &mut self,
        input: &mut Input<impl Read>,
        data: &mut Vec<u8>,
    ) -> Result<Option<Seen>, Fault> {
        let mut header = [[0; 4]; 4];
        if !input.exact_or_end(header.as_flattened_mut())? {
            return Ok(None);
        }
        let [seconds, fraction, captured, original] = self.order.words(&header);
        read_data(input, captured, data)?;
        let timestamp_ns = u64::from(seconds) * 1_000_000_000 + u64::from(fraction) * self.ns_per_fraction;
        Ok(Some(Seen { timestamp_ns, original_len: original, link_type: self.link_type }))
    }
}
