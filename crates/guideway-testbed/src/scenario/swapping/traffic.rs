//! Flows by hand, each packet followed to the sink.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use guideway_wire::{Address, FlowKey, IpProtocol, TcpFlags};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::fleet::{Oracle, PORT, Random, SEED, address, mac};
use crate::client::Segment;
use crate::packet::{MAX_FRAME, PacketSocket, Way};
use crate::topology::{Host, VIPS};

/// Flows that open in a round; as many close.
const SYNS: usize = 10;

/// Flows that are open before a round, each of which speaks in it. The first round opens as many.
const FLOWS: usize = 18;

/// Flows that are open from the beginning to the end.
const VETERANS: usize = 6;

/// Packets of a round, all under way at a time. The first one has fewer.
pub(super) const ROUND: u64 = (SYNS + FLOWS) as u64;

/// Packets that are handed to the link at once.
const BURST: usize = 4;

const LONG: Duration = Duration::from_secs(10);

/// Outer Ethernet and IPv4 headers.
const OUTER: usize = 14 + 20;

/// Sender and sink at the far end of a balancer's link.
pub(super) struct Traffic<'a> {
    socket: PacketSocket,
    balancer: [u8; 6],
    own: [u8; 6],
    oracle: &'a Oracle,
    flows: Vec<Flow>,
    opened: u32,
    sent: u32,
    certain: u64,
    misdirected: Vec<String>,
    random: Random,
    buffer: Vec<u8>,
}

struct Flow {
    from: SocketAddr,
    to: SocketAddr,
    key: FlowKey,
    owner: Option<u8>,
}

/// A packet under way.
struct Sent {
    flow: usize,
    frame: Vec<u8>,
    /// The table that was in force before it was sent.
    generation: usize,
    came: bool,
}

impl<'a> Traffic<'a> {
    pub(super) fn new(host: &Host, oracle: &'a Oracle) -> Self {
        Self {
            socket: PacketSocket::open(&host.port).unwrap(),
            balancer: host.link.mac(),
            own: host.port.mac(),
            oracle,
            flows: Vec::new(),
            opened: 0,
            sent: 0,
            certain: 0,
            misdirected: Vec::new(),
            random: Random(SEED),
            buffer: vec![0; MAX_FRAME],
        }
    }

    /// Packets sent so far.
    pub(super) fn sent(&self) -> u64 {
        self.sent.into()
    }

    /// Packets that came to a backend that they do not belong to.
    pub(super) fn misdirected(&self) -> &[String] {
        &self.misdirected
    }

    /// SYNs for which one table alone was in question.
    pub(super) fn certain(&self) -> u64 {
        self.certain
    }

    /// Opens some flows, speaks on all others, closes some of them, and checks where each packet came out.
    pub(super) fn round(&mut self) {
        let first = self.sent;
        let open = self.flows.len();
        let mut closing = BTreeSet::new();
        while open + SYNS > FLOWS + closing.len() {
            closing.insert(VETERANS + self.any(open - VETERANS));
        }
        let mut under_way = Vec::with_capacity(open + SYNS);
        for _ in 0..SYNS.max(FLOWS - open) {
            let flow = self.open_flow();
            under_way.push(self.next(flow, TcpFlags::SYN));
        }
        for flow in 0..open {
            let flags =
                if closing.contains(&flow) { TcpFlags::FIN.with(TcpFlags::ACK) } else { TcpFlags::ACK };
            under_way.push(self.next(flow, flags));
        }
        let frames: Vec<_> = under_way.iter().map(|sent| &sent.frame).collect();
        for burst in frames.chunks(BURST) {
            self.oracle.send(burst.len());
            self.socket.send_all(burst).unwrap();
        }
        let end = Instant::now() + LONG;
        let mut missing = under_way.len();
        while missing > 0 {
            assert!(Instant::now() < end, "{missing} of {} packets were lost", under_way.len());
            wait_for(&self.socket);
            while let Some((length, way)) = self.socket.receive(&mut self.buffer).unwrap() {
                if way != Way::Sent && self.came(length, first, &mut under_way) {
                    missing -= 1;
                }
            }
        }
        self.oracle.end_round();
        // From the last on, so that the places of the others stay what they are.
        for flow in closing.into_iter().rev() {
            self.flows.swap_remove(flow);
        }
    }

