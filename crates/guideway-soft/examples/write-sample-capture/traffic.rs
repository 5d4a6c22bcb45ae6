//! The traffic of `docs/sample.pcap`: eleven seconds of what a balancer's port sees, a little of everything.
//!
//! Only the way from clients to the virtual addresses is here, as with direct server return. Every frame is built by an
//! independent library, and nothing is random: the same bytes each time.

use etherparse::{
    IpFragOffset, IpNumber, Ipv4Header, PacketBuilder, PacketBuilderStep, TcpHeader, UdpHeader, VlanId,
    icmpv4,
};

/// A frame and its time, nanoseconds since 1970.
pub(crate) type Stamped = (u64, Vec<u8>);

const ROUTER: [u8; 6] = [2, 0, 0, 0, 0, 8];
const BALANCER: [u8; 6] = [2, 0, 0, 0, 0, 9];
const BROADCAST: [u8; 6] = [0xff; 6];

const WEB4: [u8; 4] = [192, 0, 2, 10];
const WEB6: [u8; 16] = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10];
const DNS4: [u8; 4] = [192, 0, 2, 53];
/// An address that nobody in the capture serves.
const ELSEWHERE: [u8; 4] = [203, 0, 113, 9];
const ROUTER_ON_THE_WAY: [u8; 4] = [203, 0, 113, 1];

/// 2026-01-01 00:00:00 UTC.
const START_NS: u64 = 1_767_225_600 * 1_000_000_000;
const MS: u64 = 1_000_000;

/// All frames, by time.
pub(crate) fn frames() -> Vec<Stamped> {
    let mut frames = Vec::new();
    for client in 0..24 {
        frames.extend(web_v4(client));
    }
    for client in 0..12 {
        frames.extend(web_v6(client));
    }
    for client in 0..24 {
        frames.push((u64::from(client) * 90 * MS, dns_query(client)));
    }
    frames.extend(quic());
    frames.extend(fragments());
    frames.extend(icmp());
    frames.extend(nobodys());
    frames.extend(hostile());
    frames.sort_by_key(|(at, _)| *at);
    frames.into_iter().map(|(at, frame)| (START_NS + at, frame)).collect()
}

type Builder = PacketBuilderStep<etherparse::IpHeaders>;

fn v4(from: [u8; 4], to: [u8; 4]) -> Builder {
    PacketBuilder::ethernet2(ROUTER, BALANCER).ipv4(from, to, 57)
}

fn v6(from: [u8; 16], to: [u8; 16]) -> Builder {
    PacketBuilder::ethernet2(ROUTER, BALANCER).ipv6(from, to, 57)
}

const fn client_v4(client: u8) -> [u8; 4] {
    [198, 51, 100, 10 + client]
}

const fn client_v6(client: u8) -> [u8; 16] {
    [0x20, 1, 0xd, 0xb8, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10 + client]
}

/// A connection to port 80 or 443: handshake, a request, acknowledgements, the end. Clients 4 and 5 come in a VLAN, 6
/// and 7 in two nested ones; the tags stay on what is forwarded.
fn web_v4(client: u8) -> Vec<Stamped> {
    let ip = || {
        let link = PacketBuilder::ethernet2(ROUTER, BALANCER);
        let (from, to) = (client_v4(client), WEB4);
        match client {
            4 | 5 => link.single_vlan(vlan(100)).ipv4(from, to, 57),
            6 | 7 => link.double_vlan(vlan(200), vlan(100)).ipv4(from, to, 57),
            _ => link.ipv4(from, to, 57),
        }
    };
    connection(
        ip,
        40_000 + 7 * u16::from(client),
        if client.is_multiple_of(2) { 80 } else { 443 },
        u64::from(client) * 170 * MS,
    )
}

fn web_v6(client: u8) -> Vec<Stamped> {
    let ip = || v6(client_v6(client), WEB6);
    connection(ip, 50_000 + 7 * u16::from(client), 443, u64::from(client) * 310 * MS)
}

fn vlan(id: u16) -> VlanId {
    VlanId::try_new(id).expect("a VLAN id of 12 bits")
}

