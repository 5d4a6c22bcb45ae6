//! Frames as they are on a link: sent and received past the kernel's own protocols.

use std::ops::Deref;

pub use guideway_soft::live::{MAX_FRAME, Way};

use crate::error::{Context, Result};
use crate::netlink::Link;

/// A packet socket on one link.
#[derive(Debug)]
pub struct PacketSocket {
    socket: guideway_soft::live::PacketSocket,
}

impl PacketSocket {
    /// Opens a socket that reads all frames of the link, both ways, and sends by it.
    ///
    /// # Errors
    /// [`crate::Error::System`].
    pub fn open(link: &Link) -> Result<Self> {
        let open = || guideway_soft::live::PacketSocket::open(link.index());
        let socket = link.namespace().run(open)?.context(|| {
            format!("opening a packet socket on {} in {}", link.name(), link.namespace().label())
        })?;
        Ok(Self { socket })
    }
}

impl Deref for PacketSocket {
    type Target = guideway_soft::live::PacketSocket;

    fn deref(&self) -> &Self::Target {
        &self.socket
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::time::Duration;

    use super::*;
    use crate::{Namespace, privilege, veth_pair, wait};

    #[test]
    fn frames_cross_a_pair_and_say_which_way_they_went() {
        if !privilege::granted() {
            return;
        }
        let (left, right) = (Namespace::new("left").unwrap(), Namespace::new("right").unwrap());
        let (one, other) = veth_pair((&left, "one"), (&right, "other"), 1500).unwrap();
        let (from, to) = (PacketSocket::open(&one).unwrap(), PacketSocket::open(&other).unwrap());
        let frame = |target: [u8; 6]| [&target[..], &one.mac(), &[0x88, 0xb5], &[7; 46]].concat();
        let frames = [frame(other.mac()), frame([0xff; 6]), frame([2, 9, 9, 9, 9, 9])];
        // The kernel of either side sends frames of its own too.
        let read = |socket: &PacketSocket, number| {
            let mut buffer = [0; 128];
            let mut ways = Vec::new();
            wait::until_true(Duration::from_secs(5), "frames", || {
                while let Some((length, way)) = socket.receive(&mut buffer).unwrap() {
                    if buffer[12..14] == [0x88, 0xb5] {
                        assert!(frames.iter().any(|frame| frame == &buffer[..length]));
                        ways.push(way);
                    }
                }
                ways.len() >= number
            })
            .unwrap();
            ways
        };
        let watcher = PacketSocket::open(&one).unwrap();
        from.send_all(&frames).unwrap();
        assert_eq!(read(&to, 3), [Way::ToUs, Way::ToGroup, Way::ToOther]);
        assert_eq!(read(&watcher, 3), [Way::Sent; 3]);
        one.set_up(false).unwrap();
        assert_eq!(from.send(&frames[0]).unwrap_err().kind(), io::ErrorKind::NetworkDown);
    }
}
