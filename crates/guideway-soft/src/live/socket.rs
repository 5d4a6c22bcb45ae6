//! Frames as they are on a link: sent and received past the kernel's own protocols.

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{
    AddressFamily, ControlMessageOwned, LinkAddr, MsgFlags, MultiHeaders, RecvMsg, SockFlag, SockType, bind,
    recvmsg, send, sendmmsg, setsockopt, socket, sockopt,
};

use super::{checksum, sys};

/// The longest frame of any link here, bytes: a packet of 65,535 with its Ethernet header.
pub const MAX_FRAME: usize = 65_535 + 14;

/// What waits to be read at most, bytes; room for a burst while the reader is not scheduled.
const RECEIVE_BYTES: usize = 16 << 20;

/// Frames handed to the kernel at once.
const BATCH: usize = 64;

/// How long a full queue is waited for, milliseconds.
const SEND_WAIT_MS: u16 = 100;

/// A packet socket on one link.
#[derive(Debug)]
pub struct PacketSocket {
    socket: OwnedFd,
}

/// Where a frame that was read had come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// From the link, to this host.
    ToUs,
    /// From the link, to a group of hosts or to all.
    ToGroup,
    /// From the link, to another host.
    ToOther,
    /// From this host.
    Sent,
}

impl PacketSocket {
    /// Opens a socket that reads all frames of the interface with this index, both ways, and sends by it. The interface
    /// is one of the network namespace of the calling thread.
    ///
    /// # Errors
    /// What the kernel says: no such interface, or no privilege (`CAP_NET_RAW`).
    pub fn open(interface: u32) -> io::Result<Self> {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        // Of no protocol until it is bound, so that nothing of other links comes in.
        let socket = socket(AddressFamily::Packet, SockType::Raw, flags, None)?;
        // Beyond the usual limit only where we may.
        let _ = setsockopt(&socket, sockopt::RcvBuf, &RECEIVE_BYTES)
            .and_then(|()| setsockopt(&socket, sockopt::RcvBufForce, &RECEIVE_BYTES));
        setsockopt(&socket, sys::Auxdata, &true)?;
        let socket = Self { socket };
        socket.bind(interface)?;
        Ok(socket)
    }

    /// Has it read and send by the interface with this index, of the namespace that it was opened in.
    ///
    /// # Errors
    /// What the kernel says: no such interface.
    pub fn bind(&self, interface: u32) -> io::Result<()> {
        let address = sys::packet_address(interface)?;
        Ok(bind(self.socket.as_raw_fd(), &address)?)
    }

    /// The index of the interface that it is bound to; `None` once that was deleted or has left the namespace, also when it
    /// is back: the kernel binds no socket anew.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn interface(&self) -> io::Result<Option<u32>> {
        sys::bound(self.socket.as_fd())
    }

    /// Reads a frame into `buffer`, without waiting: its length, and which way it went. A longer frame is cut. A checksum
    /// that the sender has left to its network card is finished.
    ///
    /// # Errors
    /// What the kernel says; that the link went down, once.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<(usize, Way)>> {
        let mut control = Control([0; 64]);
        let mut slices = [IoSliceMut::new(buffer)];
        let fd = self.socket.as_raw_fd();
        let received = recvmsg::<LinkAddr>(fd, &mut slices, Some(&mut control.0), MsgFlags::empty());
        let (length, way, unfinished) = match received {
            Ok(message) => (message.bytes, way(message.address.as_ref()), is_unfinished(&message)),
            Err(Errno::EAGAIN | Errno::EINTR) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        if unfinished && let Some(frame) = buffer.get_mut(..length) {
            checksum::finish(frame);
        }
        Ok(Some((length, way)))
    }

    /// Sends a frame; waits a moment where the queue is full.
    ///
    /// # Errors
    /// What the kernel says: the link is down, the frame is longer than the link takes.
    pub fn send(&self, frame: &[u8]) -> io::Result<()> {
        loop {
            match send(self.socket.as_raw_fd(), frame, MsgFlags::empty()) {
                Ok(_) => return Ok(()),
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN | Errno::ENOBUFS) => self.wait_for_room()?,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Sends frames, many at a system call.
    ///
    /// # Errors
    /// As [`PacketSocket::send`], at the first frame that is refused.
    pub fn send_all<F: AsRef<[u8]>>(&self, frames: &[F]) -> io::Result<()> {
        let mut headers = MultiHeaders::<LinkAddr>::preallocate(BATCH, None);
        for batch in frames.chunks(BATCH) {
            let slices: Vec<_> = batch.iter().map(|frame| [IoSlice::new(frame.as_ref())]).collect();
            let mut done = 0;
            while done < slices.len() {
                let rest = &slices[done..];
                let to = vec![None; rest.len()];
                let fd = self.socket.as_raw_fd();
                let sent = sendmmsg(fd, &mut headers, rest, to, [], MsgFlags::empty());
                match sent.map(Iterator::count) {
                    Ok(sent) => done += sent,
                    Err(Errno::EINTR) => {}
                    Err(Errno::EAGAIN | Errno::ENOBUFS) => self.wait_for_room()?,
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(())
    }

    fn wait_for_room(&self) -> io::Result<()> {
        let mut polled = [PollFd::new(self.socket.as_fd(), PollFlags::POLLOUT)];
        match poll(&mut polled, PollTimeout::from(SEND_WAIT_MS)) {
            Ok(0) => Err(io::Error::from(io::ErrorKind::TimedOut)),
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Room for one message of the kernel: a header of 16 bytes and a `tpacket_auxdata` of 20, both aligned as it wants.
#[repr(align(8))]
struct Control([u8; 64]);

/// Whether the kernel says that the checksum of the frame is not there yet.
fn is_unfinished(message: &RecvMsg<'_, '_, LinkAddr>) -> bool {
    let Ok(mut messages) = message.cmsgs() else { return false };
    messages.any(|message| match message {
        ControlMessageOwned::Unknown(message) => {
            let header = message.cmsg_header;
            // `tp_status` is the first field of `struct tpacket_auxdata` of linux/if_packet.h.
            let status = message.data_bytes.first_chunk().map_or(0, |bytes| u32::from_ne_bytes(*bytes));
            (header.cmsg_level, header.cmsg_type) == (libc::SOL_PACKET, libc::PACKET_AUXDATA)
                && status & libc::TP_STATUS_CSUMNOTREADY != 0
        }
        _ => false,
    })
}

fn way(address: Option<&LinkAddr>) -> Way {
    match address.map(LinkAddr::pkttype) {
        Some(libc::PACKET_OUTGOING) => Way::Sent,
        Some(libc::PACKET_OTHERHOST) => Way::ToOther,
        Some(libc::PACKET_BROADCAST | libc::PACKET_MULTICAST) => Way::ToGroup,
        _ => Way::ToUs,
    }
}