/// What the client sends of one connection. It closes last, four seconds later.
fn connection(ip: impl Fn() -> Builder, from: u16, to: u16, start: u64) -> Vec<Stamped> {
    let request = b"GET / HTTP/1.1\r\nHost: www.example.com\r\n\r\n";
    // Where the server would be, were it in the capture.
    let (ours, theirs) = (1_000 * u32::from(from), 77);
    let after = ours + 1 + request.len() as u32;
    let tcp = |sequence| ip().tcp(from, to, sequence, 64_240);
    let ack = |step: PacketBuilderStep<TcpHeader>, data: &[u8]| {
        written(|out| step.ack(theirs + 1).write(out, data))
    };
    vec![
        (start, written(|out| tcp(ours).syn().write(out, &[]))),
        (start + 20 * MS, ack(tcp(ours + 1), &[])),
        (start + 21 * MS, ack(tcp(ours + 1).psh(), request)),
        (start + 45 * MS, ack(tcp(after), &[])),
        (start + 70 * MS, ack(tcp(after), &[])),
        (start + 4_000 * MS, ack(tcp(after).fin(), &[])),
        (start + 4_020 * MS, ack(tcp(after + 1), &[])),
    ]
}

fn dns_query(client: u8) -> Vec<u8> {
    let mut query = vec![0, client, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    query.extend(b"\x03www\x07example\x03com\x00\x00\x01\x00\x01");
    written(|out| v4(client_v4(client), DNS4).udp(30_000 + u16::from(client), 53).write(out, &query))
}

/// Three connections: an Initial, a Handshake packet, then short headers. In the middle of the third the client's address
/// changes: without server ids in the connection ids it then follows the hash, as `--auto` shows.
fn quic() -> Vec<Stamped> {
    let mut frames = Vec::new();
    for client in 0..3u8 {
        let start = 2_000 * MS + u64::from(client) * 400 * MS;
        let theirs = [0, 1 + client, 0xc1, 0x1d, 0, 0, 0, client];
        let mut send = |at: u64, from: [u8; 4], payload: &[u8]| {
            let frame =
                written(|out| v4(from, WEB4).udp(60_000 + u16::from(client), 443).write(out, payload));
            frames.push((start + at * MS, frame));
        };
        let home = client_v4(client);
        send(0, home, &quic_long(0xc3, [0xa0, client, 1, 2, 3, 4, 5, 6], 1_200));
        send(30, home, &quic_long(0xe3, theirs, 200));
        for packet in 0..6u8 {
            let from = if client == 2 && packet >= 3 { [198, 51, 100, 200] } else { home };
            let mut short = vec![0x40 | (packet & 3)];
            short.extend(theirs);
            short.extend(ciphertext(u32::from(packet), 60));
            send(40 + u64::from(packet) * 5, from, &short);
        }
    }
    frames
}

/// A long header of version 1 (RFC 9000 section 17.2) to connection id `to`, padded to `length` bytes.
fn quic_long(first: u8, to: [u8; 8], length: usize) -> Vec<u8> {
    let mut packet = vec![first, 0, 0, 0, 1, 8];
    packet.extend(to);
    packet.extend([4, 0xc, 0, 0, 1]);
    if first & 0x30 == 0 {
        packet.push(0);
    }
    let rest = length - packet.len() - 2;
    packet.extend((0x4000 | rest as u16).to_be_bytes());
    packet.extend(ciphertext(u32::from(first), rest));
    packet
}

/// Bytes that look random and are the same each time.
fn ciphertext(seed: u32, length: usize) -> impl Iterator<Item = u8> {
    let step = |state: &u32| Some(state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223));
    std::iter::successors(Some(seed), step).skip(1).take(length).map(|state| (state >> 24) as u8)
}

/// Datagrams in fragments: in order, with the last first, without a first, a first that is too short, a TCP segment.
fn fragments() -> Vec<Stamped> {
    let mut frames = Vec::new();
    let mut send = |at: u64, frame: Vec<u8>| frames.push((at * MS, frame));
    let [first, second, third] = datagram_in_three(0x1111, 31_000);
    for (at, frame) in [(5_000, first), (5_001, second), (5_002, third)] {
        send(at, frame);
    }
    let [first, second, third] = datagram_in_three(0x2222, 31_001);
    for (at, frame) in [(5_100, third), (5_101, first), (5_102, second)] {
        send(at, frame);
    }
    let segment = {
        let header = header_v4(IpNumber::TCP, client_v4(0), WEB4, 0);
        let mut tcp = TcpHeader::new(45_000, 80, 9_000, 64_240);
        (tcp.ack, tcp.acknowledgment_number) = (true, 78);
        let data = [0x5a; 64];
        tcp.checksum = tcp.calc_checksum_ipv4(&header, &data).expect("a short segment");
        [tcp.to_bytes().as_slice(), &data].concat()
    };
    send(5_200, fragment(IpNumber::TCP, client_v4(0), WEB4, 0x3333, (0, true), &segment[..40]));
    send(5_201, fragment(IpNumber::TCP, client_v4(0), WEB4, 0x3333, (40, false), &segment[40..]));
    // The end of a segment whose beginning took another way.
    send(5_300, fragment(IpNumber::TCP, client_v4(1), WEB4, 0x4444, (40, false), &segment[40..]));
    // Eight bytes of TCP hide the flags from filters (RFC 1858).
    send(5_400, fragment(IpNumber::TCP, client_v4(2), WEB4, 0x5555, (0, true), &segment[..8]));
    frames
}

