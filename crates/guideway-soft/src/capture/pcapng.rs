//! The block format (draft-ietf-opsawg-pcapng).

use std::io::Read;

use super::error::Fault;
use super::input::{Input, Order};
use super::link::LinkType;
use super::{Seen, read_data};

/// The type of a section header block; the same in either byte order.
pub(super) const SECTION_HEADER: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];

const INTERFACE: u32 = 1;
const OBSOLETE_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;

const OPTION_END: u16 = 0;
const OPTION_TSRESOL: u16 = 9;
const OPTION_TSOFFSET: u16 = 14;

/// Type, length, and the length again at the end.
const FRAME: u32 = 12;

/// A description of an interface that is longer than this is not meant.
const MAX_INTERFACE_BLOCK: u32 = 1 << 20;

/// More interfaces than this would be a way to fill memory.
const MAX_INTERFACES: usize = 1 << 16;

pub(super) struct PcapNg {
    order: Order,
    interfaces: Vec<Interface>,
    last_ns: u64,
}

#[derive(Clone, Copy)]
struct Interface {
    link_type: LinkType,
    snap_len: u32,
    ticks_per_second: u128,
    offset_seconds: i64,
}

impl Interface {
    /// Nanoseconds since 1970; what 64 bits cannot hold is held at their end.
    fn nanoseconds(&self, high: u32, low: u32) -> u64 {
        let ticks = u128::from(high) << 32 | u128::from(low);
        let ns = ticks * 1_000_000_000 / self.ticks_per_second;
        let ns = i128::try_from(ns).unwrap_or(i128::MAX);
        let ns = ns.saturating_add(i128::from(self.offset_seconds) * 1_000_000_000);
        u64::try_from(ns.max(0)).unwrap_or(u64::MAX)
    }
}

impl PcapNg {
    /// Reads the section header, after its type.
    pub(super) fn open(input: &mut Input<impl Read>) -> Result<Self, Fault> {
        let mut format = Self { order: Order::Little, interfaces: Vec::new(), last_ns: 0 };
        format.section(input)?;
        Ok(format)
    }

    pub(super) fn next(
        &mut self,
        input: &mut Input<impl Read>,
        data: &mut Vec<u8>,
    ) -> Result<Option<Seen>, Fault> {
        loop {
            let start = input.position();
            let mut kind = [0; 4];
            if !input.exact_or_end(&mut kind)? {
                return Ok(None);
            }
            if kind == SECTION_HEADER {
                self.section(input)?;
                continue;
            }
            let length = self.word(input)?;
            check_length(start, length)?;
            let body = length - FRAME;
            let kind = self.order.u32(kind);
            let seen = match kind {
                INTERFACE => {
                    self.interface(input, start, body)?;
                    None
                }
                ENHANCED_PACKET | OBSOLETE_PACKET => Some(self.stamped(input, start, (kind, body), data)?),
                SIMPLE_PACKET => Some(self.simple(input, start, body, data)?),
                _ => {
                    input.skip(u64::from(body))?;
                    None
                }
            };
            self.close(input, start, length)?;
            if seen.is_some() {
                return Ok(seen);
            }
        }
    }

    fn word(&self, input: &mut Input<impl Read>) -> Result<u32, Fault> {
        let mut word = [0; 4];
        input.exact(&mut word)?;
        Ok(self.order.u32(word))
    }

    /// The length at the end of a block, which must be that at its start.
    fn close(&self, input: &mut Input<impl Read>, start: u64, length: u32) -> Result<(), Fault> {
        if self.word(input)? != length {
            return Err(Fault::Bad { offset: start, what: "the two lengths of the block differ" });
        }
        Ok(())
    }

    fn section(&mut self, input: &mut Input<impl Read>) -> Result<(), Fault> {
        let start = input.position() - 4;
        let mut header = [[0; 4]; 2];
        input.exact(header.as_flattened_mut())?;
        let [length, magic] = header;
        self.order = match magic {
            [0x4d, 0x3c, 0x2b, 0x1a] => Order::Little,
            [0x1a, 0x2b, 0x3c, 0x4d] => Order::Big,
            _ => return Err(Fault::Bad { offset: start, what: "the section header has no byte order" }),
        };
        let length = self.order.u32(length);
        check_length(start, length)?;
        let Some(rest) = length.checked_sub(FRAME + 4) else {
            return Err(Fault::Bad { offset: start, what: "the section header is too short" });
        };
        input.skip(u64::from(rest))?;
        self.close(input, start, length)?;
        // Interfaces are numbered anew in each section.
        self.interfaces.clear();
        Ok(())
    }

