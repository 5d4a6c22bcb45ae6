//! What a driver can do with XDP programs, by the kernel's `netdev` family of generic netlink (Linux 6.3 and newer;
//! Documentation/netlink/specs/netdev.yaml).

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, send, socket,
};

/// What a driver can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Features(u64);

impl Features {
    /// Whether it runs programs at all.
    pub(crate) const fn runs_programs(self) -> bool {
        self.0 & 1 != 0
    }

    /// Whether it sends frames that a program at another interface has for it (`NETDEV_XDP_ACT_NDO_XMIT`).
    pub(crate) const fn takes_frames(self) -> bool {
        self.0 & 4 != 0
    }

    /// Of the interface with this index; `None` where the kernel does not tell.
    pub(crate) fn of(index: u32) -> Option<Features> {
        let socket = socket(
            AddressFamily::Netlink,
            SockType::Datagram,
            SockFlag::SOCK_CLOEXEC,
            SockProtocol::NetlinkGeneric,
        )
        .ok()?;
        bind(socket.as_raw_fd(), &NetlinkAddr::new(0, 0)).ok()?;
        let mut name = FAMILY.to_vec();
        name.push(0);
        let answer = ask(&socket, CONTROL, GET_FAMILY, &attribute(FAMILY_NAME, &name)).ok()??;
        let family = u16::from_ne_bytes(find(&answer, FAMILY_ID)?.get(..2)?.try_into().ok()?);
        let answer = ask(&socket, family, GET_DEVICE, &attribute(INTERFACE, &index.to_ne_bytes())).ok()??;
        let features = find(&answer, XDP_FEATURES)?.get(..8)?.try_into().ok()?;
        Some(Features(u64::from_ne_bytes(features)))
    }
}

const FAMILY: &[u8] = b"netdev";
/// `GENL_ID_CTRL`, `CTRL_CMD_GETFAMILY`, `CTRL_ATTR_FAMILY_NAME` and `_ID`.
const CONTROL: u16 = 0x10;
const GET_FAMILY: u8 = 3;
const FAMILY_NAME: u16 = 2;
const FAMILY_ID: u16 = 1;
/// `NETDEV_CMD_DEV_GET`, `NETDEV_A_DEV_IFINDEX` and `_XDP_FEATURES`.
const GET_DEVICE: u8 = 1;
const INTERFACE: u16 = 1;
const XDP_FEATURES: u16 = 3;

const REQUEST: u16 = 1;
const ERROR: u16 = 2;
/// The header of every netlink message, and of the generic ones behind it.
const HEADER: usize = 16;
const GENERIC_HEADER: usize = 4;

/// The attributes of the answer; `None` for a refusal.
fn ask(socket: &OwnedFd, family: u16, command: u8, attributes: &[u8]) -> io::Result<Option<Vec<u8>>> {
    let length = HEADER + GENERIC_HEADER + attributes.len();
    let mut message = Vec::with_capacity(length);
    message.extend((length as u32).to_ne_bytes());
    message.extend(family.to_ne_bytes());
    message.extend(REQUEST.to_ne_bytes());
    // Sequence number and port: one question at a time needs neither.
    message.extend([0; 8]);
    message.extend([command, 1, 0, 0]);
    message.extend(attributes);
    send(socket.as_raw_fd(), &message, MsgFlags::empty())?;
    let mut answer = vec![0; 16 * 1024];
    let length = recv(socket.as_raw_fd(), &mut answer, MsgFlags::empty())?;
    answer.truncate(length);
    let kind = answer.get(4..6).and_then(|kind| kind.try_into().ok()).map(u16::from_ne_bytes);
    match (kind, answer.get(HEADER + GENERIC_HEADER..)) {
        (Some(kind), Some(attributes)) if kind != ERROR => Ok(Some(attributes.to_vec())),
        _ => Ok(None),
    }
}

fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend((4 + value.len() as u16).to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// The value of the first attribute of this kind.
fn find(attributes: &[u8], wanted: u16) -> Option<&[u8]> {
    let mut rest = attributes;
    while let Some((&[a, b, c, d], _)) = rest.split_first_chunk::<4>() {
        let (length, kind) = (usize::from(u16::from_ne_bytes([a, b])), u16::from_ne_bytes([c, d]));
        if kind & 0x3fff == wanted {
            return rest.get(4..length);
        }
        rest = rest.get(length.max(4).next_multiple_of(4)..)?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_found_whatever_is_before_them() {
        let mut list = attribute(7, b"abcde");
        list.extend(attribute(3, &[9, 9]));
        assert_eq!(find(&list, 3), Some(&[9, 9][..]));
        assert_eq!(find(&list, 4), None);
        assert_eq!(find(&[0, 0, 3, 0], 4), None, "a length of 0 does not hang");
        assert_eq!(find(&[9], 4), None);
        assert_eq!(find(&[200, 0, 3, 0, 1], 3), None);
    }
}
