//! Captures: packets in files, read and written one at a time in constant memory.
//!
//! Reads pcap (microsecond and nanosecond stamps, either byte order) and pcapng (several sections and interfaces, any
//! resolution of stamps, enhanced, simple and obsolete packet blocks). Whatever the link, what comes out is an Ethernet
//! frame as the forwarder takes it, or a word that the link is none we know. Files are untrusted: every length is
//! checked before it is used, and an error names the packet and the byte offset.

mod error;
mod input;
mod link;
mod pcap;
mod pcapng;
mod write;

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

pub use error::CaptureError;
pub use link::{Frame, LinkType};
pub use write::Writer;

use error::Fault;
use input::Input;
use link::Reframer;
use pcap::Pcap;
use pcapng::PcapNg;

/// The longest packet that is read, in bytes: what capture programs take at most.
pub const MAX_PACKET: usize = 262_144;

/// A capture that is being read.
pub struct Capture {
    input: Input<Box<dyn Read + Send>>,
    format: Format,
    size: Option<u64>,
    number: u64,
    data: Vec<u8>,
    reframer: Reframer,
    over: bool,
}

enum Format {
    Pcap(Pcap),
    PcapNg(PcapNg),
}

/// A packet of a capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    /// Its number in the file, from 1, as Wireshark counts.
    pub number: u64,
    /// When it was seen, in nanoseconds since 1970. A simple packet block has no stamp: that of the packet before it.
    pub timestamp_ns: u64,
    /// Bytes that the file has of it, link header included.
    pub captured_len: u32,
    /// Bytes that it had.
    pub original_len: u32,
    /// The link that it was seen on.
    pub link_type: LinkType,
    /// What the forwarder would get.
    pub frame: Frame<'a>,
}

impl Record<'_> {
    /// Whether the file lacks the packet's end: it can be counted, but not forwarded.
    pub fn is_snapped(&self) -> bool {
        self.captured_len < self.original_len
    }
}

/// What a format tells of a packet; its bytes are in the buffer.
struct Seen {
    timestamp_ns: u64,
    original_len: u32,
    link_type: LinkType,
}

impl Capture {
    /// Opens a capture file.
    ///
    /// # Errors
    /// When the file cannot be opened, or is no capture.
    pub fn open(path: &Path) -> Result<Self, CaptureError> {
        let failed = |error| CaptureError::Open { path: path.to_owned(), error };
        let file = File::open(path).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        let mut capture = Self::new(Box::new(BufReader::with_capacity(1 << 18, file)))?;
        capture.size = metadata.is_file().then_some(metadata.len());
        Ok(capture)
    }

    /// Reads a capture from anything; reads are small, so pass a buffered reader.
    ///
    /// # Errors
    /// When it does not begin as a capture does.
    pub fn new(reader: Box<dyn Read + Send>) -> Result<Self, CaptureError> {
        let mut input = Input::new(reader);
        let format = Self::format(&mut input).map_err(|fault| fault.at(0))?;
        Ok(Self {
            input,
            format,
            size: None,
            number: 0,
            data: Vec::new(),
            reframer: Reframer::default(),
            over: false,
        })
    }

    fn format(input: &mut Input<Box<dyn Read + Send>>) -> Result<Format, Fault> {
        let mut magic = [0; 4];
        let found = input.fill(&mut magic)?;
        if found < magic.len() {
            return Err(Fault::NotACapture(if found == 0 {
                "it is empty"
            } else {
                "it is shorter than any capture"
            }));
        }
        match magic {
            pcapng::SECTION_HEADER => Ok(Format::PcapNg(PcapNg::open(input)?)),
            [0x1f, 0x8b, ..] => Err(Fault::NotACapture("it is compressed by gzip: unpack it first")),
            [0x28, 0xb5, 0x2f, 0xfd] => Err(Fault::NotACapture("it is compressed by zstd: unpack it first")),
            _ => Ok(Format::Pcap(Pcap::open(magic, input)?)),
        }
    }

    /// The next packet; `None` at the end. After an error there is nothing more.
    ///
    /// # Errors
    /// [`CaptureError`] with the packet's number and the byte offset, when the file is cut or not as it should be.
    #[expect(
        clippy::should_implement_trait,
        reason = "the packet borrows the buffer, which an Iterator cannot say"
    )]
    pub fn next(&mut self) -> Option<Result<Record<'_>, CaptureError>> {
        if self.over {
            return None;
        }
        let seen = match &mut self.format {
            Format::Pcap(format) => format.next(&mut self.input, &mut self.data),
            Format::PcapNg(format) => format.next(&mut self.input, &mut self.data),
        };
        match seen {
            Ok(None) => {
                self.over = true;
                None
            }
            Err(fault) => {
                self.over = true;
                Some(Err(fault.at(self.number + 1)))
            }
            Ok(Some(seen)) => {
                self.number += 1;
                // MAX_PACKET fits, and longer ones were refused.
                let captured_len = self.data.len() as u32;
                Some(Ok(Record {
                    number: self.number,
                    timestamp_ns: seen.timestamp_ns,
                    captured_len,
                    original_len: seen.original_len.max(captured_len),
                    link_type: seen.link_type,
                    frame: self.reframer.frame(seen.link_type, &self.data),
                }))
            }
        }
    }

    /// Bytes read so far.
    pub fn position(&self) -> u64 {
        self.input.position()
    }

    /// Bytes of the whole file, where it is a regular one.
    pub fn size(&self) -> Option<u64> {
        self.size
    }
}

/// Reads the bytes of a packet into the buffer, after their number has been checked.
fn read_data(input: &mut Input<impl Read>, length: u32, data: &mut Vec<u8>) -> Result<(), Fault> {
    let length = length as usize;
    if length > MAX_PACKET {
        return Err(Fault::Bad { offset: input.position(), what: "the packet is longer than 262144 bytes" });
    }
    data.resize(length, 0);
    input.exact(data)
}
