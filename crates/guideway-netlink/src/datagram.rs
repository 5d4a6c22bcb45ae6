//! The messages of one datagram.

use netlink_packet_core::NetlinkMessage;
use netlink_packet_route::RouteNetlinkMessage;

/// Room for one datagram, in bytes: more than the kernel puts into one (32 KiB).
pub const DATAGRAM_BYTES: usize = 64 << 10;

/// The length of `struct nlmsghdr`.
const HEADER_BYTES: usize = 16;

/// A message that the codec does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unknown {
    /// Its type.
    pub kind: u16,
    /// The sequence number of the question that it answers; 0 for an event.
    pub sequence: u32,
}

/// The messages of a datagram, in order. A message that is cut off ends them.
pub fn messages(
    mut bytes: &[u8],
) -> impl Iterator<Item = Result<NetlinkMessage<RouteNetlinkMessage>, Unknown>> {
    std::iter::from_fn(move || {
        // Length, type, flags and sequence number (struct nlmsghdr), in the byte order of the machine.
        let &[a, b, c, d, e, f, _, _, g, h, i, j] = bytes.first_chunk()?;
        let length = u32::from_ne_bytes([a, b, c, d]) as usize;
        let message = bytes.get(..length).filter(|message| message.len() >= HEADER_BYTES)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        let unknown =
            Unknown { kind: u16::from_ne_bytes([e, f]), sequence: u32::from_ne_bytes([g, h, i, j]) };
        Some(NetlinkMessage::deserialize(message).map_err(|_| unknown))
    })
}

#[cfg(test)]
mod tests {
    use netlink_packet_core::{NetlinkHeader, NetlinkPayload};
    use netlink_packet_route::link::LinkMessage;

    use super::*;

    fn link(index: u32, sequence: u32) -> Vec<u8> {
        let mut body = LinkMessage::default();
        body.header.index = index;
        let mut header = NetlinkHeader::default();
        header.sequence_number = sequence;
        let body = NetlinkPayload::from(RouteNetlinkMessage::NewLink(body));
        let mut message = NetlinkMessage::new(header, body);
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        bytes
    }

    fn unknown(kind: u16, sequence: u32) -> Vec<u8> {
        let mut bytes = 16_u32.to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend([0; 2]);
        bytes.extend(sequence.to_ne_bytes());
        bytes.extend([0; 4]);
        bytes
    }

    #[test]
    fn messages_come_in_order_and_unknown_ones_tell_what_they_are() {
        let datagram = [link(3, 7), unknown(104, 8), link(4, 9)].concat();
        let seen: Vec<_> = messages(&datagram)
            .map(|message| message.map(|message| message.header.sequence_number))
            .collect();
        assert_eq!(seen, [Ok(7), Err(Unknown { kind: 104, sequence: 8 }), Ok(9)]);
    }

    #[test]
    fn a_message_cut_off_or_without_length_ends_them() {
        let mut cut = [link(3, 1), link(4, 2)].concat();
        cut.pop();
        assert_eq!(messages(&cut).count(), 1);
        assert_eq!(messages(&[0; 64]).count(), 0);
        assert_eq!(messages(&[16, 0]).count(), 0);
    }
}
