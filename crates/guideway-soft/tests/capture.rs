//! Captures of every kind that is read, whole, cut and damaged.

use std::io::Cursor;

use guideway_soft::capture::{Capture, CaptureError, Frame, LinkType, Writer};
use proptest::prelude::*;

const PACKET: &[u8] = &[0x45, 0, 0, 20, 1, 2, 3, 4, 5, 6];

/// Number, stamp, captured and original length, frame.
type Read = (u64, u64, u32, u32, Option<Vec<u8>>);

fn read(bytes: &[u8]) -> Result<Vec<Read>, CaptureError> {
    let mut capture = Capture::new(Box::new(Cursor::new(bytes.to_vec())))?;
    let mut records = Vec::new();
    while let Some(record) = capture.next() {
        let record = record?;
        let frame = match record.frame {
            Frame::Ethernet(frame) => Some(frame.to_vec()),
            Frame::UnsupportedLink(_) | Frame::TooShort => None,
        };
        records.push((record.number, record.timestamp_ns, record.captured_len, record.original_len, frame));
    }
    assert_eq!(capture.position(), bytes.len() as u64);
    Ok(records)
}

/// Writes 32-bit words in one byte order.
struct Words {
    big: bool,
    bytes: Vec<u8>,
}

impl Words {
    fn new(big: bool) -> Self {
        Self { big, bytes: Vec::new() }
    }

    fn word(mut self, word: u32) -> Self {
        self.bytes.extend(if self.big { word.to_be_bytes() } else { word.to_le_bytes() });
        self
    }

    fn half(mut self, half: u16) -> Self {
        self.bytes.extend(if self.big { half.to_be_bytes() } else { half.to_le_bytes() });
        self
    }

    fn raw(mut self, raw: &[u8]) -> Self {
        self.bytes.extend(raw);
        self
    }

    /// A block of pcapng around a body, padded.
    fn block(self, kind: u32, body: &[u8]) -> Self {
        let padded = body.len().next_multiple_of(4);
        let length = padded as u32 + 12;
        let padding = vec![0; padded - body.len()];
        self.word(kind).word(length).raw(body).raw(&padding).word(length)
    }
}

fn pcap(big: bool, magic: u32, link: u32, packets: &[(u32, u32, u32, &[u8])]) -> Vec<u8> {
    let mut file = Words::new(big).word(magic).half(2).half(4).word(0).word(0).word(65_535).word(link);
    for &(seconds, fraction, original, data) in packets {
        file = file.word(seconds).word(fraction).word(data.len() as u32).word(original).raw(data);
    }
    file.bytes
}

fn interface(big: bool, link: u16, options: &[u8]) -> Vec<u8> {
    Words::new(big).half(link).half(0).word(0).raw(options).bytes
}

fn enhanced(big: bool, interface: u32, ticks: u64, original: u32, data: &[u8]) -> Vec<u8> {
    let (high, low) = ((ticks >> 32) as u32, ticks as u32);
    Words::new(big)
        .word(interface)
        .word(high)
        .word(low)
        .word(data.len() as u32)
        .word(original)
        .raw(data)
        .bytes
}

fn section(big: bool) -> Words {
    let body = Words::new(big).word(0x1a2b_3c4d).half(1).half(0).word(u32::MAX).word(u32::MAX).bytes;
    Words::new(big).block(0x0a0d_0d0a, &body)
}

fn pcapng(big: bool) -> Vec<u8> {
    let nanoseconds = Words::new(big).half(9).half(1).raw(&[9, 0, 0, 0]).word(0).bytes;
    section(big)
        .block(1, &interface(big, 101, &[]))
        .block(1, &interface(big, 1, &nanoseconds))
        .block(6, &enhanced(big, 0, 2_000_001, 10, PACKET))
        .block(6, &enhanced(big, 1, 3_000_000_001, 60, &[7; 15]))
        .block(5, &[0; 8])
        .block(3, &Words::new(big).word(10).raw(PACKET).bytes)
        .bytes
}

#[test]
fn both_resolutions_and_byte_orders_of_pcap_are_read() {
    for (magic, ns) in [(0xa1b2_c3d4, 5_000_007_000), (0xa1b2_3c4d, 5_000_000_007)] {
        for big in [false, true] {
            let read = read(&pcap(big, magic, 1, &[(5, 7, 100, &[9; 20])])).unwrap();
            assert_eq!(read, [(1, ns, 20, 100, Some(vec![9; 20]))], "{magic:x} {big}");
        }
    }
}

#[test]
fn interfaces_of_pcapng_have_their_own_link_and_clock() {
    for big in [false, true] {
        let read = read(&pcapng(big)).unwrap();
        assert_eq!(read.len(), 3);
        assert_eq!((read[0].1, read[0].4.as_ref().unwrap().len()), (2_000_001_000, 24));
        assert_eq!((read[1].1, read[1].2, read[1].3), (3_000_000_001, 15, 60));
        assert_eq!(read[2].1, read[1].1, "a simple packet has the stamp of the one before");
        assert_eq!(read[2].4, read[0].4);
    }
}

#[test]
fn sections_number_their_interfaces_anew() {
    let mut file = pcapng(true);
    file.extend(pcapng(false));
    let read = read(&file).unwrap();
    assert_eq!(read.len(), 6);
    assert_eq!(read[5].0, 6);
}