    fn interface(&mut self, input: &mut Input<impl Read>, start: u64, body: u32) -> Result<(), Fault> {
        if !(8..=MAX_INTERFACE_BLOCK).contains(&body) {
            return Err(Fault::Bad { offset: start, what: "the interface block has an impossible length" });
        }
        if self.interfaces.len() >= MAX_INTERFACES {
            return Err(Fault::Bad { offset: start, what: "there are more than 65536 interfaces" });
        }
        let mut block = vec![0; body as usize];
        input.exact(&mut block)?;
        let (head, mut options) = block.split_at(8);
        let mut interface = Interface {
            link_type: LinkType(u32::from(self.order.u16([head[0], head[1]]))),
            snap_len: self.order.u32([head[4], head[5], head[6], head[7]]),
            ticks_per_second: 1_000_000,
            offset_seconds: 0,
        };
        while let Some((&[a, b, c, d], rest)) = options.split_first_chunk() {
            let (code, length) = (self.order.u16([a, b]), usize::from(self.order.u16([c, d])));
            let Some(value) = rest.get(..length) else {
                return Err(Fault::Bad { offset: start, what: "an option of the interface block is cut" });
            };
            match (code, value) {
                (OPTION_END, _) => break,
                (OPTION_TSRESOL, &[resolution]) => {
                    let power = u32::from(resolution & 0x7f);
                    let base: u128 = if resolution & 0x80 == 0 { 10 } else { 2 };
                    interface.ticks_per_second = base.checked_pow(power).ok_or(Fault::Bad {
                        offset: start,
                        what: "the resolution of the time stamps is impossible",
                    })?;
                }
                (OPTION_TSOFFSET, &[a, b, c, d, e, f, g, h]) => {
                    let bytes = [a, b, c, d, e, f, g, h];
                    interface.offset_seconds = match self.order {
                        Order::Little => i64::from_le_bytes(bytes),
                        Order::Big => i64::from_be_bytes(bytes),
                    };
                }
                _ => {}
            }
            options = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        }
        self.interfaces.push(interface);
        Ok(())
    }

    /// A packet with its interface and stamp. In an obsolete block the interface has 16 bits, beside a count of drops.
    fn stamped(
        &mut self,
        input: &mut Input<impl Read>,
        start: u64,
        (kind, body): (u32, u32),
        data: &mut Vec<u8>,
    ) -> Result<Seen, Fault> {
        let mut head = [[0; 4]; 5];
        self.head(input, start, body, &mut head)?;
        let [first, high, low, captured, original] = self.order.words(&head);
        let [[a, b, ..], ..] = head;
        let number = if kind == OBSOLETE_PACKET { u32::from(self.order.u16([a, b])) } else { first };
        let interface = self.known(start, number)?;
        self.packet(input, start, body - 20, captured, data)?;
        self.last_ns = interface.nanoseconds(high, low);
        Ok(Seen { timestamp_ns: self.last_ns, original_len: original, link_type: interface.link_type })
    }

    /// A packet of the first interface, without a stamp; how much was captured follows from the snap length.
    fn simple(
        &mut self,
        input: &mut Input<impl Read>,
        start: u64,
        body: u32,
        data: &mut Vec<u8>,
    ) -> Result<Seen, Fault> {
        let mut head = [[0; 4]; 1];
        self.head(input, start, body, &mut head)?;
        let original = self.order.u32(head[0]);
        let interface = self.known(start, 0)?;
        let limit = if interface.snap_len == 0 { u32::MAX } else { interface.snap_len };
        let captured = original.min(limit).min(body - 4);
        self.packet(input, start, body - 4, captured, data)?;
        Ok(Seen { timestamp_ns: self.last_ns, original_len: original, link_type: interface.link_type })
    }

    fn head<const N: usize>(
        &self,
        input: &mut Input<impl Read>,
        start: u64,
        body: u32,
        head: &mut [[u8; 4]; N],
    ) -> Result<(), Fault> {
        if (body as usize) < 4 * N {
            return Err(Fault::Bad { offset: start, what: "the packet block is too short" });
        }
        input.exact(head.as_flattened_mut())
    }

    fn known(&self, start: u64, number: u32) -> Result<Interface, Fault> {
        self.interfaces.get(number as usize).copied().ok_or(Fault::Bad {
            offset: start,
            what: "the packet names an interface that no block describes",
        })
    }

    /// The packet's bytes, and past its padding and options.
    fn packet(
        &self,
        input: &mut Input<impl Read>,
        start: u64,
        room: u32,
        captured: u32,
        data: &mut Vec<u8>,
    ) -> Result<(), Fault> {
        let Some(rest) = room.checked_sub(captured) else {
            return Err(Fault::Bad { offset: start, what: "the packet is longer than its block" });
        };
        read_data(input, captured, data)?;
        input.skip(u64::from(rest))
    }
}

fn check_length(start: u64, length: u32) -> Result<(), Fault> {
    if length < FRAME || !length.is_multiple_of(4) {
        return Err(Fault::Bad { offset: start, what: "the block has an impossible length" });
    }
    Ok(())
}
