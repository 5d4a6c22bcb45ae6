//! Writing captures.

use std::io::{self, Write};

use super::LinkType;

/// pcap with nanosecond stamps (draft-ietf-opsawg-pcap section 4), little-endian.
const MAGIC_NANOSECONDS: u32 = 0xa1b2_3c4d;
const VERSION: [u16; 2] = [2, 4];
const SNAP_LEN: u32 = super::MAX_PACKET as u32;

/// Writes Ethernet frames as a pcap file with nanosecond stamps.
pub struct Writer<W: Write> {
    out: W,
}

impl<W: Write> Writer<W> {
    /// Begins a capture. Writes are small, so pass a buffered writer.
    ///
    /// # Errors
    /// What the writer says.
    pub fn new(mut out: W) -> io::Result<Self> {
        out.write_all(&MAGIC_NANOSECONDS.to_le_bytes())?;
        for part in VERSION {
            out.write_all(&part.to_le_bytes())?;
        }
        for word in [0, 0, SNAP_LEN, LinkType::ETHERNET.0] {
            out.write_all(&word.to_le_bytes())?;
        }
        Ok(Self { out })
    }

    /// Writes a whole frame. The format ends in the year 2106.
    ///
    /// # Errors
    /// What the writer says; a frame or a time that the format cannot hold.
    pub fn write(&mut self, timestamp_ns: u64, frame: &[u8]) -> io::Result<()> {
        let invalid = |what| io::Error::new(io::ErrorKind::InvalidInput, what);
        let seconds =
            u32::try_from(timestamp_ns / 1_000_000_000).map_err(|_| invalid("the time is after 2106"))?;
        // A remainder of 10^9 fits in 32 bits.
        let fraction = (timestamp_ns % 1_000_000_000) as u32;
        let length = u32::try_from(frame.len()).map_err(|_| invalid("the frame is too long"))?;
        for word in [seconds, fraction, length, length] {
            self.out.write_all(&word.to_le_bytes())?;
        }
        self.out.write_all(frame)
    }

    /// Writes what is buffered, and gives the writer back.
    ///
    /// # Errors
    /// What the writer says.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }
}
