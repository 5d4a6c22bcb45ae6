//! The one call that has no safe wrapper.

use std::io;

use nix::libc;
use nix::sys::socket::{LinkAddr, SockaddrLike};

/// The address of an interface for packet sockets that take every protocol.
pub(super) fn packet_address(interface: u32) -> io::Result<LinkAddr> {
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: (libc::ETH_P_ALL as u16).to_be(),
        sll_ifindex: i32::try_from(interface).map_err(io::Error::other)?,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    let length = size_of_val(&address) as libc::socklen_t;
    // SAFETY: the pointer and the length are those of a live `sockaddr_ll`, whose family says so; the bytes are copied.
    let address = unsafe { LinkAddr::from_raw((&raw const address).cast(), Some(length)) };
    address.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))
}
