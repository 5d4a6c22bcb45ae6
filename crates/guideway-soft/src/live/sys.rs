//! The calls that have no safe wrapper.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use nix::libc;
use nix::net::if_::if_indextoname;
use nix::sys::socket::{LinkAddr, SockaddrLike};

// The macro makes the call to `setsockopt`, with the pointer and the length of its own value.
nix::setsockopt_impl!(
    Auxdata,
    libc::SOL_PACKET,
    libc::PACKET_AUXDATA,
    bool,
    nix::sys::socket::sockopt::SetBool
);
nix::ioctl_readwrite_bad!(interface_mtu, libc::SIOCGIFMTU, libc::ifreq);

/// Has the kernel say with each frame what it has not finished of it (`PACKET_AUXDATA` of packet(7)).
#[derive(Debug, Clone, Copy)]
pub(super) struct Auxdata;

/// The MTU of an interface, bytes. `socket` is any socket of its network namespace, which is the calling thread's.
pub(super) fn mtu(socket: BorrowedFd<'_>, interface: u32) -> io::Result<u32> {
    let name = if_indextoname(interface)?;
    let mut request =
        libc::ifreq { ifr_name: [0; libc::IFNAMSIZ], ifr_ifru: libc::__c_anonymous_ifr_ifru { ifru_mtu: 0 } };
    for (to, from) in request.ifr_name.iter_mut().zip(name.to_bytes()) {
        *to = *from as libc::c_char;
    }
    // SAFETY: SIOCGIFMTU reads the name in the request, which has a zero behind it (the kernel's names are shorter than
    // IFNAMSIZ), and writes its `ifru_mtu`; the request lives until the call returns.
    unsafe { interface_mtu(socket.as_raw_fd(), &raw mut request) }?;
    // SAFETY: the call has filled this member, and every value of its bytes is an `i32`.
    let mtu = unsafe { request.ifr_ifru.ifru_mtu };
    u32::try_from(mtu).map_err(io::Error::other)
}

/// The index of the interface that a packet socket is bound to; `None` since that is gone.
pub(super) fn bound(socket: BorrowedFd<'_>) -> io::Result<Option<u32>> {
    // SAFETY: every field of `sockaddr_ll` is an integer or an array of such, for which zeros are a value.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    let mut length = size_of_val(&address) as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes to the live `sockaddr_ll`, and the length; both live until it returns.
    let got = unsafe { libc::getsockname(socket.as_raw_fd(), (&raw mut address).cast(), &raw mut length) };
    if got != 0 {
        return Err(io::Error::last_os_error());
    }
    // The kernel writes -1 there when the interface is deleted or leaves the namespace.
    Ok(u32::try_from(address.sll_ifindex).ok().filter(|&index| index != 0))
}

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