#[test]
fn a_resolution_in_powers_of_two_is_followed() {
    let options = Words::new(false).half(9).half(1).raw(&[0x80 | 10, 0, 0, 0]).bytes;
    let file = section(false)
        .block(1, &interface(false, 1, &options))
        .block(6, &enhanced(false, 0, 1536, 20, &[0; 20]));
    assert_eq!(read(&file.bytes).unwrap()[0].1, 1_500_000_000);
}

#[test]
fn links_without_ethernet_headers_get_one() {
    let v6 = [0x60, 0, 0, 0];
    let sll = [&[0, 0, 0, 1, 0, 6, 2, 1, 1, 1, 1, 1, 0, 0, 0x08, 0][..], PACKET].concat();
    let sll2 = [&[0x08, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 6, 2, 1, 1, 1, 1, 1, 0, 0][..], PACKET].concat();
    let cases: &[(u32, &[u8], [u8; 2])] = &[
        (101, PACKET, [0x08, 0]),
        (101, &v6, [0x86, 0xdd]),
        (228, PACKET, [0x08, 0]),
        (229, &v6, [0x86, 0xdd]),
        (0, &[&[2, 0, 0, 0][..], PACKET].concat(), [0x08, 0]),
        (0, &[&[0, 0, 0, 30][..], &v6].concat(), [0x86, 0xdd]),
        (108, &[&[0, 0, 0, 24][..], &v6].concat(), [0x86, 0xdd]),
        (113, &sll, [0x08, 0]),
        (276, &sll2, [0x08, 0]),
    ];
    for (link, data, ethertype) in cases {
        let read = read(&pcap(false, 0xa1b2_c3d4, *link, &[(0, 0, data.len() as u32, data)])).unwrap();
        let frame = read[0].4.as_ref().unwrap();
        assert_eq!(frame[12..14], *ethertype, "link type {link}");
        assert!(data.ends_with(&frame[14..]), "link type {link}");
        if matches!(link, 113 | 276) {
            assert_eq!(frame[6..12], [2, 1, 1, 1, 1, 1], "the sender is kept");
        }
    }
}

#[test]
fn an_unknown_link_is_told_by_its_number() {
    let file = pcap(false, 0xa1b2_c3d4, 147, &[(0, 0, 4, &[1; 4])]);
    let mut capture = Capture::new(Box::new(Cursor::new(file))).unwrap();
    let record = capture.next().unwrap().unwrap();
    assert_eq!(record.frame, Frame::UnsupportedLink(LinkType(147)));
    assert_eq!(LinkType(147).to_string(), "link type 147");
}

#[test]
fn a_cut_file_is_told_with_packet_and_offset() {
    let file = pcap(false, 0xa1b2_c3d4, 1, &[(0, 0, 20, &[9; 20]), (0, 0, 20, &[9; 20])]);
    let error = read(&file[..file.len() - 3]).unwrap_err();
    assert!(matches!(error, CaptureError::Cut { packet: 2, offset: 76, missing: 3 }), "{error}");
    let error = read(&file[..70]).unwrap_err();
    assert!(matches!(error, CaptureError::Cut { packet: 2, offset: 60, missing: 6 }), "{error}");
}

#[test]
fn what_is_no_capture_is_told_why() {
    for (bytes, word) in [
        (&[][..], "empty"),
        (&[1, 2], "shorter"),
        (&[0x1f, 0x8b, 8, 0], "gzip"),
        (b"text of a kind", "magic"),
    ] {
        let error = read(bytes).unwrap_err();
        assert!(matches!(error, CaptureError::NotACapture(what) if what.contains(word)), "{error}");
    }
}

#[test]
fn a_length_that_lies_is_refused_without_taking_the_memory() {
    let mut file = pcap(false, 0xa1b2_c3d4, 1, &[(0, 0, 20, &[9; 20])]);
    file[32..36].copy_from_slice(&u32::MAX.to_le_bytes());
    assert!(matches!(read(&file), Err(CaptureError::Bad { packet: 1, .. })));
    let file = section(false).block(6, &enhanced(false, 0, 0, 20, &[0; 20]));
    assert!(matches!(read(&file.bytes), Err(CaptureError::Bad { packet: 1, offset: 28, .. })));
}

#[test]
fn what_is_written_is_read_back() {
    let mut writer = Writer::new(Vec::new()).unwrap();
    writer.write(1_700_000_000_123_456_789, &[5; 60]).unwrap();
    writer.write(1_700_000_001_000_000_000, &[6; 1514]).unwrap();
    let read = read(&writer.finish().unwrap()).unwrap();
    assert_eq!(read[0], (1, 1_700_000_000_123_456_789, 60, 60, Some(vec![5; 60])));
    assert_eq!(read[1].4, Some(vec![6; 1514]));
    assert!(Writer::new(Vec::new()).unwrap().write(u64::MAX, &[]).is_err());
}

proptest! {
    #[test]
    fn no_damage_makes_it_panic(
        which in 0..4_u8,
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut file = match which {
            0 => pcap(false, 0xa1b2_c3d4, 113, &[(1, 2, 20, &[9; 20]), (3, 4, 90, PACKET)]),
            1 => pcap(true, 0xa1b2_3c4d, 1, &[(1, 2, 20, &[9; 20])]),
            2 => pcapng(false),
            _ => pcapng(true),
        };
        for (at, byte) in damage {
            let at = at.index(file.len());
            file[at] = byte;
        }
        file.truncate(1 + cut.index(file.len()));
        let Ok(mut capture) = Capture::new(Box::new(Cursor::new(file))) else { return Ok(()) };
        while let Some(record) = capture.next() {
            if record.is_err() {
                prop_assert!(capture.next().is_none(), "an error is the end");
                break;
            }
        }
    }
}