/// A UDP datagram of 3,000 bytes to the name server.
fn datagram_in_three(id: u16, port: u16) -> [Vec<u8>; 3] {
    let data: Vec<u8> = ciphertext(u32::from(id), 3_000).collect();
    let header = header_v4(IpNumber::UDP, client_v4(9), DNS4, 0);
    let udp = UdpHeader::with_ipv4_checksum(port, 53, &header, &data).expect("a datagram of 3,000 bytes");
    let whole = [udp.to_bytes().as_slice(), &data].concat();
    [(0, 1_480), (1_480, 2_960), (2_960, whole.len())].map(|(start, end)| {
        let place = (start as u16, end < whole.len());
        fragment(IpNumber::UDP, client_v4(9), DNS4, id, place, &whole[start..end])
    })
}

fn header_v4(protocol: IpNumber, from: [u8; 4], to: [u8; 4], payload: u16) -> Ipv4Header {
    Ipv4Header::new(payload, 57, protocol, from, to).expect("a payload that fits")
}

/// A fragment at `(offset in bytes, whether more follow)`.
fn fragment(
    protocol: IpNumber,
    from: [u8; 4],
    to: [u8; 4],
    id: u16,
    (offset, more): (u16, bool),
    data: &[u8],
) -> Vec<u8> {
    let mut header = header_v4(protocol, from, to, data.len() as u16);
    (header.identification, header.dont_fragment, header.more_fragments) = (id, false, more);
    header.fragment_offset = IpFragOffset::try_new(offset / 8).expect("an offset of 13 bits");
    header.header_checksum = header.calc_header_checksum();
    [&ethernet(BALANCER, 0x0800)[..], &header.to_bytes(), data].concat()
}

fn ethernet(to: [u8; 6], kind: u16) -> Vec<u8> {
    [&to[..], &ROUTER, &kind.to_be_bytes()].concat()
}

/// Errors about flows above, which follow them to their backends; one that quotes too little; echo requests.
fn icmp() -> Vec<Stamped> {
    let smaller = || icmpv4::DestUnreachableHeader::FragmentationNeeded { next_hop_mtu: 1_400 };
    let error = |quote: &[u8]| {
        written(|out| {
            let kind = etherparse::Icmpv4Type::DestinationUnreachable(smaller());
            v4(ROUTER_ON_THE_WAY, WEB4).icmpv4(kind).write(out, quote)
        })
    };
    // What the server sent to client 0, as a router on its way quotes it: header and eight bytes (RFC 792).
    let quote = {
        let header = header_v4(IpNumber::TCP, WEB4, client_v4(0), 1_480);
        let tcp = TcpHeader::new(80, 40_000, 78, 64_240);
        [&header.to_bytes()[..], &tcp.to_bytes()[..8]].concat()
    };
    let quote_v6 = {
        let header =
            written(|out| v6(WEB6, client_v6(0)).tcp(443, 50_000, 78, 64_240).write(out, &[0; 1_200]));
        header[14..].to_vec()
    };
    let too_big = written(|out| {
        v6(client_v6(0x70), WEB6)
            .icmpv6(etherparse::Icmpv6Type::PacketTooBig { mtu: 1_400 })
            .write(out, &quote_v6)
    });
    let port_unreachable = {
        let mut quote = header_v4(IpNumber::UDP, DNS4, client_v4(3), 100).to_bytes().to_vec();
        quote.extend(
            UdpHeader { source_port: 53, destination_port: 30_003, length: 100, checksum: 0 }.to_bytes(),
        );
        let kind = etherparse::Icmpv4Type::DestinationUnreachable(icmpv4::DestUnreachableHeader::Port);
        written(|out| v4(client_v4(3), DNS4).icmpv4(kind).write(out, &quote))
    };
    let echo = written(|out| v4(client_v4(1), WEB4).icmpv4_echo_request(1, 1).write(out, &[0x61; 56]));
    let echo_v6 = written(|out| v6(client_v6(1), WEB6).icmpv6_echo_request(1, 1).write(out, &[0x61; 56]));
    vec![
        (100 * MS, error(&quote)),
        (110 * MS, too_big),
        (300 * MS, port_unreachable),
        (400 * MS, error(&quote[..27])),
        (500 * MS, echo),
        (501 * MS, echo_v6),
    ]
}

