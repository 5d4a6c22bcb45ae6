//! The packets that are timed, byte by byte. Transport checksums are left zero: a balancer does not look at them.

/// A client and the router before us; the destination address of IPv4 is given in host order.
pub(super) const CLIENT: u32 = 0x0a00_0000;
const CLIENT6: [u8; 12] = [0x20, 1, 0xd, 0xb8, 0, 1, 0, 0, 0, 0, 0, 0];
const VIP6: [u8; 12] = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0];

/// Where the last four bytes of the addresses are.
pub(super) const SOURCE: u32 = 26;
pub(super) const DESTINATION: u32 = 30;
pub(super) const SOURCE6: u32 = 34;
/// Where an ICMP error quotes the destination, which is the client.
pub(super) const QUOTED_CLIENT: u32 = 14 + 20 + 8 + 16;

pub(super) const SYN: u8 = 0x02;
pub(super) const ACK: u8 = 0x10;

/// A segment to port 80.
pub(super) fn tcp(destination: u32, flags: u8) -> Vec<u8> {
    ipv4(6, 0, destination, &segment(flags))
}

/// The same over IPv6; the address ends in `destination`.
pub(super) fn tcp6(destination: u32, flags: u8) -> Vec<u8> {
    let payload = segment(flags);
    let mut frame = ethernet(0x86dd);
    frame.extend([0x60, 0, 0, 0]);
    frame.extend((payload.len() as u16).to_be_bytes());
    frame.extend([6, 61]);
    frame.extend(CLIENT6);
    frame.extend(CLIENT.to_be_bytes());
    frame.extend(VIP6);
    frame.extend(destination.to_be_bytes());
    frame.extend(payload);
    frame
}

/// The IPv6 address that ends so.
pub(super) fn vip6(destination: u32) -> [u8; 16] {
    let mut address = [0; 16];
    let (head, tail) = address.split_at_mut(12);
    head.copy_from_slice(&VIP6);
    tail.copy_from_slice(&destination.to_be_bytes());
    address
}

/// A datagram to port 443.
pub(super) fn udp(destination: u32, payload: &[u8]) -> Vec<u8> {
    ipv4(17, 0, destination, &datagram(payload))
}

/// A fragment of a datagram to port 443: the first, which has the ports, or the one after it.
pub(super) fn fragment(destination: u32, first: bool) -> Vec<u8> {
    let whole = datagram(&[7; 72]);
    let (head, tail) = whole.split_at(40);
    if first { ipv4(17, 0x2000, destination, head) } else { ipv4(17, 5, destination, tail) }
}

/// "Fragmentation needed" from a router, about a segment from port 80 of the address.
pub(super) fn icmp_error(about: u32) -> Vec<u8> {
    let mut message = vec![3, 4, 0, 0, 0, 0, 0x05, 0x78];
    message.extend([0x45, 0, 0x05, 0xdc, 0, 1, 0x40, 0, 63, 6, 0, 0]);
    message.extend(about.to_be_bytes());
    message.extend(CLIENT.to_be_bytes());
    message.extend([0, 80, 0x9c, 0x40, 0, 0, 0, 9]);
    ipv4(1, 0, about, &message)
}

fn segment(flags: u8) -> Vec<u8> {
    vec![0x9c, 0x40, 0, 80, 0, 0, 3, 0xe8, 0, 0, 0, 77, 0x50, flags, 0x20, 0, 0, 0, 0, 0]
}

fn datagram(payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x13, 0x88, 0x01, 0xbb];
    bytes.extend((8 + payload.len() as u16).to_be_bytes());
    bytes.extend([0, 0]);
    bytes.extend(payload);
    bytes
}

fn ipv4(protocol: u8, fragment: u16, destination: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = ethernet(0x0800);
    frame.extend([0x45, 0]);
    frame.extend((20 + payload.len() as u16).to_be_bytes());
    frame.extend([0x12, 0x34]);
    frame.extend(fragment.to_be_bytes());
    frame.extend([61, protocol, 0, 0]);
    frame.extend(CLIENT.to_be_bytes());
    frame.extend(destination.to_be_bytes());
    frame.extend(payload);
    frame
}

fn ethernet(ethertype: u16) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 2, 2, 2, 0, 0, 0, 1, 1];
    frame.extend(ethertype.to_be_bytes());
    frame
}
