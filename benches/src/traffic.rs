//! A capture in memory: what clients send to a balancer, in a fixed pseudo-random order.

/// Frames one behind the other.
pub(crate) struct Capture {
    bytes: Vec<u8>,
    /// Start and length of each frame.
    places: Vec<(usize, usize)>,
}

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A segment in the middle of a TCP connection, IPv4 or IPv6.
    Tcp { v4: bool },
    /// The first segment of one, IPv4.
    Syn,
    /// A DNS query.
    Dns,
    /// A QUIC short header whose connection id names a backend.
    Quic,
    /// "Fragmentation needed" about a TCP connection.
    IcmpError,
    /// For an address that is no service's.
    Stranger,
}

pub(crate) const VIP4: [u8; 4] = [192, 0, 2, 10];
pub(crate) const VIP6: [u8; 16] = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10];
/// Backends of every service, with server ids 1 to this.
pub(crate) const BACKENDS: u8 = 16;
const FLOWS: u32 = 1 << 16;
const MACS: [u8; 12] = [2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8];

impl Capture {
    /// `frames` frames, each of a kind drawn from `kinds` by weight.
    pub(crate) fn new(frames: usize, kinds: &[(u32, Kind)]) -> Self {
        let total: u32 = kinds.iter().map(|(weight, _)| weight).sum();
        let mut random = Random(0x9e37_79b9_7f4a_7c15);
        let mut capture = Self { bytes: Vec::new(), places: Vec::with_capacity(frames) };
        for _ in 0..frames {
            let mut draw = random.below(total);
            let kind = kinds.iter().find(|(weight, _)| match draw.checked_sub(*weight) {
                Some(rest) => {
                    draw = rest;
                    false
                }
                None => true,
            });
            let (_, kind) = kind.expect("the draw is below the sum of the weights");
            let start = capture.bytes.len();
            capture.write(*kind, random.below(FLOWS), random.below(10));
            capture.places.push((start, capture.bytes.len() - start));
        }
        capture
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    pub(crate) fn frames(&self) -> impl Iterator<Item = &[u8]> {
        self.places.iter().map(|&(start, length)| &self.bytes[start..start + length])
    }

    /// Seven of ten TCP segments acknowledge only, two carry a request, one is full.
    fn write(&mut self, kind: Kind, flow: u32, draw: u32) {
        let payload = match draw {
            0..7 => 0,
            7 | 8 => 200,
            _ => 1_400,
        };
        let port = 1_024 + flow as u16 % 60_000;
        match kind {
            Kind::Tcp { v4: true } => self.v4(6, flow, VIP4, &tcp(port, 0x10), payload),
            Kind::Tcp { v4: false } => self.v6(flow, &tcp(port, 0x10), payload),
            Kind::Syn => self.v4(6, flow, VIP4, &tcp(port, 0x02), 0),
            Kind::Dns => self.v4(17, flow, VIP4, &udp(port, 53, 40), 40),
            Kind::Quic => {
                let mut datagram = udp(port, 443, 90).to_vec();
                // First byte and connection id: a byte of the server's, the server id, the rest.
                datagram.extend([0x40, 7, 0, 1 + (flow % u32::from(BACKENDS)) as u8, 1, 2, 3, 4, 5, 6]);
                self.v4(17, flow, VIP4, &datagram, 80);
            }
            Kind::IcmpError => {
                let mut message = vec![3, 4, 0, 0, 0, 0, 5, 0x78];
                message.extend(header_v4(6, VIP4, client(flow), 1_480));
                message.extend([0, 80]);
                message.extend(port.to_be_bytes());
                message.extend([0, 0, 0, 1]);
                self.v4(1, flow, VIP4, &message, 0);
            }
            Kind::Stranger => self.v4(6, flow, [203, 0, 113, 7], &tcp(port, 0x10), payload),
        }
    }

    fn v4(&mut self, protocol: u8, flow: u32, to: [u8; 4], transport: &[u8], payload: usize) {
        self.bytes.extend(MACS);
        self.bytes.extend([8, 0]);
        self.bytes.extend(header_v4(protocol, client(flow), to, transport.len() + payload));
        self.bytes.extend(transport);
        self.bytes.resize(self.bytes.len() + payload, 0x5a);
    }

    fn v6(&mut self, flow: u32, transport: &[u8], payload: usize) {
        self.bytes.extend(MACS);
        self.bytes.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
        self.bytes.extend(((transport.len() + payload) as u16).to_be_bytes());
        self.bytes.extend([6, 60]);
        self.bytes.extend([0x20, 1, 0xd, 0xb8, 0, 1, 0, 0, 0, 0, 0, 0]);
        self.bytes.extend(flow.to_be_bytes());
        self.bytes.extend(VIP6);
        self.bytes.extend(transport);
        self.bytes.resize(self.bytes.len() + payload, 0x5a);
    }
}

fn client(flow: u32) -> [u8; 4] {
    (0x0b00_0000 | flow).to_be_bytes()
}

fn header_v4(protocol: u8, from: [u8; 4], to: [u8; 4], payload: usize) -> [u8; 20] {
    let ([a, b], [c, d, e, f], [g, h, i, j]) = ((20 + payload as u16).to_be_bytes(), from, to);
    let mut header = [0x45, 0, a, b, 0, 1, 0x40, 0, 60, protocol, 0, 0, c, d, e, f, g, h, i, j];
    let sum: u32 = header.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    [header[10], header[11]] = (!((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes();
    header
}

fn tcp(port: u16, flags: u8) -> [u8; 20] {
    let [a, b] = port.to_be_bytes();
    [a, b, 0, 80, 0, 0, 0, 1, 0, 0, 0, 1, 0x50, flags, 0x20, 0, 0, 0, 0, 0]
}

fn udp(port: u16, to: u16, payload: u16) -> [u8; 8] {
    let ([a, b], [c, d], [e, f]) = (port.to_be_bytes(), to.to_be_bytes(), (8 + payload).to_be_bytes());
    [a, b, c, d, e, f, 0, 0]
}

/// xorshift64*: the same numbers each time.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u32) -> u32 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let word = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32;
        ((word * u64::from(bound)) >> 32) as u32
    }
}