/// What is none of the balancer's business, and passes to the host as it came.
fn nobodys() -> Vec<Stamped> {
    let arp = {
        let mut frame = ethernet(BROADCAST, 0x0806);
        frame.extend([0, 1, 8, 0, 6, 4, 0, 1]);
        frame.extend(ROUTER.iter().chain(&[192, 0, 2, 1]).chain(&[0; 6]).chain(&WEB4));
        frame.resize(60, 0);
        frame
    };
    let solicitation = {
        let group = [0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, 0, 0, 0x10];
        let kind = etherparse::Icmpv6Type::NeighborSolicitation;
        written(|out| {
            PacketBuilder::ethernet2(ROUTER, [0x33, 0x33, 0xff, 0, 0, 0x10])
                .ipv6([0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8], group, 255)
                .icmpv6(kind)
                .write(out, &WEB6)
        })
    };
    let ospf = {
        let header = header_v4(IpNumber::OSPFIGP, [192, 0, 2, 1], [224, 0, 0, 5], 44);
        [&ethernet([1, 0, 0x5e, 0, 0, 5], 0x0800)[..], &header.to_bytes(), &[2; 44]].concat()
    };
    let echo = written(|out| v4(client_v4(1), ELSEWHERE).icmpv4_echo_request(2, 1).write(out, &[0x62; 56]));
    let reply = written(|out| v4(client_v4(1), WEB4).icmpv4_echo_reply(3, 1).write(out, &[0x63; 56]));
    let fragment_of_a_stranger =
        fragment(IpNumber::UDP, client_v4(1), ELSEWHERE, 0x6666, (1_480, false), &[0x64; 200]);
    // Somebody else's tunnel, to the VIP's own host.
    let tunnel = {
        let inner = written(|out| v4(client_v4(1), [10, 9, 9, 9]).udp(1, 2).write(out, &[0x65; 20]));
        let header = header_v4(IpNumber::IPV4, client_v4(1), WEB4, (inner.len() - 14) as u16);
        [&ethernet(BALANCER, 0x0800)[..], &header.to_bytes(), &inner[14..]].concat()
    };
    vec![
        (6_000 * MS, arp),
        (6_050 * MS, solicitation),
        (6_100 * MS, ospf),
        (6_150 * MS, echo),
        (6_200 * MS, reply),
        (6_250 * MS, fragment_of_a_stranger),
        (6_300 * MS, tunnel),
    ]
}

/// What is dropped for a reason of its own, and one packet too large for any tunnel.
fn hostile() -> Vec<Stamped> {
    let land = written(|out| v4(WEB4, WEB4).tcp(80, 80, 1, 1_024).syn().write(out, &[]));
    let dying = written(|out| {
        PacketBuilder::ethernet2(ROUTER, BALANCER)
            .ipv4(client_v4(8), WEB4, 0)
            .tcp(40_056, 80, 1, 1_024)
            .write(out, &[])
    });
    let mut cut =
        written(|out| v4(client_v4(8), WEB4).tcp(40_056, 80, 1, 1_024).ack(1).write(out, &[0x66; 200]));
    cut.truncate(120);
    let mut liar =
        written(|out| v4(client_v4(8), WEB4).tcp(40_056, 80, 1, 1_024).ack(1).write(out, &[0x66; 20]));
    // A header of 16 bytes, where 20 are the least.
    liar[46] = 0x40;
    let jumbo =
        written(|out| v4(client_v4(10), WEB4).tcp(40_070, 80, 1, 1_024).ack(1).write(out, &[0x67; 3_000]));
    // Nobody opened this connection in the capture; its slot has an owner all the same.
    let stray =
        written(|out| v4(client_v4(30), WEB4).tcp(47_000, 443, 5, 1_024).ack(6).write(out, &[0x68; 9]));
    vec![
        (7_000 * MS, land),
        (7_100 * MS, dying),
        (7_200 * MS, cut),
        (7_300 * MS, liar),
        (7_400 * MS, jumbo),
        (7_500 * MS, stray),
    ]
}

fn written<E: std::fmt::Debug>(write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>) -> Vec<u8> {
    let mut frame = Vec::new();
    write(&mut frame).expect("headers that fit");
    frame
}
