//! A reader that knows where it is.

use std::io::{ErrorKind, Read};

use super::error::Fault;

pub(super) struct Input<R> {
    reader: R,
    position: u64,
}

impl<R: Read> Input<R> {
    pub(super) fn new(reader: R) -> Self {
        Self { reader, position: 0 }
    }

    pub(super) fn position(&self) -> u64 {
        self.position
    }

    /// Fills the buffer as far as the input goes, and tells how far that was.
    pub(super) fn fill(&mut self, buffer: &mut [u8]) -> Result<usize, Fault> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.reader.read(&mut buffer[filled..]) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(Fault::Read { offset: self.position + filled as u64, error }),
            }
        }
        self.position += filled as u64;
        Ok(filled)
    }

    /// Fills the whole buffer.
    pub(super) fn exact(&mut self, buffer: &mut [u8]) -> Result<(), Fault> {
        let offset = self.position;
        let filled = self.fill(buffer)?;
        if filled < buffer.len() {
            return Err(Fault::Cut { offset, missing: (buffer.len() - filled) as u64 });
        }
        Ok(())
    }

    /// Fills the whole buffer, or nothing of it where the input has ended.
    pub(super) fn exact_or_end(&mut self, buffer: &mut [u8]) -> Result<bool, Fault> {
        let offset = self.position;
        let filled = self.fill(buffer)?;
        if filled != 0 && filled < buffer.len() {
            return Err(Fault::Cut { offset, missing: (buffer.len() - filled) as u64 });
        }
        Ok(filled != 0)
    }

    /// Passes over bytes without keeping them.
    pub(super) fn skip(&mut self, mut count: u64) -> Result<(), Fault> {
        let mut sink = [0; 4096];
        while count > 0 {
            let step = count.min(sink.len() as u64);
            self.exact(&mut sink[..step as usize])?;
            count -= step;
        }
        Ok(())
    }
}

/// The byte order of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    Little,
    Big,
}

impl Order {
    pub(super) fn u16(self, bytes: [u8; 2]) -> u16 {
        match self {
            Self::Little => u16::from_le_bytes(bytes),
            Self::Big => u16::from_be_bytes(bytes),
        }
    }

    pub(super) fn u32(self, bytes: [u8; 4]) -> u32 {
        match self {
            Self::Little => u32::from_le_bytes(bytes),
            Self::Big => u32::from_be_bytes(bytes),
        }
    }

    /// The 32-bit words of a header.
    pub(super) fn words<const N: usize>(self, bytes: &[[u8; 4]; N]) -> [u32; N] {
        bytes.map(|word| self.u32(word))
    }
}