    /// Checks a frame; whether it is one of ours.
    fn came(&mut self, length: usize, first: u32, under_way: &mut [Sent]) -> bool {
        let frame = &self.buffer[..length];
        let inner_header = match (frame.get(12..14), frame.get(23)) {
            (Some([8, 0]), Some(&4)) => 20,
            (Some([8, 0]), Some(&41)) => 40,
            // What the hosts say among themselves.
            _ => return false,
        };
        let sequence =
            frame[OUTER + inner_header + 4..].first_chunk().map(|bytes| u32::from_be_bytes(*bytes));
        let number = sequence.unwrap().wrapping_sub(first) as usize;
        let sent = under_way.get_mut(number).expect("a packet of an earlier round, or of nobody");
        assert!(!sent.came, "a packet came twice");
        sent.came = true;
        assert_eq!(frame[OUTER..], sent.frame[14..], "the packet in the tunnel is another one");
        let owner = frame[5];
        assert_eq!(frame[..6], mac(owner.into()));
        assert_eq!(IpAddr::from(*frame[30..].first_chunk::<4>().unwrap()), address(owner.into()));
        let flow = &mut self.flows[sent.flow];
        let from = flow.from;
        if let Some(known) = flow.owner {
            if owner != known {
                self.misdirected.push(format!("a packet of {from} came to {owner}, its flow is on {known}"));
            }
        } else {
            let possible = self.oracle.owners_since(sent.generation, &flow.key);
            if !possible.contains(&owner) {
                self.misdirected.push(format!("a SYN of {from} came to {owner}, not to {possible:?}"));
            }
            self.certain += u64::from(possible.len() == 1);
            flow.owner = Some(owner);
        }
        true
    }

    fn next(&mut self, flow: usize, flags: TcpFlags) -> Sent {
        let Flow { from, to, .. } = self.flows[flow];
        let segment = Segment { from, to, flags, sequence: self.sent };
        self.sent += 1;
        let generation = self.oracle.whole();
        Sent { flow, frame: segment.frame(self.own, self.balancer), generation, came: false }
    }

    fn open_flow(&mut self) -> usize {
        let number = self.opened;
        self.opened += 1;
        let vip = VIPS[number as usize % VIPS.len()];
        let source = match vip {
            IpAddr::V4(_) => IpAddr::from(Ipv4Addr::from(0xc612_0000 | (number >> 1 & 0xffff))),
            IpAddr::V6(_) => {
                let [high, low] = [(number >> 16) as u16, number as u16];
                IpAddr::from(Ipv6Addr::new(0x2001, 0xdb8, 0x200, 0, 0, 0, high, low))
            }
        };
        let from = SocketAddr::new(source, 1024 + (number >> 17) as u16);
        let to = SocketAddr::new(vip, PORT);
        let key = match (source, vip) {
            (IpAddr::V4(from_ip), IpAddr::V4(vip)) => {
                FlowKey::v4(from_ip.octets(), vip.octets(), from.port(), PORT, IpProtocol::TCP)
            }
            (source, vip) => {
                let octets = |address| Address::from(address).octets();
                FlowKey::v6(octets(source), octets(vip), from.port(), PORT, IpProtocol::TCP)
            }
        };
        self.flows.push(Flow { from, to, key, owner: None });
        self.flows.len() - 1
    }

    /// An arbitrary number below `end`.
    fn any(&mut self, end: usize) -> usize {
        self.random.below(end as u64) as usize
    }
}

/// Waits until there is a frame, or the time is over.
fn wait_for(socket: &PacketSocket) {
    let mut polled = [PollFd::new(socket.as_fd(), PollFlags::POLLIN)];
    let at_most = PollTimeout::try_from(LONG).unwrap_or(PollTimeout::MAX);
    let waited = poll(&mut polled, at_most);
    assert!(matches!(waited, Ok(_) | Err(Errno::EINTR)), "{waited:?}");
}
